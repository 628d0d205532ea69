// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/io/byte_source.h"

#include <fmt/format.h>

namespace tenplex {

Result<std::string> read_string(const ByteSource& source, std::int64_t offset, std::int64_t size) {
  if (offset < 0 || size < 0 || offset > source.size() || size > source.size() - offset) {
    return out_of_range(fmt::format("'{}': expected {} bytes at {}, found a file of {} bytes", source.name(), size,
                                    offset, source.size()));
  }
  std::string text(static_cast<std::size_t>(size), '\0');
  TENPLEX_TRY(source.read_at(offset, std::as_writable_bytes(std::span(text.data(), text.size()))));
  return text;
}

}  // namespace tenplex
