// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/io/watched_file_system.h"

#include <fmt/format.h>

namespace tenplex {
namespace {

Error changed(const std::string& name, const std::string& how) {
  return corrupt(fmt::format("'{}' changed while it was read: {}", name, how));
}

Result<void> compare(const std::string& name, const FileStamp& before, const FileStamp& now) {
  if (before == now) return {};
  if (before.inode != now.inode || before.file_system != now.file_system)
    return changed(name, "another file has taken its place");
  if (before.size_bytes != now.size_bytes)
    return changed(name, fmt::format("it had {} bytes before and has {} now", before.size_bytes, now.size_bytes));
  return changed(name, "it was written to");
}

}  // namespace

Result<std::unique_ptr<ByteSource>> WatchedFileSystem::open_again(const Name& name) {
  return name.first.empty() ? base_.open(name.second) : base_.open_below(name.first, name.second);
}

Result<std::unique_ptr<ByteSource>> WatchedFileSystem::remember(Name name) {
  TENPLEX_ASSIGN_OR_RETURN(auto source, open_again(name));
  const std::lock_guard lock(mutex_);
  const auto entry = stamps_.try_emplace(std::move(name), source->stamp()).first;
  TENPLEX_TRY(compare(source->name(), entry->second, source->stamp()));
  return source;
}

Result<std::unique_ptr<ByteSource>> WatchedFileSystem::open(const std::string& path) { return remember({"", path}); }

Result<std::unique_ptr<ByteSource>> WatchedFileSystem::open_below(const std::string& folder,
                                                                  const std::string& relative) {
  return remember({folder, relative});
}

Result<void> WatchedFileSystem::check() {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, stamp] : stamps_) {
    const auto source = open_again(name);
    if (!source) {
      const std::string path = name.first.empty() ? name.second : fmt::format("{}/{}", name.first, name.second);
      return changed(path, source.error().to_string());
    }
    TENPLEX_TRY(compare((*source)->name(), stamp, (*source)->stamp()));
  }
  return {};
}

}  // namespace tenplex
