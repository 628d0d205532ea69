// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// PlainReader: a checkpoint whose chunks are arrays at known positions of plain files, row-major unless listed.
//
// Built in steps by the readers of this format and of hf: add files, tensors and chunks to `info`, then hand it out.
// Resource. Threads: as CheckpointReader, once it is built.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/file_pool.h"
#include "tenplex/formats/safetensors/header.h"

namespace tenplex::safetensors {

class PlainReader final : public CheckpointReader {
 public:
  /// `folder` contains info.files, or is "" where files are opened by `paths` as they are. Borrows `files`.
  PlainReader(FileSystem& files, std::string folder, bool follow_links)
      : files_(files), folder_(std::move(folder)), follow_links_(follow_links), pool_(files, folder_, follow_links) {}

  // ── Building ──

  CheckpointInfo& mutable_info() { return info_; }
  /// Where extra files lie, if not in the folder.
  void set_extra_folder(std::string folder) { extra_folder_ = std::move(folder); }

  /// Opens a file below the folder and reads its header. The file gets the next index in info().files.
  /// Errors: as read_header(), and those of opening.
  Result<Header> add_file(const std::string& name, std::int64_t max_metadata_bytes);
  /// The same with the file at `path`, listed by its last component. Requires: the folder is "".
  Result<Header> add_single_file(const std::string& path, std::int64_t max_metadata_bytes);
  /// Size of a file that was added.
  std::int64_t file_size(std::int32_t index) const;

  /// The whole tensor in a file that was added.
  void add_whole(TensorId tensor, DeviceId device, std::int32_t file, std::int64_t position);
  /// A box; `strides` only where they are not row-major.
  void add_box(const Chunk& chunk, const Dims& strides);

  /// Strides of a chunk that was added.
  Dims strides_of(std::size_t index) const;

  // ── CheckpointReader ──

  const CheckpointInfo& info() const override { return info_; }
  Result<const ByteSource*> file(std::int32_t index) const override;
  Result<ChunkLocation> locate(std::size_t index) const override;
  Result<std::string> read_extra_file(const ExtraFile& file) const override;

 private:
  Result<Header> add(const std::string& path, std::string shown, std::int64_t max_metadata_bytes);

  FileSystem& files_;
  std::string folder_;
  bool follow_links_;
  std::string extra_folder_;
  CheckpointInfo info_;
  std::unordered_map<std::size_t, Dims> strides_;  // of chunks that are not row-major
  FilePool pool_;                                  // as info_.files
};

}  // namespace tenplex::safetensors
