// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/manifest/envelope.h"

#include <fmt/format.h>

#include "tenplex/base/hash.h"
#include "tenplex/formats/manifest/json_values.h"

namespace tenplex {

std::string checksum_of(std::string_view bytes) {
  Hasher hasher;
  hasher.add_raw(as_bytes(bytes));
  return to_string(hasher.finish());
}

std::string write_envelope(std::string_view format, std::int64_t version, std::string_view body) {
  return fmt::format(
      "{{\"format\":\"{}\",\"version\":{},\"oldest_reader\":1,\"length\":{},\"checksum\":\"{}\",\"body\":{}}}\n",
      format, version, body.size(), checksum_of(body), body);
}

Result<std::string_view> read_envelope(std::string_view text, std::string_view format, std::int64_t version) {
  std::string_view found_format;
  std::string_view checksum;
  std::string_view body;
  std::int64_t found_version = 0;
  std::int64_t oldest_reader = 0;
  std::int64_t length = -1;
  JsonReader json(text);
  TENPLEX_TRY(for_each_member(json, [&](std::string_view key) -> Result<void> {
    if (key == "format") return read_value(json, &found_format);
    if (key == "version") return read_value(json, &found_version);
    if (key == "oldest_reader") return read_value(json, &oldest_reader);
    if (key == "length") return read_value(json, &length);
    if (key == "checksum") return read_value(json, &checksum);
    if (key != "body") return json.fail(fmt::format("unknown member '{}'", key));
    TENPLEX_ASSIGN_OR_RETURN(body, json.skip());
    return {};
  }));
  TENPLEX_TRY(json.finish());
  if (found_format != format) return corrupt(fmt::format("the format is '{}', expected '{}'", found_format, format));
  TENPLEX_TRY(check_oldest_reader(oldest_reader, version));
  if (found_version < oldest_reader)
    return corrupt(fmt::format("version {} needs a reader of version {}", found_version, oldest_reader));
  if (length != std::int64_t(body.size()))
    return corrupt(fmt::format("the body has {} bytes, expected {}", body.size(), length));
  if (const std::string found = checksum_of(body); found != checksum)
    return corrupt(fmt::format("the checksum of the body is {}, expected {}", found, checksum));
  return body;
}

Result<void> check_oldest_reader(std::int64_t oldest_reader, std::int64_t version) {
  if (oldest_reader > version)
    return unsupported(fmt::format("it needs a reader of version {}, this is version {}", oldest_reader, version));
  if (oldest_reader < 1) return corrupt("it does not say which reader it needs");
  return {};
}

}  // namespace tenplex
