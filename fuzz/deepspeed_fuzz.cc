// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a folder with a tag's folder (file_tree.h). It is opened, every chunk is located; what can be read is
// laid out for writing as a universal checkpoint.
// decoder: src/tenplex/formats/deepspeed/rank_files.cc
// decoder: src/tenplex/formats/deepspeed/parameter_groups.cc
// decoder: src/tenplex/formats/deepspeed/optimizer_file.cc
// decoder: src/tenplex/formats/deepspeed/flat_places.cc
// decoder: src/tenplex/formats/deepspeed/layer_names.cc
// decoder: src/tenplex/formats/deepspeed/model_files.cc
// decoder: src/tenplex/formats/deepspeed/model_parts.cc
// decoder: src/tenplex/formats/deepspeed/module_tensors.cc
// decoder: src/tenplex/formats/deepspeed/expert_tensors.cc
// decoder: src/tenplex/formats/deepspeed/layer_tensors.cc
// decoder: src/tenplex/formats/deepspeed/model_tree.cc
// decoder: src/tenplex/formats/deepspeed/zero_reader.cc
// decoder: src/tenplex/formats/deepspeed/regex_pattern.cc
// decoder: src/tenplex/formats/deepspeed/join_rules.cc
// decoder: src/tenplex/formats/deepspeed/join_rules_reader.cc
// decoder: src/tenplex/formats/deepspeed/cut_notes.cc
// decoder: src/tenplex/formats/deepspeed/expert_names.cc
// decoder: src/tenplex/formats/deepspeed/universal_reader.cc
// decoder: src/tenplex/formats/joined_reader.cc
#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint_use.h"
#include "file_tree.h"
#include "tenplex/base/check.h"
#include "tenplex/formats/deepspeed/deepspeed_format.h"

namespace {

using namespace tenplex;

constexpr int kStorages = 24;
constexpr std::size_t kMaxFiles = 32;

void write_again(const CheckpointInfo& info) {
  const auto target = whole_target(info);
  if (!target) return;
  const auto writer = make_deepspeed_writer();
  WriteRequest request;
  request.source = &info;
  request.target = target.get();
  const auto plan = writer->prepare(request);
  if (plan) TENPLEX_CHECK(writer->literal(-1, 0, {}).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  MemoryFileSystem files;
  files.put_folder("/c");
  for (std::size_t count = 0; count < kMaxFiles && take_file(&rest, "/c", kStorages, &files); ++count) {
  }
  (void)detect_deepspeed(files, "/c");
  ReadOptions options;
  options.max_metadata_bytes = 1 << 20;
  const auto reader = open_deepspeed(files, "/c", options);
  if (!reader) return 0;
  check_chunks(**reader);
  write_again((*reader)->info());
  return 0;
}
