// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "tenplex/base/checked.h"
#include "tenplex/base/hash.h"
#include "tenplex/formats/manifest/json_dims.h"
#include "tenplex/formats/manifest/manifest.h"

namespace tenplex {
namespace {

/// The last element of a local array that a piece reaches, or nothing if that exceeds int64 or a stride is negative.
std::optional<std::int64_t> last_element(const Piece& piece) {
  std::optional<std::int64_t> last = piece.local_offset;
  for (int dim = 0; dim < piece.box.rank(); ++dim) {
    const auto reach = checked_mul(piece.box.extent[dim] - 1, piece.local_strides[dim]);
    if (!last || !reach || piece.local_strides[dim] < 0) return std::nullopt;
    last = checked_add(*last, *reach);
  }
  return last;
}

class BodyReader {
 public:
  BodyReader(std::string_view text, const ManifestVisitor& visitor) : json_(text), visitor_(visitor) {}

  Result<void> run() {
    TENPLEX_TRY(json_.begin_object());
    for (;;) {
      std::string_view key;
      TENPLEX_ASSIGN_OR_RETURN(const bool more, json_.next_member(&key));
      if (!more) break;
      if (seen_tensors_) return json_.fail("a member after 'tensors'");
      TENPLEX_TRY(member(key));
    }
    if (!seen_tensors_) return json_.fail("'tensors' is missing");
    return json_.finish();
  }

 private:
  Result<void> member(std::string_view key) {
    if (key == "container") {
      TENPLEX_ASSIGN_OR_RETURN(head_.container, json_.string());
      return {};
    }
    if (key == "files") return files();
    if (key == "layout") return layout();
    if (key == "metadata") return metadata();
    if (key == "tensors") {
      seen_tensors_ = true;
      TENPLEX_TRY(visitor_.head(head_));
      return tensors();
    }
    TENPLEX_ASSIGN_OR_RETURN(const bool known, read_side_member(json_, key, &head_.side));
    if (!known) TENPLEX_TRY(json_.skip());  // written by a newer version that lets this one read
    return {};
  }

  Result<void> next(std::string_view what) {
    TENPLEX_ASSIGN_OR_RETURN(const bool more, json_.next_element());
    if (!more) return json_.fail(fmt::format("{} is missing", what));
    return {};
  }

  Result<void> end() {
    TENPLEX_ASSIGN_OR_RETURN(const bool more, json_.next_element());
    if (more) return json_.fail("a list is too long");
    return {};
  }

  Result<void> files() {
    TENPLEX_TRY(json_.begin_array());
    for (;;) {
      TENPLEX_ASSIGN_OR_RETURN(const bool more, json_.next_element());
      if (!more) return {};
      ManifestFile file;
      TENPLEX_TRY(json_.begin_array());
      TENPLEX_TRY(next("a file's path"));
      TENPLEX_ASSIGN_OR_RETURN(file.path, json_.string());
      TENPLEX_TRY(next("a file's size"));
      TENPLEX_ASSIGN_OR_RETURN(file.size_bytes, json_.integer());
      TENPLEX_TRY(end());
      if (auto path = checked_join(".", file.path); !path) return json_.fail(path.error().message());
      head_.files.push_back(std::move(file));
    }
  }

  Result<void> layout() {
    TENPLEX_TRY(json_.begin_object());
    for (;;) {
      std::string_view key;
      TENPLEX_ASSIGN_OR_RETURN(const bool more, json_.next_member(&key));
      if (!more) return {};
      if (key == "name") {
        TENPLEX_ASSIGN_OR_RETURN(head_.layout.name, json_.string());
      } else if (key == "text") {
        TENPLEX_ASSIGN_OR_RETURN(head_.layout.text, json_.string());
      } else if (key == "mesh") {
        TENPLEX_TRY(mesh());
      } else {
        TENPLEX_TRY(json_.skip());
      }
    }
  }

  Result<void> mesh() {
    TENPLEX_TRY(json_.begin_array());
    for (;;) {
      TENPLEX_ASSIGN_OR_RETURN(const bool more, json_.next_element());
      if (!more) return {};
      TENPLEX_TRY(json_.begin_array());
      TENPLEX_TRY(next("an axis' name"));
      TENPLEX_ASSIGN_OR_RETURN(const std::string_view axis, json_.string());
      TENPLEX_TRY(next("an axis' size"));
      TENPLEX_ASSIGN_OR_RETURN(const std::int64_t size, json_.integer());
      TENPLEX_TRY(end());
      head_.layout.mesh.emplace_back(axis, size);
    }
  }

  Result<void> metadata() {
    TENPLEX_TRY(json_.begin_object());
    for (;;) {
      std::string_view key;
      TENPLEX_ASSIGN_OR_RETURN(const bool more, json_.next_member(&key));
      if (!more) return {};
      TENPLEX_ASSIGN_OR_RETURN(const std::string_view text, json_.string());
      head_.metadata.emplace_back(key, text);
    }
  }

  Result<void> tensors() {
    TENPLEX_TRY(json_.begin_array());
    for (;;) {
      TENPLEX_ASSIGN_OR_RETURN(const bool more, json_.next_element());
      if (!more) return {};
      auto read = tensor();
      if (!read) return std::move(read).with_context(fmt::format("tensor '{}'", tensor_.name));
    }
  }

  Result<void> tensor() {
    tensor_ = {};
    int described = 0;
    bool seen_shards = false;
    TENPLEX_TRY(json_.begin_object());
    for (;;) {
      std::string_view key;
      TENPLEX_ASSIGN_OR_RETURN(const bool more, json_.next_member(&key));
      if (!more) break;
      if (key == "name") {
        TENPLEX_ASSIGN_OR_RETURN(tensor_.name, json_.string());
        ++described;
      } else if (key == "dtype") {
        TENPLEX_ASSIGN_OR_RETURN(const std::string_view name, json_.string());
        const auto dtype = parse_dtype(name);
        if (!dtype) return json_.fail(fmt::format("unknown dtype '{}'", name));
        tensor_.dtype = *dtype;
        ++described;
      } else if (key == "shape") {
        TENPLEX_ASSIGN_OR_RETURN(tensor_.shape, read_dims(json_));
        ++described;
      } else if (key == "shards") {
        if (described != 3) return json_.fail("'shards' before name, dtype and shape");
        seen_shards = true;
        if (auto checked = check_tensor(tensor_); !checked) return corrupt(checked.error().message());
        TENPLEX_TRY(visitor_.tensor(tensor_));
        TENPLEX_TRY(shards());
      } else {
        TENPLEX_TRY(json_.skip());
      }
    }
    if (!seen_shards) return json_.fail("'shards' is missing");
    return {};
  }

  Result<void> shards() {
    TENPLEX_TRY(json_.begin_array());
    for (std::int64_t index = 0;; ++index) {
      TENPLEX_ASSIGN_OR_RETURN(const bool more, json_.next_element());
      if (!more) return {};
      auto read = shard();
      if (read) read = visitor_.shard(shard_);
      if (!read) return std::move(read).with_context(fmt::format("shard {}", index));
    }
  }

  Result<void> shard() {
    shard_.devices.clear();
    shard_.shard.pieces.clear();
    shard_.key = tensor_.name;
    bool has_box = false;
    int parts = 0;
    TENPLEX_TRY(json_.begin_object());
    for (;;) {
      std::string_view key;
      TENPLEX_ASSIGN_OR_RETURN(const bool more, json_.next_member(&key));
      if (!more) break;
      if (key == "on") {
        TENPLEX_TRY(devices());
      } else if (key == "box") {
        TENPLEX_TRY(box());
        has_box = true;
      } else if (key == "shape") {
        TENPLEX_ASSIGN_OR_RETURN(shard_.shard.local_shape, read_dims(json_));
        ++parts;
      } else if (key == "pieces") {
        TENPLEX_TRY(pieces());
        ++parts;
      } else if (key == "key") {
        TENPLEX_ASSIGN_OR_RETURN(shard_.key, json_.string());
      } else {
        return json_.fail(fmt::format("unknown member '{}' of a shard", key));
      }
    }
    if (has_box ? parts != 0 : parts != 2) return json_.fail("a shard has either a box or a shape and pieces");
    if (shard_.devices.empty()) return json_.fail("a shard on no device");
    return check_pieces();
  }

  Result<void> devices() {
    TENPLEX_TRY(json_.begin_array());
    for (;;) {
      TENPLEX_ASSIGN_OR_RETURN(const bool more, json_.next_element());
      if (!more) return {};
      TENPLEX_ASSIGN_OR_RETURN(const std::int64_t device, json_.integer());
      if (device < 0 || device >= std::int64_t(head_.files.size()))
        return json_.fail(fmt::format("device {} has no file", device));
      const DeviceId id(static_cast<std::int32_t>(device));
      if (!shard_.devices.empty() && !(shard_.devices.back() < id)) return json_.fail("devices are not ascending");
      shard_.devices.push_back(id);
    }
  }

  Result<Box> offset_and_extent() {
    Box box;
    TENPLEX_TRY(next("an offset"));
    TENPLEX_ASSIGN_OR_RETURN(box.offset, read_dims(json_));
    TENPLEX_TRY(next("an extent"));
    TENPLEX_ASSIGN_OR_RETURN(box.extent, read_dims(json_));
    if (box.offset.rank() != tensor_.shape.rank() || box.extent.rank() != tensor_.shape.rank())
      return json_.fail(fmt::format("a box of another rank than shape {}", to_string(tensor_.shape)));
    for (int dim = 0; dim < box.rank(); ++dim) {
      const bool inside = box.offset[dim] >= 0 && box.extent[dim] > 0 && box.offset[dim] <= tensor_.shape[dim] &&
                          box.extent[dim] <= tensor_.shape[dim] - box.offset[dim];
      if (!inside)
        return json_.fail(fmt::format("offset {}, extent {} is no box of shape {}", to_string(box.offset),
                                      to_string(box.extent), to_string(tensor_.shape)));
    }
    return box;
  }

  Result<void> box() {
    TENPLEX_TRY(json_.begin_array());
    TENPLEX_ASSIGN_OR_RETURN(const Box box, offset_and_extent());
    shard_.shard = sub_tensor_of_box(box);
    return end();
  }

  Result<void> pieces() {
    TENPLEX_TRY(json_.begin_array());
    for (;;) {
      TENPLEX_ASSIGN_OR_RETURN(bool more, json_.next_element());
      if (!more) return {};
      Piece piece;
      TENPLEX_TRY(json_.begin_array());
      TENPLEX_ASSIGN_OR_RETURN(piece.box, offset_and_extent());
      TENPLEX_TRY(next("a local offset"));
      TENPLEX_ASSIGN_OR_RETURN(piece.local_offset, json_.integer());
      piece.local_strides = row_major_strides(piece.box.extent);
      TENPLEX_ASSIGN_OR_RETURN(more, json_.next_element());
      if (more) {
        TENPLEX_ASSIGN_OR_RETURN(piece.local_strides, read_dims(json_));
        if (piece.local_strides.rank() != piece.box.rank()) return json_.fail("strides of another rank");
        TENPLEX_TRY(end());
      }
      shard_.shard.pieces.push_back(std::move(piece));
    }
  }

  Result<void> check_pieces() const {
    TensorInfo local{shard_.key, tensor_.dtype, shard_.shard.local_shape};
    if (auto checked = check_tensor(local); !checked) return corrupt(checked.error().message());
    const std::int64_t elements = volume(local.shape);
    for (const Piece& piece : shard_.shard.pieces) {
      const auto last = last_element(piece);
      if (piece.local_offset < 0 || !last || *last >= elements)
        return json_.fail(
            fmt::format("a piece at {} lies outside the local array {}", piece.local_offset, to_string(local.shape)));
      if (!packed_bytes(tensor_.dtype, piece.local_offset))
        return json_.fail(fmt::format("a piece at {} does not start at a whole byte", piece.local_offset));
    }
    return {};
  }

  JsonReader json_;
  const ManifestVisitor& visitor_;
  ManifestHead head_;
  bool seen_tensors_ = false;
  TensorInfo tensor_;
  ManifestShard shard_;
};

struct Envelope {
  std::string_view format;
  std::string_view checksum;
  std::string_view body;
  std::int64_t version = -1;
  std::int64_t oldest_reader = -1;
  std::int64_t length = -1;
};

Result<Envelope> read_envelope(JsonReader& json) {
  Envelope envelope;
  TENPLEX_TRY(json.begin_object());
  for (;;) {
    std::string_view key;
    TENPLEX_ASSIGN_OR_RETURN(const bool more, json.next_member(&key));
    if (!more) break;
    if (key == "format") {
      TENPLEX_ASSIGN_OR_RETURN(envelope.format, json.string());
    } else if (key == "version") {
      TENPLEX_ASSIGN_OR_RETURN(envelope.version, json.integer());
    } else if (key == "oldest_reader") {
      TENPLEX_ASSIGN_OR_RETURN(envelope.oldest_reader, json.integer());
    } else if (key == "length") {
      TENPLEX_ASSIGN_OR_RETURN(envelope.length, json.integer());
    } else if (key == "checksum") {
      TENPLEX_ASSIGN_OR_RETURN(envelope.checksum, json.string());
    } else if (key == "body") {
      TENPLEX_ASSIGN_OR_RETURN(envelope.body, json.skip());
    } else {
      return json.fail(fmt::format("unknown member '{}'", key));
    }
  }
  TENPLEX_TRY(json.finish());
  return envelope;
}

}  // namespace

Result<void> decode_manifest(std::string_view text, const ManifestVisitor& visitor) {
  JsonReader json(text);
  TENPLEX_ASSIGN_OR_RETURN(const Envelope envelope, read_envelope(json));
  if (envelope.format != "tenplex.manifest")
    return corrupt(fmt::format("the format is '{}', expected 'tenplex.manifest'", envelope.format));
  if (envelope.oldest_reader > kManifestVersion)
    return unsupported(fmt::format("the manifest needs a reader of version {}, this is version {}",
                                   envelope.oldest_reader, kManifestVersion));
  if (envelope.oldest_reader < 1 || envelope.version < envelope.oldest_reader)
    return corrupt("the manifest does not say which reader it needs");
  if (envelope.length != std::int64_t(envelope.body.size()))
    return corrupt(fmt::format("the body has {} bytes, expected {}", envelope.body.size(), envelope.length));
  Hasher hasher;
  hasher.add_raw(as_bytes(envelope.body));
  if (const std::string found = to_string(hasher.finish()); found != envelope.checksum)
    return corrupt(fmt::format("the checksum of the body is {}, expected {}", found, envelope.checksum));
  return BodyReader(envelope.body, visitor).run();
}

}  // namespace tenplex
