// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron_legacy/distributed_slots.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/base/counted.h"
#include "tenplex/formats/megatron/flat_buffer.h"
#include "tenplex/formats/megatron_legacy/rank_model.h"

namespace tenplex::megatron_legacy {
namespace {

/// The parameters of one optimizer: their indexes.
std::vector<std::size_t> parameters_of(std::span<const OwnParameter> parameters, bool experts) {
  std::vector<std::size_t> own;
  own.reserve(parameters.size());
  for (std::size_t index = 0; index < parameters.size(); ++index)
    if (parameters[index].is_expert == experts) own.push_back(index);
  return own;
}

class SlotPlacer {
 public:
  SlotPlacer(const CheckpointInfo& model, std::span<const OwnParameter> parameters, const BucketNotes& notes)
      : model_(model), parameters_(parameters), notes_(notes) {}

  Result<void> place(const std::vector<FlatState>& buffers, std::span<const std::size_t> own) {
    std::vector<megatron::BufferKind> kinds;
    kinds.reserve(own.size());
    for (const std::size_t parameter : own)
      kinds.push_back({static_cast<std::int64_t>(parameters_[parameter].chunk), info(parameter).dtype});
    const std::vector<std::vector<std::size_t>> split = megatron::split_into_buffers(kinds);
    if (split.size() != buffers.size())
      return corrupt(
          fmt::format("it has {}, and the rank's parameters need {}", counted(buffers.size(), "buffer"), split.size()));
    for (std::size_t number = 0; number < split.size(); ++number) {
      std::vector<std::size_t> members;
      members.reserve(split[number].size());
      for (const std::size_t index : split[number]) members.push_back(own[index]);
      auto placed = place_buffer(buffers[number], members);
      if (!placed) return std::move(placed).error().with_context(fmt::format("buffer {}", number));
    }
    return {};
  }

  std::vector<FlatSlot> take_slots() { return std::move(slots_); }

 private:
  const TensorInfo& info(std::size_t parameter) const { return model_.tensors[parameters_[parameter].stored.index()]; }

  Result<void> place_buffer(const FlatState& buffer, std::span<const std::size_t> members) {
    const DType type = info(members.front()).dtype;
    if (type != buffer.parameter_type)
      return corrupt(fmt::format("it is of {} parameters, and the rank's are {}", to_string(buffer.parameter_type),
                                 to_string(type)));
    megatron::BucketRule rule;
    if (parameters_[members.front()].chunk == 0) rule.bucket_size = notes_.bucket_size;
    std::vector<std::int64_t> elements;
    elements.reserve(members.size());
    for (const std::size_t parameter : members) {
      const std::string& name = parameters_[parameter].name;
      if (notes_.shares_embeddings && (name == kWordEmbeddings || name == kHeadWeight)) rule.shared = elements.size();
      elements.push_back(volume(info(parameter).shape));
    }
    TENPLEX_ASSIGN_OR_RETURN(const std::vector<std::int64_t> places,
                             megatron::places_in_total(elements, buffer.size, rule));
    for (const auto& [slot, tensor] : buffer.slots)
      for (std::size_t index = 0; index < places.size(); ++index)
        slots_.push_back({members[index], slot, tensor, places[index]});
    return {};
  }

  const CheckpointInfo& model_;
  std::span<const OwnParameter> parameters_;
  const BucketNotes& notes_;
  std::vector<FlatSlot> slots_;
};

}  // namespace

Result<std::vector<FlatSlot>> place_flat_slots(const DistributedState& state, const CheckpointInfo& model,
                                               std::span<const OwnParameter> parameters, const BucketNotes& notes) {
  const bool experts_apart =
      std::any_of(parameters.begin(), parameters.end(), [](const OwnParameter& own) { return own.is_expert; });
  const std::size_t expected = experts_apart ? 2 : 1;
  if (state.size() != expected)
    return corrupt(
        fmt::format("it is of {}, and the rank's parameters are of {}", counted(state.size(), "optimizer"), expected));
  SlotPlacer placer(model, parameters, notes);
  for (std::size_t optimizer = 0; optimizer < state.size(); ++optimizer) {
    if (!state[optimizer]) continue;
    auto placed = placer.place(*state[optimizer], parameters_of(parameters, optimizer == 1));
    if (!placed) return std::move(placed).error().with_context(fmt::format("optimizer {}", optimizer));
  }
  return placer.take_slots();
}

}  // namespace tenplex::megatron_legacy
