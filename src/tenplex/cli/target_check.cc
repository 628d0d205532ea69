// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/target_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace tenplex::cli {
namespace {

/// The path without links, "." and ".."; what does not exist is kept as it is written.
std::filesystem::path real_path(const std::string& path) {
  std::error_code ignored;
  auto real = std::filesystem::weakly_canonical(path, ignored);
  if (ignored) return path;
  return real.has_filename() ? real : real.parent_path();
}

bool lies_in(const std::filesystem::path& inner, const std::filesystem::path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

bool is_checkpoint(FileSystem& files, const std::string& path) {
  const auto all = formats();
  return std::any_of(all.begin(), all.end(), [&](const Format& format) { return format.detect(files, path); });
}

}  // namespace

Result<void> check_target(FileSystem& files, const std::string& source, const std::string& target, bool overwrite) {
  const auto real_source = real_path(source);
  const auto real_target = real_path(target);
  if (real_source == real_target) return invalid_argument(fmt::format("source and target are the same: '{}'", target));
  if (lies_in(real_source, real_target))
    return invalid_argument(fmt::format("the source '{}' lies in the target '{}'", source, target));
  if (lies_in(real_target, real_source))
    return invalid_argument(fmt::format("the target '{}' lies in the source '{}'", target, source));
  const auto status = files.status(target);
  if (!status) return {};
  if (!overwrite) return already_exists(fmt::format("'{}' exists already; --overwrite replaces it", target));
  if (status->kind == FileKind::kFolder) {
    const auto entries = files.list(target);
    if (entries && entries->empty()) return {};
  }
  if (!is_checkpoint(files, target))
    return invalid_argument(fmt::format("'{}' is no checkpoint; --overwrite replaces only checkpoints", target));
  return {};
}

}  // namespace tenplex::cli
