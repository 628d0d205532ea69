// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// data.pkl to a StateGraph: tensors and storages become kTensor and kStorage nodes, everything else stays as it is.
//
// A tensor object that we cannot read (sparse, quantized, a subclass, …) becomes a kTensor with a reason, so that the
// error can name it once the whole tree is known.
//
// Value types. Threads: functions without shared state.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/state/state_graph.h"
#include "tenplex/io/byte_source.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex {

/// A storage as the pickle describes it: entry data/<key> of the archive.
struct TorchStorage {
  std::string key;
  std::string location;  ///< "cpu", "cuda:0", …
  std::int64_t size_bytes = 0;
};

struct TorchPickle {
  StateGraph state;                 ///< view.tensor indexes `tensors`, view.storage `storages`
  std::vector<TensorInfo> tensors;  ///< named as tensor_names() says; only those that the root leads to
  std::vector<NodeId> nodes;        ///< of each tensor
  std::vector<TorchStorage> storages;
};

/// Reads the pickle at [offset, offset + size). Every view lies inside its storage as the pickle describes it. Plain
/// tensors may have the Python attributes of these names, which are left out; tensors with others cannot be read.
/// Errors: corrupt, unsupported (names the tensor), io.
Result<TorchPickle> read_torch_pickle(const ByteSource& source, std::int64_t offset, std::int64_t size,
                                      std::span<const std::string_view> ignored_attributes = {});

}  // namespace tenplex
