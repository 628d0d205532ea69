// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/torch/torch_item.h"

#include "tenplex/formats/torch/torch_dtype.h"
#include "tenplex/formats/torch/torch_pickle_writer.h"

namespace tenplex {
namespace {

constexpr std::string_view kFolder = "archive";

}  // namespace

ZipLayout tensor_item(DType dtype, const Dims& shape) {
  ZipLayout layout(kFolder);
  layout.begin(tensor_pickle(dtype, shape));
  layout.add_data(volume(shape) * size_bytes(dtype));
  layout.close();
  return layout;
}

TensorItemSizes tensor_item_sizes(DType dtype, const Dims& shape) {
  const ZipLayout layout = tensor_item(dtype, shape);
  const std::int64_t bytes = volume(shape) * size_bytes(dtype);
  TensorItemSizes sizes{layout.part_size(0), bytes, 0};
  if (bytes > 0) sizes.after = layout.part_size(2);
  return sizes;
}

}  // namespace tenplex
