// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Fill: which box of a target shard comes from which source shard. The innermost question of every plan.
//
//   source shards      target shard           fills
//   |--0--|--1--|--2--|     [== == ==]   ->   (shard 0, tail) (shard 1, all) (shard 2, head)
//
// SourceIndex answers it for one tensor in O(log shards + answer). Immutable after it is built.
// Threads: const calls are safe together.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/ptc/collection.h"

namespace tenplex {

struct Fill {
  std::int64_t source_shard = 0;
  Piece source;  ///< source.box == target.box
  Piece target;
};

class SourceIndex {
 public:
  SourceIndex(const Collection& source, TensorId tensor);
  ~SourceIndex();
  SourceIndex(const SourceIndex&) = delete;
  SourceIndex& operator=(const SourceIndex&) = delete;

  /// Replaces `*fills` by copies that cover every element of `target` exactly once, in the order of target's pieces.
  /// Where source shards overlap, the lowest-numbered one is taken.
  /// Errors: invalid_argument naming the tensor and the first box that no source shard holds.
  Result<void> fill(const SubTensor& target, std::vector<Fill>* fills) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tenplex
