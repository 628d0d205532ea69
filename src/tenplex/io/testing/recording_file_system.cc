// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/io/testing/recording_file_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tenplex {

class RecordingSource : public ByteSource {
 public:
  RecordingSource(RecordingFileSystem& files, std::unique_ptr<ByteSource> base)
      : files_(files), base_(std::move(base)) {}

  std::int64_t size() const override { return base_->size(); }
  FileStamp stamp() const override { return base_->stamp(); }
  const std::string& name() const override { return base_->name(); }
  Result<void> read_at(std::int64_t offset, MutableByteSpan buffer) const override {
    TENPLEX_TRY(files_.count_call(name()));
    files_.bytes_read_ += static_cast<std::int64_t>(buffer.size());
    return base_->read_at(offset, buffer);
  }

 private:
  RecordingFileSystem& files_;
  std::unique_ptr<ByteSource> base_;
};

class RecordingSink : public ByteSink {
 public:
  RecordingSink(RecordingFileSystem& files, std::unique_ptr<ByteSink> base) : files_(files), base_(std::move(base)) {}

  const std::string& name() const override { return base_->name(); }

  Result<void> write_at(std::int64_t offset, ByteSpan bytes) override {
    TENPLEX_TRY(files_.count_call(name()));
    const auto wanted = static_cast<std::int64_t>(bytes.size());
    const std::int64_t granted = files_.take_space(wanted);
    bytes = bytes.first(static_cast<std::size_t>(granted));
    files_.record({FileOperation::Kind::kWrite, name(), "", offset, std::string(as_text(bytes))});
    files_.bytes_written_ += granted;
    TENPLEX_TRY(base_->write_at(offset, bytes));
    if (granted == wanted) return {};
    return errno_error(fmt::format("cannot write '{}' at {}", name(), offset + granted), ENOSPC);
  }

  Result<void> finish() override {
    TENPLEX_TRY(files_.count_call(name()));
    files_.record({FileOperation::Kind::kFinish, name(), "", 0, ""});
    return base_->finish();
  }

  Result<void> close() override {
    TENPLEX_TRY(files_.count_call(name()));
    files_.record({FileOperation::Kind::kClose, name(), "", 0, ""});
    return base_->close();
  }

 private:
  RecordingFileSystem& files_;
  std::unique_ptr<ByteSink> base_;
};

std::vector<FileOperation> RecordingFileSystem::operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}

void RecordingFileSystem::fail_call(std::int64_t index, int error_number) {
  error_number_ = error_number;
  failing_call_ = index;
}

Result<void> RecordingFileSystem::count_call(const std::string& path) {
  if (calls_++ != failing_call_) return {};
  return errno_error(fmt::format("'{}'", path), error_number_);
}

void RecordingFileSystem::record(FileOperation operation) {
  const std::lock_guard lock(mutex_);
  operations_.push_back(std::move(operation));
}

std::int64_t RecordingFileSystem::take_space(std::int64_t wanted) {
  std::int64_t left = bytes_left_;
  std::int64_t granted = std::min(left, wanted);
  while (!bytes_left_.compare_exchange_weak(left, left - granted)) granted = std::min(left, wanted);
  return granted;
}

Result<std::unique_ptr<ByteSource>> RecordingFileSystem::open(const std::string& path) {
  TENPLEX_TRY(count_call(path));
  TENPLEX_ASSIGN_OR_RETURN(auto source, base_.open(path));
  return std::unique_ptr<ByteSource>(std::make_unique<RecordingSource>(*this, std::move(source)));
}

Result<std::unique_ptr<ByteSource>> RecordingFileSystem::open_below(const std::string& folder,
                                                                    const std::string& relative) {
  TENPLEX_TRY(count_call(relative));
  TENPLEX_ASSIGN_OR_RETURN(auto source, base_.open_below(folder, relative));
  return std::unique_ptr<ByteSource>(std::make_unique<RecordingSource>(*this, std::move(source)));
}

Result<std::unique_ptr<ByteSink>> RecordingFileSystem::create(const std::string& path) {
  TENPLEX_TRY(count_call(path));
  TENPLEX_ASSIGN_OR_RETURN(auto sink, base_.create(path));
  record({FileOperation::Kind::kCreate, path, "", 0, ""});
  return std::unique_ptr<ByteSink>(std::make_unique<RecordingSink>(*this, std::move(sink)));
}

Result<void> RecordingFileSystem::make_folder(const std::string& path) {
  TENPLEX_TRY(count_call(path));
  TENPLEX_TRY(base_.make_folder(path));
  record({FileOperation::Kind::kMakeFolder, path, "", 0, ""});
  return {};
}

Result<std::vector<FolderEntry>> RecordingFileSystem::list(const std::string& folder) {
  TENPLEX_TRY(count_call(folder));
  return base_.list(folder);
}

Result<FileStatus> RecordingFileSystem::status(const std::string& path) {
  TENPLEX_TRY(count_call(path));
  return base_.status(path);
}

Result<FreeSpace> RecordingFileSystem::free_space(const std::string& path) {
  TENPLEX_TRY(count_call(path));
  return base_.free_space(path);
}

Result<void> RecordingFileSystem::rename_new(const std::string& from, const std::string& to) {
  TENPLEX_TRY(count_call(from));
  TENPLEX_TRY(base_.rename_new(from, to));
  record({FileOperation::Kind::kRename, from, to, 0, ""});
  return {};
}

Result<void> RecordingFileSystem::exchange(const std::string& a, const std::string& b) {
  TENPLEX_TRY(count_call(a));
  TENPLEX_TRY(base_.exchange(a, b));
  record({FileOperation::Kind::kExchange, a, b, 0, ""});
  return {};
}

Result<void> RecordingFileSystem::copy_permissions(const std::string& from, const std::string& path) {
  TENPLEX_TRY(count_call(path));
  return base_.copy_permissions(from, path);
}

Result<void> RecordingFileSystem::sync_folder(const std::string& folder) {
  TENPLEX_TRY(count_call(folder));
  record({FileOperation::Kind::kSyncFolder, folder, "", 0, ""});
  return base_.sync_folder(folder);
}

Result<void> RecordingFileSystem::sync_file(const std::string& path) {
  TENPLEX_TRY(count_call(path));
  record({FileOperation::Kind::kSyncFile, path, "", 0, ""});
  return base_.sync_file(path);
}

Result<std::unique_ptr<FileLock>> RecordingFileSystem::try_lock(const std::string& path) {
  TENPLEX_TRY(count_call(path));
  return base_.try_lock(path);
}

Result<void> RecordingFileSystem::remove_all(const std::string& path) {
  TENPLEX_TRY(count_call(path));
  record({FileOperation::Kind::kRemove, path, "", 0, ""});
  return base_.remove_all(path);
}

}  // namespace tenplex
