// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Small torch.save archives as items of a larger file: what DCP stores for each tensor. The top folder is
// "archive", as torch.save names it in a stream.
//
// Threads: functions without shared state.
#pragma once

#include <cstdint>

#include "tenplex/formats/torch/zip_layout.h"
#include "tenplex/ptc/dtype.h"

namespace tenplex {

/// The archive of torch.save(tensor) around a contiguous tensor's data: literal, data, literal; one literal if the
/// tensor is empty. Cheap enough to be made twice, for the sizes and for the bytes. Requires: torch_has_dtype(dtype)
/// and a shape that went through check_tensor().
ZipLayout tensor_item(DType dtype, const Dims& shape);

struct TensorItemSizes {
  std::int64_t before = 0;  ///< literal bytes in front of the data
  std::int64_t data = 0;
  std::int64_t after = 0;  ///< literal bytes behind them; 0 if the tensor is empty
};

/// Part sizes of tensor_item(). Cost: a few microseconds.
TensorItemSizes tensor_item_sizes(DType dtype, const Dims& shape);

}  // namespace tenplex
