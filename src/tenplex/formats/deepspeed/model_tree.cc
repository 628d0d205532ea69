// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/model_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "tenplex/base/checked.h"
#include "tenplex/base/counted.h"
#include "tenplex/formats/deepspeed/expert_names.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex::deepspeed {
namespace {

constexpr std::string_view kFrozenParts = "frozen_param_fragments";
// A rank whose file says otherwise belongs to another checkpoint.
constexpr std::array<std::string_view, 10> kSameOnAllRanks = {
    "shared_params", "buffer_names",  "skipped_steps", "global_steps", "global_samples",
    "dp_world_size", "mp_world_size", "ds_version",    "ds_config",    "universal_checkpoint_info"};
// What it says of a tensor parallel rank's part of the model.
constexpr std::array<std::string_view, 2> kOfPart = {"param_shapes", "frozen_param_shapes"};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

NodeId size_node(const Dims& shape, StateGraph* graph) {
  std::vector<NodeId> sizes;
  for (const std::int64_t size : shape) sizes.push_back(graph->add_int(size));
  const NodeId tuple = graph->add_tuple(std::move(sizes));
  ObjectParts parts;
  parts.callable = graph->add_global("torch", "Size");
  parts.arguments = graph->add_tuple({tuple});
  return graph->add_object(std::move(parts));
}

bool is_own_name(std::string_view name) { return name == "common" || name.starts_with("optimizer.state."); }

std::vector<std::string> keys_of(const StateGraph& graph, NodeId dict) {
  std::vector<std::string> keys;
  const auto items = mapping_items(graph, dict);
  for (std::size_t at = 0; items && at + 1 < items->size(); at += 2)
    keys.emplace_back(text_of(graph, (*items)[at]).value_or(""));
  return keys;
}

}  // namespace

Result<ModelTree> ModelTree::make(std::vector<std::vector<Part>> models, std::vector<Part> experts,
                                  CheckpointJoiner* joiner) {
  ModelTree tree(std::move(models), joiner);
  tree.experts_ = std::move(experts);
  for (std::size_t tensor_rank = 0; tensor_rank < tree.models_.size(); ++tensor_rank)
    for (std::size_t data_rank = 0; data_rank < tree.models_[tensor_rank].size(); ++data_rank) {
      const StateGraph& file = tree.graph(tensor_rank, data_rank);
      if (!is_dict(file, file.root) || !is_dict(file, find_item(file, file.root, "module")))
        return corrupt("there is no dict 'module'")
            .with_context(fmt::format("'{}'", joiner->name(tree.models_[tensor_rank][data_rank])));
    }
  TENPLEX_TRY(tree.compare_models());
  TENPLEX_TRY(tree.read_experts());
  TENPLEX_TRY(tree.read_groups());
  return tree;
}

// Every file has the parameters of one expert, and every layer all of its experts from 0 on.
Result<void> ModelTree::read_experts() {
  std::map<std::string, std::set<std::int64_t>> numbers;
  std::set<std::int64_t> layers;
  for (const Part part : experts_) {
    const StateGraph& file = joiner_->stored(part).state;
    const auto said = parse_expert_file(joiner_->name(part));
    const auto items = mapping_items(file, file.root);
    if (!items || items->empty() || !said)
      return corrupt(fmt::format("'{}' holds no dict of an expert's parameters", joiner_->name(part)));
    layers.insert(said->layer);
    for (std::size_t at = 0; at + 1 < items->size(); at += 2) {
      const auto text = text_of(file, (*items)[at]);
      const auto name = text ? parse_expert_name(*text) : std::nullopt;
      if (!name || name->expert != said->expert || !is_tensor(file, (*items)[at + 1]))
        return corrupt(fmt::format("'{}': '{}' is no parameter of expert {}", joiner_->name(part), text.value_or("?"),
                                   said->expert));
      numbers[std::string(name->layer)].insert(name->expert);
    }
  }
  for (const auto& [layer, found] : numbers) {
    const auto count = static_cast<std::int64_t>(found.size());
    if (*found.rbegin() + 1 != count)
      return corrupt(fmt::format("'{}': expert {} is there, and {} are there in all: one is missing", layer,
                                 *found.rbegin(), counted(found.size(), "expert")));
    experts_of_.emplace(layer, count);
  }
  // By layer in the order of the model, which is not that of their names.
  const auto said = list_items(model_file().state, item("num_experts"));
  if (!said || experts_.empty()) return {};
  std::int64_t all = 0;
  for (const NodeId count : *said) {
    const auto number = integer_of(model_file().state, count);
    if (!number || *number < 0 || __builtin_add_overflow(all, *number, &all))
      return corrupt(fmt::format("'{}': 'num_experts' is no list of numbers", joiner_->name(models_[0][0])));
  }
  if (all == static_cast<std::int64_t>(experts_.size()) && layers.size() == said->size()) return {};
  return corrupt(fmt::format("'{}': 'num_experts' says {} experts in {} layers, and there are {} files of experts",
                             joiner_->name(models_[0][0]), all, said->size(), experts_.size()));
}

Result<void> ModelTree::read_groups() {
  std::vector<ParameterGroups> groups;
  for (std::size_t rank = 0; rank < models_.size(); ++rank) {
    const StateGraph& file = graph(rank, 0);
    const auto name = [&] { return fmt::format("'{}'", joiner_->name(models_[rank][0])); };
    auto read = ParameterGroups::read(file, find_item(file, file.root, "param_shapes"));
    if (!read) return std::move(read).error().with_context(name());
    groups.push_back(std::move(*read));
  }
  const auto names = list_items(model_file().state, item("buffer_names"));
  for (std::size_t at = 0; names && at < names->size(); ++at)
    buffers_.emplace(text_of(model_file().state, (*names)[at]).value_or(""));
  if (models_.size() > 1) {
    const auto named = [&] { return fmt::format("'{}'", joiner_->name(models_[0][0])); };
    const NodeId info = item("universal_checkpoint_info");
    if (info == kNoNode || is_none(model_file().state, info))
      return unsupported(
                 "there is no 'universal_checkpoint_info', without which it is not known how the parts of parameters "
                 "on "
                 "tensor parallel ranks are put together: save with it in client_state")
          .with_context(named());
    auto rules = JoinRules::read(model_file().state, info).with_context("'universal_checkpoint_info'");
    if (!rules) return std::move(rules).error().with_context(named());
    rules_ = std::move(*rules);
  }
  if (!experts_.empty()) {
    auto spread = ParameterGroups::spread(std::move(groups[0]), experts_of_);
    if (!spread) return std::move(spread).error().with_context(fmt::format("'{}'", joiner_->name(models_[0][0])));
    groups[0] = std::move(*spread);
  }
  TENPLEX_ASSIGN_OR_RETURN(groups_, ParameterGroups::join(groups, &rules_));
  return {};
}

NodeId ModelTree::item(std::string_view key) const {
  return find_item(model_file().state, model_file().state.root, key);
}

Result<std::int64_t> ModelTree::data_ranks() const {
  const auto ranks = integer_of(model_file().state, item("dp_world_size"));
  if (ranks && *ranks > 0) return *ranks;
  return corrupt(fmt::format("'{}': 'dp_world_size' is no positive number", joiner_->name(models_[0][0])));
}

void ModelTree::add_of_rank(std::int64_t rank, std::string key, NodeId node) {
  if (of_ranks_.empty() || of_ranks_.back().first != rank) of_ranks_.emplace_back(rank, std::vector<Entry>());
  of_ranks_.back().second.emplace_back(std::move(key), node);
}

Result<void> ModelTree::compare_models() {
  const auto ranks = integer_of(model_file().state, item("mp_world_size"));
  if (models_.size() > 1 && ranks != static_cast<std::int64_t>(models_.size()))
    return corrupt(fmt::format("'{}': 'mp_world_size' is not {}, which is the number of tensor parallel ranks",
                               joiner_->name(models_[0][0]), models_.size()));
  const NodeId stages = find_item(model_file().state, item("checkpoint_parallel_dimensions"), "pp_degree");
  if (models_.size() > 1 && stages != kNoNode && integer_of(model_file().state, stages) != 1)
    return unsupported(fmt::format("'{}': 'pp_degree' is not 1, and checkpoints of a pipeline are not read",
                                   joiner_->name(models_[0][0])));
  for (std::size_t data_rank = 0; data_rank < models_[0].size(); ++data_rank)
    for (std::size_t tensor_rank = 0; tensor_rank < models_.size(); ++tensor_rank) {
      if (data_rank + tensor_rank == 0) continue;
      auto compared = compare_model(tensor_rank, data_rank);
      if (!compared)
        return std::move(compared).error().with_context(
            fmt::format("'{}'", joiner_->name(models_[tensor_rank][data_rank])));
    }
  return {};
}

Result<void> ModelTree::compare_model(std::size_t tensor_rank, std::size_t data_rank) {
  const StateGraph& other = graph(tensor_rank, data_rank);
  std::set<std::string> keys;
  for (const StateGraph* file : {&model_file().state, &other})
    for (std::string& key : keys_of(*file, file->root)) keys.insert(std::move(key));
  std::vector<Entry> kept;
  for (const std::string& key : keys) {
    if (key == "module" || key == kFrozenParts) continue;
    // Those are of the tensor parallel rank's part.
    const bool of_part = is_one_of(kOfPart, key);
    if (of_part && data_rank == 0) continue;
    const Part beside = models_[of_part ? tensor_rank : 0][0];
    const StateGraph& first = joiner_->stored(beside).state;
    const NodeId one = find_item(first, first.root, key);
    const NodeId two = find_item(other, other.root, key);
    if (one == kNoNode && two == kNoNode) return corrupt("it has keys that are no text");
    if (one != kNoNode && two != kNoNode && equal_objects(first, one, other, two)) continue;
    if (of_part || is_one_of(kSameOnAllRanks, key))
      return corrupt(
          fmt::format("'{}' is not that of '{}': the files are not of one checkpoint", key, joiner_->name(beside)));
    const DeviceId rank = device(tensor_rank, data_rank);
    if (two != kNoNode) kept.emplace_back(key, joiner_->copy_state(models_[tensor_rank][data_rank], other, two, rank));
  }
  if (!kept.empty()) add_of_rank(device(tensor_rank, data_rank).value(), "model_states", dict_of(kept));
  return {};
}

std::optional<TensorId> ModelTree::tensor_in(std::string_view dict, std::string_view name, std::size_t tensor_rank,
                                             std::size_t data_rank) const {
  const StateGraph& file = graph(tensor_rank, data_rank);
  const NodeId node = find_item(file, find_item(file, file.root, dict), name);
  if (!is_tensor(file, node)) return std::nullopt;
  return file.view(node).tensor;
}

Result<JoinedShape> ModelTree::join(const std::string& name, const std::vector<Dims>& local) {
  const bool buffer = buffers_.contains(name) || local[0].rank() == 0;
  return rules_.join(name, local, buffer ? JoinRules::Subject::kBuffer : JoinRules::Subject::kParameter)
      .with_context(fmt::format("tensor '{}'", name));
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

Result<std::vector<std::vector<std::pair<std::string, Dims>>>> ModelTree::frozen_shapes() const {
  std::vector<std::vector<std::pair<std::string, Dims>>> shapes;
  for (std::size_t rank = 0; rank < models_.size(); ++rank) {
    const StateGraph& file = graph(rank, 0);
    auto read = read_shapes(file, find_item(file, file.root, "frozen_param_shapes"))
                    .with_context("'frozen_param_shapes'")
                    .with_context(fmt::format("'{}'", joiner_->name(models_[rank][0])));
    if (!read) return std::move(read).error();
    shapes.push_back(std::move(*read));
    const auto same_name = [](const auto& a, const auto& b) { return a.first == b.first; };
    if (!std::equal(shapes[0].begin(), shapes[0].end(), shapes[rank].begin(), shapes[rank].end(), same_name))
      return corrupt(fmt::format("'{}': 'frozen_param_shapes' has other names than in '{}'",
                                 joiner_->name(models_[rank][0]), joiner_->name(models_[0][0])));
  }
  return shapes;
}

// ZeRO-3: like the trained ones, ceil(elements / ranks) on every rank.
Result<void> ModelTree::place_frozen() {
  if (!is_dict(model_file().state, item(kFrozenParts))) return {};
  TENPLEX_ASSIGN_OR_RETURN(const auto shapes, frozen_shapes());
  for (std::size_t index = 0; index < shapes[0].size(); ++index) {
    std::vector<Dims> local;
    for (const auto& rank : shapes) local.push_back(rank[index].second);
    TENPLEX_TRY(place_frozen(shapes[0][index].first, local));
  }
  return {};
}

Result<void> ModelTree::place_frozen(const std::string& name, const std::vector<Dims>& local) {
  TENPLEX_ASSIGN_OR_RETURN(const JoinedShape joined, join(name, local));
  CheckpointJoiner::Number number = 0;
  for (std::size_t tensor_rank = 0; tensor_rank < models_.size(); ++tensor_rank) {
    const Dims& shape = local[tensor_rank];
    const auto ranks = static_cast<std::int64_t>(models_[tensor_rank].size());
    const std::int64_t elements = volume(shape);
    const std::int64_t part = ceil_div(elements, ranks);
    for (std::size_t rank = 0; rank < models_[tensor_rank].size(); ++rank) {
      const Part file = models_[tensor_rank][rank];
      const auto bad = [&](std::string_view why) {
        return corrupt(fmt::format("'{}': frozen parameter '{}' of shape {} {}", joiner_->name(file), name,
                                   to_string(shape), why));
      };
      const auto stored = tensor_in(kFrozenParts, name, tensor_rank, rank);
      if (!stored) return bad("has no part here");
      const TensorInfo& info = joiner_->stored(file).tensors[stored->index()];
      if (tensor_rank + rank == 0) {
        TENPLEX_ASSIGN_OR_RETURN(number, joiner_->add_tensor(name, info.dtype, joined.shape));
        frozen_.emplace(name, number);
      }
      if (elements == 0) continue;
      if (ranks == 1 && info.shape == shape) {
        TENPLEX_TRY(joiner_->add_part(number, device(tensor_rank, rank), file, *stored, joined.parts[tensor_rank]));
        continue;
      }
      if (info.shape != Dims{part})
        return bad(fmt::format("has a part of shape {}, expected [{}]", to_string(info.shape), part));
      const std::int64_t from = std::min(elements, static_cast<std::int64_t>(rank) * part);
      TENPLEX_TRY(joiner_->add_run(number, device(tensor_rank, rank),
                                   {file, *stored, 0, from, std::min(elements, from + part)},
                                   joined.parts[tensor_rank]));
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

Result<std::optional<CheckpointJoiner::Number>> ModelTree::module_tensor(const std::string& name) {
  if (const auto known = module_.find(name); known != module_.end()) return std::optional(known->second);
  const auto first = tensor_in("module", name, 0, 0);
  if (!first || volume(model_file().tensors[first->index()].shape) == 0)
    return std::optional<CheckpointJoiner::Number>();
  std::vector<Dims> local;
  for (std::size_t rank = 0; rank < models_.size(); ++rank) {
    const auto stored = tensor_in("module", name, rank, 0);
    if (!stored)
      return corrupt(fmt::format("'{}': tensor '{}' is not in 'module', as it is in '{}'",
                                 joiner_->name(models_[rank][0]), name, joiner_->name(models_[0][0])));
    local.push_back(joiner_->stored(models_[rank][0]).tensors[stored->index()].shape);
  }
  TENPLEX_ASSIGN_OR_RETURN(JoinedShape joined, join(name, local));
  CheckpointJoiner::Number number = 0;
  if (models_.size() == 1) {
    number = joiner_->stored_tensor(models_[0][0], *first, DeviceId(0));
  } else {
    TENPLEX_ASSIGN_OR_RETURN(number,
                             joiner_->add_tensor(name, model_file().tensors[first->index()].dtype, joined.shape));
  }
  joined_.emplace(name, std::move(joined));
  module_.emplace(name, number);
  TENPLEX_TRY(add_copies(name, number));
  return std::optional(number);
}

// Every data parallel rank has the buffers; who reads them compares.
Result<void> ModelTree::add_copies(const std::string& name, CheckpointJoiner::Number number) {
  const JoinedShape& joined = joined_.find(name)->second;
  for (std::size_t tensor_rank = 0; tensor_rank < models_.size(); ++tensor_rank) {
    const LocalPart& local = joined.parts[tensor_rank];
    for (std::size_t rank = 0; rank < models_[tensor_rank].size(); ++rank) {
      const Part file = models_[tensor_rank][rank];
      if (models_.size() == 1 && rank == 0) continue;
      const auto stored = tensor_in("module", name, tensor_rank, rank);
      if (!stored || joiner_->stored(file).tensors[stored->index()].shape != local.shape)
        return corrupt(fmt::format("'{}': tensor '{}' of shape {} is not in 'module', as it is in '{}'",
                                   joiner_->name(file), name, to_string(local.shape),
                                   joiner_->name(models_[tensor_rank][0])));
      TENPLEX_TRY(joiner_->add_part(number, device(tensor_rank, rank), file, *stored, local));
    }
    // ZeRO-2 stores frozen parameters a second time.
    if (const auto again = tensor_in(kFrozenParts, name, tensor_rank, 0))
      TENPLEX_TRY(joiner_->add_part(number, device(tensor_rank, 0), models_[tensor_rank][0], *again, local));
  }
  return {};
}

// What was one tensor in the file is one still.
NodeId ModelTree::joined_node(CheckpointJoiner::Number number, TensorId first) {
  const auto [known, added] = nodes_.try_emplace(first, kNoNode);
  const NodeId node = joiner_->tensor_node(number);
  if (added) {
    known->second = node;
  } else if (joiner_->shape(number) == joiner_->shape(static_cast<CheckpointJoiner::Number>(
                                           joiner_->state().view(known->second).tensor.index()))) {
    joiner_->state().set_view(node, joiner_->state().view(known->second));
  }
  return node;
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
    TENPLEX_ASSIGN_OR_RETURN(const auto number, module_tensor(std::string(*name)));
    const Parameter* parameter = groups_.find(*name);
    if (parameter != nullptr && number) {
      const JoinedShape& joined = joined_.find(std::string(*name))->second;
      for (std::size_t rank = 0; rank < models_.size(); ++rank)
        if (joined.parts[rank].shape != parameter->parts[rank].shape)
          return corrupt(fmt::format("parameter '{}' has shape {} in 'module' and {} in 'param_shapes'", *name,
                                     to_string(joined.parts[rank].shape), to_string(parameter->parts[rank].shape)));
    }
    entries.emplace_back(*name, number ? static_cast<NodeId>(real.size()) : kNoNode);
    firsts.push_back(stored);
    if (!number) continue;
    real.push_back((*items)[at]);
    real.push_back(value);
  }
  std::vector<NodeId> values;
  if (models_.size() == 1) {
    const NodeId dict = graph.add_dict(std::move(real));
    const NodeId copied = joiner_->copy_state(models_[0][0], graph, dict, DeviceId(0));
    values = joiner_->state()[copied].children;
  }
  const NodeId shared = item("shared_params");
  std::map<std::string, NodeId> done;
  for (std::size_t at = 0; at < entries.size(); ++at) {
    auto& [name, value] = entries[at];
    if (value != kNoNode) {
      value = models_.size() == 1 ? values[value + 1] : joined_node(module_.at(name), firsts[at]);
    } else {
      const auto same = text_of(graph, find_item(graph, shared, name));
      TENPLEX_ASSIGN_OR_RETURN(value, whole_of(same ? std::string(*same) : name));
      if (const auto tied = same ? done.find(std::string(*same)) : done.end(); tied != done.end() && value != kNoNode)
        joiner_->state().set_view(value, joiner_->state().view(tied->second));
      if (value == kNoNode)
        value = joiner_->tensor_node(joiner_->stored_tensor(models_[0][0], firsts[at], DeviceId(0)));
    }
    done.emplace(name, value);
    top_.emplace_back(name, value);
  }
  return {};
}

// Under their names, after the rest of 'module'.
Result<void> ModelTree::add_experts() {
  std::set<std::string, std::less<>> names;
  for (const Part part : experts_) {
    const CheckpointInfo& file = joiner_->stored(part);
    const auto items = mapping_items(file.state, file.state.root);
    for (std::size_t at = 0; at + 1 < items->size(); at += 2) {
      const std::string name(text_of(file.state, (*items)[at]).value_or(""));
      const TensorId stored = file.state.view((*items)[at + 1]).tensor;
      const Dims& shape = file.tensors[stored.index()].shape;
      const Parameter* parameter = groups_.find(name);
      if (parameter != nullptr && parameter->shape != shape)
        return corrupt(fmt::format("'{}': parameter '{}' has shape {}, and {} in 'param_shapes'", joiner_->name(part),
                                   name, to_string(shape), to_string(parameter->shape)));
      if (!names.insert(name).second || find_item(model_file().state, item("module"), name) != kNoNode)
        return corrupt(fmt::format("'{}': parameter '{}' is in another file too", joiner_->name(part), name));
      top_.emplace_back(name, joiner_->tensor_node(joiner_->stored_tensor(part, stored, DeviceId(0))));
    }
  }
  return {};
}

Result<void> ModelTree::check_complete() const {
  std::set<std::string_view> names;
  for (const auto& [name, node] : top_) names.insert(name);
  for (const Parameter& parameter : groups_.parameters())
    if (!names.contains(parameter.name))
      return corrupt(fmt::format("'{}': parameter '{}' is in 'param_shapes' and not in 'module'",
                                 joiner_->name(models_[0][0]), parameter.name));
  for (const auto& [name, number] : frozen_)
    if (!names.contains(name))
      return corrupt(fmt::format("'{}': frozen parameter '{}' is not in 'module'", joiner_->name(models_[0][0]), name));
  return {};
}

void ModelTree::add_slots() {
  for (const Parameter& parameter : groups_.parameters())
    for (const auto& [slot, number] : parameter.slots)
      top_.emplace_back(fmt::format("optimizer.state.{}.{}", slot, parameter.name), joiner_->tensor_node(number));
}

// Of frozen_param_shapes.
void ModelTree::put_shapes(StateGraph* graph, NodeId dict) const {
  if (!is_dict(*graph, dict)) return;
  const std::vector<NodeId> items = items_of(*graph, dict);
  for (std::size_t at = 0; at + 1 < items.size(); at += 2) {
    const std::string name(text_of(*graph, items[at]).value_or(""));
    const auto joined = joined_.find(name);
    const auto frozen = frozen_.find(name);
    if (joined == joined_.end() && frozen == frozen_.end()) continue;
    const Dims shape = joined == joined_.end() ? joiner_->shape(frozen->second) : joined->second.shape;
    const NodeId size = size_node(shape, graph);
    items_of(*graph, dict)[at + 1] = size;
  }
}

// What of the model's states is of a part of it becomes what it would be of the whole.
void ModelTree::say_whole(StateGraph* graph) const {
  const auto groups = list_items(*graph, find_item(*graph, graph->root, "param_shapes"));
  if (groups) {
    const std::vector<NodeId> dicts(groups->begin(), groups->end());
    for (std::size_t group = 0; group < dicts.size() && is_dict(*graph, dicts[group]); ++group) {
      std::vector<NodeId> items;
      for (std::size_t index = groups_.first_of(group); index < groups_.first_of(group + 1); ++index) {
        const Parameter& parameter = groups_.parameters()[index];
        items.push_back(graph->add_string(parameter.name));
        items.push_back(size_node(parameter.shape, graph));
      }
      items_of(*graph, dicts[group]) = std::move(items);
    }
  }
  put_shapes(graph, find_item(*graph, graph->root, "frozen_param_shapes"));
  const NodeId one = graph->add_int(1);
  set_item(*graph, graph->root, "mp_world_size", one);
  const NodeId dimensions = find_item(*graph, graph->root, "checkpoint_parallel_dimensions");
  if (is_dict(*graph, dimensions)) set_item(*graph, dimensions, "tp_degree", one);
}

// Without the tensors that have names of their own.
void ModelTree::add_model_states() {
  StateGraph graph = model_file().state;
  if (models_.size() > 1 || !experts_.empty()) say_whole(&graph);
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
  common_.emplace(common_.begin(), "model_states", joiner_->copy_state(models_[0][0], graph, graph.root, DeviceId(0)));
  if (const auto entries = mapping_items(graph, kept))
    for (std::size_t at = 0; at + 1 < entries->size(); at += 2)
      common_.emplace_back(text_of(graph, (*entries)[at]).value_or(""),
                           joiner_->copy_state(models_[0][0], graph, (*entries)[at + 1], DeviceId(0)));
}

Result<std::unique_ptr<CheckpointReader>> ModelTree::finish(CheckpointInfo info) && {
  const auto named = [&](Error error) {
    return std::move(error).with_context(fmt::format("'{}'", joiner_->name(models_[0][0])));
  };
  TENPLEX_TRY(place_frozen());
  if (auto added = add_module(); !added) return named(std::move(added).error());
  TENPLEX_TRY(add_experts());
  TENPLEX_TRY(check_complete());
  if (models_.size() > 1)
    if (auto used = rules_.check_used(); !used) return named(std::move(used).error());
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
