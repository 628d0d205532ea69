// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/made_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/formats/deepspeed/loadable_classes.h"
#include "tenplex/formats/deepspeed/parameter_groups.h"
#include "tenplex/formats/deepspeed/source_steps.h"
#include "tenplex/formats/deepspeed/universal_state.h"
#include "tenplex/formats/deepspeed/whole_states.h"
#include "tenplex/formats/state/lookup.h"
#include "tenplex/formats/state/row_major.h"

namespace tenplex::deepspeed {
namespace {

/// The release whose form is written.
constexpr std::string_view kFormVersion = "0.19.8";

class StateMaker {
 public:
  StateMaker(const StateGraph& source, std::span<const TensorInfo> tensors, const MadeFrom& from)
      : tensors_(tensors), from_(from) {
    made_.graph = source;
  }

  Result<std::optional<MadeState>> run() {
    if (graph().root == kNoNode) add_tree();
    const auto items = mapping_items(graph(), graph().root);
    if (!items) return std::optional<MadeState>();
    common_ = find_item(graph(), graph().root, "common");
    if (common_ == kNoNode) {
      common_ = graph().add_dict({});
      set_item(graph(), graph().root, "common", common_);
    }
    for (const std::string_view key : {"model_states", "optimizer_state"})
      if (!is_dict(graph(), common_) || find_item(graph(), common_, key) != kNoNode) return std::optional<MadeState>();
    TENPLEX_TRY(check_classes(graph(), common_));
    TENPLEX_TRY(sort_entries());
    TENPLEX_TRY(check_slots());
    TENPLEX_TRY(find_step());
    add_masters();
    add_objects();
    return std::optional(std::move(made_));
  }

 private:
  using Entry = std::pair<std::string, NodeId>;
  StateGraph& graph() { return made_.graph; }

  /// Of a source that has nothing but tensors.
  void add_tree() {
    std::vector<NodeId> items;
    items.reserve(2 * tensors_.size());
    for (std::size_t index = 0; index < tensors_.size(); ++index) {
      TensorView view;
      view.tensor = TensorId(index);
      view.storage = static_cast<std::uint32_t>(index);
      view.strides = row_major_strides(tensors_[index].shape);
      items.push_back(graph().add_string(tensors_[index].name));
      items.push_back(graph().add_tensor(view));
    }
    graph().root = graph().add_dict(std::move(items));
  }

  Result<void> sort_entries() {
    const auto items = mapping_items(graph(), graph().root);
    for (std::size_t at = 0; at + 1 < items->size(); at += 2) {
      const auto key = text_of(graph(), (*items)[at]);
      const NodeId value = (*items)[at + 1];
      if (!key || !is_tensor(graph(), value)) continue;  // refused where the tree is read
      if (!key->starts_with(kSlotStart)) {
        model_.emplace_back(*key, value);
        continue;
      }
      const std::string_view rest = key->substr(kSlotStart.size());
      const std::size_t dot = rest.find('.');
      if (dot == std::string_view::npos) continue;
      const std::string slot(rest.substr(0, dot));
      auto& found = slot == kStepSlot ? steps_ : slots_[slot];
      found.emplace(rest.substr(dot + 1), value);
      if (slot != kStepSlot) trained_.emplace(rest.substr(dot + 1));
    }
    made_.has_optimizer = !trained_.empty();
    return {};
  }

  /// Every parameter that has one slot has all.
  Result<void> check_slots() const {
    std::set<std::string_view> names;
    for (const auto& [name, value] : model_) names.insert(name);
    for (const std::string& name : trained_)
      for (const auto& [slot, of_parameters] : slots_) {
        const bool missing = !of_parameters.contains(name);
        if (missing || !names.contains(name))
          return unsupported(fmt::format("a universal checkpoint needs '{}', which the source does not have",
                                         missing ? fmt::format("{}{}.{}", kSlotStart, slot, name) : name));
      }
    if (made_.has_optimizer && slots_.size() == 1 && slots_.begin()->first == kMasterSlot)
      return unsupported(
          fmt::format("the source has masters ('{}{}.{}') and no other state of an optimizer: --only "
                      "model leaves them out",
                      kSlotStart, kMasterSlot, *trained_.begin()));
    return {};
  }

  Result<void> find_step() {
    if (!made_.has_optimizer) {
      if (from_.steps) return invalid_argument("--optimizer-steps: the source has no state of an optimizer");
      return {};
    }
    const auto without = std::find_if(trained_.begin(), trained_.end(),
                                      [this](const std::string& name) { return !steps_.contains(name); });
    const bool in_slots = without == trained_.end();
    if (!in_slots && !steps_.empty())
      return unsupported(
          fmt::format("'{}{}.{}' is there, and none of '{}': a universal checkpoint has one number of "
                      "steps for all parameters",
                      kSlotStart, kStepSlot, steps_.begin()->first, *without));
    TENPLEX_ASSIGN_OR_RETURN(SourceSteps found, find_steps(graph(), find_item(graph(), common_, "optimizer")));
    if (from_.steps && (in_slots || found.known()))
      return invalid_argument("--optimizer-steps: the source says itself how many steps its optimizer has made");
    if (in_slots) {
      std::vector<NodeId> steps;
      steps.reserve(trained_.size());
      for (const std::string& name : trained_) steps.push_back(steps_.at(name));
      use_steps(steps);
      return {};
    }
    if (!found.tensors.empty()) {
      use_steps(found.tensors);
      return {};
    }
    if (from_.steps) found.number = from_.steps;
    if (!found.number)
      return unsupported(
          "a universal checkpoint needs the number of steps that the optimizer has made, which the source does not "
          "have "
          "('optimizer.state.step.PARAMETER', or 'step' in 'param_groups' of 'common.optimizer'): --optimizer-steps N "
          "says it");
    number_ = found.number;
    made_.steps = static_cast<float>(*found.number);
    TensorView view;
    view.tensor = from_.step;
    view.storage = kStepStorage;
    step_ = graph().add_tensor(view);
    return {};
  }

  /// The first, which all others must be equal to.
  void use_steps(const std::vector<NodeId>& steps) {
    step_ = steps.front();
    const auto tensor = [this](NodeId node) { return graph().view(node).tensor; };
    for (const NodeId other : steps)
      if (tensor(other) != tensor(step_)) made_.equal.emplace_back(tensor(step_), tensor(other));
  }

  void add_masters() {
    if (!made_.has_optimizer || slots_.contains(std::string(kMasterSlot))) return;
    made_.has_masters = true;
    std::vector<NodeId> items;
    items.reserve(2 * trained_.size());
    for (const auto& [name, value] : model_) {
      if (!trained_.contains(name)) continue;
      items.push_back(graph().add_string(fmt::format("{}{}.{}", kSlotStart, kMasterSlot, name)));
      items.push_back(value);
    }
    std::vector<NodeId>& all = items_of(graph(), graph().root);
    all.insert(all.end(), items.begin(), items.end());
  }

  void put(NodeId dict, std::string_view key, NodeId value) { set_item(graph(), dict, key, value); }

  /// In the order of the model.
  NodeId shapes_of_group() {
    std::vector<NodeId> items;
    items.reserve(2 * trained_.size());
    for (const auto& [name, value] : model_) {
      if (!trained_.contains(name)) continue;
      const Dims& shape = tensors_[graph().view(value).tensor.index()].shape;
      items.push_back(graph().add_string(name));
      items.push_back(add_size(shape, &graph()));
    }
    return graph().add_dict(std::move(items));
  }

  void add_objects() {
    const auto iteration = integer_of(graph(), find_item(graph(), common_, "iteration"));
    const std::int64_t steps = std::max<std::int64_t>(iteration.value_or(number_.value_or(0)), 0);
    const NodeId version = graph().add_string(std::string(kFormVersion));
    const NodeId none = graph().add_none();
    const NodeId model = graph().add_dict({});
    put(model, "module", graph().add_dict({}));
    put(model, "buffer_names", graph().add_list({}));
    put(model, "optimizer", none);
    put(model, "param_shapes", graph().add_list({shapes_of_group()}));
    put(model, "shared_params", graph().add_dict({}));
    put(model, "lr_scheduler", none);
    put(model, "skipped_steps", graph().add_int(0));
    put(model, "global_steps", graph().add_int(steps));
    put(model, "dp_world_size", graph().add_int(1));
    put(model, "mp_world_size", graph().add_int(1));
    put(model, "ds_version", version);
    std::vector<NodeId> groups;
    const std::size_t count = std::max<std::size_t>(trained_.size(), model_.size());
    groups.reserve(count);
    for (std::size_t number = 0; number < count; ++number) {
      const NodeId numbers = graph().add_list({graph().add_int(static_cast<std::int64_t>(number))});
      groups.push_back(graph().add_dict({graph().add_string("params"), numbers}));
    }
    const NodeId state = graph().add_dict({});
    if (step_ != kNoNode) {
      const NodeId entry = graph().add_dict({graph().add_string(std::string(kStepSlot)), step_});
      items_of(graph(), state) = {graph().add_int(0), entry};
    }
    const NodeId base = graph().add_dict({});
    put(base, "state", state);
    put(base, "param_groups", graph().add_list(std::move(groups)));
    const NodeId optimizer = graph().add_dict({});
    put(optimizer, "optimizer_state_dict", base);
    put(optimizer, "ds_version", version);
    put(common_, "model_states", model);
    put(common_, "optimizer_state", optimizer);
  }

  static constexpr std::uint32_t kStepStorage = 0x7fffffffU;

  std::span<const TensorInfo> tensors_;
  const MadeFrom& from_;
  MadeState made_;
  NodeId common_ = kNoNode;
  std::vector<Entry> model_;                                    // in the order of the source
  std::map<std::string, std::map<std::string, NodeId>> slots_;  // by slot, by parameter
  std::map<std::string, NodeId> steps_;                         // by parameter
  std::set<std::string> trained_;
  std::optional<std::int64_t> number_;
  NodeId step_ = kNoNode;
};

}  // namespace

Result<std::optional<MadeState>> make_state(const StateGraph& source, std::span<const TensorInfo> tensors,
                                            const MadeFrom& from) {
  return StateMaker(source, tensors, from).run();
}

}  // namespace tenplex::deepspeed
