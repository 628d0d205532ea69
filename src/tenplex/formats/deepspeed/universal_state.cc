// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/universal_state.h"

#include <fmt/format.h>

#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "tenplex/formats/deepspeed/parameter_groups.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex::deepspeed {
namespace {

Error missing(std::string_view what) {
  return unsupported(fmt::format(
      "a universal checkpoint needs '{}', which the source does not have: DeepSpeed would not load it", what));
}

class StateFinder {
 public:
  StateFinder(const StateGraph& graph, std::span<const TensorInfo> tensors) : graph_(graph), tensors_(tensors) {}

  Result<UniversalState> run() {
    TENPLEX_TRY(sort_entries());
    TENPLEX_TRY(check_common());
    auto groups = ParameterGroups::read(graph_, find_item(graph_, found_.model_states, "param_shapes"));
    if (!groups) return std::move(groups).error();
    TENPLEX_TRY(add_parameters(*groups));
    if (!steps_.empty()) return stray_slot(kStepSlot, steps_.begin()->first);
    if (slots_.empty()) return std::move(found_);
    const auto& [name, slots] = *slots_.begin();
    return stray_slot(slots[0].file == kMasterFile ? kMasterSlot : slots[0].file, name);
  }

 private:
  static Error stray_slot(std::string_view slot, std::string_view name) {
    return unsupported(
        fmt::format("'optimizer.state.{}.{}' is of no parameter in 'common.model_states.param_shapes'", slot, name));
  }

  Result<void> sort_entries() {
    const auto items = mapping_items(graph_, graph_.root);
    if (!items) return missing("common.model_states");
    for (std::size_t at = 0; at + 1 < items->size(); at += 2) {
      const auto key = text_of(graph_, (*items)[at]);
      const NodeId value = (*items)[at + 1];
      if (!key) return unsupported("a universal checkpoint has no place for a key that is no text");
      if (*key == "common") {
        common_ = value;
      } else if (!is_tensor(graph_, value)) {
        return unsupported(fmt::format("a universal checkpoint has no place for '{}', which is no tensor", *key));
      } else if (key->starts_with(kSlotStart)) {
        TENPLEX_TRY(add_slot(*key, value));
      } else {
        found_.model.emplace_back(*key, value);
        model_.emplace(*key, value);
      }
    }
    return {};
  }

  Result<void> add_slot(std::string_view key, NodeId value) {
    const std::string_view rest = key.substr(kSlotStart.size());
    const std::size_t dot = rest.find('.');
    if (dot == 0 || dot == std::string_view::npos || dot + 1 == rest.size())
      return unsupported(fmt::format("'{}' is no name of an optimizer's slot: optimizer.state.SLOT.PARAMETER", key));
    const std::string_view slot = rest.substr(0, dot);
    if (slot == kStepSlot && tensors_[graph_.view(value).tensor.index()].shape.empty()) {
      steps_.emplace(rest.substr(dot + 1), value);
      return {};
    }
    if (slot == kMasterFile || slot == kStepSlot || slot.find('/') != std::string_view::npos)
      return unsupported(fmt::format("'{}': a universal checkpoint has another use for '{}.pt'", key, slot));
    slots_[std::string(rest.substr(dot + 1))].push_back({std::string(slot == kMasterSlot ? kMasterFile : slot), value});
    return {};
  }

  Result<void> check_common() {
    found_.model_states = find_item(graph_, common_, "model_states");
    found_.optimizer_state = find_item(graph_, common_, "optimizer_state");
    if (!is_dict(graph_, found_.model_states)) return missing("common.model_states");
    for (const std::string_view key :
         {"module", "param_shapes", "dp_world_size", "mp_world_size", "global_steps", "skipped_steps", "ds_version"})
      if (find_item(graph_, found_.model_states, key) == kNoNode)
        return missing(fmt::format("common.model_states.{}", key));
    if (!is_dict(graph_, find_item(graph_, found_.model_states, "module")))
      return missing("common.model_states.module");
    if (!is_dict(graph_, found_.optimizer_state)) return missing("common.optimizer_state");
    base_ = find_item(graph_, found_.optimizer_state, "optimizer_state_dict");
    for (const std::string_view key : {"state", "param_groups"})
      if (find_item(graph_, base_, key) == kNoNode)
        return missing(fmt::format("common.optimizer_state.optimizer_state_dict.{}", key));
    const auto items = mapping_items(graph_, common_);
    for (std::size_t at = 0; at + 1 < items->size(); at += 2) {
      const auto key = text_of(graph_, (*items)[at]);
      if (!key) return unsupported("'common' has a key that is no text");
      if (*key != "model_states" && *key != "optimizer_state" && *key != "parameters")
        found_.rest.emplace_back(*key, (*items)[at + 1]);
    }
    const auto steps = integer_of(graph_, find_item(graph_, found_.model_states, "global_steps"));
    found_.tag = fmt::format("global_step{}_universal", steps.value_or(0));
    return {};
  }

  Result<void> add_parameters(const ParameterGroups& groups) {
    const NodeId notes = find_item(graph_, common_, "parameters");
    const NodeId state = find_item(graph_, base_, "state");
    for (const Parameter& from : groups.parameters()) {
      UniversalParameter& parameter = found_.parameters.emplace_back();
      parameter.name = from.name;
      parameter.notes = find_item(graph_, notes, from.name);
      const auto step = steps_.find(from.name);
      parameter.step =
          step != steps_.end()
              ? step->second
              : find_item(graph_, find_item(graph_, state, static_cast<std::int64_t>(from.group)), kStepSlot);
      if (step != steps_.end()) steps_.erase(step);
      const auto slots = slots_.find(from.name);
      if (!model_.contains(from.name)) return missing(from.name);
      if (slots == slots_.end()) return missing(fmt::format("optimizer.state.fp32_param.{}", from.name));
      parameter.slots = std::move(slots->second);
      slots_.erase(slots);
      bool master = false;
      for (const UniversalSlot& slot : parameter.slots) {
        master = master || slot.file == kMasterFile;
        TENPLEX_TRY(check_shape_of(from, slot, &parameter.vocabulary));
      }
      if (!master) return missing(fmt::format("optimizer.state.fp32_param.{}", from.name));
    }
    return {};
  }

  /// As in the model, or with fewer rows where a layout took the padding of a vocabulary out.
  Result<void> check_shape_of(const Parameter& parameter, const UniversalSlot& slot, bool* vocabulary) const {
    const TensorInfo& tensor = tensors_[graph_.view(slot.tensor).tensor.index()];
    if (tensor.shape == parameter.shape) return {};
    Dims rows = tensor.shape;
    if (!rows.empty() && rows.rank() == parameter.shape.rank() && rows[0] < parameter.shape[0])
      rows[0] = parameter.shape[0];
    *vocabulary = true;
    if (rows == parameter.shape) return {};
    return unsupported(fmt::format("tensor '{}' has the shape {}, 'common.model_states.param_shapes' says {}",
                                   tensor.name, to_string(tensor.shape), to_string(parameter.shape)));
  }

  const StateGraph& graph_;
  std::span<const TensorInfo> tensors_;
  UniversalState found_;
  NodeId common_ = kNoNode;
  NodeId base_ = kNoNode;
  std::unordered_map<std::string_view, NodeId> model_;
  std::unordered_map<std::string, std::vector<UniversalSlot>> slots_;  // by parameter
  std::unordered_map<std::string, NodeId> steps_;                      // the same
};

}  // namespace

Result<UniversalState> find_universal_state(const StateGraph& graph, std::span<const TensorInfo> tensors) {
  return StateFinder(graph, tensors).run();
}

}  // namespace tenplex::deepspeed
