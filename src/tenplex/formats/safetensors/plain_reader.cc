// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/safetensors/plain_reader.h"

#include <fmt/format.h>

#include "tenplex/formats/member_file.h"
#include "tenplex/io/path.h"

namespace tenplex::safetensors {

Result<Header> PlainReader::add(const std::string& path, std::string shown, std::int64_t max_metadata_bytes) {
  TENPLEX_ASSIGN_OR_RETURN(const std::int32_t index, pool_.add(path));
  TENPLEX_ASSIGN_OR_RETURN(Header header, read_header(pool_[static_cast<std::size_t>(index)], max_metadata_bytes));
  info_.files.push_back(std::move(shown));
  return header;
}

Result<Header> PlainReader::add_file(const std::string& name, std::int64_t max_metadata_bytes) {
  return add(name, name, max_metadata_bytes);
}

Result<Header> PlainReader::add_single_file(const std::string& path, std::int64_t max_metadata_bytes) {
  return add(path, last_component(path), max_metadata_bytes);
}

void PlainReader::add_whole(TensorId tensor, DeviceId device, std::int32_t file, std::int64_t position) {
  info_.chunks.add({tensor, device, file, position, Box::whole(info_.tensors[tensor.index()].shape)});
}

void PlainReader::add_box(const Chunk& chunk, const Dims& strides) {
  if (strides != row_major_strides(chunk.box.extent)) strides_.emplace(info_.chunks.size(), strides);
  info_.chunks.add(chunk);
}

Result<const ByteSource*> PlainReader::file(std::int32_t index) const {
  return &pool_[static_cast<std::size_t>(index)];
}

std::int64_t PlainReader::file_size(std::int32_t index) const { return pool_[static_cast<std::size_t>(index)].size(); }

Dims PlainReader::strides_of(std::size_t index) const {
  const auto found = strides_.find(index);
  return found == strides_.end() ? row_major_strides(info_.chunks[index].box.extent) : found->second;
}

Result<ChunkLocation> PlainReader::locate(std::size_t index) const {
  return ChunkLocation{info_.chunks[index].position, strides_of(index), std::nullopt};
}

Result<std::string> PlainReader::read_extra_file(const ExtraFile& file) const {
  const std::string& folder = extra_folder_.empty() ? folder_ : extra_folder_;
  TENPLEX_ASSIGN_OR_RETURN(const auto source, open_member(files_, folder, file.path, follow_links_));
  return read_string(*source, 0, source->size());
}

}  // namespace tenplex::safetensors
