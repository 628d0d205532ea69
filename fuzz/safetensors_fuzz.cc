// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a .safetensors file, read by itself, with a folder of objects, and as a folder's only file. What opens
// must keep its promises: every chunk lies inside the file, and its header written again reads as the same tensors.
// An input that starts with the byte 0xff is a folder of two devices: two lengths (u16, little-endian), then that many
// bytes of the body of the manifest, around which the target puts the right length and checksum, and of device 0's
// file; the rest is device 1's. The two files are read without the manifest, as those of two ranks, as well. What can
// be read is laid out for writing again.
// decoder: src/tenplex/formats/safetensors/header.cc
// decoder: src/tenplex/formats/safetensors/single_reader.cc
// decoder: src/tenplex/formats/safetensors/manifest_folder.cc
// decoder: src/tenplex/formats/safetensors/rank_folder.cc
// decoder: src/tenplex/formats/safetensors/side_metadata.cc
// decoder: src/tenplex/formats/safetensors/sharding_info.cc
// decoder: src/tenplex/formats/safetensors/dcp_flavour.cc
// decoder: src/tenplex/formats/manifest/side_data.cc
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "tenplex/base/check.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/manifest/envelope.h"
#include "tenplex/formats/manifest/manifest.h"
#include "tenplex/formats/safetensors/header.h"
#include "tenplex/formats/safetensors/rank_folder.h"
#include "tenplex/formats/safetensors/safetensors_format.h"
#include "tenplex/formats/safetensors/safetensors_reader.h"
#include "tenplex/io/testing/memory_file_system.h"
#include "tenplex/ptc/explicit_collection.h"

namespace {

constexpr std::int64_t kMaxElements = 4096;
constexpr std::size_t kLengthsEnd = 5;  // the mark and two lengths

/// In one file, and in a folder of two devices that both hold everything.
void write_again(const tenplex::CheckpointInfo& info) {
  for (const int devices : {1, 2}) {
    tenplex::ExplicitCollectionBuilder builder(info.tensors, devices, {});
    for (std::size_t tensor = 0; tensor < info.tensors.size(); ++tensor) {
      if (tenplex::volume(info.tensors[tensor].shape) > kMaxElements) return;
      for (int device = 0; device < devices; ++device)
        if (!builder.add(tenplex::DeviceId(device), tenplex::TensorId(tensor),
                         tenplex::whole_tensor(info.tensors[tensor].shape)))
          return;
    }
    const auto target = std::move(builder).finish();
    if (!target) return;
    const auto writer = tenplex::safetensors_format().make_writer();
    tenplex::WriteRequest request;
    request.source = &info;
    request.target = target->get();
    request.layout = info.layout.value_or(tenplex::LayoutNote());
    request.objects_folder = "/objects";
    const auto plan = writer->prepare(request);
    if (!plan) continue;
    const auto first = writer->literal(0, 0, {});
    TENPLEX_CHECK(first && static_cast<std::int64_t>(first->size()) == plan->files[0].segments[0].size_bytes);
  }
}

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

/// Tensors that are cut over the ranks along dimension 0, as far as their shapes tell.
tenplex::Result<std::unique_ptr<tenplex::ExplicitCollection>> joined(
    const std::vector<tenplex::safetensors::RankFile>& ranks, bool cut) {
  std::vector<tenplex::TensorInfo> tensors;
  std::map<std::string, std::size_t> numbers;
  struct Part {
    int device;
    std::size_t tensor;
    tenplex::Box box;
  };
  std::vector<Part> parts;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const tenplex::TensorInfo& local : ranks[rank].tensors) {
      const auto [found, is_new] = numbers.emplace(local.name, tensors.size());
      if (is_new) tensors.push_back(local);
      tenplex::Box box = tenplex::Box::whole(local.shape);
      tenplex::TensorInfo& whole = tensors[found->second];
      if (!is_new && whole.shape.rank() != local.shape.rank()) return tenplex::corrupt("ranks differ");
      if (cut && !is_new && local.shape.rank() > 0) {
        if (whole.shape[0] > kMaxElements || local.shape[0] > kMaxElements) return tenplex::corrupt("too large");
        box.offset[0] = whole.shape[0];
        whole.shape[0] += local.shape[0];
      }
      parts.push_back({static_cast<int>(rank), found->second, box});
    }
  }
  tenplex::ExplicitCollectionBuilder builder(tensors, static_cast<int>(ranks.size()), {});
  for (const Part& part : parts)
    TENPLEX_TRY(builder.add(tenplex::DeviceId(part.device), tenplex::TensorId(part.tensor),
                            tenplex::sub_tensor_of_box(part.box)));
  return std::move(builder).finish();
}

void read_ranks(tenplex::FileSystem& files, std::int64_t size) {
  namespace st = tenplex::safetensors;
  const auto is_one = st::is_rank_folder(files, "/ranks", {});
  const auto ranks = st::list_rank_folder(files, "/ranks", {});
  if (!ranks) return;
  TENPLEX_CHECK(is_one.has_value());
  for (const bool cut : {true, false}) {
    const auto collection = joined(*ranks, cut);
    if (!collection) continue;
    const auto reader = st::open_rank_folder(files, "/ranks", **collection, {}, {});
    if (reader) check_chunks(**reader, size);
  }
}

void read_folder(std::string_view input) {
  const auto byte = [&](std::size_t at) { return static_cast<std::size_t>(static_cast<unsigned char>(input[at])); };
  const std::size_t lengths[] = {byte(1) | byte(2) << 8U, byte(3) | byte(4) << 8U};
  input.remove_prefix(kLengthsEnd);
  const auto take = [&](std::size_t count) {
    const std::string_view part = input.substr(0, count);
    input.remove_prefix(part.size());
    return std::string(part);
  };
  tenplex::MemoryFileSystem files;
  files.put_file("/d/tenplex.json",
                 tenplex::write_envelope(tenplex::kManifestFormat, tenplex::kManifestVersion, take(lengths[0])));
  const std::string contents[] = {take(lengths[1]), std::string(input)};
  for (const std::string folder : {"/d/device-", "/ranks/rank-"})
    for (const std::size_t device : {std::size_t{0}, std::size_t{1}})
      files.put_file(folder + std::to_string(device) + ".safetensors", contents[device]);
  files.put_file("/d/objects/object-00000.pkl", "\x80\x02N.");
  files.put_file("/ranks/notes.txt", "notes");
  const auto size = static_cast<std::int64_t>(std::max(contents[0].size(), contents[1].size()));
  if (const auto reader = tenplex::safetensors::open_safetensors(files, "/d", {})) {
    check_chunks(**reader, size);
    write_again((*reader)->info());
  }
  read_ranks(files, size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size >= kLengthsEnd && data[0] == 0xff) {
    read_folder(std::string_view(reinterpret_cast<const char*>(data), size));
    return 0;
  }
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
    if (!reader) continue;
    check_chunks(**reader, static_cast<std::int64_t>(size));
    write_again((*reader)->info());
  }
  return 0;
}
