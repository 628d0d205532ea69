// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What stands around the JSON that tenplex writes: the format's name, the versions and a checksum.
//
//   {"format":"tenplex.manifest","version":1,"oldest_reader":1,"length":…,"checksum":"…","body":{…}}
//
// Pure functions. Threads: safe together. Source: docs/formats/manifest.md, "Envelope".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tenplex/base/result.h"

namespace tenplex {

/// One line. Requires: `body` is a JSON value. Any reader of `version` or an older one may read it.
std::string write_envelope(std::string_view format, std::int64_t version, std::string_view body);

/// The body, a part of `text`.
/// Errors: corrupt for another format, an unknown member, a wrong length or checksum; those of check_oldest_reader().
Result<std::string_view> read_envelope(std::string_view text, std::string_view format, std::int64_t version);

/// Errors: unsupported if a reader of `version` is too old; corrupt for a number below 1, which stands for none.
Result<void> check_oldest_reader(std::int64_t oldest_reader, std::int64_t version);

/// XXH3-128 as 32 hexadecimal digits.
std::string checksum_of(std::string_view bytes);

}  // namespace tenplex
