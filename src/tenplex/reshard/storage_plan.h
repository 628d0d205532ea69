// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// A storage that several tensors share (views of one another, tied weights): which of them have to be read to fill it,
// and whether they overlap, so that they must be held against each other.
//
//   storage  [ w: 0 .. 600 ]      w.t() and w[1:3] lie in the same bytes of the same source file as w,
//            [ w.t(): 0 .. 600 ]  shifted by the same distance: reading w reads them all
//            [ w[1:3]: 20 .. 60 ]
#pragma once

#include <vector>

#include "tenplex/reshard/read_plan.h"

namespace tenplex {

struct StoragePlan {
  std::vector<ReadPlan> views;  ///< views whose bytes another one brings along are left out
  bool overlapping = false;     ///< two of the rest share bytes of the storage
  std::int64_t alignment = 1;   ///< bytes; ranges of the storage begin and end at multiples of it
};

/// `in_storage` is OutputLayout::views(storage). Errors: as plan_view().
Result<StoragePlan> plan_storage(const CheckpointReader& reader, const SourceCollection& source,
                                 const Collection& target, const OutputArray& storage,
                                 std::span<const StorageView> in_storage);

}  // namespace tenplex
