// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// RuleMatcher: finds the rule of every tensor, and for optimizer slots the parameter that they belong to.
//
// The order: a slot of a parameter that is there; the first rule that matches the name, unless it is a catch-all; a
// slot of a parameter that is not there but that a rule matches; the catch-all. Borrows the layout and the tensors.
// Threads: const calls are safe together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/ptc/layout.h"
#include "tenplex/ptc/name_index.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex {

struct TensorMatch {
  const TensorRule* rule = nullptr;
  NamePattern::Captures captures;
  bool is_slot = false;
  bool is_whole = false;           ///< a slot that is not cut
  const SlotRule* slot = nullptr;  ///< null: the default, as the parameter
  std::string slot_name;
  std::string parameter_name;   ///< of a slot, as it is in the slot's name
  std::int32_t parameter = -1;  ///< index of a slot's parameter, if it is there

  /// True if all that `rule` says counts; else the tensor is a slot that has only the places of its parameter's rule.
  bool is_cut_by_rule() const {
    return !is_slot || (!is_whole && (slot == nullptr || slot->base == SlotRule::Base::kParameter));
  }
};

class RuleMatcher {
 public:
  /// `local_shapes`: the tensors' shapes are those of one shard each, so that a slot may have another than its
  /// parameter where the layout gives it a rule of its own.
  RuleMatcher(const Layout& layout, std::span<const TensorInfo> tensors, bool local_shapes);

  /// Errors: invalid_argument, naming the tensor, if no rule matches or two tensors have one name.
  Result<std::vector<TensorMatch>> match_all() const;

 private:
  struct SlotAddress {
    std::string parameter;
    std::string slot;
  };

  /// `before` holds the matches of the tensors before this one.
  Result<TensorMatch> match(std::size_t index, std::span<const TensorMatch> before) const;
  bool match_rules(std::string_view name, int rank, TensorMatch* match) const;
  std::vector<SlotAddress> slot_addresses(std::string_view name) const;
  const SlotRule* slot_rule(std::string_view slot) const;
  Result<bool> match_present_parameter(std::size_t index, std::span<const TensorMatch> before,
                                       std::span<const SlotAddress> addresses, TensorMatch* match) const;
  bool match_parameter(std::size_t parameter, std::span<const TensorMatch> before, TensorMatch* match) const;
  bool match_absent_parameter(std::size_t index, std::span<const SlotAddress> addresses, TensorMatch* match) const;
  Result<void> check_names() const;

  const Layout& layout_;
  std::span<const TensorInfo> tensors_;
  bool local_shapes_;
  NameIndex names_;
};

/// "layout 'x' line 7 ('decoder.{layer}.weight')".
std::string describe_rule(const Layout& layout, const TensorRule& rule);

}  // namespace tenplex
