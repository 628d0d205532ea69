// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a DCP folder: three lengths (u16, little-endian), then that many bytes of `.metadata`, of `__0_0.distcp`
// and of tenplex.json; the rest is `__1_0.distcp`. A tenplex.json that does not start with its format is a body, and
// the target puts the right length and checksum around it. The folder is opened, every chunk is located and read; what
// can be read is laid out for writing again.
// decoder: src/tenplex/formats/dcp/metadata.cc
// decoder: src/tenplex/formats/dcp/metadata_hooks.cc
// decoder: src/tenplex/formats/dcp/catalog.cc
// decoder: src/tenplex/formats/dcp/cover.cc
// decoder: src/tenplex/formats/dcp/dcp_reader.cc
// decoder: src/tenplex/formats/dcp/stored_item.cc
// decoder: src/tenplex/formats/dcp/state_builder.cc
// decoder: src/tenplex/formats/dcp/side_file.cc
// decoder: src/tenplex/formats/dcp/stored_ties.cc
// decoder: src/tenplex/formats/dcp/skeleton.cc
// decoder: src/tenplex/formats/dcp/safetensors_payload.cc
#include <algorithm>
#include <cstdint>
#include <string>

#include "tenplex/base/check.h"
#include "tenplex/formats/dcp/dcp_format.h"
#include "tenplex/formats/dcp/side_file.h"
#include "tenplex/formats/manifest/envelope.h"
#include "tenplex/io/testing/memory_file_system.h"
#include "tenplex/ptc/explicit_collection.h"

namespace {

using namespace tenplex;

constexpr std::int64_t kMaxElements = 4096;
constexpr std::int64_t kMaxPickle = 1 << 20;

std::string take(std::string_view* rest, std::size_t count) {
  count = std::min(count, rest->size());
  std::string part(rest->substr(0, count));
  rest->remove_prefix(count);
  return part;
}

void read_chunks(const CheckpointReader& reader) {
  for (std::size_t i = 0; i < reader.info().chunks.size(); ++i) {
    const auto location = reader.locate(i);
    if (!location) continue;
    const Chunk chunk = reader.info().chunks[i];
    const TensorInfo& tensor = reader.info().tensors[chunk.tensor.index()];
    if (chunk.box.empty()) continue;
    std::int64_t last = 0;
    for (int dim = 0; dim < chunk.box.rank(); ++dim) last += (chunk.box.extent[dim] - 1) * location->strides[dim];
    // All elements lie inside the file, as locate() promises.
    const ByteSource& file = **reader.file(chunk.file);
    const std::int64_t end = location->offset_bytes + (last + 1) * size_bytes(tensor.dtype);
    TENPLEX_CHECK(location->offset_bytes >= 0 && end <= file.size());
  }
}

void check_ties(const CheckpointInfo& info) {
  for (const auto& [alias, stored] : info.aliases) {
    const TensorInfo& one = info.tensors[alias.index()];
    const TensorInfo& other = info.tensors[stored.index()];
    TENPLEX_CHECK(alias != stored && one.dtype == other.dtype && one.shape == other.shape);
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
  const auto writer = make_dcp_writer();
  WriteRequest request;
  request.source = &info;
  request.target = target->get();
  request.layout = info.layout.value_or(LayoutNote());
  const auto plan = writer->prepare(request);
  if (!plan) return;
  for (std::size_t i = 0; i < plan->manifest->segments.size(); ++i) {
    const auto literal = writer->literal(-1, i, {});
    TENPLEX_CHECK(literal && static_cast<std::int64_t>(literal->size()) == plan->manifest->segments[i].size_bytes);
  }
}

// The body as that of this .metadata, so that the fuzzer need not find its checksum.
std::string adopted(std::string body, std::string_view metadata) {
  if (body.starts_with("{")) body.replace(0, 1, "{\"of\":\"" + checksum_of(metadata) + (body == "{}" ? "\"" : "\","));
  return body;
}

void check_side_file(std::string_view text) {
  const auto side = dcp::decode_side_file(text);
  if (!side) return;
  const auto again = dcp::encode_side_file(*side);
  TENPLEX_CHECK(again && dcp::decode_side_file(*again).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  if (size < 6) return 0;
  std::size_t lengths[3];
  for (std::size_t i = 0; i < 3; ++i) lengths[i] = data[2 * i] | static_cast<std::size_t>(data[2 * i + 1]) << 8;
  rest.remove_prefix(6);
  MemoryFileSystem files;
  const std::string metadata = take(&rest, lengths[0]);
  files.put_file("/c/.metadata", metadata);
  files.put_file("/c/__0_0.distcp", take(&rest, lengths[1]));
  if (std::string side = take(&rest, lengths[2]); !side.empty()) {
    if (!side.starts_with("{\"format\"")) side = write_envelope("tenplex.dcp", 1, adopted(side, metadata));
    files.put_file("/c/tenplex.json", side);
    check_side_file(side);
  }
  files.put_file("/c/__1_0.distcp", std::string(rest));
  ReadOptions options;
  options.max_metadata_bytes = kMaxPickle;
  const auto reader = open_dcp(files, "/c", options);
  if (!reader) return 0;
  read_chunks(**reader);
  check_ties((*reader)->info());
  write_again((*reader)->info());
  return 0;
}
