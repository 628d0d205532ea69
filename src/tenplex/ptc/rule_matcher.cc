// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/rule_matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tenplex {
namespace {

/// Slots that are recognised even where the parameter is not in the checkpoint and the layout has no rule for them.
constexpr std::array<std::string_view, 8> kCommonSlots = {"exp_avg",    "exp_avg_sq", "max_exp_avg_sq",  "step",
                                                          "fp32_param", "master",     "momentum_buffer", "square_avg"};

bool is_single_element(const TensorInfo& tensor) { return volume(tensor.shape) == 1; }

}  // namespace

std::string describe_rule(const Layout& layout, const TensorRule& rule) {
  return fmt::format("{} ('{}')", layout.where(rule.line), rule.match.front().text());
}

RuleMatcher::RuleMatcher(const Layout& layout, std::span<const TensorInfo> tensors, bool local_shapes)
    : layout_(layout), tensors_(tensors), local_shapes_(local_shapes), names_(tensors) {}

Result<void> RuleMatcher::check_names() const {
  const std::optional<TensorId> repeated = names_.repeated();
  if (!repeated) return {};
  return invalid_argument(fmt::format("two tensors have the name '{}'", tensors_[repeated->index()].name));
}

Result<std::vector<TensorMatch>> RuleMatcher::match_all() const {
  TENPLEX_TRY(check_names());
  std::vector<TensorMatch> matches;
  matches.reserve(tensors_.size());
  for (std::size_t index = 0; index < tensors_.size(); ++index) {
    TENPLEX_ASSIGN_OR_RETURN(TensorMatch match, this->match(index, matches));
    matches.push_back(std::move(match));
  }
  return matches;
}

Result<TensorMatch> RuleMatcher::match(std::size_t index, std::span<const TensorMatch> before) const {
  const TensorInfo& tensor = tensors_[index];
  const std::vector<SlotAddress> addresses = slot_addresses(tensor.name);
  TensorMatch match;
  TENPLEX_ASSIGN_OR_RETURN(const bool is_slot, match_present_parameter(index, before, addresses, &match));
  if (is_slot) return match;
  const bool found = match_rules(tensor.name, tensor.shape.rank(), &match);
  if (found && !match.rule->is_catch_all()) return match;
  TensorMatch slot;
  if (match_absent_parameter(index, addresses, &slot)) return slot;
  if (found) return match;
  return invalid_argument(
      fmt::format("tensor '{}' of shape {}: no rule of layout '{}' matches; add one, or a last rule with match: '*'",
                  tensor.name, to_string(tensor.shape), layout_.name()));
}

bool RuleMatcher::match_rules(std::string_view name, int rank, TensorMatch* match) const {
  for (const TensorRule& rule : layout_.rules().tensors) {
    if (rule.rank && *rule.rank != rank) continue;
    if (!rule.without.empty() && names_.find(rule.without)) continue;
    for (const NamePattern& pattern : rule.match) {
      auto captures = pattern.match(name);
      if (!captures) continue;
      match->rule = &rule;
      match->captures = std::move(*captures);
      return true;
    }
  }
  return false;
}

bool RuleMatcher::match_parameter(std::size_t parameter, std::span<const TensorMatch> before,
                                  TensorMatch* match) const {
  if (parameter >= before.size() || before[parameter].is_slot)
    return match_rules(tensors_[parameter].name, tensors_[parameter].shape.rank(), match);
  match->rule = before[parameter].rule;
  match->captures = before[parameter].captures;
  return true;
}

std::vector<RuleMatcher::SlotAddress> RuleMatcher::slot_addresses(std::string_view name) const {
  std::vector<SlotAddress> addresses;
  for (const NamePattern& pattern : layout_.rules().slot_names.patterns) {
    const auto captures = pattern.match(name);
    if (!captures) continue;
    SlotAddress address;
    for (const NamePattern::Capture& capture : *captures) {
      if (capture.word == "param") address.parameter = capture.text;
      if (capture.word == "slot") address.slot = capture.text;
    }
    addresses.push_back(std::move(address));
  }
  return addresses;
}

const SlotRule* RuleMatcher::slot_rule(std::string_view slot) const {
  const SlotRule* any = nullptr;
  for (const SlotRule& rule : layout_.rules().slots) {
    if (rule.slot == slot) return &rule;
    if (rule.slot == "*") any = &rule;
  }
  return any;
}

Result<bool> RuleMatcher::match_present_parameter(std::size_t index, std::span<const TensorMatch> before,
                                                  std::span<const SlotAddress> addresses, TensorMatch* match) const {
  const TensorInfo& tensor = tensors_[index];
  for (const SlotAddress& address : addresses) {
    for (const std::string& prefix : layout_.rules().slot_names.prefixes) {
      const std::optional<TensorId> found = names_.find(prefix + address.parameter);
      if (!found || found->index() == index) continue;
      const TensorInfo& parameter = tensors_[found->index()];
      if (!match_parameter(found->index(), before, match)) continue;
      match->slot = slot_rule(address.slot);
      match->is_whole =
          (match->slot != nullptr && match->slot->base == SlotRule::Base::kWhole && match->slot->slices.empty()) ||
          tensor.shape.empty() || (is_single_element(tensor) && !is_single_element(parameter));
      if (!match->is_whole && tensor.shape != parameter.shape) {
        if (match->slot == nullptr) continue;
        if (!local_shapes_ && match->slot->base == SlotRule::Base::kParameter)
          return invalid_argument(
              fmt::format("tensor '{}' of shape {}: {} cuts slot '{}' as its parameter '{}', whose shape is {}",
                          tensor.name, to_string(tensor.shape), layout_.where(match->slot->line), address.slot,
                          parameter.name, to_string(parameter.shape)));
      }
      match->is_slot = true;
      match->slot_name = address.slot;
      match->parameter_name = address.parameter;
      match->parameter = found->value();
      return true;
    }
  }
  *match = {};
  return false;
}

bool RuleMatcher::match_absent_parameter(std::size_t index, std::span<const SlotAddress> addresses,
                                         TensorMatch* match) const {
  const TensorInfo& tensor = tensors_[index];
  for (const SlotAddress& address : addresses) {
    const SlotRule* rule = slot_rule(address.slot);
    const bool common = std::find(kCommonSlots.begin(), kCommonSlots.end(), address.slot) != kCommonSlots.end();
    if (!common && (rule == nullptr || rule->slot == "*")) continue;
    for (const std::string& prefix : layout_.rules().slot_names.prefixes) {
      const std::string parameter = prefix + address.parameter;
      if (!match_rules(parameter, tensor.shape.rank(), match) || match->rule->is_catch_all()) continue;
      match->is_slot = true;
      match->slot = rule;
      match->slot_name = address.slot;
      match->parameter_name = address.parameter;
      match->is_whole =
          (rule != nullptr && rule->base == SlotRule::Base::kWhole && rule->slices.empty()) || tensor.shape.empty();
      return true;
    }
  }
  return false;
}

}  // namespace tenplex
