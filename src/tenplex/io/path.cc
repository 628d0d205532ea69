// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/io/path.h"

#include <fmt/format.h>

#include "tenplex/io/file_system.h"

namespace tenplex {

std::string without_trailing_slashes(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return std::string(path);
}

std::string parent_path(std::string_view path) {
  const std::string text = without_trailing_slashes(path);
  const auto slash = text.rfind('/');
  if (slash == std::string::npos) return ".";
  return without_trailing_slashes(slash == 0 ? "/" : text.substr(0, slash));
}

std::string last_component(std::string_view path) {
  const std::string text = without_trailing_slashes(path);
  const auto slash = text.rfind('/');
  return slash == std::string::npos || text == "/" ? text : text.substr(slash + 1);
}

std::vector<std::string> path_components(std::string_view path) {
  std::vector<std::string> components;
  while (!path.empty()) {
    const auto slash = path.find('/');
    if (slash != 0) components.emplace_back(path.substr(0, slash));
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  return components;
}

Result<std::string> checked_join(std::string_view folder, std::string_view relative) {
  if (relative.empty()) return invalid_argument("path inside a checkpoint is empty");
  if (relative.front() == '/') return invalid_argument(fmt::format("path '{}' is absolute", relative));
  if (relative.find('\0') != std::string_view::npos) return invalid_argument("path holds a NUL byte");
  if (relative.back() == '/') return invalid_argument(fmt::format("path '{}' ends with '/'", relative));
  for (const std::string& component : path_components(relative)) {
    if (component == "." || component == "..") {
      return invalid_argument(fmt::format("path '{}' holds a '{}' component", relative, component));
    }
  }
  if (folder.empty()) return std::string(relative);
  return fmt::format("{}{}{}", folder, folder.back() == '/' ? "" : "/", relative);
}

}  // namespace tenplex
