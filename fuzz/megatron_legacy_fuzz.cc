// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a folder with folders of ranks (file_tree.h). It is opened, every chunk is located.
// decoder: src/tenplex/formats/megatron_legacy/rank_folders.cc
// decoder: src/tenplex/formats/megatron/global_names.cc
// decoder: src/tenplex/formats/megatron_legacy/distributed_slots.cc
// decoder: src/tenplex/formats/megatron_legacy/distributed_state.cc
// decoder: src/tenplex/formats/megatron_legacy/legacy_optimizers.cc
// decoder: src/tenplex/formats/megatron_legacy/rank_model.cc
// decoder: src/tenplex/formats/megatron_legacy/optimizer_groups.cc
// decoder: src/tenplex/formats/megatron_legacy/optimizer_slots.cc
// decoder: src/tenplex/formats/megatron_legacy/tensor_parts.cc
// decoder: src/tenplex/formats/megatron_legacy/legacy_reader.cc
#include <cstdint>
#include <string_view>

#include "checkpoint_use.h"
#include "file_tree.h"
#include "tenplex/formats/megatron_legacy/legacy_format.h"

using namespace tenplex;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr int kStorages = 24;
  constexpr std::size_t kMaxFiles = 16;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  MemoryFileSystem files;
  files.put_folder("/c");
  for (std::size_t count = 0; count < kMaxFiles && take_file(&rest, "/c", kStorages, &files); ++count) {
  }
  (void)detect_megatron_legacy(files, "/c");
  for (const bool model_only : {false, true}) {
    ReadOptions options;
    options.max_metadata_bytes = 1 << 20;
    options.model_only = model_only;
    const auto reader = open_megatron_legacy(files, "/c", options);
    if (reader) check_chunks(**reader);
  }
  return 0;
}
