// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/bucket_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "tenplex/formats/megatron/bucket_names.h"
#include "tenplex/formats/state/state_numbers.h"

namespace tenplex::megatron {
namespace {

/// An axis of a mesh, and what Megatron-LM calls its size.
struct Axis {
  std::string_view name;
  std::string_view argument;
};
constexpr std::array<Axis, 4> kAxes = {{{"tp", "tensor_model_parallel_size"},
                                        {"pp", "pipeline_model_parallel_size"},
                                        {"ep", "expert_model_parallel_size"},
                                        {"etp", "expert_tensor_parallel_size"}}};

std::int64_t size_of(const LayoutNote& target, std::string_view axis) {
  const auto found =
      std::find_if(target.mesh.begin(), target.mesh.end(), [axis](const auto& entry) { return entry.first == axis; });
  return found == target.mesh.end() ? 1 : found->second;
}

Error needs_order(std::string_view what) {
  return unsupported(fmt::format(
      "the optimizer's state is in flat buckets (dp_reshardable), which can be cut anew only with the order "
      "of the parameters, and that of Megatron-Core's GPTModel does not fit ('tenplex inspect' says why): {}; "
      "--param-order gives another order, --only model leaves the optimizer out",
      what));
}

}  // namespace

Result<void> check_buckets(const CheckpointInfo& source, const LayoutNote& target) {
  std::set<OptimizerGroup> groups;
  for (const TensorInfo& tensor : source.tensors)
    if (const auto bucket = parse_bucket_name(tensor.name)) groups.insert(bucket->of);
  if (groups.empty()) return {};
  bool is_known = false;
  for (const Axis& axis : kAxes) {
    const std::array<std::string_view, 3> place = {"common", "args", axis.argument};
    const auto before = number_at(source.state, place);
    const std::int64_t after = size_of(target, axis.name);
    is_known = is_known || before;
    if (before && *before != after)
      return needs_order(
          fmt::format("expected {}={} as in its {}, found {}={}", axis.name, *before, axis.argument, axis.name, after));
  }
  const std::int64_t ranks = size_of(target, "tp") * size_of(target, "pp");
  // Experts have groups of their own, of which only the arguments tell.
  const auto found = static_cast<std::int64_t>(groups.size());
  if (is_known ? found % ranks != 0 : found != ranks)
    return needs_order(
        fmt::format("it has buckets of {} model-parallel ranks, the target has {}", groups.size(), ranks));
  return {};
}

}  // namespace tenplex::megatron
