// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// FilePool: the data files of a checkpoint, of which there may be more than a process may have open. Each is a
// ByteSource for as long as the pool lives; at most kMaxOpen are open at a time, the one opened longest ago is closed
// first. That a file is still the same one when it is opened again is for the file system to see
// (io/watched_file_system.h).
//
// Resource. Threads: safe together after the last add().
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/io/file_system.h"

namespace tenplex {

class FilePool {
 public:
  static constexpr std::size_t kMaxOpen = 128;

  /// With the folder "" files are added by paths as they are.
  FilePool(FileSystem& files, std::string folder, bool follow_links = false)
      : files_(files), folder_(std::move(folder)), follow_links_(follow_links) {}
  FilePool(const FilePool&) = delete;
  FilePool& operator=(const FilePool&) = delete;

  /// Opens `relative` to learn its size; returns its index. Errors: not_found, invalid_argument if it leads out of the
  /// folder, io.
  Result<std::int32_t> add(std::string_view relative);

  std::size_t size() const { return sources_.size(); }
  const ByteSource& operator[](std::size_t index) const { return sources_[index]; }

 private:
  class Source : public ByteSource {
   public:
    Source(const FilePool& pool, std::size_t index, std::string relative, std::string name, std::int64_t size)
        : relative_(std::move(relative)), pool_(pool), index_(index), name_(std::move(name)), size_(size) {}
    std::int64_t size() const override { return size_; }
    Result<void> read_at(std::int64_t offset, MutableByteSpan buffer) const override;
    const std::string& name() const override { return name_; }

    const std::string relative_;
    mutable std::shared_ptr<ByteSource> open_;  // guarded by the pool's mutex; shared with reads in flight

   private:
    const FilePool& pool_;
    std::size_t index_;
    std::string name_;
    std::int64_t size_;
  };

  Result<std::unique_ptr<ByteSource>> open(const std::string& relative) const;
  Result<std::shared_ptr<ByteSource>> acquire(std::size_t index) const;
  void keep_open(std::size_t index, std::shared_ptr<ByteSource> source) const;

  FileSystem& files_;
  std::string folder_;
  bool follow_links_;
  std::deque<Source> sources_;
  mutable std::mutex mutex_;
  mutable std::deque<std::size_t> open_order_;  // guarded by mutex_
};

}  // namespace tenplex
