// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/mapped_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tenplex/base/printable.h"
#include "tenplex/formats/state/plain_tree.h"

namespace tenplex {
namespace {

bool keeps_its_place(const StateGraph& state, NodeId key) {
  if (state[key].kind != NodeKind::kString) return false;
  const std::string_view name = state[key].text;
  return name == "common" || name.find("/shard_") != std::string_view::npos;
}

bool is_dict(const StateGraph& state) { return state.root != kNoNode && state[state.root].kind == NodeKind::kDict; }

/// All nodes that are reached from `start`, as flags per node.
void mark_reachable(const StateGraph& state, NodeId start, std::vector<bool>* reached) {
  std::vector<NodeId> open = {start};
  while (!open.empty()) {
    const NodeId node = open.back();
    open.pop_back();
    if (node == kNoNode || (*reached)[node]) continue;
    (*reached)[node] = true;
    state.for_each_edge(node, [&](const NodeId& next) { open.push_back(next); });
  }
}

bool holds_tensor(const Node& node) { return node.kind == NodeKind::kTensor || node.kind == NodeKind::kStorage; }

/// For each source that is kept, or only renamed, the target that it is. One without elements has no pieces to tell by:
/// it is the target of its name.
std::vector<std::optional<TensorId>> same_tensors(const CheckpointInfo& stored, const TensorMap& map) {
  std::vector<std::optional<TensorId>> same(stored.tensors.size());
  std::map<std::string_view, TensorId> empty_targets;
  for (std::size_t target = 0; target < map.targets.size(); ++target)
    if (volume(map.targets[target].shape) == 0) empty_targets.emplace(map.targets[target].name, TensorId(target));
  for (std::size_t source = 0; source < stored.tensors.size(); ++source) {
    const auto found = empty_targets.find(stored.tensors[source].name);
    if (found != empty_targets.end() && map.targets[found->second.index()].shape == stored.tensors[source].shape)
      same[source] = found->second;
  }
  for (std::size_t target = 0; target < map.targets.size(); ++target) {
    const auto pieces = map.pieces_of(target);
    if (pieces.size() != 1) continue;
    const Box whole = Box::whole(stored.tensors[pieces[0].source.index()].shape);
    bool in_order = pieces[0].source_box == whole && pieces[0].target_box == whole;
    for (int axis = 0; axis < whole.rank(); ++axis)
      in_order = in_order && pieces[0].axes[static_cast<std::size_t>(axis)] == axis;
    if (in_order) same[pieces[0].source.index()] = TensorId(target);
  }
  return same;
}

/// Makes the new tree in `info->state`, a copy of the stored one.
class TreeMapper {
 public:
  TreeMapper(const CheckpointInfo& stored, const TensorMap& map, CheckpointInfo* info)
      : stored_(stored), map_(map), state_(info->state), info_(*info), same_(same_tensors(stored, map)) {
    for (NodeId node = 0; node < state_.size(); ++node)
      if (holds_tensor(state_[node])) next_storage_ = std::max(next_storage_, state_.view(node).storage + 1);
  }

  Result<void> run() {
    TENPLEX_TRY(sort_entries());
    std::vector<bool> reached(state_.size(), false);
    for (const NodeId node : kept_entries_) mark_reachable(state_, node, &reached);
    std::vector<bool> placed(map_.targets.size(), false);
    for (NodeId node = 0; node < static_cast<NodeId>(reached.size()); ++node) {
      if (!holds_tensor(state_[node])) continue;
      if (reached[node]) {
        TensorView view = state_.view(node);
        if (state_[node].kind == NodeKind::kTensor) {
          view.tensor = *same_[view.tensor.index()];
          placed[view.tensor.index()] = true;
        }
        state_.set_view(node, view);
      } else {
        state_[node].kind = NodeKind::kNone;  // no longer a part of the tree
      }
    }
    std::vector<NodeId> entries;
    for (std::size_t target = 0; target < map_.targets.size(); ++target) {
      if (placed[target]) continue;
      entries.push_back(state_.add_string(map_.targets[target].name));
      entries.push_back(state_.add_tensor(view_of(TensorId(target))));
    }
    entries.insert(entries.end(), kept_entries_.begin(), kept_entries_.end());
    state_.root = state_.add_dict(std::move(entries));
    return {};
  }

 private:
  /// Tensors at the top, with the storage that each had; and all that keeps its place.
  Result<void> sort_entries() {
    const std::vector<NodeId> children = state_[state_.root].children;
    std::map<std::uint32_t, std::vector<StoredPart>> storages;
    for (std::size_t at = 0; at + 1 < children.size(); at += 2) {
      const NodeId key = children[at];
      const NodeId value = children[at + 1];
      if (keeps_its_place(state_, key)) {
        kept_entries_.insert(kept_entries_.end(), {key, value});
        continue;
      }
      if (state_[value].kind != NodeKind::kTensor)
        return unsupported(
            fmt::format("object '{}' has no place among tensors with other names: only what is under 'common' has",
                        state_[key].kind == NodeKind::kString ? state_[key].text : "?"));
      const TensorView view = state_.view(value);
      storages[view.storage].push_back(part_of(view));
    }
    for (auto& [storage, parts] : storages) share_what_overlaps(&parts);
    if (torn_pairs_ > 0)
      info_.problems.push_back(fmt::format("{}{} shared memory, what becomes of them does not", first_torn_pair_,
                                           torn_pairs_ == 1 ? "" : fmt::format(" ({} pairs in all)", torn_pairs_)));
    return {};
  }

  /// The bytes of a storage that a tensor lies in, from its first element to its last.
  struct StoredPart {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    TensorView view;
  };

  StoredPart part_of(const TensorView& view) const {
    const TensorInfo& tensor = stored_.tensors[view.tensor.index()];
    std::int64_t last = view.offset;
    for (int dim = 0; dim < tensor.shape.rank(); ++dim) last += (tensor.shape[dim] - 1) * view.strides[dim];
    const std::int64_t end = volume(tensor.shape) == 0 ? view.offset : last + 1;
    const std::int64_t width = size_bytes(tensor.dtype);
    return {view.offset * width, end * width, view};
  }

  /// Parts of one storage side by side, as those of a flat buffer, have nothing in common.
  void share_what_overlaps(std::vector<StoredPart>* parts) {
    std::sort(parts->begin(), parts->end(), [](const StoredPart& a, const StoredPart& b) {
      return std::pair(a.begin, a.view.tensor.value()) < std::pair(b.begin, b.view.tensor.value());
    });
    const StoredPart* longest = nullptr;
    for (const StoredPart& part : *parts) {
      if (part.begin == part.end) continue;
      if (longest != nullptr && part.begin < longest->end) share(longest->view, part.view);
      if (longest == nullptr || part.end > longest->end) longest = &part;
    }
  }

  /// What is one view twice becomes one storage again, if neither is changed on the way.
  void share(const TensorView& first, const TensorView& second) {
    const TensorInfo& one = stored_.tensors[first.tensor.index()];
    const TensorInfo& other = stored_.tensors[second.tensor.index()];
    const auto target = same_[first.tensor.index()];
    const auto other_target = same_[second.tensor.index()];
    if (target && other_target && first.offset == second.offset && first.strides == second.strides &&
        one.shape == other.shape && one.dtype == other.dtype) {
      storage_of_.emplace(other_target->index(), target->index());
    } else if (torn_pairs_++ == 0) {
      first_torn_pair_ = fmt::format("'{}' and '{}'", printable_name(one.name), printable_name(other.name));
    }
  }

  TensorView view_of(TensorId target) {
    TensorView view;
    view.tensor = target;
    view.strides = row_major_strides(map_.targets[target.index()].shape);
    const auto shared = storage_of_.find(target.index());
    const std::size_t owner = shared == storage_of_.end() ? target.index() : shared->second;
    const auto [known, is_new] = numbers_.emplace(owner, next_storage_);
    if (is_new) ++next_storage_;
    view.storage = known->second;
    return view;
  }

  const CheckpointInfo& stored_;
  const TensorMap& map_;
  StateGraph& state_;
  CheckpointInfo& info_;
  const std::vector<std::optional<TensorId>> same_;
  std::vector<NodeId> kept_entries_;  // key, value, …
  std::size_t torn_pairs_ = 0;
  std::string first_torn_pair_;
  std::map<std::size_t, std::size_t> storage_of_;  // target whose storage another target has
  std::map<std::size_t, std::uint32_t> numbers_;   // of storages, by the first target
  std::uint32_t next_storage_ = 1;
};

}  // namespace

std::vector<bool> tensors_in_objects(const CheckpointInfo& info) {
  std::vector<bool> kept(info.tensors.size(), false);
  if (!is_dict(info.state)) return kept;
  std::vector<bool> reached(info.state.size(), false);
  const std::vector<NodeId>& children = info.state[info.state.root].children;
  for (std::size_t at = 0; at + 1 < children.size(); at += 2)
    if (keeps_its_place(info.state, children[at])) mark_reachable(info.state, children[at + 1], &reached);
  for (NodeId node = 0; node < static_cast<NodeId>(reached.size()); ++node)
    if (reached[node] && info.state[node].kind == NodeKind::kTensor) kept[info.state.view(node).tensor.index()] = true;
  return kept;
}

Result<void> map_state(const CheckpointInfo& stored, const TensorMap& map, CheckpointInfo* info) {
  const bool has_kept = is_dict(stored.state) && [&] {
    const std::vector<NodeId>& children = stored.state[stored.state.root].children;
    for (std::size_t at = 0; at + 1 < children.size(); at += 2)
      if (keeps_its_place(stored.state, children[at])) return true;
    return false;
  }();
  if (!has_kept) return leave_tree_out(stored, info);
  info->state = stored.state;
  return TreeMapper(stored, map, info).run();
}

}  // namespace tenplex
