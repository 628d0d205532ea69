// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tenplex/base/checked.h"
#include "tenplex/formats/manifest/envelope.h"
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
    TENPLEX_TRY(for_each_member(json_, [this](std::string_view key) {
      return seen_tensors_ ? json_.fail("a member after 'tensors'") : member(key);
    }));
    if (!seen_tensors_) return json_.fail("'tensors' is missing");
    return json_.finish();
  }

 private:
  Result<void> member(std::string_view key) {
    if (key == "container") return read_value(json_, &head_.container);
    if (key == "files") return for_each_element(json_, [this] { return file(); });
    if (key == "layout") return read_layout(json_, &head_.layout);
    if (key == "metadata") return read_value(json_, &head_.metadata);
    if (key != "tensors") return read_side_member(json_, key, &head_.side);
    seen_tensors_ = true;
    TENPLEX_TRY(visitor_.head(head_));
    return for_each_element(json_, [this]() -> Result<void> {
      auto read = tensor();
      if (!read) return std::move(read).with_context(fmt::format("tensor '{}'", tensor_.name));
      return {};
    });
  }

  Result<void> file() {
    ManifestFile& file = head_.files.emplace_back();
    return read_path_and_size(json_, &file.path, &file.size_bytes);
  }

  Result<void> tensor() {
    tensor_ = {};
    described_ = 0;
    bool seen_shards = false;
    TENPLEX_TRY(for_each_member(json_, [&](std::string_view key) {
      seen_shards = seen_shards || key == "shards";
      return key == "shards" ? shards() : tensor_member(key);
    }));
    if (!seen_shards) return json_.fail("'shards' is missing");
    return {};
  }

  Result<void> tensor_member(std::string_view key) {
    if (key != "name" && key != "dtype" && key != "shape") return skip_value(json_);
    ++described_;
    if (key == "name") return read_value(json_, &tensor_.name);
    if (key == "shape") return read_value(json_, &tensor_.shape);
    TENPLEX_ASSIGN_OR_RETURN(const std::string_view name, json_.string());
    const auto dtype = parse_dtype(name);
    if (!dtype) return json_.fail(fmt::format("unknown dtype '{}'", name));
    tensor_.dtype = *dtype;
    return {};
  }

  Result<void> shards() {
    if (described_ != 3) return json_.fail("'shards' before name, dtype and shape");
    if (auto checked = check_shape(tensor_.dtype, tensor_.shape); !checked) return corrupt(checked.error().message());
    TENPLEX_TRY(visitor_.tensor(tensor_));
    std::int64_t index = 0;
    return for_each_element(json_, [&]() -> Result<void> {
      auto read = shard();
      if (read) read = visitor_.shard(shard_);
      if (!read) return std::move(read).with_context(fmt::format("shard {}", index));
      ++index;
      return {};
    });
  }

  Result<void> shard() {
    shard_.devices.clear();
    shard_.shard.pieces.clear();
    shard_.key = tensor_.name;
    bool has_box = false;
    int parts = 0;
    TENPLEX_TRY(for_each_member(json_, [&](std::string_view key) {
      if (key == "on") return for_each_element(json_, [this] { return device(); });
      if (key == "key") return read_value(json_, &shard_.key);
      has_box = has_box || key == "box";
      if (key == "box") return box();
      ++parts;
      if (key == "shape") return read_value(json_, &shard_.shard.local_shape);
      if (key == "pieces") return for_each_element(json_, [this] { return piece(); });
      return Result<void>(json_.fail(fmt::format("unknown member '{}' of a shard", key)));
    }));
    if (has_box ? parts != 0 : parts != 2) return json_.fail("a shard has either a box or a shape and pieces");
    if (shard_.devices.empty()) return json_.fail("a shard on no device");
    return check_pieces();
  }

  Result<void> device() {
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t device, json_.integer());
    if (device < 0 || device >= std::int64_t(head_.files.size()))
      return json_.fail(fmt::format("device {} has no file", device));
    const DeviceId id(static_cast<std::int32_t>(device));
    if (!shard_.devices.empty() && !(shard_.devices.back() < id)) return json_.fail("devices are not ascending");
    shard_.devices.push_back(id);
    return {};
  }

  Result<void> box() {
    Box box;
    TENPLEX_TRY(read_list(json_, &box.offset, &box.extent));
    TENPLEX_TRY(check_box(box));
    shard_.shard = sub_tensor_of_box(box);
    return {};
  }

  Result<void> piece() {
    Piece piece;
    TENPLEX_TRY(json_.begin_array());
    TENPLEX_TRY(next_values(json_, &piece.box.offset, &piece.box.extent, &piece.local_offset));
    TENPLEX_TRY(check_box(piece.box));
    piece.local_strides = row_major_strides(piece.box.extent);
    TENPLEX_ASSIGN_OR_RETURN(const bool more, json_.next_element());
    if (more) {
      TENPLEX_TRY(read_value(json_, &piece.local_strides));
      if (piece.local_strides.rank() != piece.box.rank()) return json_.fail("strides of another rank");
      TENPLEX_TRY(end_list(json_));
    }
    shard_.shard.pieces.push_back(std::move(piece));
    return {};
  }

  Result<void> check_box(const Box& box) const {
    if (box.offset.rank() != tensor_.shape.rank() || box.extent.rank() != tensor_.shape.rank())
      return json_.fail(fmt::format("a box of another rank than shape {}", to_string(tensor_.shape)));
    for (int dim = 0; dim < box.rank(); ++dim) {
      const bool inside = box.offset[dim] >= 0 && box.extent[dim] > 0 && box.offset[dim] <= tensor_.shape[dim] &&
                          box.extent[dim] <= tensor_.shape[dim] - box.offset[dim];
      if (!inside)
        return json_.fail(fmt::format("offset {}, extent {} is no box of shape {}", to_string(box.offset),
                                      to_string(box.extent), to_string(tensor_.shape)));
    }
    return {};
  }

  Result<void> check_pieces() const {
    const Dims& local_shape = shard_.shard.local_shape;
    if (auto checked = check_shape(tensor_.dtype, local_shape); !checked) return corrupt(checked.error().message());
    const std::int64_t elements = volume(local_shape);
    for (const Piece& piece : shard_.shard.pieces) {
      const auto last = last_element(piece);
      if (piece.local_offset < 0 || !last || *last >= elements)
        return json_.fail(
            fmt::format("a piece at {} lies outside the local array {}", piece.local_offset, to_string(local_shape)));
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
  int described_ = 0;  // how many of name, dtype and shape of tensor_ are known
  ManifestShard shard_;
};

}  // namespace

Result<void> decode_manifest(std::string_view text, const ManifestVisitor& visitor) {
  TENPLEX_ASSIGN_OR_RETURN(const std::string_view body, read_envelope(text, kManifestFormat, kManifestVersion));
  return BodyReader(body, visitor).run();
}

}  // namespace tenplex
