// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/io/added_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "tenplex/io/path.h"

namespace tenplex {
namespace {

// Also a checkpoint that is about to be replaced needs its file until it is.
constexpr std::string_view kHint = ": it may be another checkpoint's and stays; give the new one a folder of its own";

/// Stands for a file that exists: writing to it means comparing with it.
class ExistingFile final : public ByteSink {
 public:
  ExistingFile(FileSystem& files, std::string path, std::unique_ptr<ByteSource> source)
      : files_(files), path_(std::move(path)), source_(std::move(source)) {}

  Result<void> write_at(std::int64_t offset, ByteSpan bytes) override {
    std::vector<std::byte> there(bytes.size());
    TENPLEX_TRY(source_->read_at(offset, there));
    if (std::equal(bytes.begin(), bytes.end(), there.begin())) return {};
    return already_exists(fmt::format("'{}' exists already, with other bytes{}", name(), kHint));
  }
  // The run that made it may not have waited for the disk.
  Result<void> finish() override { return files_.sync_file(path_); }
  Result<void> close() override { return {}; }
  const std::string& name() const override { return source_->name(); }

 private:
  FileSystem& files_;
  std::string path_;
  std::unique_ptr<ByteSource> source_;
};

Result<std::unique_ptr<ByteSink>> compare_with(FileSystem& files, const std::string& path, std::int64_t size_bytes) {
  TENPLEX_ASSIGN_OR_RETURN(auto source, files.open(path));
  if (source->size() != size_bytes)
    return already_exists(
        fmt::format("'{}' exists already, with {} bytes instead of {}{}", path, source->size(), size_bytes, kHint));
  return std::unique_ptr<ByteSink>(std::make_unique<ExistingFile>(files, path, std::move(source)));
}

}  // namespace

AddedFiles::AddedFiles(FileSystem& files, std::string_view folder)
    : files_(files), folder_(without_trailing_slashes(folder)) {}

AddedFiles::~AddedFiles() {
  unpublished_.clear();
  // Backwards, so that a folder goes after what was put into it; it is empty of all but what came from elsewhere.
  for (const std::string& path : std::views::reverse(created_)) {
    const auto entries = files_.list(path);
    if (entries && !entries->empty()) continue;
    static_cast<void>(files_.remove_all(path));
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

Result<std::unique_ptr<ByteSink>> AddedFiles::create_file(const std::string& relative, std::int64_t size_bytes) {
  TENPLEX_ASSIGN_OR_RETURN(const std::string path, checked_join(folder_, relative));
  TENPLEX_TRY(make_folder(folder_));
  const std::vector<std::string> parts = path_components(relative);
  std::string folder = folder_;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    folder += "/" + parts[i];
    TENPLEX_TRY(make_folder(folder));
  }
  touched_.push_back(folder);  // also for a file that is there: the run that made it may not have synced its name
  if (files_.status(path)) return compare_with(files_, path, size_bytes);
  // Synced by the sinks and sync_names(), once for a folder and not once for each file.
  const CommitOptions options{.single_file = true, .overwrite = false, .sync = false};
  TENPLEX_ASSIGN_OR_RETURN(auto target, AtomicTarget::begin(files_, path, options));
  TENPLEX_ASSIGN_OR_RETURN(auto sink, target->create_file(""));
  unpublished_.push_back(std::move(target));
  return sink;
}

Result<void> AddedFiles::publish() {
  for (const auto& target : unpublished_) {
    TENPLEX_TRY(target->commit());
    created_.push_back(target->path());
  }
  unpublished_.clear();
  return {};
}

Result<void> AddedFiles::sync_names() {
  std::sort(touched_.begin(), touched_.end());
  touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
  for (const std::string& folder : touched_) TENPLEX_TRY(files_.sync_folder(folder));
  touched_.clear();
  return {};
}

}  // namespace tenplex
