// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The leaves of a state tree and the names of its tensors. Pure. Threads: safe together.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/state/leaf_list.h"
#include "tenplex/formats/state/state_graph.h"

namespace tenplex {

/// Levels of containers in a tree: Python's own recursion limit, beyond which its pickler writes nothing.
inline constexpr std::size_t kMaxStateDepth = 1000;

/// The leaves in the sense of PyTorch DCP's flatten_state_dict: dicts are opened; a list is opened if a tensor, a dict
/// or such a list is in it; everything else is a leaf, tuples too. A leaf's name joins the steps to it with '.':
/// ("model", "layers", 0, "w") is "model.layers.0.w".
///
/// In depth-first order. A root that is no dict or list is one leaf, "tensor" or "value". Dict subclasses (OrderedDict,
/// defaultdict, …) count as dicts. An empty dict has no leaves. The list borrows the graph.
/// Errors: unsupported for a cycle, nesting deeper than kMaxStateDepth, a dict key that is no text, number, None, dtype
/// or tuple of such, for two leaves of the same name, and for shared containers that expand to far more leaves than
/// there are nodes; the message names the path.
Result<LeafList> flatten(const StateGraph& graph);

/// A name for every tensor and bare storage below the root: its leaf's name, extended by the way to it where the leaf
/// is a tuple or an object ("opt.betas.1", "args.state.w"), with "#2", "#3", … appended where a name is taken. A tensor
/// node that is reached on several ways has the name of the first one. In order of first visit. Errors: as flatten().
Result<std::vector<std::pair<NodeId, std::string>>> tensor_names(const StateGraph& graph);

}  // namespace tenplex
