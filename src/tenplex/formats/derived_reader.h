// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// DerivedReader: a checkpoint whose chunks are parts of those of another one, which it keeps, and whose files are the
// same. Threads: as CheckpointReader.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

class DerivedReader : public CheckpointReader {
 public:
  /// The same chunks, under other names or with another tree.
  DerivedReader(std::unique_ptr<CheckpointReader> stored, CheckpointInfo info)
      : stored_(std::move(stored)), info_(std::move(info)), same_chunks_(true) {}

  /// Chunk i of `info` starts where chunk chunks[i] of `stored` does, and has its strides.
  DerivedReader(std::unique_ptr<CheckpointReader> stored, CheckpointInfo info, std::vector<std::uint32_t> chunks)
      : stored_(std::move(stored)), info_(std::move(info)), chunks_(std::move(chunks)) {}

  const CheckpointInfo& info() const override { return info_; }
  Result<const ByteSource*> file(std::int32_t index) const override { return stored_->file(index); }
  Result<ChunkLocation> locate(std::size_t index) const override { return stored_->locate(of_stored(index)); }
  Result<std::string> read_extra_file(const ExtraFile& file) const override { return stored_->read_extra_file(file); }
  Result<void> check_unchanged() const override { return stored_->check_unchanged(); }
  Result<void> check_files(Progress& progress) const override { return stored_->check_files(progress); }

 protected:
  /// The chunk of the other checkpoint that chunk `index` is a part of.
  Chunk stored_chunk(std::size_t index) const { return stored_->info().chunks[of_stored(index)]; }

 private:
  std::size_t of_stored(std::size_t index) const { return same_chunks_ ? index : chunks_[index]; }

  const std::unique_ptr<CheckpointReader> stored_;
  const CheckpointInfo info_;
  const bool same_chunks_ = false;
  const std::vector<std::uint32_t> chunks_;
};

}  // namespace tenplex
