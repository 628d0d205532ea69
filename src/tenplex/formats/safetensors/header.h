// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The header of a safetensors file.
//
//   0        8                    8 + N                                         end
//   | N: u64 | JSON, N bytes      | data of the tensors, without holes            |
//              {"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}, …}   offsets count from 8 + N
//
// The reader is as strict as the reference implementation and refuses besides: duplicate tensor names and metadata
// keys, unknown members of an entry, and a first byte other than '{'. Data may start at any address.
//
// Pure functions. Threads: safe together. Source: docs/formats/safetensors.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/io/byte_source.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex::safetensors {

/// The format's own limit on N.
inline constexpr std::int64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::int64_t kLengthBytes = 8;

using Metadata = std::vector<std::pair<std::string, std::string>>;

struct HeaderTensor {
  TensorInfo info;
  std::int64_t begin = 0;  ///< bytes, from the start of the data
  std::int64_t end = 0;    ///< exclusive
};

struct Header {
  std::vector<HeaderTensor> tensors;  ///< in the order of their data
  Metadata metadata;                  ///< `__metadata__`, in the file's order
  std::int64_t data_start = 0;        ///< bytes, from the start of the file

  /// Text of a metadata key, or nothing.
  std::optional<std::string_view> find_metadata(std::string_view key) const;
};

/// "BF16" for bfloat16; nothing for dtypes that the format does not have (complex32, complex128).
std::optional<std::string_view> dtype_name(DType dtype);
std::optional<DType> parse_dtype_name(std::string_view name);

/// `json` is the header without its length; `data_bytes` is what follows it in the file.
/// Errors: corrupt for everything that breaks a rule of the format; unsupported for an unknown dtype, a rank above
/// kMaxRank, or a tensor of a sub-byte dtype whose rows are not whole bytes.
Result<Header> parse_header(std::string_view json, std::int64_t data_bytes);

/// Reads the header of a whole file. Errors: as parse_header(), with the file's name; io; resource_exhausted if the
/// header is larger than `max_bytes`.
Result<Header> read_header(const ByteSource& source, std::int64_t max_bytes);

/// The length and the JSON, padded with spaces to a multiple of 8 bytes; tensor data follows in the order given.
/// Errors: unsupported for a dtype without a name here, a name or text that is not UTF-8, or a header above the limit;
/// invalid_argument for a tensor called "__metadata__".
Result<std::string> build_header(const std::vector<TensorInfo>& tensors, const Metadata& metadata);

}  // namespace tenplex::safetensors
