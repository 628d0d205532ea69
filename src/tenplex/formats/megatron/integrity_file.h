// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// integrity.json of a Megatron-Core checkpoint (0.18 and later, if asked for): a sum of every other file.
//
//   {
//     "algorithm": "sha256",
//     "files": {
//       ".metadata": "64 hexadecimal digits",
//       …
//
// Pure functions, but for the file system. Threads: safe together.
// Source: save_integrity_manifest in megatron/core/dist_checkpointing/validation.py.
#pragma once

#include <string>
#include <string_view>

#include "tenplex/base/progress.h"
#include "tenplex/base/result.h"
#include "tenplex/formats/manifest/json_values.h"
#include "tenplex/io/byte_source.h"

namespace tenplex::megatron {

inline constexpr std::string_view kIntegrityName = "integrity.json";

/// {file name: sum in lower-case hexadecimal digits}. Errors: corrupt; unsupported for another algorithm.
Result<JsonTexts> decode_integrity(std::string_view text);

/// As Megatron-Core writes it. Requires: names are valid UTF-8.
std::string encode_integrity(const JsonTexts& sums);

/// SHA-256 of the whole file, read in blocks. Errors: io, cancelled.
Result<std::string> sum_of_file(const ByteSource& source, Progress& progress);

}  // namespace tenplex::megatron
