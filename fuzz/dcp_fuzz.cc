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
#include <cstdint>
#include <string>

#include "checkpoint_use.h"
#include "tenplex/base/check.h"
#include "tenplex/formats/dcp/dcp_format.h"
#include "tenplex/formats/dcp/side_file.h"
#include "tenplex/formats/manifest/envelope.h"
#include "tenplex/io/testing/memory_file_system.h"

namespace {

using namespace tenplex;

constexpr std::int64_t kMaxPickle = 1 << 20;

void check_ties(const CheckpointInfo& info) {
  for (const auto& [alias, stored] : info.aliases) {
    const TensorInfo& one = info.tensors[alias.index()];
    const TensorInfo& other = info.tensors[stored.index()];
    TENPLEX_CHECK(alias != stored && one.dtype == other.dtype && one.shape == other.shape);
  }
}

void write_again(const CheckpointInfo& info) {
  const auto target = whole_target(info);
  if (!target) return;
  const auto writer = make_dcp_writer();
  WriteRequest request;
  request.source = &info;
  request.target = target.get();
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
  check_chunks(**reader);
  check_ties((*reader)->info());
  write_again((*reader)->info());
  return 0;
}
