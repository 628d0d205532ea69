// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/io/added_files.h"

#include <algorithm>
#include <utility>

#include "tenplex/io/path.h"

namespace tenplex {

AddedFiles::AddedFiles(FileSystem& files, std::string folder)
    : files_(files), folder_(without_trailing_slashes(folder)) {}

AddedFiles::~AddedFiles() {
  // Backwards, so that a folder goes after what was put into it; it is empty of all but what came from elsewhere.
  for (auto path = created_.rbegin(); path != created_.rend(); ++path) {
    const auto entries = files_.list(*path);
    if (entries && !entries->empty()) continue;
    static_cast<void>(files_.remove_all(*path));
  }
}

Result<void> AddedFiles::make_folder(const std::string& path) {
  if (files_.status(path)) return {};
  if (auto made = files_.make_folder(path); !made) {
    // Somebody else made it meanwhile: that is as good.
    if (made.error().code() == ErrorCode::kAlreadyExists) return {};
    return made;
  }
  created_.push_back(path);
  touched_.push_back(parent_path(path));
  return {};
}

Result<std::unique_ptr<ByteSink>> AddedFiles::create_file(const std::string& relative) {
  TENPLEX_ASSIGN_OR_RETURN(const std::string path, checked_join(folder_, relative));
  TENPLEX_TRY(make_folder(folder_));
  const std::vector<std::string> parts = path_components(relative);
  std::string folder = folder_;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    folder += "/" + parts[i];
    TENPLEX_TRY(make_folder(folder));
  }
  TENPLEX_ASSIGN_OR_RETURN(auto sink, files_.create(path));
  created_.push_back(path);
  touched_.push_back(std::move(folder));
  return sink;
}

Result<void> AddedFiles::sync_names() {
  std::sort(touched_.begin(), touched_.end());
  touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
  for (const std::string& folder : touched_) TENPLEX_TRY(files_.sync_folder(folder));
  touched_.clear();
  return {};
}

}  // namespace tenplex
