// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a folder with a tag's folder: for every file its name, a line end, its length (u16, little-endian) and
// that many bytes. A file that starts with 0x80 is a data.pkl, and an archive is made around it. The folder is opened,
// every chunk is located; what can be read is laid out for writing as a universal checkpoint.
// decoder: src/tenplex/formats/deepspeed/rank_files.cc
// decoder: src/tenplex/formats/deepspeed/parameter_groups.cc
// decoder: src/tenplex/formats/deepspeed/optimizer_file.cc
// decoder: src/tenplex/formats/deepspeed/flat_places.cc
// decoder: src/tenplex/formats/deepspeed/model_tree.cc
// decoder: src/tenplex/formats/deepspeed/zero_reader.cc
// decoder: src/tenplex/formats/deepspeed/universal_reader.cc
// decoder: src/tenplex/formats/joined_reader.cc
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "tenplex/base/check.h"
#include "tenplex/formats/deepspeed/deepspeed_format.h"
#include "tenplex/io/path.h"
#include "tenplex/io/testing/memory_file_system.h"
#include "tenplex/ptc/explicit_collection.h"
#include "torch_archive.h"

namespace {

using namespace tenplex;

constexpr int kStorages = 24;
constexpr std::size_t kMaxFiles = 32;
constexpr std::int64_t kMaxElements = 4096;

// False after the last file.
bool take_file(std::string_view* rest, MemoryFileSystem* files) {
  const std::size_t line = rest->find('\n');
  if (line == std::string_view::npos || rest->size() - line < 3) return false;
  const std::string_view name = rest->substr(0, line);
  const auto byte = [&](std::size_t at) { return static_cast<std::size_t>(static_cast<unsigned char>((*rest)[at])); };
  const std::size_t size = std::min(byte(line + 1) | byte(line + 2) << 8, rest->size() - line - 3);
  std::string content(rest->substr(line + 3, size));
  rest->remove_prefix(line + 3 + size);
  const auto path = checked_join("/c", name);
  if (!path || files->status(*path)) return true;
  // No file is where a folder has to be.
  for (std::size_t at = path->find('/', 3); at != std::string::npos; at = path->find('/', at + 1)) {
    const auto status = files->status(path->substr(0, at));
    if (status && status->kind != FileKind::kFolder) return true;
  }
  if (content.starts_with('\x80')) content = archive_around(std::move(content), "", kStorages);
  files->put_file(*path, std::move(content));
  return true;
}

void read_chunks(const CheckpointReader& reader) {
  for (std::size_t i = 0; i < reader.info().chunks.size(); ++i) {
    const Chunk chunk = reader.info().chunks[i];
    const TensorInfo& tensor = reader.info().tensors[chunk.tensor.index()];
    TENPLEX_CHECK(contains(Box::whole(tensor.shape), chunk.box));
    const auto location = reader.locate(i);
    if (!location || chunk.box.empty()) continue;
    std::int64_t last = 0;
    for (int dim = 0; dim < chunk.box.rank(); ++dim) last += (chunk.box.extent[dim] - 1) * location->strides[dim];
    const ByteSource& file = **reader.file(chunk.file);
    const std::int64_t end = location->offset_bytes + (last + 1) * size_bytes(tensor.dtype);
    TENPLEX_CHECK(location->offset_bytes >= 0 && end <= file.size());
  }
}

void write_again(const CheckpointInfo& info) {
  ExplicitCollectionBuilder builder(info.tensors, 1, {});
  for (std::size_t i = 0; i < info.tensors.size(); ++i) {
    if (volume(info.tensors[i].shape) > kMaxElements) return;
    if (!builder.add(DeviceId(0), TensorId(i), whole_tensor(info.tensors[i].shape))) return;
  }
  const auto target = std::move(builder).finish();
  if (!target) return;
  const auto writer = make_deepspeed_writer();
  WriteRequest request;
  request.source = &info;
  request.target = target->get();
  const auto plan = writer->prepare(request);
  if (plan) TENPLEX_CHECK(writer->literal(-1, 0, {}).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  MemoryFileSystem files;
  files.put_folder("/c");
  for (std::size_t count = 0; count < kMaxFiles && take_file(&rest, &files); ++count) {
  }
  (void)detect_deepspeed(files, "/c");
  ReadOptions options;
  options.max_metadata_bytes = 1 << 20;
  const auto reader = open_deepspeed(files, "/c", options);
  if (!reader) return 0;
  read_chunks(**reader);
  write_again((*reader)->info());
  return 0;
}
