// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which parameters each model parallel rank of the job that wrote a torch_dist checkpoint had, in what order and with
// what part of the stored tensors. The sizes of the job come from the checkpoint's own arguments, the cuts from the
// layout megatron-gpt.
//
//   stored  decoder.layers.mlp.linear_fc1.weight [4, 64, 16]      tp=2, pp=2
//   rank tp 1, pp 1:  decoder.layers.2.mlp.linear_fc1.weight [32, 16] = rows 16–31 and 48–63 of layer 2, then layer 3
//
// Pure. Threads: safe together.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/local_part.h"
#include "tenplex/formats/megatron/stored_name.h"
#include "tenplex/ptc/rule_collection.h"

namespace tenplex::megatron {

/// The part that a stored tensor has of a rank's array.
struct ParameterPart {
  TensorId tensor;
  LocalPart local;
};

struct RankParameter {
  std::string name;  ///< of the module, with the numbers of layer and expert in the whole model
  DType dtype = DType::kFloat32;
  std::int64_t elements = 0;
  std::int64_t chunk = 0;            ///< virtual stage
  std::size_t given = 0;             ///< index in the order that was given
  std::vector<ParameterPart> parts;  ///< one, or gate and up that are stored as two tensors
};

/// Sizes of the grid of ranks, from `common.args`.
struct RankGrid {
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 1;
  std::int64_t virtual_stages = 1;
};

class RankParameters {
 public:
  /// Errors: unsupported if `common.args` do not say the sizes, or naming the tensor that the layout does not know.
  static Result<RankParameters> make(const CheckpointInfo& info);

  const RankGrid& grid() const { return grid_; }
  /// True if experts have an optimizer of their own.
  bool has_experts_apart() const { return has_experts_ && grid_.expert > 1; }

  /// How many ranks there are that have parameters of their own, of experts apart or of all others.
  std::int64_t rank_count(bool experts) const;

  /// Of the rank with that number: tp + TP · pp, or, for experts apart, etp + ETP · (ep + EP · pp). In the order of the
  /// model; virtual stages follow each other. `order`: names of any form in the order that counts instead; what is not
  /// in it is left out. Errors: unsupported naming a parameter whose place in the model is not known.
  Result<std::vector<RankParameter>> of_rank(std::int64_t number, bool experts, const ModelForm& form,
                                             std::span<const std::string> order) const;

 private:
  RankParameters() = default;
  DeviceId device(std::int64_t number, bool experts) const;
  void list_layers();

  RankGrid grid_;
  bool has_experts_ = false;
  bool is_tied_ = false;
  std::vector<TensorId> stored_;  // per tensor of collection_
  std::vector<StoredName> names_;
  std::unique_ptr<RuleCollection> collection_;
  std::vector<std::vector<std::int64_t>> layers_;  // of each stage, ascending
};

}  // namespace tenplex::megatron
