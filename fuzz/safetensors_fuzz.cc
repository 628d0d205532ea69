// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a .safetensors file, read by itself, with a folder of objects, and as a folder's only file. What opens
// must keep its promises: every chunk lies inside the file, and its header written again reads as the same tensors.
// decoder: src/tenplex/formats/safetensors/header.cc
// decoder: src/tenplex/formats/safetensors/single_reader.cc
// decoder: src/tenplex/formats/safetensors/side_metadata.cc
// decoder: src/tenplex/formats/safetensors/sharding_info.cc
// decoder: src/tenplex/formats/safetensors/dcp_flavour.cc
#include <cstdint>
#include <string>

#include "tenplex/base/check.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/safetensors/header.h"
#include "tenplex/formats/safetensors/safetensors_reader.h"
#include "tenplex/io/testing/memory_file_system.h"

namespace {

void check_chunks(const tenplex::CheckpointReader& reader, std::int64_t file_size) {
  const tenplex::CheckpointInfo& info = reader.info();
  for (std::size_t index = 0; index < info.chunks.size(); ++index) {
    const tenplex::Chunk chunk = info.chunks[index];
    const auto location = reader.locate(index);
    if (!location) continue;
    const auto bytes = tenplex::packed_bytes(info.tensors[chunk.tensor.index()].dtype, tenplex::volume(chunk.box));
    TENPLEX_CHECK(bytes && location->offset_bytes >= 0 && *bytes <= file_size - location->offset_bytes);
  }
}

void check_header(const tenplex::ByteSource& source) {
  const auto header = tenplex::safetensors::read_header(source, 1 << 20);
  if (!header) return;
  std::vector<tenplex::TensorInfo> tensors;
  std::int64_t data_bytes = 0;
  for (const auto& tensor : header->tensors) {
    tensors.push_back(tensor.info);
    data_bytes = tensor.end;
  }
  const auto text = tenplex::safetensors::build_header(tensors, header->metadata);
  TENPLEX_CHECK(text.has_value());
  const auto again = tenplex::safetensors::parse_header(std::string_view(*text).substr(8), data_bytes);
  TENPLEX_CHECK(again.has_value() && again->tensors.size() == tensors.size() && again->metadata == header->metadata);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tenplex::MemoryFileSystem files;
  files.put_file("/f/x.safetensors", std::string(reinterpret_cast<const char*>(data), size));
  files.put_file("/objects/object-00000.pkl", "\x80\x02N.");
  const auto source = files.open("/f/x.safetensors");
  check_header(**source);
  tenplex::ReadOptions with_objects;
  with_objects.objects_folder = "/objects";
  for (const auto& [path, options] :
       {std::pair{"/f/x.safetensors", tenplex::ReadOptions()}, {"/f/x.safetensors", with_objects}, {"/f", {}}}) {
    const auto reader = tenplex::safetensors::open_safetensors(files, path, options);
    if (reader) check_chunks(**reader, static_cast<std::int64_t>(size));
  }
  return 0;
}
