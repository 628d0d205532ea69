// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/manifest/envelope.h"
#include "tenplex/formats/manifest/manifest.h"

namespace tenplex {

ManifestWriter::ManifestWriter(const ManifestHead& head) : json_(&body_) {
  json_.begin_object();
  json_.member("container", head.container);
  json_.key("files");
  json_.begin_array();
  for (const ManifestFile& file : head.files) json_.list(file.path, file.size_bytes);
  json_.end_array();
  append_layout(json_, head.layout);
  if (!head.metadata.empty()) {
    json_.key("metadata");
    append_texts(json_, head.metadata);
  }
  append_side_members(json_, head.side);
  json_.key("tensors");
  json_.begin_array();
}

void ManifestWriter::begin_tensor(const TensorInfo& tensor) {
  name_ = tensor.name;
  json_.begin_object();
  json_.member("name", tensor.name);
  json_.member("dtype", to_string(tensor.dtype));
  json_.member("shape", tensor.shape);
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
    json_.list(shard.pieces[0].box.offset, shard.pieces[0].box.extent);
  } else {
    json_.member("shape", shard.local_shape);
    json_.key("pieces");
    json_.begin_array();
    for (const Piece& each : shard.pieces) piece(each);
    json_.end_array();
  }
  if (key != name_) json_.member("key", key);
  json_.end_object();
}

void ManifestWriter::end_tensor() {
  json_.end_array();
  json_.end_object();
}

Result<std::string> ManifestWriter::finish() && {
  json_.end_array();
  json_.end_object();
  TENPLEX_TRY(json_.check());
  return write_envelope(kManifestFormat, kManifestVersion, body_);
}

}  // namespace tenplex
