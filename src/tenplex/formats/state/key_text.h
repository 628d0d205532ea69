// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Dict keys as text, as Python's str() gives them. Pure. Threads: safe together.
#pragma once

#include <optional>
#include <string>

#include "tenplex/base/result.h"
#include "tenplex/formats/state/state_graph.h"

namespace tenplex {

/// str() of a key: text, a number, None, a torch dtype, or a tuple of such. Nothing for other keys, and for texts in
/// tuples whose repr() would need escapes.
std::optional<std::string> python_text(const StateGraph& graph, NodeId key);

/// The same. Errors: unsupported where python_text() has nothing.
Result<std::string> key_text(const StateGraph& graph, NodeId key);

}  // namespace tenplex
