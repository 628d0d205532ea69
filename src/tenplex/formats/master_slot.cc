// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/master_slot.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tenplex/formats/derived_reader.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex {
namespace {

constexpr std::string_view kFrom = "optimizer.state.param.";
constexpr std::string_view kTo = "optimizer.state.fp32_param.";

std::string with_new_slot(std::string_view name) { return fmt::format("{}{}", kTo, name.substr(kFrom.size())); }

/// True if there are such slots, all of them of tensors that are there, and none of the other name.
bool has_slots_to_rename(const CheckpointInfo& info) {
  std::unordered_set<std::string_view> names;
  names.reserve(info.tensors.size());
  for (const TensorInfo& tensor : info.tensors) names.insert(tensor.name);
  bool found = false;
  for (const std::string_view name : names) {
    if (name.starts_with(kTo)) return false;
    if (!name.starts_with(kFrom)) continue;
    if (!names.contains(name.substr(kFrom.size()))) return false;
    found = true;
  }
  return found;
}

/// Renames the keys of the root; the number of them.
std::size_t rename_keys(StateGraph* graph) {
  std::size_t count = 0;
  for (std::size_t at = 0; at + 1 < items_of(*graph, graph->root).size(); at += 2) {
    const auto key = text_of(*graph, items_of(*graph, graph->root)[at]);
    if (!key || !key->starts_with(kFrom)) continue;
    const NodeId other = graph->add_string(with_new_slot(*key));
    items_of(*graph, graph->root)[at] = other;
    ++count;
  }
  return count;
}

}  // namespace

std::unique_ptr<CheckpointReader> with_one_master_name(std::unique_ptr<CheckpointReader> reader) {
  if (!has_slots_to_rename(reader->info())) return reader;
  CheckpointInfo info = reader->info();
  std::size_t count = 0;
  for (TensorInfo& tensor : info.tensors) {
    if (!tensor.name.starts_with(kFrom)) continue;
    tensor.name = with_new_slot(tensor.name);
    ++count;
  }
  if (info.state.root != kNoNode) {
    // Names of a deeper tree do not come from one key.
    if (!is_dict(info.state, info.state.root) || rename_keys(&info.state) != count) return reader;
  }
  return std::make_unique<DerivedReader>(std::move(reader), std::move(info));
}

bool has_common_master_name(const CheckpointInfo& info) {
  return std::any_of(info.tensors.begin(), info.tensors.end(),
                     [](const TensorInfo& tensor) { return tensor.name.starts_with(kTo); });
}

}  // namespace tenplex
