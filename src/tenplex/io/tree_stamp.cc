// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/io/tree_stamp.h"

namespace tenplex {
namespace {

FileStamp stamp_of(const FileStatus& status) {
  if (status.kind != FileKind::kFolder) return status.stamp;
  return {.file_system = status.stamp.file_system, .inode = status.stamp.inode};
}

}  // namespace

Result<TreeStamp> look_at(FileSystem& files, const std::string& path) {
  TreeStamp tree;
  const auto status = files.status(path);
  if (!status && status.error().code() == ErrorCode::kNotFound) return tree;
  if (!status) return status.error();
  tree.entries.emplace_back("", stamp_of(*status));
  std::vector<std::string> folders;
  if (status->kind == FileKind::kFolder) folders.emplace_back();
  while (!folders.empty()) {
    const std::string folder = std::move(folders.back());
    folders.pop_back();
    TENPLEX_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, files.list(path + folder));
    for (const FolderEntry& entry : entries) {
      std::string name = folder;
      name.append("/").append(entry.name);
      tree.entries.emplace_back(name, stamp_of(entry.status));
      if (entry.status.kind == FileKind::kFolder) folders.push_back(std::move(name));
    }
  }
  return tree;
}

}  // namespace tenplex
