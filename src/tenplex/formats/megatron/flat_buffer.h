// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the parameters of a rank lie in the flat buffers of Megatron-Core's distributed optimizer. A buffer has them in
// the reverse of their order in the model, each from a multiple of 64 elements on, and is cut into buckets:
//
//   model: a 100, b 64, c 7      buffer:  c [0, 7) · b [64, 128) a [128, 228)        one bucket of 228
//                                         c [0, 7) · b [64, 128) │ a [0, 100)        buckets of 128 and 100
//
// A bucket ends where it is large enough, or before and behind the word embeddings that two stages share. Its length is
// that without the padding at its end.
//
// Source: Megatron-Core 0.16.1, distributed/param_and_grad_buffer.py (_ParamAndGradBuffer). Pure. Threads: safe
// together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/ptc/dtype.h"

namespace tenplex::megatron {

/// What parameters of one buffer have in common.
struct BufferKind {
  std::int64_t chunk = 0;  ///< virtual stage
  DType type = DType::kFloat32;

  friend bool operator==(const BufferKind&, const BufferKind&) = default;
};

/// Indexes of the parameters of each buffer, in the order in which their kinds first come.
std::vector<std::vector<std::size_t>> split_into_buffers(std::span<const BufferKind> kinds);

struct BufferPlace {
  std::size_t bucket = 0;
  std::int64_t begin = 0;  ///< element of the bucket

  friend bool operator==(const BufferPlace&, const BufferPlace&) = default;
};

/// Places of parameters with so many elements, in the order of the model, in buckets of these lengths.
/// Errors: unsupported if they do not fill them; the message begins with the number of the bucket.
Result<std::vector<BufferPlace>> places_in_buckets(std::span<const std::int64_t> elements,
                                                   std::span<const std::int64_t> buckets);

/// How a buffer may have been cut into buckets.
struct BucketRule {
  std::optional<std::size_t> shared;        ///< the parameter that has a bucket of its own
  std::optional<std::int64_t> bucket_size;  ///< a bucket ends when it has so many elements; nothing: it does not
};

/// Places in buckets that follow each other in `total` elements, where nothing says how long each of them is. Those of
/// the rule, if its buckets have that many elements in all; else of other bucket sizes for which they have.
/// Errors: unsupported if there is none, or if several lead to other places.
Result<std::vector<std::int64_t>> places_in_total(std::span<const std::int64_t> elements, std::int64_t total,
                                                  const BucketRule& rule);

}  // namespace tenplex::megatron
