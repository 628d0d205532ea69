// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/member_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace tenplex {
namespace {

constexpr std::ptrdiff_t kMaxFolderDepth = 16;

bool is_link(FileSystem& files, const std::string& folder, const std::string& relative) {
  const auto path = checked_join(folder, relative);
  if (!path) return false;
  const auto status = files.status(*path);
  return status && status->kind == FileKind::kLink;
}

}  // namespace

Result<std::unique_ptr<ByteSource>> open_member(FileSystem& files, const std::string& folder,
                                                const std::string& relative, bool follow_links) {
  if (follow_links) {
    TENPLEX_ASSIGN_OR_RETURN(const std::string path, checked_join(folder, relative));
    return files.open(path);
  }
  auto source = files.open_below(folder, relative);
  if (source || source.error().code() != ErrorCode::kInvalidArgument || !is_link(files, folder, relative))
    return source;
  return invalid_argument(fmt::format("{}; --follow-links reads what a link leads to", source.error().message()));
}

Result<void> list_members(FileSystem& files, const std::string& folder, bool follow_links,
                          std::vector<ExtraFile>* members, std::vector<std::string>* problems) {
  std::vector<std::string> pending = {""};
  while (!pending.empty()) {
    const std::string below = std::move(pending.back());
    pending.pop_back();
    if (std::count(below.begin(), below.end(), '/') > kMaxFolderDepth)
      return invalid_argument(fmt::format("folders are nested deeper than {}: '{}'", kMaxFolderDepth, below));
    TENPLEX_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries,
                             files.list(below.empty() ? folder : fmt::format("{}/{}", folder, below)));
    for (const FolderEntry& entry : entries) {
      const std::string path = below.empty() ? entry.name : below + "/" + entry.name;
      if (entry.status.kind == FileKind::kFolder && entry.name.starts_with('.')) {
        problems->push_back(fmt::format("the hidden folder '{}' is left out", path));
      } else if (entry.status.kind == FileKind::kFolder) {
        pending.push_back(path);
      } else if (entry.status.kind == FileKind::kLink) {
        TENPLEX_ASSIGN_OR_RETURN(const auto source, open_member(files, folder, path, follow_links));
        members->push_back({path, source->size()});
      } else if (entry.status.kind == FileKind::kFile) {
        members->push_back({path, entry.status.size_bytes});
      } else {
        problems->push_back(fmt::format("'{}' is no file and left out", path));
      }
    }
  }
  std::sort(members->begin(), members->end(), [](const ExtraFile& a, const ExtraFile& b) { return a.path < b.path; });
  return {};
}

void note_other_files(FileSystem& files, const std::string& folder, const std::vector<std::string>& known,
                      CheckpointInfo* info) {
  const auto entries = files.list(folder);
  if (!entries) return;
  std::set<std::string_view> expected;
  const auto expect = [&](std::string_view path) { expected.insert(path.substr(0, path.find('/'))); };
  for (const std::string& path : known) expect(path);
  for (const std::string& path : info->files) expect(path);
  for (const ExtraFile& file : info->extra_files) expect(file.path);
  std::vector<std::string_view> others;
  for (const FolderEntry& entry : *entries)
    if (!expected.contains(entry.name)) others.push_back(entry.name);
  if (others.empty()) return;
  info->problems.push_back(
      others.size() == 1
          ? fmt::format("'{}' is no part of the checkpoint and left out", others[0])
          : fmt::format("'{}' and {} more are no part of the checkpoint and left out", others[0], others.size() - 1));
}

}  // namespace tenplex
