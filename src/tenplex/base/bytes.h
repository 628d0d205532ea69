// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Byte spans, and byte counts as people write and read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tenplex/base/result.h"

namespace tenplex {

using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;

/// The bytes of `text`, borrowed.
inline ByteSpan as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

/// Bytes as text, borrowed.
inline std::string_view as_text(ByteSpan bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// "512 B", "1.5 KiB", "3.2 GiB": binary units, at most one decimal.
std::string format_bytes(std::int64_t bytes);

/// Reads "256MiB", "4 GiB", "1000", "2GB" (decimal units are powers of 1000). Errors: invalid_argument, out_of_range.
Result<std::int64_t> parse_bytes(std::string_view text);

}  // namespace tenplex
