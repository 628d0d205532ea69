// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/watched_reader.h"

#include <utility>

#include "tenplex/io/watched_file_system.h"

namespace tenplex {
namespace {

class WatchedReader final : public CheckpointReader {
 public:
  WatchedReader(std::unique_ptr<WatchedFileSystem> files, std::unique_ptr<CheckpointReader> reader)
      : files_(std::move(files)), reader_(std::move(reader)) {}

  const CheckpointInfo& info() const override { return reader_->info(); }
  Result<const ByteSource*> file(std::int32_t index) const override { return reader_->file(index); }
  Result<ChunkLocation> locate(std::size_t index) const override { return reader_->locate(index); }
  Result<std::string> read_extra_file(const ExtraFile& file) const override { return reader_->read_extra_file(file); }
  Result<void> check_unchanged() const override { return files_->check(); }
  Result<void> check_files(Progress& progress) const override { return reader_->check_files(progress); }

 private:
  std::unique_ptr<WatchedFileSystem> files_;
  std::unique_ptr<CheckpointReader> reader_;
};

}  // namespace

Result<std::unique_ptr<CheckpointReader>> open_watched(FileSystem& files, const OpenReader& open) {
  auto watched = std::make_unique<WatchedFileSystem>(files);
  TENPLEX_ASSIGN_OR_RETURN(auto reader, open(*watched));
  return std::unique_ptr<CheckpointReader>(std::make_unique<WatchedReader>(std::move(watched), std::move(reader)));
}

}  // namespace tenplex
