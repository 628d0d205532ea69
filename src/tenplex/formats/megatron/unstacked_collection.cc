// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/unstacked_collection.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tenplex::megatron {
namespace {

/// True if `word` stands in the name as whole parts, and what follows is no number.
bool stacks(std::string_view name, std::string_view word) {
  const std::size_t at = name.find(word);
  if (at == std::string_view::npos || (at > 0 && name[at - 1] != '.')) return false;
  const std::string_view rest = name.substr(at + word.size());
  const std::string_view part = rest.substr(0, rest.find('.'));
  return !part.empty() && part.find_first_not_of("0123456789") != std::string_view::npos;
}

/// The piece, cut at every index of its first `dims` dimensions; in row-major order.
void cut_piece(const Piece& piece, int dims, std::vector<Piece>* pieces) {
  dims = std::min(dims, piece.box.rank());
  if (piece.box.empty()) {
    pieces->push_back(piece);
    return;
  }
  std::int64_t count = 1;
  for (int dim = 0; dim < dims; ++dim) count *= piece.box.extent[dim];
  for (std::int64_t number = 0; number < count; ++number) {
    Piece& part = pieces->emplace_back(piece);
    std::int64_t rest = number;
    for (int dim = dims - 1; dim >= 0; --dim) {
      const std::int64_t index = rest % piece.box.extent[dim];
      rest /= piece.box.extent[dim];
      part.box.offset[dim] += index;
      part.box.extent[dim] = 1;
      part.local_offset += index * piece.local_strides[dim];
    }
  }
}

class UnstackedCollection final : public Collection {
 public:
  explicit UnstackedCollection(std::unique_ptr<Collection> cut) : cut_(std::move(cut)) {
    dims_.reserve(cut_->tensors().size());
    for (const TensorInfo& tensor : cut_->tensors())
      dims_.push_back(static_cast<std::uint8_t>(std::min(stacked_dims(tensor.name), tensor.shape.rank())));
  }

  int device_count() const override { return cut_->device_count(); }
  std::span<const TensorInfo> tensors() const override { return cut_->tensors(); }
  std::span<const ObjectInfo> objects() const override { return cut_->objects(); }
  std::int64_t shard_count(TensorId tensor) const override { return cut_->shard_count(tensor); }
  void shard(TensorId tensor, std::int64_t index, SubTensor* shard) const override {
    cut_->shard(tensor, index, shard);
    const int dims = dims_[tensor.index()];
    if (dims == 0) return;
    std::vector<Piece> pieces;
    for (const Piece& piece : shard->pieces) cut_piece(piece, dims, &pieces);
    shard->pieces = std::move(pieces);
  }
  void holders(TensorId tensor, std::int64_t index, std::vector<DeviceId>* devices) const override {
    cut_->holders(tensor, index, devices);
  }
  void shards_of_device(TensorId tensor, DeviceId device, std::vector<std::int64_t>* shards) const override {
    cut_->shards_of_device(tensor, device, shards);
  }
  std::uint64_t geometry_key(TensorId tensor) const override {
    const std::uint8_t dims = dims_[tensor.index()];
    if (dims == 0) return cut_->geometry_key(tensor);
    Hasher hasher;
    hasher.add(static_cast<std::int64_t>(cut_->geometry_key(tensor)));
    hasher.add(std::int64_t{dims});
    return hasher.finish().low;
  }
  Hash128 hash() const override {
    Hasher hasher;
    hasher.add(to_string(cut_->hash()));
    hasher.add(std::string_view("unstacked"));
    return hasher.finish();
  }
  std::optional<TensorId> alias_of(TensorId tensor) const override { return cut_->alias_of(tensor); }
  std::optional<TensorId> find(std::string_view name) const override { return cut_->find(name); }

 private:
  const std::unique_ptr<Collection> cut_;
  std::vector<std::uint8_t> dims_;  // per tensor
};

}  // namespace

int stacked_dims(std::string_view name) {
  return (stacks(name, "decoder.layers.") ? 1 : 0) + (stacks(name, "experts.experts.") ? 1 : 0);
}

std::unique_ptr<Collection> unstacked(std::unique_ptr<Collection> collection) {
  return std::make_unique<UnstackedCollection>(std::move(collection));
}

}  // namespace tenplex::megatron
