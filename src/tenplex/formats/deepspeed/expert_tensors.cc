// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/expert_tensors.h"

#include <fmt/format.h>

#include <set>

#include "tenplex/base/counted.h"
#include "tenplex/formats/deepspeed/expert_names.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex::deepspeed {

Result<ExpertTensors> ExpertTensors::read(std::vector<CheckpointJoiner::Part> parts, const ModelFiles& files,
                                          const CheckpointJoiner& joiner) {
  ExpertTensors experts;
  experts.parts_ = std::move(parts);
  std::map<std::string, std::set<std::int64_t>> numbers;
  std::set<std::int64_t> layers;
  for (const CheckpointJoiner::Part part : experts.parts_) {
    const StateGraph& file = joiner.stored(part).state;
    const auto said = parse_expert_file(joiner.name(part));
    const auto items = mapping_items(file, file.root);
    if (!items || items->empty() || !said)
      return corrupt(fmt::format("'{}' holds no dict of an expert's parameters", joiner.name(part)));
    layers.insert(said->layer);
    for (std::size_t at = 0; at + 1 < items->size(); at += 2) {
      const auto text = text_of(file, (*items)[at]);
      const auto name = text ? parse_expert_name(*text) : std::nullopt;
      if (!name || name->expert != said->expert || !is_tensor(file, (*items)[at + 1]))
        return corrupt(fmt::format("'{}': '{}' is no parameter of expert {}", joiner.name(part), text.value_or("?"),
                                   said->expert));
      numbers[std::string(name->layer)].insert(name->expert);
    }
  }
  for (const auto& [layer, found] : numbers) {
    const auto count = static_cast<std::int64_t>(found.size());
    if (*found.rbegin() + 1 != count)
      return corrupt(fmt::format("'{}': expert {} is there, and {} are there in all: one is missing", layer,
                                 *found.rbegin(), counted(found.size(), "expert")));
    experts.experts_of_.emplace(layer, count);
  }
  TENPLEX_TRY(experts.check_count(layers.size(), files));
  return experts;
}

// 'num_experts' has them by layer in the order of the model, which is not that of their names.
Result<void> ExpertTensors::check_count(std::size_t layers, const ModelFiles& files) const {
  const StateGraph& file = files.first().state;
  const auto said = list_items(file, files.item("num_experts"));
  if (!said || parts_.empty()) return {};
  std::int64_t all = 0;
  for (const NodeId count : *said) {
    const auto number = integer_of(file, count);
    if (!number || *number < 0 || __builtin_add_overflow(all, *number, &all))
      return corrupt(fmt::format("{}: 'num_experts' is no list of numbers", files.quoted(0, 0)));
  }
  if (all == static_cast<std::int64_t>(parts_.size()) && layers == said->size()) return {};
  return corrupt(fmt::format("{}: 'num_experts' says {} experts in {} layers, and there are {} files of experts",
                             files.quoted(0, 0), all, said->size(), parts_.size()));
}

Result<void> ExpertTensors::add_to(const ParameterGroups& groups, const ModelFiles& files, CheckpointJoiner* joiner,
                                   std::vector<NamedNode>* top) const {
  std::set<std::string, std::less<>> names;
  for (const CheckpointJoiner::Part part : parts_) {
    const CheckpointInfo& file = joiner->stored(part);
    const auto items = mapping_items(file.state, file.state.root);
    for (std::size_t at = 0; at + 1 < items->size(); at += 2) {
      const std::string name(text_of(file.state, (*items)[at]).value_or(""));
      const TensorId stored = file.state.view((*items)[at + 1]).tensor;
      const Dims& shape = file.tensors[stored.index()].shape;
      const Parameter* parameter = groups.find(name);
      if (parameter != nullptr && parameter->shape != shape)
        return corrupt(fmt::format("'{}': parameter '{}' has shape {}, and {} in 'param_shapes'", joiner->name(part),
                                   name, to_string(shape), to_string(parameter->shape)));
      if (!names.insert(name).second || find_item(files.first().state, files.item("module"), name) != kNoNode)
        return corrupt(fmt::format("'{}': parameter '{}' is in another file too", joiner->name(part), name));
      top->emplace_back(name, joiner->tensor_node(joiner->stored_tensor(part, stored, DeviceId(0))));
    }
  }
  return {};
}

}  // namespace tenplex::deepspeed
