// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/box.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenplex {

std::optional<Box> intersect(const Box& a, const Box& b) {
  TENPLEX_CHECK(a.rank() == b.rank());
  Box common = a;
  for (int dim = 0; dim < a.rank(); ++dim) {
    const std::int64_t begin = std::max(a.offset[dim], b.offset[dim]);
    const std::int64_t end = std::min(a.end(dim), b.end(dim));
    if (begin >= end) return std::nullopt;
    common.offset[dim] = begin;
    common.extent[dim] = end - begin;
  }
  return common;
}

bool contains(const Box& outer, const Box& inner) {
  TENPLEX_CHECK(outer.rank() == inner.rank());
  if (inner.empty()) return true;
  for (int dim = 0; dim < outer.rank(); ++dim)
    if (inner.offset[dim] < outer.offset[dim] || inner.end(dim) > outer.end(dim)) return false;
  return true;
}

std::vector<Box> subtract(const Box& a, const Box& b) {
  const auto common = intersect(a, b);
  if (!common) return a.empty() ? std::vector<Box>{} : std::vector<Box>{a};
  // Peel one slab before and one after `common` per dimension; what is left of `rest` shrinks to `common`.
  std::vector<Box> before;
  std::vector<Box> after;
  Box rest = a;
  for (int dim = 0; dim < a.rank(); ++dim) {
    if (rest.offset[dim] < common->offset[dim]) {
      Box slab = rest;
      slab.extent[dim] = common->offset[dim] - rest.offset[dim];
      before.push_back(slab);
    }
    if (common->end(dim) < rest.end(dim)) {
      Box slab = rest;
      slab.offset[dim] = common->end(dim);
      slab.extent[dim] = rest.end(dim) - common->end(dim);
      after.push_back(slab);
    }
    rest.offset[dim] = common->offset[dim];
    rest.extent[dim] = common->extent[dim];
  }
  before.insert(before.end(), after.rbegin(), after.rend());
  return before;
}

std::vector<Box> boxes_of_flat_range(const Dims& shape, std::int64_t begin, std::int64_t end) {
  std::vector<Box> boxes;
  const Dims strides = row_major_strides(shape);
  while (begin < end) {
    // The largest box that starts at `begin`: whole sub-arrays of the outermost dimension that `begin` is aligned to.
    int dim = 0;
    while (dim < shape.rank() && (begin % strides[dim] != 0 || end - begin < strides[dim])) ++dim;
    Box box{Dims::filled(shape.rank(), 0), shape};
    std::int64_t rest = begin;
    for (int outer = 0; outer < shape.rank(); ++outer) {
      const std::int64_t index = rest / strides[outer];
      rest %= strides[outer];
      if (outer > dim) continue;
      box.offset[outer] = index;
      box.extent[outer] = outer < dim ? 1 : std::min(shape[outer] - index, (end - begin) / strides[outer]);
    }
    begin += volume(box);
    boxes.push_back(box);
  }
  return boxes;
}

std::string to_string(const Box& box) {
  std::string text = "[";
  for (int dim = 0; dim < box.rank(); ++dim)
    text += fmt::format("{}{}:{}", dim == 0 ? "" : ", ", box.offset[dim], box.end(dim));
  return text + "]";
}

}  // namespace tenplex
