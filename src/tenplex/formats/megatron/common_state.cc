// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/common_state.h"

#include <algorithm>
#include <unordered_map>

#include "tenplex/formats/megatron/safe_classes.h"
#include "tenplex/formats/megatron/shard_name.h"
#include "tenplex/formats/megatron/state_without_tensors.h"

namespace tenplex::megatron {
namespace {

class Splitter {
 public:
  Splitter(const CheckpointInfo& source, const Collection& target)
      : source_(source), target_(target), graph_(source.state) {
    split_.graph = source.state;
  }

  Result<CommonState> run() {
    if (has_common()) {
      take_entries();
    } else {
      split_.common = without_tensors(&split_.graph);
      split_.is_whole = graph_.root == kNoNode;
    }
    if (!split_.is_whole || graph_.root == kNoNode) take_all_tensors();
    return std::move(split_);
  }

 private:
  using Entry = std::pair<std::string_view, NodeId>;

  bool has_common() const;
  std::vector<Entry> entries() const;
  void take_entries();
  void take_object(const Entry& entry);
  void take_all_tensors();
  DeviceId owner_of(std::string_view key) const;
  bool is_plain(const Entry& entry) const;

  const CheckpointInfo& source_;
  const Collection& target_;
  const StateGraph& graph_;
  CommonState split_;
};

std::vector<Splitter::Entry> Splitter::entries() const {
  const std::vector<NodeId>& items = graph_[graph_.root].children;
  std::vector<Entry> found;
  found.reserve(items.size() / 2);
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) found.emplace_back(graph_[items[i]].text, items[i + 1]);
  return found;
}

// A dict with text keys: a dict "common", tensors, and objects with the names of shards.
bool Splitter::has_common() const {
  if (graph_.root == kNoNode || graph_[graph_.root].kind != NodeKind::kDict) return false;
  const std::vector<NodeId>& items = graph_[graph_.root].children;
  bool found = false;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    const Node& key = graph_[items[i]];
    const NodeKind value = graph_[items[i + 1]].kind;
    if (key.kind != NodeKind::kString) return false;
    const bool common = key.text == kCommonKey && value == NodeKind::kDict;
    found = found || common;
    if (!common && value != NodeKind::kTensor && !parse_shard_name(key.text)) return false;
  }
  return found;
}

// True if the tensor's name and bytes are all that the tree says of it.
bool Splitter::is_plain(const Entry& entry) const {
  const TensorView view = graph_.view(entry.second);
  const TensorInfo& tensor = source_.tensors[view.tensor.index()];
  return entry.first == tensor.name && view.offset == 0 && view.strides == row_major_strides(tensor.shape) &&
         !view.requires_grad && !view.parameter;
}

// False if two entries hold one thing, which the files make two of, or if a tensor is in none of them.
bool are_apart(const StateGraph& graph, std::span<const NodeId> entries, std::size_t tensor_count) {
  constexpr std::uint32_t kNone = 0xffffffff;
  std::vector<std::uint32_t> entry_of(graph.size(), kNone);
  std::unordered_map<std::uint32_t, std::uint32_t> entry_of_storage;
  std::unordered_map<std::uint32_t, std::uint32_t> entry_of_object;
  std::vector<bool> reached(tensor_count, false);
  for (std::uint32_t entry = 0; entry < entries.size(); ++entry) {
    std::vector<NodeId> open{entries[entry]};
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (id == kNoNode || entry_of[id] == entry) continue;
      const NodeKind kind = graph[id].kind;
      if (entry_of[id] != kNone && has_identity(kind)) return false;
      entry_of[id] = entry;
      if (kind == NodeKind::kTensor || kind == NodeKind::kStorage) {
        const TensorView view = graph.view(id);
        reached[view.tensor.index()] = true;
        if (entry_of_storage.emplace(view.storage, entry).first->second != entry) return false;
        if (view.object != 0 && entry_of_object.emplace(view.object, entry).first->second != entry) return false;
      }
      graph.for_each_edge(id, [&](NodeId edge) { open.push_back(edge); });
    }
  }
  return std::find(reached.begin(), reached.end(), false) == reached.end();
}

void Splitter::take_entries() {
  const std::vector<Entry> all = entries();
  std::vector<NodeId> nodes;
  nodes.reserve(all.size());
  split_.is_whole = true;
  for (const Entry& entry : all) {
    nodes.push_back(entry.second);
    if (entry.first == kCommonKey) {
      split_.common = entry.second;
    } else if (graph_[entry.second].kind == NodeKind::kTensor) {
      split_.tensors.push_back(graph_.view(entry.second).tensor);
      split_.is_whole = split_.is_whole && is_plain(entry);
    } else {
      take_object(entry);
    }
  }
  // Tensors alone are read as no tree.
  if (split_.objects.empty() && graph_[split_.common].children.empty()) split_.is_whole = false;
  split_.is_whole = split_.is_whole && are_apart(graph_, nodes, source_.tensors.size());
}

void Splitter::take_object(const Entry& entry) {
  const NodeId list = split_.graph.add_list({entry.second});
  split_.objects.push_back({std::string(entry.first), list, owner_of(entry.first)});
}

void Splitter::take_all_tensors() {
  split_.tensors.clear();
  for (std::size_t tensor = 0; tensor < target_.tensors().size(); ++tensor) split_.tensors.emplace_back(tensor);
}

// A layout places the leaves of an object, which have its name and more; the first one decides.
DeviceId Splitter::owner_of(std::string_view key) const {
  for (const ObjectInfo& object : target_.objects()) {
    const std::string_view name = object.name;
    if (name.starts_with(key) && (name.size() == key.size() || name[key.size()] == '.')) return object.owner;
  }
  return DeviceId(0);
}

}  // namespace

Result<CommonState> split_state(const CheckpointInfo& source, const Collection& target) {
  TENPLEX_ASSIGN_OR_RETURN(CommonState split, Splitter(source, target).run());
  if (source.format != "megatron-dist") TENPLEX_TRY(check_classes(split.graph, split.common));
  return split;
}

}  // namespace tenplex::megatron
