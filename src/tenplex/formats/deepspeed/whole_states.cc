// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/whole_states.h"

#include <utility>
#include <vector>

#include "tenplex/formats/state/lookup.h"

namespace tenplex::deepspeed {
namespace {

void put_param_shapes(const ParameterGroups& groups, StateGraph* graph) {
  const auto lists = list_items(*graph, find_item(*graph, graph->root, "param_shapes"));
  if (!lists) return;
  const std::vector<NodeId> dicts(lists->begin(), lists->end());
  for (std::size_t group = 0; group < dicts.size() && is_dict(*graph, dicts[group]); ++group) {
    std::vector<NodeId> items;
    items.reserve(2 * (groups.first_of(group + 1) - groups.first_of(group)));
    for (std::size_t index = groups.first_of(group); index < groups.first_of(group + 1); ++index) {
      const Parameter& parameter = groups.parameters()[index];
      items.push_back(graph->add_string(parameter.name));
      items.push_back(add_size(parameter.shape, graph));
    }
    items_of(*graph, dicts[group]) = std::move(items);
  }
}

// Buffers of the first stage first, in the order that it has them in.
void put_buffer_names(const ModelFiles& files, StateGraph* graph) {
  std::vector<NodeId> names;
  for (std::size_t rank = 0; rank < files.rank_count(); rank += files.mesh().tensor_ranks) {
    const StateGraph& file = files.graph(rank, 0);
    const auto items = list_items(file, find_item(file, file.root, "buffer_names"));
    for (std::size_t at = 0; items && at < items->size(); ++at)
      names.push_back(graph->add_string(std::string(text_of(file, (*items)[at]).value_or(""))));
  }
  const NodeId list = graph->add_list(std::move(names));
  set_item(*graph, graph->root, "buffer_names", list);
}

}  // namespace

NodeId add_size(const Dims& shape, StateGraph* graph) {
  std::vector<NodeId> sizes;
  sizes.reserve(static_cast<std::size_t>(shape.rank()));
  for (const std::int64_t size : shape) sizes.push_back(graph->add_int(size));
  const NodeId tuple = graph->add_tuple(std::move(sizes));
  ObjectParts parts;
  parts.callable = graph->add_global("torch", "Size");
  parts.arguments = graph->add_tuple({tuple});
  return graph->add_object(std::move(parts));
}

void say_whole(const ModelParts& parts, const std::function<std::optional<Dims>(const std::string&)>& shape_of,
               StateGraph* graph) {
  put_param_shapes(parts.groups(), graph);
  const NodeId frozen = find_item(*graph, graph->root, "frozen_param_shapes");
  if (is_dict(*graph, frozen)) {
    const std::vector<NodeId> items = items_of(*graph, frozen);
    for (std::size_t at = 0; at + 1 < items.size(); at += 2) {
      const auto shape = shape_of(std::string(text_of(*graph, items[at]).value_or("")));
      if (!shape) continue;
      const NodeId size = add_size(*shape, graph);
      items_of(*graph, frozen)[at + 1] = size;
    }
  }
  if (parts.files().mesh().stages > 1) put_buffer_names(parts.files(), graph);
  const NodeId one = graph->add_int(1);
  set_item(*graph, graph->root, "mp_world_size", one);
  const NodeId dimensions = find_item(*graph, graph->root, "checkpoint_parallel_dimensions");
  if (!is_dict(*graph, dimensions)) return;
  set_item(*graph, dimensions, "tp_degree", one);
  if (find_item(*graph, dimensions, "pp_degree") != kNoNode) set_item(*graph, dimensions, "pp_degree", one);
}

}  // namespace tenplex::deepspeed
