// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/parameter_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "tenplex/base/utf8.h"
#include "tenplex/cli/text_file.h"

namespace tenplex::cli {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{64} << 20;
constexpr std::string_view kSpaces = " \t\r";
constexpr std::string_view kWrapper = "module.";
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::string_view name_in(std::string_view line) {
  line = line.substr(0, line.find('#'));
  const std::size_t first = std::min(line.find_first_not_of(kSpaces), line.size());
  line.remove_prefix(first);
  line = line.substr(0, line.find_last_not_of(kSpaces) + 1);
  while (line.starts_with(kWrapper)) line.remove_prefix(kWrapper.size());
  return line;
}

}  // namespace

Result<std::vector<std::string>> read_parameter_order(FileSystem& files, const std::string& path) {
  TENPLEX_ASSIGN_OR_RETURN(const std::string text, read_text_file(files, "order of parameters", path, kMaxBytes));
  if (find_invalid_utf8(text) != std::string_view::npos || text.find('\0') != std::string::npos)
    return invalid_argument(fmt::format("order of parameters '{}' is not UTF-8 text", path));
  std::vector<std::string> names;
  std::set<std::string_view> seen;
  int line = 0;
  std::string_view rest = text;
  if (rest.starts_with(kByteOrderMark)) rest.remove_prefix(kByteOrderMark.size());
  while (!rest.empty()) {
    ++line;
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view name = name_in(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (name.empty()) continue;
    if (!seen.insert(name).second)
      return invalid_argument(fmt::format("order of parameters '{}' line {}: '{}' is there twice", path, line, name));
    names.emplace_back(name);
  }
  if (names.empty()) return invalid_argument(fmt::format("order of parameters '{}' has no names", path));
  return names;
}

}  // namespace tenplex::cli
