// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// A StateGraph to data.pkl, and the storages it needs.
//
// Tensors with equal TensorView::storage share a storage again. A storage reaches from the first to the last byte that
// its views touch; what lay outside them is not kept. Storages are numbered in the order in which the pickle meets
// them.
//
// Value types. Threads: functions without shared state.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/pickle/pickle_writer.h"
#include "tenplex/formats/state/state_graph.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex {

struct OutputStorage {
  std::int64_t size_bytes = 0;
  std::int64_t begin_bytes = 0;  ///< in the storage as the views count it
  std::vector<NodeId> views;     ///< kTensor and kStorage nodes, each TensorId once
  std::int32_t number = -1;      ///< data/<number>; −1 until the pickle meets it
  bool untyped = false;          ///< its views have several dtypes, or one without a storage class
  std::int64_t alignment = 1;    ///< largest element of its views, bytes
};

class TorchPickleWriter {
 public:
  /// Lays out the storages of all tensors below `node`. `tensors` gives dtypes and shapes by TensorId.
  /// Errors: unsupported, corrupt for views that contradict the shapes.
  static Result<TorchPickleWriter> make(const StateGraph& graph, NodeId node, std::span<const TensorInfo> tensors);

  /// Writes the pickle (protocol 2) and numbers the storages. Called once. Errors: unsupported.
  Result<std::string> write();

  /// In the order of their numbers. Requires: write() was called.
  const std::vector<OutputStorage>& storages() const { return storages_; }
  /// Offset of a view in its trimmed storage, in elements.
  std::int64_t offset_in_storage(NodeId view) const;

 private:
  TorchPickleWriter(const StateGraph& graph, NodeId node, std::span<const TensorInfo> tensors)
      : graph_(&graph), node_(node), tensors_(tensors) {}

  const TensorInfo& info(NodeId node) const { return tensors_[graph_->view(node).tensor.index()]; }
  OutputStorage& storage(NodeId node) { return storages_[index_.at(graph_->view(node).storage)]; }
  const OutputStorage& storage(NodeId node) const { return storages_[index_.at(graph_->view(node).storage)]; }
  Result<void> add_view(NodeId node);
  Result<void> trim();
  Result<void> write_tensor(PickleWriter& pickle, NodeId node);

  const StateGraph* graph_;
  NodeId node_;
  std::span<const TensorInfo> tensors_;
  std::vector<OutputStorage> storages_;
  std::unordered_map<std::uint32_t, std::size_t> index_;  // by TensorView::storage
  std::int32_t next_number_ = 0;
};

/// data.pkl of one contiguous tensor at the root, as torch.save(tensor, …) writes it.
std::string tensor_pickle(DType dtype, const Dims& shape);

}  // namespace tenplex
