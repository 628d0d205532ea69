// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/text_file.h"

#include <fmt/format.h>

#include "tenplex/base/bytes.h"

namespace tenplex::cli {

Result<std::string> read_text_file(FileSystem& files, std::string_view what, const std::string& path,
                                   std::int64_t limit) {
  TENPLEX_ASSIGN_OR_RETURN(const auto source, files.open(path));
  if (source->size() > limit)
    return out_of_range(fmt::format("{} '{}' has {} bytes: expected at most {} ({})", what, path, source->size(), limit,
                                    format_bytes(limit)));
  return read_string(*source, 0, source->size());
}

Result<std::string> builtin_or_file(FileSystem& files, std::string_view what, std::span<const BuiltinYaml> builtins,
                                    const std::string& name_or_path, std::int64_t limit) {
  const BuiltinYaml* builtin = find_builtin(builtins, name_or_path);
  if (builtin != nullptr) return std::string(builtin->text);
  if (!files.open(name_or_path))
    return not_found(
        fmt::format("{} '{}' is neither a file nor built in: there are {}", what, name_or_path, list_names(builtins)));
  return read_text_file(files, what, name_or_path, limit);
}

}  // namespace tenplex::cli
