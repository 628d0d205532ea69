// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/hf/hf_format.h"

#include "tenplex/formats/hf/hf_folder.h"
#include "tenplex/formats/hf/hf_reader.h"
#include "tenplex/formats/hf/hf_writer.h"

namespace tenplex {
namespace {

bool detect(FileSystem& files, const std::string& path) {
  const auto entries = files.list(path);
  return entries.has_value() && hf::looks_like_model(*entries);
}

std::unique_ptr<CheckpointWriter> make_writer() { return std::make_unique<hf::HfWriter>(); }

}  // namespace

Format hf_format() {
  return {"hf", "a Hugging Face model folder: safetensors files of whole tensors, an index, config files", detect,
          hf::open_hf, make_writer};
}

}  // namespace tenplex
