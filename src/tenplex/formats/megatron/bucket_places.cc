// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/bucket_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "tenplex/base/counted.h"
#include "tenplex/formats/megatron/flat_buffer.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex::megatron {
namespace {

std::string text_of(const OptimizerGroup& of) {
  return fmt::format("optimizer {}, dp_group_idx {}", of.optimizer, of.group);
}

/// Where a bucket stands: optimizer, buffer, bucket.
using BucketKey = std::tuple<OptimizerGroup, std::int64_t, std::int64_t>;

std::string text_of(const BucketKey& key) {
  return fmt::format("{}, gbuf_idx {}, bucket_idx {}", text_of(std::get<0>(key)), std::get<1>(key), std::get<2>(key));
}

struct TypedBucket {
  DType parameter_type = DType::kFloat32;
  Bucket bucket;
};

/// A tensor inside of an object has the object's name before its own.
bool is_in_object(std::string_view name) { return name.find("/shard_") != std::string_view::npos; }

/// Errors: corrupt for an object whose name begins as theirs do and says nothing known.
Result<void> check_objects(const StateGraph& graph) {
  const auto items = mapping_items(graph, graph.root);
  for (std::size_t at = 0; items && at + 1 < items->size(); at += 2) {
    const auto key = text_of(graph, (*items)[at]);
    if (key && is_of_bucket(*key) && !is_tensor(graph, (*items)[at + 1]) && !parse_bucket_object(*key))
      return corrupt(fmt::format("'{}' is the name of no object of an optimizer", *key));
  }
  return {};
}

Result<std::map<BucketKey, TypedBucket>> list_buckets(const CheckpointInfo& info) {
  std::map<BucketKey, TypedBucket> found;
  for (std::size_t index = 0; index < info.tensors.size(); ++index) {
    const TensorInfo& tensor = info.tensors[index];
    const auto name = parse_bucket_name(tensor.name);
    if (!name && is_of_bucket(tensor.name) && !is_in_object(tensor.name))
      return corrupt(fmt::format("'{}' is the name of no bucket", tensor.name));
    if (!name) continue;
    if (tensor.shape.rank() != 1)
      return corrupt(fmt::format("bucket '{}' of shape {} is not flat", tensor.name, to_string(tensor.shape)));
    TypedBucket& entry = found[{name->of, name->buffer, name->bucket}];
    if (entry.bucket.slots.empty()) {
      entry.parameter_type = name->parameter_type;
      entry.bucket.size = tensor.shape[0];
    }
    if (entry.bucket.size != tensor.shape[0] || entry.parameter_type != name->parameter_type)
      return corrupt(fmt::format("bucket '{}' of shape {}: another slot has {} and the type {}", tensor.name,
                                 to_string(tensor.shape), counted(entry.bucket.size, "element"),
                                 to_string(entry.parameter_type)));
    if (!entry.bucket.slots.emplace(name->slot, TensorId(index)).second)
      return corrupt(fmt::format("bucket '{}' is there twice", tensor.name));
  }
  return found;
}

bool has_same_slots(const Bucket& one, const Bucket& other) {
  return std::equal(one.slots.begin(), one.slots.end(), other.slots.begin(), other.slots.end(),
                    [](const auto& a, const auto& b) { return a.first == b.first; });
}

Result<void> place_in_buffer(const FlatBuffer& buffer, std::span<const RankParameter> parameters,
                             std::span<const std::size_t> own, std::vector<PlacedPart>* placed) {
  const DType type = parameters[own.front()].dtype;
  if (buffer.parameter_type != type)
    return unsupported(fmt::format("it is of {} parameters, and its parameters are {}",
                                   to_string(buffer.parameter_type), to_string(type)));
  std::vector<std::int64_t> elements;
  elements.reserve(own.size());
  for (const std::size_t parameter : own) elements.push_back(parameters[parameter].elements);
  std::vector<std::int64_t> sizes;
  sizes.reserve(buffer.buckets.size());
  for (const Bucket& bucket : buffer.buckets) sizes.push_back(bucket.size);
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<BufferPlace> places, places_in_buckets(elements, sizes));
  for (std::size_t index = 0; index < places.size(); ++index) {
    const RankParameter& parameter = parameters[own[index]];
    for (const ParameterPart& part : parameter.parts)
      placed->push_back({&buffer.buckets[places[index].bucket], places[index].begin, part, parameter.name});
  }
  return {};
}

Result<void> place_on_rank(const OptimizerGroup& of, const std::vector<FlatBuffer>& buffers,
                           std::span<const RankParameter> parameters, std::vector<PlacedPart>* placed) {
  std::vector<BufferKind> kinds;
  kinds.reserve(parameters.size());
  for (const RankParameter& parameter : parameters) kinds.push_back({parameter.chunk, parameter.dtype});
  const std::vector<std::vector<std::size_t>> own = split_into_buffers(kinds);
  if (own.size() != buffers.size())
    return unsupported(fmt::format("{}: it has {}, and its parameters need {}", text_of(of),
                                   counted(buffers.size(), "buffer"), own.size()));
  for (std::size_t number = 0; number < own.size(); ++number) {
    auto added = place_in_buffer(buffers[number], parameters, own[number], placed);
    if (!added) return std::move(added).error().with_context(fmt::format("{}, gbuf_idx {}", text_of(of), number));
  }
  return {};
}

}  // namespace

Result<FlatBuffers> find_buffers(const CheckpointInfo& info) {
  TENPLEX_TRY(check_objects(info.state));
  TENPLEX_ASSIGN_OR_RETURN(const auto listed, list_buckets(info));
  FlatBuffers found;
  for (const auto& [key, entry] : listed) {
    const auto& [of, buffer, bucket] = key;
    if (!entry.bucket.slots.contains(kMasterBucket))
      return corrupt(fmt::format("{}: it has no '{}'", text_of(key), kMasterBucket));
    if (!has_same_slots(entry.bucket, listed.begin()->second.bucket))
      return corrupt(fmt::format("{}: it has other slots than the first bucket", text_of(key)));
    std::vector<FlatBuffer>& buffers = found[of];
    const auto count = static_cast<std::int64_t>(buffers.size());
    if (buffer > count || (buffer == count && bucket != 0))
      return corrupt(fmt::format("{}: the one before it is missing", text_of(key)));
    if (buffer == count) buffers.push_back({entry.parameter_type, {}});
    FlatBuffer& own = buffers.back();
    if (bucket != static_cast<std::int64_t>(own.buckets.size()) || own.parameter_type != entry.parameter_type)
      return corrupt(fmt::format("{}: the one before it is missing, or of another type", text_of(key)));
    own.buckets.push_back(entry.bucket);
  }
  return found;
}

Result<std::vector<PlacedPart>> place_parameters(const FlatBuffers& buffers, const RankParameters& ranks,
                                                 const ModelForm& form, std::span<const std::string> order) {
  struct Rank {
    OptimizerGroup of;
    std::vector<RankParameter> parameters;
  };
  std::vector<Rank> all;
  std::set<std::size_t> used;  // of `order`
  for (const bool experts : {false, true}) {
    if (experts && !ranks.has_experts_apart()) continue;
    for (std::int64_t number = 0; number < ranks.rank_count(experts); ++number) {
      const OptimizerGroup of = {experts ? 1 : 0, number};
      if (!buffers.contains(of)) return unsupported(fmt::format("{} is missing", text_of(of)));
      TENPLEX_ASSIGN_OR_RETURN(std::vector<RankParameter> parameters, ranks.of_rank(number, experts, form, order));
      for (const RankParameter& parameter : parameters) used.insert(parameter.given);
      all.push_back({of, std::move(parameters)});
    }
  }
  if (all.size() != buffers.size())
    return unsupported(fmt::format("buckets are of {} ranks, and the job's parallel sizes in 'common.args' of {}",
                                   buffers.size(), all.size()));
  for (std::size_t index = 0; index < order.size(); ++index)
    if (!used.contains(index))
      return unsupported(
          fmt::format("the given order of parameters has '{}', which the model does not have, or has "
                      "twice",
                      order[index]));
  std::vector<PlacedPart> placed;
  for (const Rank& rank : all) TENPLEX_TRY(place_on_rank(rank.of, buffers.at(rank.of), rank.parameters, &placed));
  return placed;
}

}  // namespace tenplex::megatron
