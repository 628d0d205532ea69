// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/bucket_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tenplex/formats/megatron/bucket_names.h"
#include "tenplex/formats/state/lookup.h"
#include "tenplex/formats/state/state_part.h"

namespace tenplex::megatron {
namespace {

constexpr std::string_view kShardingType = "distrib_optim_sharding_type";
constexpr std::string_view kOwnShardingType = "param_state_sharding_type";
constexpr std::string_view kDecoded = "fully_reshardable";

/// The objects beside the buckets: by optimizer, key and group.
using BucketObjects = std::map<std::int64_t, std::map<std::string, std::map<std::int64_t, NodeId>>>;

/// Takes everything of buckets out of the root.
BucketObjects take_objects(StateGraph* graph) {
  BucketObjects objects;
  std::vector<NodeId>& items = items_of(*graph, graph->root);
  std::vector<NodeId> kept;
  kept.reserve(items.size());
  for (std::size_t at = 0; at + 1 < items.size(); at += 2) {
    const std::string_view key = text_of(*graph, items[at]).value_or("");
    if (!is_of_bucket(key)) {
      kept.insert(kept.end(), {items[at], items[at + 1]});
    } else if (const auto object = parse_bucket_object(key); object && !object->key.starts_with("per_bucket_")) {
      objects[object->of.optimizer][std::string(object->key)][object->of.group] = items[at + 1];
    }
  }
  items = std::move(kept);
  return objects;
}

/// The state of one optimizer: that of its first group.
NodeId join_groups(const std::map<std::string, std::map<std::int64_t, NodeId>>& keys, StateGraph* graph,
                   std::vector<std::string>* problems) {
  std::vector<NodeId> items;
  for (const auto& [key, nodes] : keys) {
    const NodeId first = nodes.begin()->second;
    const auto other = std::find_if(nodes.begin(), nodes.end(), [&](const auto& entry) {
      return !equal_objects(*graph, first, *graph, entry.second);
    });
    if (other != nodes.end())
      problems->push_back(
          fmt::format("the optimizer's '{}' of dp_group_idx {} is kept; that of {} is another one, or "
                      "has tensors",
                      key, nodes.begin()->first, other->first));
    items.insert(items.end(), {graph->add_string(key), first});
  }
  items.insert(items.end(),
               {graph->add_string(std::string(kOwnShardingType)), graph->add_string(std::string(kDecoded))});
  return graph->add_dict(std::move(items));
}

std::uint32_t next_storage(const StateGraph& graph) {
  std::uint32_t next = 0;
  for (NodeId node = 0; node < graph.size(); ++node)
    if (graph[node].kind == NodeKind::kTensor || graph[node].kind == NodeKind::kStorage)
      next = std::max(next, graph.view(node).storage + 1);
  return next;
}

void add_slots(std::size_t first_slot, CheckpointInfo* info) {
  StateGraph& graph = info->state;
  std::uint32_t storage = next_storage(graph);
  std::vector<NodeId> items;
  items.reserve(2 * (info->tensors.size() - first_slot));
  for (std::size_t index = first_slot; index < info->tensors.size(); ++index) {
    TensorView view;
    view.tensor = TensorId(index);
    view.storage = storage++;
    view.strides = row_major_strides(info->tensors[index].shape);
    items.insert(items.end(), {graph.add_string(info->tensors[index].name), graph.add_tensor(view)});
  }
  std::vector<NodeId>& root = items_of(graph, graph.root);
  root.insert(root.end(), items.begin(), items.end());
}

}  // namespace

Result<void> put_slots_into_state(std::span<const TensorId> numbers, std::size_t first_slot, CheckpointInfo* info) {
  StateGraph& graph = info->state;
  const NodeId common = find_item(graph, graph.root, "common");
  if (!is_dict(graph, graph.root) || !is_dict(graph, common)) return corrupt("'common' is no dict");
  const BucketObjects objects = take_objects(&graph);
  std::vector<NodeId> optimizers;
  for (const auto& [optimizer, keys] : objects) {
    const NodeId joined = join_groups(keys, &graph, &info->problems);
    optimizers.insert(optimizers.end(), {graph.add_int(optimizer), joined});
  }
  if (optimizers.size() == 2) set_item(graph, common, "optimizer", optimizers[1]);
  if (optimizers.size() > 2) set_item(graph, common, "optimizer", graph.add_dict(std::move(optimizers)));
  const NodeId metadata = find_item(graph, common, "content_metadata");
  if (find_item(graph, metadata, kShardingType) != kNoNode)
    set_item(graph, metadata, kShardingType, graph.add_string(std::string(kDecoded)));
  graph = reachable_part(graph);
  renumber_tensors(&graph, numbers);
  add_slots(first_slot, info);
  return {};
}

}  // namespace tenplex::megatron
