// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The input is model.safetensors.index.json beside one small file of weights; and the name of a file of weights.
// decoder: src/tenplex/formats/hf/hf_index.cc
#include <cstdint>
#include <string>

#include "tenplex/base/check.h"
#include "tenplex/formats/hf/hf_index.h"
#include "tenplex/formats/hf/hf_reader.h"
#include "tenplex/formats/safetensors/header.h"
#include "tenplex/io/testing/memory_file_system.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (auto index = tenplex::hf::parse_index(text)) {
    const std::string written = tenplex::hf::write_index(index->total_size.value_or(0), 0, index->weight_map);
    const auto again = tenplex::hf::parse_index(written);
    TENPLEX_CHECK(again.has_value() && again->weight_map.size() == index->weight_map.size());
  }
  if (const auto shard = tenplex::hf::parse_shard_name(text); shard && shard->stem == "model")
    TENPLEX_CHECK(tenplex::hf::shard_name(shard->number, shard->count) == text);
  static const std::string kWeights =
      tenplex::safetensors::build_header({{"w", tenplex::DType::kUInt8, {4}}}, {}).value() + "wwww";
  tenplex::MemoryFileSystem files;
  files.put_file("/m/model-00001-of-00001.safetensors", kWeights);
  files.put_file("/m/model.safetensors.index.json", text);
  const auto reader = tenplex::hf::open_hf(files, "/m", {});
  if (reader) TENPLEX_CHECK((*reader)->info().tensors.size() == 1);
  return 0;
}
