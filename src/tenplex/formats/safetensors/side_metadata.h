// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The `tenplex` entry of a safetensors file's `__metadata__`: JSON text with the file's SideData.
//
//   "tenplex": "{\"version\":1,\"oldest_reader\":1,\"aliases\":{…},\"state\":{…}}"
//
// In a device's file of a folder it has the device's number instead, so that files that changed places are noticed:
//
//   "tenplex": "{\"version\":1,\"oldest_reader\":1,\"device\":3}"
//
// Pure functions, except where objects are read. Threads: safe together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tenplex/formats/manifest/side_data.h"
#include "tenplex/formats/manifest/state_json.h"
#include "tenplex/formats/safetensors/header.h"
#include "tenplex/formats/safetensors/plain_reader.h"

namespace tenplex::safetensors {

inline constexpr std::string_view kSideKey = "tenplex";

std::string encode_side_metadata(const SideData& side);

/// Errors: corrupt; unsupported for a newer version.
Result<SideData> decode_side_metadata(std::string_view text);

/// The number of a device, and what the text says of it: nothing where it has none.
std::string encode_device_metadata(DeviceId device);
Result<std::optional<std::int64_t>> decode_device_metadata(std::string_view text);

/// The source's free text for a file that we write: without what describes the source's own cut, with "format": "pt"
/// unless it says otherwise (transformers wants it).
Metadata outgoing_metadata(const CheckpointInfo& source);

/// Where objects and extra files lie.
struct ObjectsFolder {
  std::string path;  ///< "" = not given
  bool follow_links = false;
};

/// Applies side data to a reader whose stored tensors and chunks are complete: adds aliases with their chunks, extra
/// files, and the state, whose objects lie in `objects`.
Result<void> apply_side_data(const SideData& side, FileSystem& files, const ObjectsFolder& objects,
                             PlainReader* reader);

/// The same for side data of the metadata of a safetensors file, which may be stale: errors say what to do then.
Result<void> apply_side_metadata(const SideData& side, FileSystem& files, const ObjectsFolder& objects,
                                 PlainReader* reader);

/// Adds `metadata` to the reader's, except the side key. Keys that another file gave another text become a problem.
void add_metadata(const Metadata& metadata, const std::string& file, CheckpointInfo* info);

}  // namespace tenplex::safetensors
