// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/loadable_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace tenplex::deepspeed {
namespace {

constexpr std::array<std::string_view, 14> kPackages = {
    "builtins", "__builtin__", "collections", "torch",    "argparse", "types",  "pathlib",
    "numpy",    "_codecs",     "_io",         "datetime", "enum",     "signal", "deepspeed"};

}  // namespace

Result<void> check_classes(const StateGraph& graph, NodeId root) {
  std::vector<bool> seen(graph.size(), false);
  std::vector<NodeId> open{root};
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (id == kNoNode || seen[id]) continue;
    seen[id] = true;
    const Node& node = graph[id];
    if (node.kind == NodeKind::kGlobal) {
      const std::string_view module = std::string_view(node.text).substr(0, node.text.find('\n'));
      const std::string_view package = module.substr(0, module.find('.'));
      if (std::find(kPackages.begin(), kPackages.end(), package) == kPackages.end())
        return unsupported(
            fmt::format("'common' has an object of package '{}', without which a program could not load "
                        "the checkpoint; --only tensors leaves out what is no tensor, and "
                        "--optimizer-steps N then says how many steps the optimizer has made",
                        package));
    }
    graph.for_each_edge(id, [&](NodeId child) { open.push_back(child); });
  }
  return {};
}

}  // namespace tenplex::deepspeed
