// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ExpertTensors: the files with the experts of MoE layers, each with the parameters of one expert, under their names in
// the whole model. Every layer has all of its experts, from 0 on.
//
// Threads: as CheckpointJoiner.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tenplex/formats/deepspeed/model_files.h"
#include "tenplex/formats/deepspeed/named_nodes.h"
#include "tenplex/formats/deepspeed/parameter_groups.h"
#include "tenplex/formats/joined_reader.h"

namespace tenplex::deepspeed {

class ExpertTensors {
 public:
  /// Errors: corrupt, naming the file, for another structure, for an expert that is missing, and for another number of
  /// them than 'num_experts' in the model's file says.
  static Result<ExpertTensors> read(std::vector<CheckpointJoiner::Part> parts, const ModelFiles& files,
                                    const CheckpointJoiner& joiner);

  /// How many a layer has, by ExpertName::layer.
  const std::map<std::string, std::int64_t>& experts_of() const { return experts_of_; }

  /// Errors: corrupt, naming the parameter, for another shape than in `groups` and for one that is elsewhere too.
  Result<void> add_to(const ParameterGroups& groups, const ModelFiles& files, CheckpointJoiner* joiner,
                      std::vector<NamedNode>* top) const;

 private:
  Result<void> check_count(std::size_t layers, const ModelFiles& files) const;

  std::vector<CheckpointJoiner::Part> parts_;
  std::map<std::string, std::int64_t> experts_of_;
};

}  // namespace tenplex::deepspeed
