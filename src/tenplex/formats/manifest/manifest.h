// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// tenplex.json: says of a folder with one file per device which part of which tensor each file holds.
//
//   {"format":"tenplex.manifest","version":1,"oldest_reader":1,"length":…,"checksum":"…","body":{…}}
//
// The body lists devices, files, the layout, state and, last, the tensors with their shards; shards of one box are a
// short array. It is read as a stream, so that memory holds what the caller keeps and no more.
// Pure functions. Threads: safe together. Source: docs/formats/manifest.md.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/manifest/side_data.h"

namespace tenplex {

inline constexpr std::string_view kManifestName = "tenplex.json";
inline constexpr std::string_view kManifestFormat = "tenplex.manifest";
inline constexpr std::int64_t kManifestVersion = 1;

struct ManifestFile {
  std::string path;  ///< relative to the manifest's folder
  std::int64_t size_bytes = 0;

  friend bool operator==(const ManifestFile&, const ManifestFile&) = default;
};

/// Everything but the tensors.
struct ManifestHead {
  std::string container = "safetensors";  ///< format of the files
  std::vector<ManifestFile> files;        ///< file i belongs to device i
  LayoutNote layout;                      ///< empty: none
  JsonTexts metadata;
  SideData side;
};

/// A shard as the manifest lists it.
struct ManifestShard {
  SubTensor shard;
  std::vector<DeviceId> devices;  ///< ascending; each one's file holds a copy
  std::string key;                ///< its name in those files
};

class ManifestWriter {
 public:
  explicit ManifestWriter(const ManifestHead& head);
  ManifestWriter(const ManifestWriter&) = delete;
  ManifestWriter& operator=(const ManifestWriter&) = delete;

  /// The shards that follow are this tensor's.
  void begin_tensor(const TensorInfo& tensor);
  void add_shard(const SubTensor& shard, std::span<const DeviceId> devices, std::string_view key);
  void end_tensor();

  /// The whole text. Errors: unsupported for a name or text that is not UTF-8.
  Result<std::string> finish() &&;

 private:
  void piece(const Piece& piece);

  std::string body_;
  JsonWriter json_;
  std::string name_;
};

struct ManifestVisitor {
  std::function<Result<void>(const ManifestHead& head)> head;  ///< called once, before all others
  std::function<Result<void>(const TensorInfo& tensor)> tensor;
  std::function<Result<void>(const ManifestShard& shard)> shard;  ///< of the last tensor; checked against it
};

/// Errors: unsupported for a newer version; corrupt for a wrong length or checksum, for a box outside its tensor, a
/// piece outside its local array, or a device without a file; what the visitor returned.
Result<void> decode_manifest(std::string_view text, const ManifestVisitor& visitor);

}  // namespace tenplex
