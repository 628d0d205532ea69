// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/match.h"

#include <fmt/format.h>

#include <string_view>
#include <unordered_map>

namespace tenplex {
namespace {

struct GroupKey {
  std::uint64_t source = 0;
  std::uint64_t target = 0;
  DType dtype = DType::kFloat32;
  Dims shape;

  friend bool operator==(const GroupKey&, const GroupKey&) = default;
};

struct GroupKeyHash {
  std::size_t operator()(const GroupKey& key) const {
    return static_cast<std::size_t>(key.source * 0x9E3779B97F4A7C15U + key.target * 0xC2B2AE3D27D4EB4FU) ^
           static_cast<std::size_t>(key.dtype);
  }
};

Result<void> check_replicas(const PlanInput& input) {
  if (input.disagreements.empty()) return {};
  std::string list;
  for (const ReplicaDisagreement& found : input.disagreements)
    list += fmt::format("{}tensor '{}' shard {} on devices {} and {}", list.empty() ? "" : "; ",
                        input.source->tensors()[found.tensor.index()].name, found.shard, found.first.value(),
                        found.second.value());
  return Error(ErrorCode::kCorrupt, "replicas disagree: " + list);
}

Result<void> check_input(const PlanInput& input) {
  TENPLEX_TRY(check_placement(input.placement, *input.source, *input.target, *input.topology));
  if (input.baseline == Baseline::kCentral &&
      (input.central.value() < 0 || input.central.value() >= input.topology->worker_count()))
    return invalid_argument(fmt::format("central worker {} does not exist: the topology has {}", input.central.value(),
                                        input.topology->worker_count()));
  return check_replicas(input);
}

Result<void> check_pair(const TensorInfo& source, const TensorInfo& target) {
  if (source.shape != target.shape)
    return invalid_argument(fmt::format("tensor '{}': shape is {} in the source and {} in the target", target.name,
                                        to_string(source.shape), to_string(target.shape)));
  if (source.dtype != target.dtype)
    return invalid_argument(fmt::format("tensor '{}': dtype is {} in the source and {} in the target", target.name,
                                        to_string(source.dtype), to_string(target.dtype)));
  return {};
}

/// The source tensor of that name; the same position is tried first.
std::optional<TensorId> find_source(const Collection& source, TensorId target, std::string_view name) {
  const auto tensors = source.tensors();
  if (target.index() < tensors.size() && tensors[target.index()].name == name) return target;
  return source.find(name);
}

Result<void> match_tensors(const PlanInput& input, Matching* matching) {
  const auto sources = input.source->tensors();
  const auto targets = input.target->tensors();
  std::vector<bool> used(sources.size());
  std::unordered_map<GroupKey, std::size_t, GroupKeyHash> group_of;  // looked up only, never walked
  for (std::size_t index = 0; index < targets.size(); ++index) {
    const TensorId target(index);
    const auto source = find_source(*input.source, target, targets[index].name);
    if (!source) return invalid_argument(fmt::format("tensor '{}' is not in the source", targets[index].name));
    TENPLEX_TRY(check_pair(sources[source->index()], targets[index]));
    used[source->index()] = true;
    const GroupKey key{input.source->geometry_key(*source), input.target->geometry_key(target), targets[index].dtype,
                       targets[index].shape};
    const auto [found, is_new] = group_of.emplace(key, matching->groups.size());
    if (is_new) matching->groups.emplace_back();
    matching->groups[found->second].tensors.emplace_back(*source, target);
  }
  for (std::size_t index = 0; index < sources.size() && !input.allow_unused_source; ++index)
    if (!used[index])
      return invalid_argument(fmt::format("tensor '{}' of the source is not in the target", sources[index].name));
  return {};
}

Result<void> match_objects(const PlanInput& input, Matching* matching) {
  std::unordered_map<std::string_view, std::int32_t> by_name;  // looked up only, never walked
  const auto sources = input.source->objects();
  for (std::size_t index = 0; index < sources.size(); ++index)
    by_name.emplace(sources[index].name, static_cast<std::int32_t>(index));
  std::vector<bool> used(sources.size());
  std::int32_t number = 0;
  for (const ObjectInfo& target : input.target->objects()) {
    const auto found = by_name.find(target.name);
    if (found == by_name.end()) return invalid_argument(fmt::format("object '{}' is not in the source", target.name));
    used[static_cast<std::size_t>(found->second)] = true;
    matching->objects.emplace_back(found->second, number++);
  }
  for (std::size_t index = 0; index < sources.size() && !input.allow_unused_source; ++index)
    if (!used[index])
      return invalid_argument(fmt::format("object '{}' of the source is not in the target", sources[index].name));
  return {};
}

}  // namespace

Result<Matching> match(const PlanInput& input) {
  TENPLEX_TRY(check_input(input));
  return match_collections(input);
}

Result<Matching> match_collections(const PlanInput& input) {
  Matching matching;
  TENPLEX_TRY(match_tensors(input, &matching));
  TENPLEX_TRY(match_objects(input, &matching));
  return matching;
}

PlanHeader make_header(const PlanInput& input) {
  return {input.source->hash(), input.target->hash(), roster_hash(*input.topology, input.placement), input.baseline,
          input.baseline == Baseline::kCentral ? input.central : WorkerId(0)};
}

}  // namespace tenplex
