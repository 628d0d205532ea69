// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/dims.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tenplex/base/checked.h"

namespace tenplex {

std::optional<std::int64_t> checked_volume(const Dims& extent) {
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t length : extent) {
    if (length < 0) return std::nullopt;
    if (length == 0) {
      empty = true;
      continue;
    }
    const auto next = checked_mul(product, length);
    if (!next) return std::nullopt;
    product = *next;
  }
  return empty ? 0 : product;
}

std::int64_t volume(const Dims& extent) {
  std::int64_t product = 1;
  for (const std::int64_t length : extent) product *= length;
  return product;
}

Dims row_major_strides(const Dims& shape) {
  Dims strides = Dims::filled(shape.rank(), 1);
  for (int dim = shape.rank() - 2; dim >= 0; --dim)
    strides[dim] = strides[dim + 1] * std::max<std::int64_t>(shape[dim + 1], 1);
  return strides;
}

std::string to_string(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

}  // namespace tenplex
