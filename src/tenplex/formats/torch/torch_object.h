// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The archive that torch.save makes of one node of a state graph, with the tensors that are in it.
//
// Value types. Threads: functions without shared state.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/state/state_graph.h"
#include "tenplex/formats/torch/zip_layout.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex {

/// The views of the archive's data entry n are storages[n].
struct TorchObject {
  ZipLayout zip;
  std::vector<std::vector<StorageView>> storages;
};

/// `folder` is the archive's top folder. `tensors` gives dtypes and shapes by TensorId.
/// Errors: unsupported for what no pickle can express, corrupt for views that contradict the shapes.
Result<TorchObject> make_torch_object(const StateGraph& graph, NodeId node, std::span<const TensorInfo> tensors,
                                      std::string_view folder);

}  // namespace tenplex
