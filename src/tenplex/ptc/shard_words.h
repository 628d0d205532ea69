// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// A SubTensor packed into int64 words.
//
//   contiguous box     offset[rank], extent[rank]                                   2·rank words
//   anything else      kGeneral, local rank, local_shape…, then per piece:
//                      offset[rank], extent[rank], local_offset, contiguous?, strides[rank] unless contiguous
//
// The two are told apart by their first word: offsets are never negative. A contiguous box of rank 0 is the word 0.
// The words of equal shards are equal, and their order is that of the boxes' offsets. Threads: as any value.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tenplex/ptc/tensor.h"

namespace tenplex {

/// Appends `shard` to `words`. Requires: pieces of rank `rank`.
void append_shard_words(int rank, const SubTensor& shard, std::vector<std::int64_t>* words);

/// Appends the shard that is one contiguous box.
void append_box_words(const Box& box, std::vector<std::int64_t>* words);

/// Replaces `*shard`. Requires: words that the functions above made, with the same rank.
void read_shard_words(int rank, std::span<const std::int64_t> words, SubTensor* shard);

}  // namespace tenplex
