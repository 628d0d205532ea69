// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Writer of the format "hf": a folder that transformers' from_pretrained() loads.
//
//   model.safetensors                            if all tensors fit in one file, otherwise
//   model-00001-of-00003.safetensors …           files of at most max_file_bytes (a larger tensor has its own), and
//   model.safetensors.index.json                 last
//   config.json, tokenizer.json, …               the source's extra files
//
// Resource. Threads: as CheckpointWriter.
#pragma once

#include <string>
#include <vector>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/safetensors/header.h"

namespace tenplex::hf {

/// transformers' own default.
inline constexpr std::int64_t kDefaultFileBytes = 50'000'000'000;

class HfWriter final : public CheckpointWriter {
 public:
  /// Errors: unsupported for a tensor that is not whole, and for anything in the tree that is no tensor.
  Result<OutputPlan> prepare(const WriteRequest& request) override;
  Result<std::string> literal(std::int32_t file, std::size_t segment,
                              std::span<const std::uint32_t> crcs) const override;

 private:
  std::vector<std::vector<TensorId>> split(const std::vector<TensorId>& aliases) const;
  Result<void> add_file(const std::vector<TensorId>& tensors, std::string path, OutputPlan* plan);
  void add_index(OutputPlan* plan);
  Result<void> add_extra_files(OutputPlan* plan) const;

  WriteRequest request_;
  safetensors::Metadata metadata_;
  std::vector<std::string> headers_;  // per file
  std::vector<std::pair<std::string, std::string>> weight_map_;
  std::int64_t total_bytes_ = 0;
  std::int64_t total_parameters_ = 0;
  std::string index_;
};

}  // namespace tenplex::hf
