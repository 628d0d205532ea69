// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/selected_reader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tenplex/formats/derived_reader.h"
#include "tenplex/formats/state/lookup.h"
#include "tenplex/formats/state/plain_tree.h"
#include "tenplex/formats/state/state_part.h"

namespace tenplex {
namespace {

constexpr std::string_view kOptimizer = "optimizer";
constexpr std::string_view kCommon = "common";

bool is_optimizer(std::string_view name) {
  return name.starts_with(kOptimizer) && (name.size() == kOptimizer.size() || name[kOptimizer.size()] == '.');
}

/// The tensors of a checkpoint without a tree.
std::vector<bool> named_tensors(const CheckpointInfo& info, const Selection& selection) {
  std::vector<bool> kept;
  kept.reserve(info.tensors.size());
  for (const TensorInfo& tensor : info.tensors)
    kept.push_back(selection.part == Selection::Part::kAll ||
                   is_optimizer(tensor.name) == (selection.part == Selection::Part::kOptimizer));
  return kept;
}

/// Takes the objects out of a root whose own entries are the tensors that are cut.
void keep_own_tensors(StateGraph* graph) {
  std::vector<NodeId>& items = items_of(*graph, graph->root);
  std::vector<NodeId> kept;
  kept.reserve(items.size());
  for (std::size_t at = 0; at + 1 < items.size(); at += 2)
    if (is_tensor(*graph, items[at + 1])) kept.insert(kept.end(), {items[at], items[at + 1]});
  items = std::move(kept);
}

/// Takes entries out of the tree.
void reduce(const Selection& selection, bool has_common, StateGraph* graph) {
  const bool optimizer = selection.part == Selection::Part::kOptimizer;
  if (selection.part != Selection::Part::kAll) {
    const NodeId common = find_item(*graph, graph->root, kCommon);
    if (common != kNoNode)
      keep_entries(graph, common, [&](std::string_view key) { return (key == kOptimizer) == optimizer; });
    keep_entries(graph, graph->root,
                 [&](std::string_view key) { return key == kCommon || is_optimizer(key) == optimizer; });
  }
  if (!selection.tensors_only) return;
  if (has_common) keep_own_tensors(graph);
  keep_tensors(graph);
}

/// TensorIds of what is kept: new ones by old ones.
std::vector<TensorId> renumber(const std::vector<bool>& kept) {
  std::vector<TensorId> numbers(kept.size());
  std::size_t next = 0;
  for (std::size_t tensor = 0; tensor < kept.size(); ++tensor)
    if (kept[tensor]) numbers[tensor] = TensorId(next++);
  return numbers;
}

}  // namespace

Result<Selection> parse_selection(std::string_view text) {
  Selection selection;
  if (text.ends_with(',')) text = ",";  // an empty word
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view word = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const bool free = selection.part == Selection::Part::kAll;
    if (word == "tensors" && !selection.tensors_only) {
      selection.tensors_only = true;
    } else if (word == "model" && free) {
      selection.part = Selection::Part::kModel;
    } else if (word == "optimizer" && free) {
      selection.part = Selection::Part::kOptimizer;
    } else {
      return invalid_argument("expected 'model', 'optimizer', 'tensors', 'model,tensors' or 'optimizer,tensors'");
    }
  }
  return selection;
}

Result<std::unique_ptr<CheckpointReader>> select(std::unique_ptr<CheckpointReader> reader, const Selection& selection) {
  if (selection == Selection{}) return reader;
  const CheckpointInfo& stored = reader->info();
  CheckpointInfo info = stored;
  info.chunks = {};
  info.aliases.clear();
  std::vector<bool> kept;
  if (stored.state.root == kNoNode) {
    kept = named_tensors(stored, selection);
  } else {
    reduce(selection, stored.has_common, &info.state);
    info.state = reachable_part(info.state);
    kept = tensors_in(info.state, stored.tensors.size());
  }
  if (std::find(kept.begin(), kept.end(), true) == kept.end()) return not_found("nothing that --only names is there");
  const std::vector<TensorId> numbers = renumber(kept);
  renumber_tensors(&info.state, numbers);
  info.tensors.clear();
  for (std::size_t tensor = 0; tensor < kept.size(); ++tensor)
    if (kept[tensor]) info.tensors.push_back(stored.tensors[tensor]);
  for (const auto& [alias, original] : stored.aliases)
    if (kept[alias.index()] && kept[original.index()])
      info.aliases.emplace_back(numbers[alias.index()], numbers[original.index()]);
  std::vector<std::uint32_t> chunks;
  for (std::size_t index = 0; index < stored.chunks.size(); ++index) {
    Chunk chunk = stored.chunks[index];
    if (!kept[chunk.tensor.index()]) continue;
    chunk.tensor = numbers[chunk.tensor.index()];
    info.chunks.add(chunk);
    chunks.push_back(static_cast<std::uint32_t>(index));
  }
  if (selection.tensors_only) {
    const CheckpointInfo tree = info;
    TENPLEX_TRY(leave_tree_out(tree, &info));
    info.state = {};
  }
  return std::unique_ptr<CheckpointReader>(
      std::make_unique<DerivedReader>(std::move(reader), std::move(info), std::move(chunks)));
}

}  // namespace tenplex
