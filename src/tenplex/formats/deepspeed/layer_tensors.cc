// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/layer_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "tenplex/formats/deepspeed/layer_names.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex::deepspeed {

LayerTensors::LayerTensors(ModelParts* parts, std::vector<LayerParts> layers, CheckpointJoiner* joiner)
    : parts_(*parts), layers_(std::move(layers)), joiner_(*joiner) {
  const auto note = [&](std::string_view whole) {
    const auto name = parse_layer_name(whole);
    if (!name) return;
    if (name->tied()) {
      tied_names_[std::string(name->module)].emplace_back(name->rest);
    } else {
      own_names_[name->layer].emplace_back(name->rest);
    }
  };
  for (const Parameter& parameter : parts_.groups().parameters()) note(parameter.name);
  for (const std::string& buffer : parts_.buffers()) note(buffer);
  first_layers_.assign(parts_.files().mesh().stages, std::numeric_limits<std::int64_t>::max());
  for (std::size_t stage = 0; stage < first_layers_.size(); ++stage)
    for (const Parameter& parameter : parts_.stage_groups(stage).parameters()) {
      const auto name = parse_layer_name(parameter.name);
      if (name && !name->tied()) first_layers_[stage] = std::min(first_layers_[stage], name->layer);
    }
}

std::string LayerTensors::quoted(const LayerParts& layer) const {
  return fmt::format("'{}'", joiner_.name(layer.parts[0]));
}

// The last stage that does not begin after the layer.
DeviceId LayerTensors::device(const LayerParts& layer, std::size_t tensor_rank) const {
  std::size_t stage = 0;
  for (std::size_t later = 1; later < first_layers_.size(); ++later)
    if (first_layers_[later] <= layer.layer) stage = later;
  const RankMesh& mesh = parts_.files().mesh();
  return mesh.device(stage * mesh.tensor_ranks + tensor_rank, 0);
}

// A dict with names, the same on all tensor parallel ranks.
Result<void> LayerTensors::check_keys(const LayerParts& layer) const {
  const StateGraph& first = graph(layer.parts[0]);
  const auto items = mapping_items(first, first.root);
  for (const CheckpointJoiner::Part part : layer.parts) {
    const StateGraph& file = graph(part);
    const auto others = mapping_items(file, file.root);
    if (!items || !others) return corrupt(fmt::format("'{}' holds no dict of a layer's tensors", joiner_.name(part)));
    bool same = items->size() == others->size();
    for (std::size_t at = 0; same && at + 1 < items->size(); at += 2) {
      const auto name = text_of(first, (*items)[at]);
      if (!name) return corrupt(fmt::format("'{}' has a key that is no text", joiner_.name(part)));
      same = name == text_of(file, (*others)[at]) &&
             is_tensor(first, (*items)[at + 1]) == is_tensor(file, (*others)[at + 1]);
    }
    if (!same) return corrupt(fmt::format("'{}' has other names than {}", joiner_.name(part), quoted(layer)));
  }
  return {};
}

bool LayerTensors::is_of_module(const LayerParts& layer, std::string_view key,
                                const std::vector<std::string>& names) const {
  const auto fits = [&](const std::string& rest) {
    const Parameter* parameter = parts_.groups().find(fmt::format("tied_modules.{}.{}", key, rest));
    for (std::size_t rank = 0; rank < layer.parts.size(); ++rank) {
      const CheckpointInfo& file = joiner_.stored(layer.parts[rank]);
      const NodeId node = find_item(file.state, file.state.root, rest);
      if (!is_tensor(file.state, node)) return false;
      const Dims& shape = file.tensors[file.state.view(node).tensor.index()].shape;
      if (parameter != nullptr && parameter->parts[rank].shape != shape) return false;
    }
    return true;
  };
  return std::all_of(names.begin(), names.end(), fits);
}

// What stands before the layer's names in the whole model.
Result<std::string> LayerTensors::prefix_of(const LayerParts& layer) const {
  const std::string own = fmt::format("{}.", layer.layer);
  if (own_names_.contains(layer.layer)) return own;
  std::vector<std::string_view> modules;
  for (const auto& [key, names] : tied_names_)
    if (is_of_module(layer, key, names)) modules.push_back(key);
  if (modules.size() > 1)
    return unsupported(
        fmt::format("{} may be of the tied modules '{}' and '{}', whose parameters have the same names "
                    "and shapes: which of them the layer uses is in no file",
                    quoted(layer), modules[0], modules[1]));
  if (!modules.empty()) return fmt::format("tied_modules.{}.", modules[0]);
  // A layer that is frozen as a whole is in no list of names. After the last one that is, it is one too many.
  if (!parts_.groups().parameters().empty() && (own_names_.empty() || layer.layer > own_names_.rbegin()->first))
    return corrupt(
        fmt::format("{}: no parameter or buffer of layer {} is in 'param_shapes' or 'buffer_names' of any "
                    "stage, and the last layer that is in them is {}: the file is one too many, or of "
                    "another model",
                    quoted(layer), layer.layer, own_names_.empty() ? -1 : own_names_.rbegin()->first));
  return own;
}

Result<void> LayerTensors::add_tensor(const LayerParts& layer, const std::string& name, std::size_t item,
                                      NodeId copied) {
  if (is_own_name(name)) return unsupported(fmt::format("a parameter is called '{}'", name));
  const Parameter* parameter = parts_.groups().find(name);
  std::vector<Dims> local;
  local.reserve(layer.parts.size());
  std::vector<TensorId> stored;
  stored.reserve(layer.parts.size());
  for (const CheckpointJoiner::Part part : layer.parts) {
    const StateGraph& file = graph(part);
    stored.push_back(file.view((*mapping_items(file, file.root))[item]).tensor);
    local.push_back(joiner_.stored(part).tensors[stored.back().index()].shape);
    if (parameter != nullptr && parameter->parts[local.size() - 1].shape != local.back())
      return corrupt(fmt::format("'{}': parameter '{}' has shape {}, and {} in 'param_shapes'", joiner_.name(part),
                                 name, to_string(local.back()), to_string(parameter->parts[local.size() - 1].shape)));
  }
  TENPLEX_ASSIGN_OR_RETURN(const JoinedShape joined, parts_.join(name, local));
  const auto known = numbers_.find(name);
  const bool first = known == numbers_.end();
  CheckpointJoiner::Number number = first ? 0 : known->second;
  if (first && copied != kNoNode) {
    number = static_cast<CheckpointJoiner::Number>(joiner_.state().view(copied).tensor.index());
    entries_.emplace_back(name, copied);
  } else if (first) {
    const DType dtype = joiner_.stored(layer.parts[0]).tensors[stored[0].index()].dtype;
    TENPLEX_ASSIGN_OR_RETURN(number, joiner_.add_tensor(name, dtype, joined.shape));
    entries_.emplace_back(name, joiner_.tensor_node(number));
  } else if (joiner_.shape(number) != joined.shape) {
    return corrupt(fmt::format("{}: '{}' of a tied module has shape {}, and {} in the file of another layer",
                               quoted(layer), name, to_string(joined.shape), to_string(joiner_.shape(number))));
  }
  numbers_.emplace(name, number);
  if (first ? copied != kNoNode : parts_.is_of_first_stage(name)) return {};
  for (std::size_t rank = 0; rank < layer.parts.size(); ++rank)
    TENPLEX_TRY(joiner_.add_part(number, device(layer, rank), layer.parts[rank], stored[rank], joined.parts[rank]));
  return {};
}

Result<void> LayerTensors::add_layer(const LayerParts& layer, const std::string& prefix) {
  const CheckpointJoiner::Part part = layer.parts[0];
  StateGraph file = graph(part);  // with a dict of the tensors that are new
  const std::vector<NodeId> items = items_of(file, file.root);
  std::vector<NodeId> fresh;
  fresh.reserve(items.size());
  std::set<std::string> added;
  for (std::size_t at = 0; at + 1 < items.size(); at += 2) {
    const std::string name = fmt::format("{}{}", prefix, text_of(file, items[at]).value_or(""));
    if (is_tensor(file, items[at + 1]) && !numbers_.contains(name) && added.insert(name).second)
      fresh.insert(fresh.end(), {items[at], items[at + 1]});
  }
  // On one tensor parallel rank a tensor is as it is stored, and shares what it shares there.
  NodeId copied = kNoNode;
  if (layer.parts.size() == 1) {
    const NodeId dict = file.add_dict(std::move(fresh));
    copied = joiner_.copy_state(part, file, dict, device(layer, 0));
  }
  std::size_t next = 1;  // value in the copied dict
  for (std::size_t at = 0; at + 1 < items.size(); at += 2) {
    const std::string name = fmt::format("{}{}", prefix, text_of(file, items[at]).value_or(""));
    if (!is_tensor(file, items[at + 1])) {
      objects_.emplace_back(name, joiner_.copy_state(part, file, items[at + 1], device(layer, 0)));
      continue;
    }
    NodeId node = kNoNode;
    if (copied != kNoNode && !numbers_.contains(name)) {
      node = joiner_.state()[copied].children[next];
      next += 2;
    }
    TENPLEX_TRY(add_tensor(layer, name, at + 1, node));
  }
  return {};
}

// What is in no file is of a tied module that no layer uses as it is, or its layer's file is missing.
Result<void> LayerTensors::check_complete() const {
  const auto lacks = [](std::int64_t layer, std::string_view rest, std::string_view list) {
    return corrupt(
        fmt::format("'{}.{}' is in '{}', and no file of layer {} has it: 'layer_{:02}-…model_states.pt' is "
                    "missing or of another model",
                    layer, rest, list, layer, layer));
  };
  for (const auto& [layer, names] : own_names_)
    for (const std::string& rest : names) {
      const std::string name = fmt::format("{}.{}", layer, rest);
      if (numbers_.contains(name)) continue;
      return lacks(layer, rest, parts_.buffers().contains(name) ? "buffer_names" : "param_shapes");
    }
  return {};
}

Result<void> LayerTensors::add_to(std::vector<NamedNode>* top, std::vector<NamedNode>* objects) {
  for (const LayerParts& layer : layers_) {
    TENPLEX_TRY(check_keys(layer));
    TENPLEX_ASSIGN_OR_RETURN(const std::string prefix, prefix_of(layer));
    TENPLEX_TRY(add_layer(layer, prefix));
  }
  if (!layers_.empty()) TENPLEX_TRY(check_complete());
  for (const Parameter& parameter : parts_.groups().parameters()) {
    if (numbers_.contains(parameter.name)) continue;
    if (!layers_.empty() && !parse_layer_name(parameter.name))
      return corrupt(fmt::format("parameter '{}' of 'param_shapes' is of no layer", parameter.name));
    if (parameter.slots.empty()) return corrupt(fmt::format("parameter '{}' is stored nowhere", parameter.name));
    entries_.emplace_back(parameter.name, joiner_.tensor_node(parameter.slots[0].second));
  }
  top->insert(top->end(), entries_.begin(), entries_.end());
  objects->insert(objects->end(), objects_.begin(), objects_.end());
  return {};
}

}  // namespace tenplex::deepspeed
