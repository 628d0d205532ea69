// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Do these boxes cover the tensor, each element exactly once?
//
//   Σ over boxes, Σ over corners of (−1)^(upper sides) · h(corner)   equals the same sum of the whole tensor
//   if and only if every element is covered once (up to a collision of the 128-bit h): interior corners cancel.
//
// So the usual answer "yes" costs O(boxes · 2^rank) and no memory, for any arrangement. Only a fault is searched for:
// the region is halved at a box edge, and the half whose sum is wrong is searched further.
//
// Pure functions. Threads: safe together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tenplex/ptc/box.h"

namespace tenplex::dcp {

/// Boxes of one rank, packed: for each its offsets, then its extents. Borrowed.
class BoxList {
 public:
  BoxList(int rank, std::size_t count, std::span<const std::int64_t> dims) : rank_(rank), count_(count), dims_(dims) {}
  std::size_t size() const { return count_; }
  Box operator[](std::size_t index) const;

 private:
  int rank_;
  std::size_t count_;
  std::span<const std::int64_t> dims_;
};

struct CoverFault {
  Box box;                ///< a region that no box covers, or more than one
  bool missing = false;   ///< no box covers it
  std::size_t first = 0;  ///< of the boxes that overlap there
  std::size_t second = 0;
};

/// Requires: all boxes lie inside the shape. Boxes with a zero extent hold nothing and are left out.
std::optional<CoverFault> find_cover_fault(const Dims& shape, const BoxList& boxes);

}  // namespace tenplex::dcp
