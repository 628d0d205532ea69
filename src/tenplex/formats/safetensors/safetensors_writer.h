// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Writer of the format "safetensors".
//
//   one device, every tensor whole      the target is one file:      header │ tensors
//   otherwise                           the target is a folder:      device-00000-of-00004.safetensors …
//                                                                    tenplex.json, objects/…, extra files
//
// Within a file tensors keep the collection's order, those of wider elements first, so that all data is aligned.
// A device's file holds everything that the device holds, replicas too.
// Resource. Threads: as CheckpointWriter.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/manifest/state_json.h"
#include "tenplex/formats/safetensors/header.h"

namespace tenplex::safetensors {

class SafetensorsWriter final : public CheckpointWriter {
 public:
  Result<OutputPlan> prepare(const WriteRequest& request) override;
  Result<std::string> literal(std::int32_t file, std::size_t segment,
                              std::span<const std::uint32_t> crcs) const override;

 private:
  /// A shard in a device's file.
  struct Entry {
    TensorId tensor;
    bool numbered = false;  // its key carries the shard's number
    std::int64_t shard = 0;
  };

  Result<OutputPlan> prepare_file();
  Result<OutputPlan> prepare_folder();
  void find_entries();
  Result<std::int64_t> add_device_file(std::size_t device, OutputPlan* plan);
  Result<std::vector<TensorInfo>> local_tensors(std::size_t device) const;
  std::string key_of(const Entry& entry) const;
  Result<EncodedState> encode_tree(bool single_file) const;
  Result<void> add_manifest(std::vector<std::int64_t> file_sizes, OutputPlan* plan);
  void add_objects(EncodedState state, bool in_objects_folder, OutputPlan* plan);
  Metadata device_metadata(std::size_t device) const;
  Result<void> add_extra_files(bool in_objects_folder, OutputPlan* plan) const;

  WriteRequest request_;
  std::vector<TensorId> aliases_;            // see find_aliases()
  std::vector<std::vector<Entry>> devices_;  // per device, in file order
  Metadata metadata_;                        // of every file
  std::string single_header_;
  std::string manifest_;
  std::map<std::int32_t, std::string> pickles_;  // by file index
};

}  // namespace tenplex::safetensors
