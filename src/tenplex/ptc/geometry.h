// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Geometry: how tensors of one shape, rule and stage lie on the devices of a mesh. Shared by all tensors that agree.
//
//   part indices   one per cut of the slicing; shard number = mixed radix of them, the first cut slowest
//   cut            over one or several mesh axes, the first of them fastest
//   fixed          axes along which the tensor lives only at some coordinates (stage, expert group)
//   free           all other axes: replicas
//
// Value type, immutable. Threads: as any value.
#pragma once

#include <cstdint>
#include <vector>

#include "tenplex/ptc/mesh.h"
#include "tenplex/ptc/slicing.h"

namespace tenplex {

struct FixedAxis {
  std::size_t axis = 0;
  std::vector<std::int64_t> coordinates;  ///< ascending, not empty

  friend bool operator==(const FixedAxis&, const FixedAxis&) = default;
};

class Geometry {
 public:
  /// Requires: cut_axes has one list per cut of the slicing, whose sizes multiply to the cut's parts; no axis occurs
  /// twice in it and `fixed` together.
  Geometry(const Mesh& mesh, Slicing slicing, const std::vector<std::vector<std::size_t>>& cut_axes,
           const std::vector<FixedAxis>& fixed);

  std::int64_t shard_count() const { return shard_count_; }
  const Slicing& slicing() const { return slicing_; }

  void shard(std::int64_t index, SubTensor* shard) const;
  /// Ascending. Cost: O(answer).
  void holders(std::int64_t index, std::vector<DeviceId>* devices) const;
  /// The only shard that the device holds, or −1.
  std::int64_t shard_of_device(DeviceId device) const;

 private:
  struct Step {
    std::int64_t stride;  // in device ids
    std::int64_t size;    // of the axis
  };
  struct FreeAxis {
    std::int64_t stride;
    std::int64_t size;
    std::vector<std::int64_t> coordinates;  // empty = all
  };

  void part_indices(std::int64_t index, std::vector<std::int64_t>* parts) const;

  Slicing slicing_;
  std::vector<std::int64_t> parts_;      // per cut
  std::vector<std::vector<Step>> cuts_;  // per cut, its axes, fastest first
  std::vector<FreeAxis> free_;           // slowest first
  std::int64_t shard_count_ = 1;
};

}  // namespace tenplex
