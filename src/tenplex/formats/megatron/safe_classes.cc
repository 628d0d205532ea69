// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/safe_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "tenplex/ptc/dtype.h"

namespace tenplex::megatron {
namespace {

constexpr std::array<std::string_view, 35> kClasses = {
    "collections\nOrderedDict",
    "collections\nCounter",
    "torch.nn.parameter\nParameter",
    "torch.serialization\n_get_layout",
    "torch\nSize",
    "torch\nTensor",
    "torch\ndevice",
    "_codecs\nencode",
    "builtins\nbytearray",
    "__builtin__\nbytearray",
    "builtins\nset",
    "__builtin__\nset",
    "builtins\ncomplex",
    "__builtin__\ncomplex",
    "torch._utils\n_rebuild_parameter",
    "torch._utils\n_rebuild_tensor_v2",
    "torch._utils\n_rebuild_tensor_v3",
    "argparse\nNamespace",
    "types\nSimpleNamespace",
    "pathlib\nPosixPath",
    "pathlib._local\nPosixPath",
    "numpy.core.multiarray\n_reconstruct",
    "numpy._core.multiarray\n_reconstruct",
    "numpy\nndarray",
    "numpy\ndtype",
    "numpy.dtypes\nUInt32DType",
    "megatron.core.transformer.enums\nAttnBackend",
    "megatron.core.transformer.enums\nCudaGraphScope",
    "megatron.core.enums\nModelType",
    "megatron.core.optimizer.optimizer_config\nOptimizerConfig",
    "megatron.core.rerun_state_machine\nRerunDiagnostic",
    "megatron.core.rerun_state_machine\nRerunMode",
    "megatron.core.rerun_state_machine\nRerunState",
    "_io\nBytesIO",
    "signal\nSignals",
};

bool is_safe(std::string_view global) {
  if (std::find(kClasses.begin(), kClasses.end(), global) != kClasses.end()) return true;
  constexpr std::string_view kTorch = "torch\n";
  return global.starts_with(kTorch) && parse_dtype(global.substr(kTorch.size())).has_value();
}

Error no_place(std::string_view name) {
  return unsupported(
      fmt::format("'{}' has no place in a Megatron-Core checkpoint, whose loader refuses it; --only tensors leaves out "
                  "what is no tensor",
                  name));
}

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
    if (node.kind == NodeKind::kFrozenSet) return no_place("frozenset");
    if (node.kind == NodeKind::kGlobal && !is_safe(node.text)) {
      std::string name = node.text;
      std::replace(name.begin(), name.end(), '\n', '.');
      return no_place(name);
    }
    graph.for_each_edge(id, [&](NodeId edge) { open.push_back(edge); });
  }
  return {};
}

}  // namespace tenplex::megatron
