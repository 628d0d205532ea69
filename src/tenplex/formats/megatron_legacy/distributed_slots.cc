// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron_legacy/distributed_slots.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/base/counted.h"
#include "tenplex/formats/megatron/flat_buffer.h"

namespace tenplex::megatron_legacy {
namespace {

constexpr std::string_view kWords = "embedding.word_embeddings.weight";
constexpr std::string_view kHead = "output_layer.weight";

/// Parameters of one buffer: of one virtual stage and of one type.
struct OwnBuffer {
  std::size_t chunk = 0;
  DType type = DType::kFloat32;
  std::vector<std::size_t> parameters;
  std::vector<std::int64_t> elements;
  std::optional<std::size_t> shared;  // of them
};

std::vector<OwnBuffer> split(const CheckpointInfo& model, std::span<const OwnParameter> parameters, bool experts,
                             bool shares_embeddings) {
  std::vector<OwnBuffer> buffers;
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    const OwnParameter& parameter = parameters[index];
    if (parameter.is_expert != experts) continue;
    const TensorInfo& info = model.tensors[parameter.stored.index()];
    auto found = std::find_if(buffers.begin(), buffers.end(), [&](const OwnBuffer& buffer) {
      return buffer.chunk == parameter.chunk && buffer.type == info.dtype;
    });
    if (found == buffers.end()) found = buffers.insert(buffers.end(), {parameter.chunk, info.dtype, {}, {}, {}});
    if (shares_embeddings && (parameter.name == kWords || parameter.name == kHead))
      found->shared = found->parameters.size();
    found->parameters.push_back(index);
    found->elements.push_back(volume(info.shape));
  }
  return buffers;
}

Result<void> place(const OwnBuffer& own, const FlatState& buffer, const BucketNotes& notes,
                   std::vector<FlatSlot>* slots) {
  if (own.type != buffer.parameter_type)
    return corrupt(fmt::format("it is of {} parameters, and the rank's are {}", to_string(buffer.parameter_type),
                               to_string(own.type)));
  const megatron::BucketRule rule = {own.shared, own.chunk == 0 ? notes.bucket_size : std::nullopt};
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<std::int64_t> places,
                           megatron::places_in_total(own.elements, buffer.size, rule));
  for (const auto& [slot, tensor] : buffer.slots)
    for (std::size_t index = 0; index < places.size(); ++index)
      slots->push_back({own.parameters[index], slot, tensor, places[index]});
  return {};
}

}  // namespace

Result<std::vector<FlatSlot>> place_flat_slots(const DistributedState& state, const CheckpointInfo& model,
                                               std::span<const OwnParameter> parameters, const BucketNotes& notes) {
  const bool experts_apart =
      std::any_of(parameters.begin(), parameters.end(), [](const OwnParameter& own) { return own.is_expert; });
  const std::size_t expected = experts_apart ? 2 : 1;
  if (state.size() != expected)
    return corrupt(
        fmt::format("it is of {}, and the rank's parameters are of {}", counted(state.size(), "optimizer"), expected));
  std::vector<FlatSlot> slots;
  for (std::size_t optimizer = 0; optimizer < state.size(); ++optimizer) {
    if (!state[optimizer]) continue;
    const std::vector<FlatState>& buffers = *state[optimizer];
    const std::vector<OwnBuffer> own = split(model, parameters, optimizer == 1, notes.shares_embeddings);
    if (own.size() != buffers.size())
      return corrupt(fmt::format("optimizer {} has {}, and the rank's parameters need {}", optimizer,
                                 counted(buffers.size(), "buffer"), own.size()));
    for (std::size_t number = 0; number < own.size(); ++number) {
      auto placed = place(own[number], buffers[number], notes, &slots);
      if (!placed)
        return std::move(placed).error().with_context(fmt::format("optimizer {} buffer {}", optimizer, number));
    }
  }
  return slots;
}

}  // namespace tenplex::megatron_legacy
