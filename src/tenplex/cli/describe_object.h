// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// One line for a leaf of the state tree that is no tensor: "7", "'cosine'", "list of 3", "argparse.Namespace object".
#pragma once

#include <string>

#include "tenplex/formats/state/state_graph.h"

namespace tenplex::cli {

std::string describe_object(const StateGraph& graph, NodeId node);

}  // namespace tenplex::cli
