// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/cut_notes.h"

#include <string>
#include <utility>
#include <vector>

namespace tenplex::deepspeed {
namespace {

NodeId tuple_of(const std::vector<std::int64_t>& numbers, StateGraph* graph) {
  std::vector<NodeId> items;
  items.reserve(numbers.size());
  for (const std::int64_t number : numbers) items.push_back(graph->add_int(number));
  return graph->add_tuple(std::move(items));
}

// An instance of the dataclass in deepspeed.checkpoint.universal_checkpoint.
NodeId sub_param_shape(const CutNotes& notes, StateGraph* graph) {
  std::vector<NodeId> patterns;
  patterns.reserve(notes.sub_param_patterns.size());
  for (const std::string& pattern : notes.sub_param_patterns) patterns.push_back(graph->add_string(pattern));
  std::vector<NodeId> shape;
  shape.reserve(notes.sub_param_shape.size());
  for (std::size_t dim = 0; dim < notes.sub_param_shape.size(); ++dim) {
    const std::vector<std::int64_t>& sizes = notes.sub_param_shape[dim];
    shape.push_back(notes.is_list[dim] ? tuple_of(sizes, graph) : graph->add_int(sizes[0]));
  }
  std::vector<NodeId> state = {graph->add_string("patterns"), graph->add_list(std::move(patterns))};
  state.insert(state.end(), {graph->add_string("shape"), graph->add_tuple(std::move(shape))});
  state.insert(state.end(), {graph->add_string("partition_dim"), graph->add_int(notes.sub_param_dim)});
  ObjectParts parts;
  parts.callable = graph->add_global("deepspeed.checkpoint.universal_checkpoint", "SubparamShape");
  parts.arguments = graph->add_tuple({});
  parts.state = graph->add_dict(std::move(state));
  parts.new_object = true;
  return graph->add_object(std::move(parts));
}

}  // namespace

NodeId notes_node(const CutNotes& notes, StateGraph* graph) {
  std::vector<NodeId> items;
  const auto put = [&](const char* key, NodeId value) {
    items.push_back(graph->add_string(key));
    items.push_back(value);
  };
  if (notes.cat_dim != 0) put("cat_dim", graph->add_int(notes.cat_dim));
  if (notes.halves) put("param_n_sub_params", graph->add_int(2));
  if (!notes.sub_param_shape.empty()) put("sub_param_shape", sub_param_shape(notes, graph));
  if (notes.vocabulary) put("vocab_tensor", graph->add_bool(true));
  return items.empty() ? kNoNode : graph->add_dict(std::move(items));
}

}  // namespace tenplex::deepspeed
