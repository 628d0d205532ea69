// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Single numbers and truth values in a state tree: the arguments that a training program keeps in its checkpoint.
//
//   {"common": {"args": Namespace(num_layers=4, swiglu=True)}}     number_at(…, {"common", "args", "swiglu"}) == 1
//
// Pure. Threads: safe together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tenplex/formats/state/state_graph.h"

namespace tenplex {

/// The node under these keys: of dicts, or attributes of objects whose state is a dict (argparse.Namespace). Nothing
/// where a key is not there.
std::optional<NodeId> node_at(const StateGraph& graph, std::span<const std::string_view> keys);

/// The whole number there, or 1 and 0 for True and False; nothing for anything else.
std::optional<std::int64_t> number_at(const StateGraph& graph, std::span<const std::string_view> keys);

}  // namespace tenplex
