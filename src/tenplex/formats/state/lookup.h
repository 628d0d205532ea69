// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Finding things in a state tree whose structure a program gives: dict items by text, numbers, sizes.
//
// Pure functions; every node may be kNoNode, in which there is nothing. Threads: safe together.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tenplex/formats/state/state_graph.h"
#include "tenplex/ptc/dims.h"

namespace tenplex {

/// The value of the dict's item with that text as key; kNoNode if there is none, or if `dict` is no dict.
/// Cost: O(items).
NodeId find_item(const StateGraph& graph, NodeId dict, std::string_view key);

/// The value of the item with that integer as key.
NodeId find_item(const StateGraph& graph, NodeId dict, std::int64_t key);

/// True for a dict (also a subclass) or a list.
bool is_dict(const StateGraph& graph, NodeId node);
bool is_list(const StateGraph& graph, NodeId node);
bool is_none(const StateGraph& graph, NodeId node);
bool is_tensor(const StateGraph& graph, NodeId node);

std::optional<std::int64_t> integer_of(const StateGraph& graph, NodeId node);
std::optional<std::string_view> text_of(const StateGraph& graph, NodeId node);

/// Items of a list or tuple of integers, or of a torch.Size. Nothing for more than kMaxRank items or negative ones.
std::optional<Dims> dims_of(const StateGraph& graph, NodeId node);

/// Changeable keys and values of a dict. Requires: is_dict().
std::vector<NodeId>& items_of(StateGraph& graph, NodeId dict);

/// Takes the item out. Requires: is_dict().
void remove_item(StateGraph& graph, NodeId dict, std::string_view key);

/// Sets or adds the item. Requires: is_dict().
void set_item(StateGraph& graph, NodeId dict, std::string_view key, NodeId value);

}  // namespace tenplex
