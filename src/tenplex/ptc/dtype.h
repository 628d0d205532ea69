// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// DType: the element type of a tensor. All are little-endian in memory and on every wire and disk that we write.
// Names are PyTorch's without "torch." ("float32", "bfloat16", "float8_e4m3fn"). Source: FORMATS of safetensors and
// torch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tenplex/ptc/dims.h"

namespace tenplex {

// Values are persisted in manifests; append only.
enum class DType : std::uint8_t {
  kBool = 0,
  kUInt8 = 1,
  kInt8 = 2,
  kUInt16 = 3,
  kInt16 = 4,
  kUInt32 = 5,
  kInt32 = 6,
  kUInt64 = 7,
  kInt64 = 8,
  kFloat16 = 9,
  kBFloat16 = 10,
  kFloat32 = 11,
  kFloat64 = 12,
  kComplex32 = 13,   ///< two float16
  kComplex64 = 14,   ///< two float32
  kComplex128 = 15,  ///< two float64
  kFloat8E4M3FN = 16,
  kFloat8E5M2 = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2FNUZ = 19,
  kFloat8E8M0FNU = 20,
  kFloat6E2M3FN = 21,  ///< 6 bits, packed
  kFloat6E3M2FN = 22,  ///< 6 bits, packed
  kFloat4E2M1FN = 23,  ///< 4 bits, two per byte, low half first
};

inline constexpr int kDTypeCount = 24;

/// Bits per element: 4, 6, 8, 16, 32, 64 or 128.
int bit_width(DType dtype);

/// Bytes per element. Requires: bit_width(dtype) is a multiple of 8.
std::int64_t size_bytes(DType dtype);

/// True for element types that do not fill whole bytes; tensors of them are cut at whole bytes only.
bool is_sub_byte(DType dtype);

/// Bytes of `elements` packed elements, or nothing if that is no whole number of bytes or 2^60 bytes or more, whose
/// bits exceed int64.
std::optional<std::int64_t> packed_bytes(DType dtype, std::int64_t elements);

/// "float32"; see the file comment.
std::string_view to_string(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);

}  // namespace tenplex
