// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a Megatron-Core checkpoint: five lengths (u16, little-endian), then that many bytes of
// latest_checkpointed_iteration.txt, metadata.json, integrity.json, common.pt and `.metadata`; the rest is
// `__0_0.distcp`. A part of no bytes is no file. With a first part the others are in iter_0000070, else in the folder
// itself. The folder is opened, its sums are checked, every chunk is located, and what can be read is laid out again.
// decoder: src/tenplex/formats/megatron/backend_file.cc
// decoder: src/tenplex/formats/megatron/bucket_decoder.cc
// decoder: src/tenplex/formats/megatron/bucket_names.cc
// decoder: src/tenplex/formats/megatron/bucket_places.cc
// decoder: src/tenplex/formats/megatron/bucket_state.cc
// decoder: src/tenplex/formats/megatron/checkpoint_folder.cc
// decoder: src/tenplex/formats/megatron/integrity_file.cc
// decoder: src/tenplex/formats/megatron/integrity_reader.cc
// decoder: src/tenplex/formats/megatron/master_check.cc
// decoder: src/tenplex/formats/megatron/megatron_reader.cc
// decoder: src/tenplex/formats/megatron/rank_parameters.cc
// decoder: src/tenplex/formats/megatron/shard_name.cc
// decoder: src/tenplex/formats/megatron/source_form.cc
// decoder: src/tenplex/formats/megatron/stored_name.cc
#include <array>
#include <cstdint>
#include <string>

#include "checkpoint_use.h"
#include "tenplex/base/check.h"
#include "tenplex/formats/megatron/megatron_format.h"
#include "tenplex/io/testing/memory_file_system.h"

namespace {

using namespace tenplex;

constexpr std::int64_t kMaxPickle = 1 << 20;

void put(MemoryFileSystem& files, const std::string& path, const std::string& content) {
  if (!content.empty()) files.put_file(path, content);
}

// The form of the source stays, so metadata.json and integrity.json are decoded again from what was kept of them.
void write_again(const CheckpointInfo& info) {
  const auto target = whole_target(info);
  if (!target) return;
  const auto writer = make_megatron_dist_writer();
  WriteRequest request;
  request.source = &info;
  request.target = target.get();
  const auto plan = writer->prepare(request);
  if (!plan) return;
  const auto manifest = writer->literal(-1, 0, {});
  TENPLEX_CHECK(manifest && static_cast<std::int64_t>(manifest->size()) == plan->manifest->segments[0].size_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::array<std::size_t, 5> lengths{};
  if (size < 2 * lengths.size()) return 0;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    lengths[i] = data[2 * i] | static_cast<std::size_t>(data[2 * i + 1]) << 8;
  rest.remove_prefix(2 * lengths.size());
  MemoryFileSystem files;
  files.put_folder("/c");
  const std::string latest = take(&rest, lengths[0]);
  put(files, "/c/latest_checkpointed_iteration.txt", latest);
  const std::string folder = latest.empty() ? "/c" : "/c/iter_0000070";
  put(files, folder + "/metadata.json", take(&rest, lengths[1]));
  put(files, folder + "/integrity.json", take(&rest, lengths[2]));
  put(files, folder + "/common.pt", take(&rest, lengths[3]));
  put(files, folder + "/.metadata", take(&rest, lengths[4]));
  put(files, folder + "/__0_0.distcp", std::string(rest));
  ReadOptions options;
  options.max_metadata_bytes = kMaxPickle;
  static_cast<void>(detect_megatron_dist(files, "/c"));
  const auto reader = open_megatron_dist(files, "/c", options);
  if (!reader) return 0;
  Progress progress;
  static_cast<void>((*reader)->check_files(progress));
  check_chunks(**reader);
  write_again((*reader)->info());
  return 0;
}
