// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/model_tree.h"

#include <fmt/format.h>

#include <set>

#include "tenplex/formats/deepspeed/whole_states.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex::deepspeed {

Result<std::unique_ptr<ModelTree>> ModelTree::make(Files files, CheckpointJoiner* joiner) {
  std::unique_ptr<ModelTree> tree(new ModelTree(joiner));
  ModelFiles::Expected expected;
  expected.data_ranks = files.data_ranks;
  if (!files.layers.empty()) {
    expected.layer_ranks = files.layers[0].parts.size();
    expected.layer_file = joiner->name(files.layers[0].parts[0]);
  }
  TENPLEX_ASSIGN_OR_RETURN(tree->files_, ModelFiles::make(std::move(files.models), expected, joiner, &tree->of_ranks_));
  tree->has_experts_ = !files.experts.empty();
  TENPLEX_ASSIGN_OR_RETURN(tree->experts_, ExpertTensors::read(std::move(files.experts), *tree->files_, *joiner));
  TENPLEX_ASSIGN_OR_RETURN(tree->parts_, ModelParts::read(&*tree->files_, tree->experts_->experts_of()));
  tree->module_.emplace(&*tree->parts_, joiner);
  if (tree->files_->is_pipeline()) tree->layers_.emplace(&*tree->parts_, std::move(files.layers), joiner);
  return tree;
}

Result<std::int64_t> ModelTree::data_ranks() const {
  const auto ranks = integer_of(model_file().state, item("dp_world_size"));
  if (ranks && *ranks > 0) return *ranks;
  return corrupt(fmt::format("{}: 'dp_world_size' is no positive number", files_->quoted(0, 0)));
}

Result<void> ModelTree::add_tensors() {
  if (layers_) {
    TENPLEX_TRY(layers_->add_to(&top_, &objects_));
  } else {
    TENPLEX_TRY(module_->add_to(&top_));
  }
  return experts_->add_to(groups(), *files_, joiner_, &top_);
}

Result<void> ModelTree::check_complete() const {
  std::set<std::string_view> names;
  for (const auto& [name, node] : top_) names.insert(name);
  for (const Parameter& parameter : parts_->groups().parameters())
    if (!names.contains(parameter.name))
      return corrupt(fmt::format("{}: parameter '{}' is in 'param_shapes' and not in 'module'", files_->quoted(0, 0),
                                 parameter.name));
  return module_->check_frozen(names);
}

void ModelTree::add_slots() {
  for (const Parameter& parameter : groups().parameters())
    for (const auto& [slot, number] : parameter.slots)
      top_.emplace_back(fmt::format("optimizer.state.{}.{}", slot, parameter.name), joiner_->tensor_node(number));
}

// Without the tensors that have names of their own.
void ModelTree::add_model_states() {
  StateGraph graph = model_file().state;
  if (files_->rank_count() > 1 || has_experts_)
    say_whole(*parts_, [this](const std::string& name) { return module_->shape_of(name); }, &graph);
  if (layers_) {
    const NodeId module = graph.add_dict({});
    set_item(graph, graph.root, "module", module);
  }
  const NodeId module = find_item(graph, graph.root, "module");
  std::vector<NodeId>& items = items_of(graph, module);
  std::vector<NodeId> objects;
  for (std::size_t at = 0; at + 1 < items.size(); at += 2)
    if (!is_tensor(graph, items[at + 1])) objects.insert(objects.end(), {items[at], items[at + 1]});
  items = std::move(objects);
  if (module_->has_frozen_parts()) {
    const NodeId none = graph.add_none();
    set_item(graph, graph.root, kFrozenParts, none);
  }
  const NodeId kept = find_item(graph, graph.root, kCommonKey);
  remove_item(graph, graph.root, kCommonKey);
  const NodeId copied = joiner_->copy_state(model_part(), graph, graph.root, DeviceId(0));
  StateGraph& state = joiner_->state();
  for (const auto& [name, node] : objects_) set_item(state, find_item(state, copied, "module"), name, node);
  common_.emplace(common_.begin(), "model_states", copied);
  if (const auto entries = mapping_items(graph, kept))
    for (std::size_t at = 0; at + 1 < entries->size(); at += 2)
      common_.emplace_back(text_of(graph, (*entries)[at]).value_or(""),
                           joiner_->copy_state(model_part(), graph, (*entries)[at + 1], DeviceId(0)));
}

Result<std::unique_ptr<CheckpointReader>> ModelTree::finish(CheckpointInfo info) {
  if (auto added = add_tensors(); !added) return std::move(added).error().with_context(files_->quoted(0, 0));
  TENPLEX_TRY(check_complete());
  if (auto used = parts_->check_used(); !used) return std::move(used).error().with_context(files_->quoted(0, 0));
  add_slots();
  add_model_states();
  if (!of_ranks_.empty()) common_.emplace_back("ranks", of_ranks_.add_to(&joiner_->state()));
  top_.emplace_back("common", add_dict_of(common_, &joiner_->state()));
  return joiner_->finish(add_dict_of(top_, &joiner_->state()), std::move(info));
}

}  // namespace tenplex::deepspeed
