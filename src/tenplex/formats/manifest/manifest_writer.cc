// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tenplex/base/hash.h"
#include "tenplex/formats/manifest/manifest.h"

namespace tenplex {
namespace {

void append_layout(JsonWriter& json, const LayoutNote& layout) {
  if (layout.name.empty() && layout.text.empty()) return;
  json.key("layout");
  json.begin_object();
  json.key("name");
  json.value(layout.name);
  json.key("text");
  json.value(layout.text);
  json.key("mesh");
  json.begin_array();
  for (const auto& [axis, size] : layout.mesh) {
    json.begin_array();
    json.value(axis);
    json.value(size);
    json.end_array();
  }
  json.end_array();
  json.end_object();
}

}  // namespace

ManifestWriter::ManifestWriter(const ManifestHead& head) : json_(&body_) {
  json_.begin_object();
  json_.key("container");
  json_.value(head.container);
  json_.key("files");
  json_.begin_array();
  for (const ManifestFile& file : head.files) {
    json_.begin_array();
    json_.value(file.path);
    json_.value(file.size_bytes);
    json_.end_array();
  }
  json_.end_array();
  append_layout(json_, head.layout);
  if (!head.metadata.empty()) {
    json_.key("metadata");
    json_.begin_object();
    for (const auto& [key, text] : head.metadata) {
      json_.key(key);
      json_.value(text);
    }
    json_.end_object();
  }
  append_side_members(json_, head.side);
  json_.key("tensors");
  json_.begin_array();
}

void ManifestWriter::begin_tensor(const TensorInfo& tensor) {
  name_ = tensor.name;
  json_.begin_object();
  json_.key("name");
  json_.value(tensor.name);
  json_.key("dtype");
  json_.value(to_string(tensor.dtype));
  json_.key("shape");
  json_.value(tensor.shape);
  json_.key("shards");
  json_.begin_array();
}

void ManifestWriter::piece(const Piece& piece) {
  json_.begin_array();
  json_.value(piece.box.offset);
  json_.value(piece.box.extent);
  json_.value(piece.local_offset);
  if (piece.local_strides != row_major_strides(piece.box.extent)) json_.value(piece.local_strides);
  json_.end_array();
}

void ManifestWriter::add_shard(const SubTensor& shard, std::span<const DeviceId> devices, std::string_view key) {
  json_.begin_object();
  json_.key("on");
  json_.begin_array();
  for (const DeviceId device : devices) json_.value(std::int64_t{device.value()});
  json_.end_array();
  if (shard.pieces.size() == 1 && shard == sub_tensor_of_box(shard.pieces[0].box)) {
    json_.key("box");
    json_.begin_array();
    json_.value(shard.pieces[0].box.offset);
    json_.value(shard.pieces[0].box.extent);
    json_.end_array();
  } else {
    json_.key("shape");
    json_.value(shard.local_shape);
    json_.key("pieces");
    json_.begin_array();
    for (const Piece& each : shard.pieces) piece(each);
    json_.end_array();
  }
  if (key != name_) {
    json_.key("key");
    json_.value(key);
  }
  json_.end_object();
}

void ManifestWriter::end_tensor() {
  json_.end_array();
  json_.end_object();
}

std::string ManifestWriter::finish() && {
  json_.end_array();
  json_.end_object();
  Hasher hasher;
  hasher.add_raw(as_bytes(body_));
  return fmt::format(
      "{{\"format\":\"tenplex.manifest\",\"version\":{},\"oldest_reader\":{},\"length\":{},\"checksum\":\"{}\","
      "\"body\":{}}}\n",
      kManifestVersion, kManifestVersion, body_.size(), to_string(hasher.finish()), body_);
}

}  // namespace tenplex
