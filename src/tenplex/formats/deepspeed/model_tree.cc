// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/model_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "tenplex/base/checked.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex::deepspeed {
namespace {

constexpr std::string_view kFrozenParts = "frozen_param_fragments";
// A rank whose file says otherwise belongs to another checkpoint.
constexpr std::array<std::string_view, 11> kSameOnAllRanks = {
    "param_shapes",   "frozen_param_shapes", "shared_params", "buffer_names", "skipped_steps", "global_steps",
    "global_samples", "dp_world_size",       "mp_world_size", "ds_version",   "ds_config"};

bool is_own_name(std::string_view name) { return name == "common" || name.starts_with("optimizer.state."); }

std::vector<std::string> keys_of(const StateGraph& graph, NodeId dict) {
  std::vector<std::string> keys;
  const auto items = mapping_items(graph, dict);
  for (std::size_t at = 0; items && at + 1 < items->size(); at += 2)
    keys.emplace_back(text_of(graph, (*items)[at]).value_or(""));
  return keys;
}

}  // namespace

Result<ModelTree> ModelTree::make(std::vector<Part> models, CheckpointJoiner* joiner) {
  ModelTree tree(std::move(models), joiner);
  const auto named = [&](Error error) {
    return std::move(error).with_context(fmt::format("'{}'", joiner->name(tree.models_[0])));
  };
  if (!is_dict(tree.model_file().state, tree.model_file().state.root) ||
      !is_dict(tree.model_file().state, tree.item("module")))
    return named(corrupt("there is no dict 'module'"));
  auto groups = ParameterGroups::read(tree.model_file().state, tree.item("param_shapes"));
  if (!groups) return named(std::move(groups).error());
  tree.groups_ = std::move(*groups);
  TENPLEX_TRY(tree.compare_models());
  return tree;
}

NodeId ModelTree::item(std::string_view key) const {
  return find_item(model_file().state, model_file().state.root, key);
}

Result<std::int64_t> ModelTree::data_ranks() const {
  const auto ranks = integer_of(model_file().state, item("dp_world_size"));
  if (ranks && *ranks > 0) return *ranks;
  return corrupt(fmt::format("'{}': 'dp_world_size' is no positive number", joiner_->name(models_[0])));
}

void ModelTree::add_of_rank(std::int64_t rank, std::string key, NodeId node) {
  if (of_ranks_.empty() || of_ranks_.back().first != rank) of_ranks_.emplace_back(rank, std::vector<Entry>());
  of_ranks_.back().second.emplace_back(std::move(key), node);
}

Result<void> ModelTree::compare_models() {
  for (std::size_t rank = 1; rank < models_.size(); ++rank) {
    auto compared = compare_model(rank);
    if (!compared) return std::move(compared).error().with_context(fmt::format("'{}'", joiner_->name(models_[rank])));
  }
  return {};
}

Result<void> ModelTree::compare_model(std::size_t rank) {
  const StateGraph& first = model_file().state;
  const StateGraph& other = joiner_->stored(models_[rank]).state;
  std::set<std::string> keys;
  for (const StateGraph* graph : {&first, &other})
    for (std::string& key : keys_of(*graph, graph->root)) keys.insert(std::move(key));
  std::vector<Entry> kept;
  for (const std::string& key : keys) {
    if (key == "module" || key == kFrozenParts) continue;
    const NodeId one = find_item(first, first.root, key);
    const NodeId two = find_item(other, other.root, key);
    if (one == kNoNode && two == kNoNode) return corrupt("it has keys that are no text");
    if (one != kNoNode && two != kNoNode && equal_objects(first, one, other, two)) continue;
    if (std::find(kSameOnAllRanks.begin(), kSameOnAllRanks.end(), key) != kSameOnAllRanks.end())
      return corrupt(
          fmt::format("'{}' is not that of '{}': the files are not of one checkpoint", key, joiner_->name(models_[0])));
    if (two != kNoNode) kept.emplace_back(key, joiner_->copy_state(models_[rank], other, two, DeviceId(rank)));
  }
  if (!kept.empty()) add_of_rank(static_cast<std::int64_t>(rank), "model_states", dict_of(kept));
  return {};
}

NodeId ModelTree::dict_of(const std::vector<Entry>& entries) {
  std::vector<NodeId> items;
  items.reserve(2 * entries.size());
  for (const auto& [key, value] : entries) {
    items.push_back(joiner_->state().add_string(key));
    items.push_back(value);
  }
  return joiner_->state().add_dict(std::move(items));
}

// ZeRO-3: like the trained ones, ceil(elements / ranks) on every rank.
Result<void> ModelTree::place_frozen() {
  const auto parts = mapping_items(model_file().state, item(kFrozenParts));
  if (!parts) return {};
  for (std::size_t at = 0; at + 1 < parts->size(); at += 2)
    frozen_parts_.emplace(text_of(model_file().state, (*parts)[at]).value_or(""), (*parts)[at + 1]);
  auto shapes = read_shapes(model_file().state, item("frozen_param_shapes")).with_context("'frozen_param_shapes'");
  if (!shapes) return std::move(shapes).error();
  const auto ranks = static_cast<std::int64_t>(models_.size());
  for (const auto& [name, shape] : *shapes) {
    const std::int64_t elements = volume(shape);
    const std::int64_t part = ceil_div(elements, ranks);
    CheckpointJoiner::Number number = 0;
    for (std::size_t rank = 0; rank < models_.size(); ++rank) {
      const CheckpointInfo& file = joiner_->stored(models_[rank]);
      const NodeId node = find_item(file.state, find_item(file.state, file.state.root, kFrozenParts), name);
      const auto bad = [&](std::string_view why) {
        return corrupt(fmt::format("'{}': frozen parameter '{}' of shape {} {}", joiner_->name(models_[rank]), name,
                                   to_string(shape), why));
      };
      if (!is_tensor(file.state, node)) return bad("has no part here");
      const TensorId stored = file.state.view(node).tensor;
      const TensorInfo& info = file.tensors[stored.index()];
      if (rank == 0) {
        TENPLEX_ASSIGN_OR_RETURN(number, joiner_->add_tensor(name, info.dtype, shape));
        frozen_.emplace(name, number);
      }
      if (elements == 0) continue;
      if (ranks == 1 && info.shape == shape) {
        TENPLEX_TRY(joiner_->add_box(number, DeviceId(rank), models_[rank], stored, Box::whole(shape),
                                     Dims::filled(shape.rank(), 0)));
        continue;
      }
      if (info.shape != Dims{part})
        return bad(fmt::format("has a part of shape {}, expected [{}]", to_string(info.shape), part));
      const std::int64_t from = std::min(elements, static_cast<std::int64_t>(rank) * part);
      TENPLEX_TRY(
          joiner_->add_run(number, DeviceId(rank), {models_[rank], stored, 0, from, std::min(elements, from + part)}));
    }
  }
  return {};
}

// What stands for an empty place in 'module'; kNoNode if it is truly empty.
Result<NodeId> ModelTree::whole_of(const std::string& name) {
  if (const Parameter* parameter = groups_.find(name)) {
    if (parameter->slots.empty()) return corrupt(fmt::format("parameter '{}' is stored nowhere", name));
    return joiner_->tensor_node(parameter->slots[0].second);
  }
  const auto frozen = frozen_.find(name);
  return frozen == frozen_.end() ? kNoNode : joiner_->tensor_node(frozen->second);
}

// Every rank has the buffers; who reads them compares.
Result<void> ModelTree::add_copies(const std::string& name, CheckpointJoiner::Number number, TensorId first) {
  const TensorInfo& info = model_file().tensors[first.index()];
  for (std::size_t rank = 1; rank < models_.size(); ++rank) {
    const CheckpointInfo& file = joiner_->stored(models_[rank]);
    const NodeId node = find_item(file.state, find_item(file.state, file.state.root, "module"), name);
    const TensorId stored = is_tensor(file.state, node) ? file.state.view(node).tensor : TensorId(0);
    if (!is_tensor(file.state, node) || file.tensors[stored.index()].shape != info.shape)
      return corrupt(fmt::format("'{}': tensor '{}' of shape {} is not in 'module', as it is in '{}'",
                                 joiner_->name(models_[rank]), name, to_string(info.shape), joiner_->name(models_[0])));
    TENPLEX_TRY(joiner_->add_box(number, DeviceId(rank), models_[rank], stored, Box::whole(info.shape),
                                 Dims::filled(info.shape.rank(), 0)));
  }
  // ZeRO-2 stores frozen parameters a second time.
  const auto again = frozen_parts_.find(name);
  if (again == frozen_parts_.end() || !is_tensor(model_file().state, again->second)) return {};
  return joiner_->add_box(number, DeviceId(0), models_[0], model_file().state.view(again->second).tensor,
                          Box::whole(info.shape), Dims::filled(info.shape.rank(), 0));
}

Result<void> ModelTree::add_module() {
  StateGraph graph = model_file().state;  // with a dict of the tensors that are really there
  const auto items = mapping_items(graph, item("module"));
  std::vector<NodeId> real;
  std::vector<Entry> entries;  // value: place in `real`, or kNoNode
  std::vector<TensorId> firsts;
  for (std::size_t at = 0; at + 1 < items->size(); at += 2) {
    const auto name = text_of(graph, (*items)[at]);
    const NodeId value = (*items)[at + 1];
    if (!name) return corrupt("'module' has a key that is no text");
    if (!is_tensor(graph, value)) continue;  // stays in common.model_states
    if (is_own_name(*name)) return unsupported(fmt::format("a parameter is called '{}'", *name));
    const TensorId stored = graph.view(value).tensor;
    const TensorInfo& info = model_file().tensors[stored.index()];
    const Parameter* parameter = groups_.find(*name);
    const bool empty = volume(info.shape) == 0;
    if (parameter != nullptr && !empty && info.shape != parameter->shape)
      return corrupt(fmt::format("parameter '{}' has shape {} in 'module' and {} in 'param_shapes'", *name,
                                 to_string(info.shape), to_string(parameter->shape)));
    entries.emplace_back(*name, empty ? kNoNode : static_cast<NodeId>(real.size()));
    firsts.push_back(stored);
    if (empty) continue;
    real.push_back((*items)[at]);
    real.push_back(value);
    TENPLEX_TRY(add_copies(std::string(*name), joiner_->stored_tensor(models_[0], stored, DeviceId(0)), stored));
  }
  const NodeId dict = graph.add_dict(std::move(real));
  const NodeId copied = joiner_->copy_state(models_[0], graph, dict, DeviceId(0));
  const std::vector<NodeId> values = joiner_->state()[copied].children;
  const NodeId shared = item("shared_params");
  std::map<std::string, NodeId> done;
  for (std::size_t at = 0; at < entries.size(); ++at) {
    auto& [name, value] = entries[at];
    if (value != kNoNode) {
      value = values[value + 1];
    } else {
      const auto same = text_of(graph, find_item(graph, shared, name));
      TENPLEX_ASSIGN_OR_RETURN(value, whole_of(same ? std::string(*same) : name));
      if (const auto tied = same ? done.find(std::string(*same)) : done.end(); tied != done.end() && value != kNoNode)
        joiner_->state().set_view(value, joiner_->state().view(tied->second));
      if (value == kNoNode) value = joiner_->tensor_node(joiner_->stored_tensor(models_[0], firsts[at], DeviceId(0)));
    }
    done.emplace(name, value);
    top_.emplace_back(name, value);
  }
  return {};
}

Result<void> ModelTree::check_complete() const {
  std::set<std::string_view> names;
  for (const auto& [name, node] : top_) names.insert(name);
  for (const Parameter& parameter : groups_.parameters())
    if (!names.contains(parameter.name))
      return corrupt(fmt::format("'{}': parameter '{}' is in 'param_shapes' and not in 'module'",
                                 joiner_->name(models_[0]), parameter.name));
  for (const auto& [name, number] : frozen_)
    if (!names.contains(name))
      return corrupt(fmt::format("'{}': frozen parameter '{}' is not in 'module'", joiner_->name(models_[0]), name));
  return {};
}

void ModelTree::add_slots() {
  for (const Parameter& parameter : groups_.parameters())
    for (const auto& [slot, number] : parameter.slots)
      top_.emplace_back(fmt::format("optimizer.state.{}.{}", slot, parameter.name), joiner_->tensor_node(number));
}

// Without the tensors that have names of their own.
void ModelTree::add_model_states() {
  StateGraph graph = model_file().state;
  const NodeId module = find_item(graph, graph.root, "module");
  std::vector<NodeId>& items = items_of(graph, module);
  std::vector<NodeId> objects;
  for (std::size_t at = 0; at + 1 < items.size(); at += 2)
    if (!is_tensor(graph, items[at + 1])) objects.insert(objects.end(), {items[at], items[at + 1]});
  items = std::move(objects);
  if (!frozen_.empty()) {
    const NodeId none = graph.add_none();
    set_item(graph, graph.root, kFrozenParts, none);
  }
  const NodeId kept = find_item(graph, graph.root, kCommonKey);
  remove_item(graph, graph.root, kCommonKey);
  common_.emplace(common_.begin(), "model_states", joiner_->copy_state(models_[0], graph, graph.root, DeviceId(0)));
  if (const auto entries = mapping_items(graph, kept))
    for (std::size_t at = 0; at + 1 < entries->size(); at += 2)
      common_.emplace_back(text_of(graph, (*entries)[at]).value_or(""),
                           joiner_->copy_state(models_[0], graph, (*entries)[at + 1], DeviceId(0)));
}

Result<std::unique_ptr<CheckpointReader>> ModelTree::finish(CheckpointInfo info) && {
  const auto named = [&](Error error) {
    return std::move(error).with_context(fmt::format("'{}'", joiner_->name(models_[0])));
  };
  TENPLEX_TRY(place_frozen());
  if (auto added = add_module(); !added) return named(std::move(added).error());
  TENPLEX_TRY(check_complete());
  add_slots();
  add_model_states();
  if (!of_ranks_.empty()) {
    std::vector<NodeId> ranks;
    std::map<std::int64_t, std::vector<Entry>> by_rank;
    for (auto& [rank, entries] : of_ranks_)
      for (Entry& entry : entries) by_rank[rank].push_back(std::move(entry));
    for (const auto& [rank, entries] : by_rank) {
      const NodeId value = dict_of(entries);
      ranks.insert(ranks.end(), {joiner_->state().add_int(rank), value});
    }
    common_.emplace_back("ranks", joiner_->state().add_dict(std::move(ranks)));
  }
  top_.emplace_back("common", dict_of(common_));
  return joiner_->finish(dict_of(top_), std::move(info));
}

}  // namespace tenplex::deepspeed
