// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron_legacy/rank_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "tenplex/formats/state/lookup.h"
#include "tenplex/formats/state/state_numbers.h"

namespace tenplex::megatron_legacy {
namespace {

Result<ModelChunk> read_chunk(const StateGraph& graph, NodeId model, std::int64_t* experts) {
  const auto items = mapping_items(graph, model);
  if (!items) return corrupt("it is no dict");
  ModelChunk chunk;
  std::map<std::string_view, std::set<std::int64_t>> layers;
  std::set<std::int64_t> numbers;
  for (std::size_t at = 0; at + 1 < items->size(); at += 2) {
    const auto key = text_of(graph, (*items)[at]);
    if (!key) return corrupt("a key is no text");
    if (*key == "language_model" || *key == "word_embeddings_for_head")
      return unsupported(fmt::format("it has '{}': the model is of Megatron-LM before Megatron-Core", *key));
    const ModelEntry& entry = chunk.entries.emplace_back(ModelEntry{megatron::split_numbers(*key), (*items)[at + 1]});
    if (entry.name.layer) layers[entry.name.stack].insert(*entry.name.layer);
    if (entry.name.expert) numbers.insert(*entry.name.expert);
  }
  const auto complete = [](const std::set<std::int64_t>& found) {
    return found.empty() || *found.rbegin() + 1 == static_cast<std::int64_t>(found.size());
  };
  for (const auto& [stack, found] : layers) {
    if (!complete(found))
      return corrupt(fmt::format("it has layer {} of '{}', and not all before it", *found.rbegin(), stack));
    chunk.layers[stack] = static_cast<std::int64_t>(found.size());
  }
  if (!complete(numbers)) return corrupt(fmt::format("it has expert {}, and not all before it", *numbers.rbegin()));
  *experts = std::max(*experts, static_cast<std::int64_t>(numbers.size()));
  return chunk;
}

}  // namespace

Result<RankModel> read_rank_model(const CheckpointInfo& file) {
  const StateGraph& graph = file.state;
  RankModel rank;
  for (std::int64_t number = -1;; ++number) {
    const std::string key = number < 0 ? "model" : fmt::format("model{}", number);
    const NodeId model = find_item(graph, graph.root, key);
    if (model == kNoNode) {
      if (number < 0) continue;
      break;
    }
    auto chunk = read_chunk(graph, model, &rank.experts);
    if (!chunk) return std::move(chunk).error().with_context(fmt::format("'{}'", key));
    rank.chunks.push_back(std::move(*chunk));
    if (number < 0) break;
  }
  if (rank.chunks.empty()) return corrupt("it has no 'model'");
  return rank;
}

std::optional<std::int64_t> argument(const CheckpointInfo& file, std::string_view name) {
  const std::array<std::string_view, 2> place = {"args", name};
  return number_at(file.state, place);
}

}  // namespace tenplex::megatron_legacy
