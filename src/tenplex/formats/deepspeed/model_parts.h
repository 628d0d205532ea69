// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ModelParts: how the tensors of a model lie on the ranks of a job, and how their parts are joined: the files, the
// rules of universal_checkpoint_info, the groups of parameters of each stage and of the whole, the names of buffers.
//
// Threads: as CheckpointJoiner.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/formats/deepspeed/join_rules.h"
#include "tenplex/formats/deepspeed/model_files.h"
#include "tenplex/formats/deepspeed/parameter_groups.h"
#include "tenplex/formats/deepspeed/regex_pattern.h"

namespace tenplex::deepspeed {

class ModelParts {
 public:
  /// `experts_of` is how many experts a layer has, as for ParameterGroups::spread(). Errors: corrupt, naming the file;
  /// unsupported for several tensor parallel ranks without universal_checkpoint_info.
  static Result<ModelParts> read(const ModelFiles* files, const std::map<std::string, std::int64_t>& experts_of);

  const ModelFiles& files() const { return *files_; }
  const std::set<std::string, std::less<>>& buffers() const { return buffers_; }
  const ParameterGroups& stage_groups(std::size_t stage) const { return of_stages_[stage]; }
  ParameterGroups& groups() { return groups_; }
  const ParameterGroups& groups() const { return groups_; }

  /// `local` are the shapes on the tensor parallel ranks. Errors: as JoinRules::join().
  Result<JoinedShape> join(const std::string& name, const std::vector<Dims>& local);

  /// True for what the program lists in `pipeline_replicated_parameter_patterns`: of several stages the first one's
  /// copy is the parameter, as for DeepSpeed. A tied module may have parameters that are not tied.
  bool is_of_first_stage(std::string_view name) const;

  /// Errors: corrupt, naming a pattern that has matched nothing.
  Result<void> check_used() const;

 private:
  explicit ModelParts(const ModelFiles* files) : files_(files) {}
  Result<void> read_rules();
  Result<void> read_replicated();
  Result<void> read_groups(const std::map<std::string, std::int64_t>& experts_of);
  void read_buffers();
  void mark_spares();

  const ModelFiles* files_;
  JoinRules rules_;
  std::vector<RegexPattern> of_first_stage_;
  std::vector<ParameterGroups> of_stages_;
  ParameterGroups groups_;
  std::set<std::string, std::less<>> buffers_;
};

}  // namespace tenplex::deepspeed
