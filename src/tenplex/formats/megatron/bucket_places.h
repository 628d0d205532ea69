// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which elements of the buckets of a distributed optimizer (dp_reshardable) are which of a parameter's slots.
//
//   buckets of tp rank 0: [ c · b · a ]     a: elements 128 to 228 are rows 0–9 of 'a' [20, 10], for each slot
//
// Pure. Threads: safe together.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/megatron/bucket_names.h"
#include "tenplex/formats/megatron/rank_parameters.h"

namespace tenplex::megatron {

/// A flat tensor per slot, all of one length.
struct Bucket {
  std::int64_t size = 0;
  std::map<std::string, TensorId, std::less<>> slots;
};

struct FlatBuffer {
  DType parameter_type = DType::kFloat32;
  std::vector<Bucket> buckets;
};

/// The buffers of every optimizer on every rank, by their numbers.
using FlatBuffers = std::map<OptimizerGroup, std::vector<FlatBuffer>>;

/// Nothing is in it if there are no buckets. Errors: corrupt, naming the bucket that is missing or is not like the
/// others, or what has the beginning of such a name and is none.
Result<FlatBuffers> find_buffers(const CheckpointInfo& info);

/// Elements of a bucket that are an array of a rank, and so a part of a stored parameter.
struct PlacedPart {
  const Bucket* bucket = nullptr;
  std::int64_t begin = 0;
  ParameterPart parameter;
  std::string module;  ///< its name, for messages
};

/// Of all ranks, in the order of the model. Errors: unsupported, saying what does not fit.
Result<std::vector<PlacedPart>> place_parameters(const FlatBuffers& buffers, const RankParameters& ranks,
                                                 const ModelForm& form, std::span<const std::string> order);

}  // namespace tenplex::megatron
