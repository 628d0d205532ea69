// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron_legacy/distributed_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tenplex/base/counted.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex::megatron_legacy {
namespace {

constexpr std::string_view kCoalesced = "buckets_coalesced";
constexpr std::string_view kSize = "numel_unpadded";

class StateReader {
 public:
  explicit StateReader(const CheckpointInfo& file) : file_(file), graph_(file.state) {}

  Result<DistributedState> run() const {
    DistributedState state;
    const auto list = list_items(graph_, graph_.root);
    const std::vector<NodeId> optimizers =
        list ? std::vector<NodeId>(list->begin(), list->end()) : std::vector<NodeId>{graph_.root};
    for (std::size_t number = 0; number < optimizers.size(); ++number) {
      if (is_none(graph_, optimizers[number])) {
        state.emplace_back();
        continue;
      }
      auto buffers = read_optimizer(optimizers[number]);
      if (!buffers) return std::move(buffers).error().with_context(fmt::format("optimizer {}", number));
      state.emplace_back(std::move(*buffers));
    }
    return state;
  }

 private:
  Result<std::vector<FlatState>> read_optimizer(NodeId optimizer) const {
    if (!is_dict(graph_, optimizer)) return corrupt("it is no dict");
    const NodeId coalesced = find_item(graph_, optimizer, kCoalesced);
    if (integer_or_bool(coalesced) != 1)
      return unsupported(
          fmt::format("'{}' is not True, as in files of old versions, which kept every bucket of every "
                      "rank apart; load it with Megatron-Core and save it again",
                      kCoalesced));
    std::vector<FlatState> buffers;
    while (true) {
      const auto number = static_cast<std::int64_t>(buffers.size());
      const NodeId buffer = find_item(graph_, optimizer, number);
      if (buffer == kNoNode) break;
      auto read = read_buffer(buffer);
      if (!read) return std::move(read).error().with_context(fmt::format("buffer {}", number));
      buffers.push_back(std::move(*read));
    }
    const std::size_t entries = mapping_items(graph_, optimizer)->size() / 2;
    if (entries != buffers.size() + 1)
      return corrupt(fmt::format("it has {} with the numbers from 0 on, and {} more beside '{}'",
                                 counted(buffers.size(), "buffer"), entries - buffers.size() - 1, kCoalesced));
    return buffers;
  }

  Result<FlatState> read_buffer(NodeId buffer) const {
    const auto items = mapping_items(graph_, buffer);
    if (!items || items->size() != 2) return corrupt("it is no dict with one pair of types");
    FlatState state;
    const auto types = graph_[(*items)[0]].kind == NodeKind::kTuple
                           ? std::span<const NodeId>(graph_[(*items)[0]].children)
                           : std::span<const NodeId>();
    const auto type = types.size() == 2 ? type_of(types[0]) : std::nullopt;
    if (!type) return corrupt("its key is no pair of types");
    state.parameter_type = *type;
    const auto slots = mapping_items(graph_, (*items)[1]);
    const auto size = integer_of(graph_, find_item(graph_, (*items)[1], kSize));
    if (!slots || !size) return corrupt(fmt::format("it has no '{}'", kSize));
    state.size = *size;
    for (std::size_t at = 0; at + 1 < slots->size(); at += 2) {
      const auto name = text_of(graph_, (*slots)[at]);
      if (!name) return corrupt("a slot has no name");
      if (*name == kSize) continue;
      if (!is_tensor(graph_, (*slots)[at + 1])) return corrupt(fmt::format("'{}' is no tensor", *name));
      const TensorId tensor = graph_.view((*slots)[at + 1]).tensor;
      const Dims& shape = file_.tensors[tensor.index()].shape;
      if (shape != Dims{state.size})
        return corrupt(fmt::format("'{}' has shape {}, and '{}' is {}", *name, to_string(shape), kSize, state.size));
      state.slots.emplace(*name, tensor);
    }
    if (!state.slots.contains(kDistributedMaster)) return corrupt(fmt::format("it has no '{}'", kDistributedMaster));
    return state;
  }

  std::optional<std::int64_t> integer_or_bool(NodeId node) const {
    if (node == kNoNode) return std::nullopt;
    if (graph_[node].kind == NodeKind::kBool) return graph_[node].boolean ? 1 : 0;
    return integer_of(graph_, node);
  }

  // The global torch.bfloat16 and its like.
  std::optional<DType> type_of(NodeId node) const {
    constexpr std::string_view kModule = "torch\n";
    if (graph_[node].kind != NodeKind::kGlobal || !graph_[node].text.starts_with(kModule)) return std::nullopt;
    return parse_dtype(std::string_view(graph_[node].text).substr(kModule.size()));
  }

  const CheckpointInfo& file_;
  const StateGraph& graph_;
};

}  // namespace

Result<DistributedState> read_distributed_state(const CheckpointInfo& file) { return StateReader(file).run(); }

}  // namespace tenplex::megatron_legacy
