// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/packed_copies.h"

#include <bit>

#include "tenplex/base/bytes.h"

namespace tenplex {
namespace {

static_assert(std::endian::native == std::endian::little,
              "packed copies are hashed and compared as little-endian bytes");

template <typename T>
ByteSpan bytes_of(const std::vector<T>& values) {
  static_assert(std::has_unique_object_representations_v<T>);
  return std::as_bytes(std::span(values));
}

}  // namespace

std::string_view to_string(CopyClass copy_class) {
  switch (copy_class) {
    case CopyClass::kKeep:
      return "keep";
    case CopyClass::kMove:
      return "move";
    case CopyClass::kSplit:
      return "split";
    case CopyClass::kMerge:
      return "merge";
  }
  return "unknown";
}

std::string_view to_string(Route route) {
  switch (route) {
    case Route::kAlias:
      return "alias";
    case Route::kLocal:
      return "local";
    case Route::kRelay:
      return "relay";
    case Route::kRemote:
      return "remote";
  }
  return "unknown";
}

void PackedCopies::add(const Copy& copy, std::span<const Holder> by_tensor) {
  TENPLEX_CHECK(copy.source.box.rank() == rank_);
  Fields fields{};
  fields.bytes = copy.bytes;
  fields.source_offset = copy.source.local_offset;
  fields.target_offset = copy.target.local_offset;
  fields.source_shard = static_cast<std::int32_t>(copy.source_shard);
  fields.target_shard = static_cast<std::int32_t>(copy.target_shard);
  fields.source = {copy.source_worker, copy.source_device};
  fields.target = {copy.target_worker, copy.target_device};
  fields.first_turn = by_tensor.empty() ? -1 : static_cast<std::int32_t>(turns_.size());
  fields.copy_class = copy.copy_class;
  fields.route = copy.route;
  fields_.push_back(fields);
  turns_.insert(turns_.end(), by_tensor.begin(), by_tensor.end());
  for (const Dims* dims :
       {&copy.source.box.offset, &copy.source.box.extent, &copy.source.local_strides, &copy.target.local_strides})
    dims_.insert(dims_.end(), dims->begin(), dims->begin() + rank_);
}

Holder PackedCopies::holder(std::size_t index, std::size_t tensor) const {
  const Fields& fields = fields_[index];
  return fields.first_turn < 0 ? fields.source : turns_[static_cast<std::size_t>(fields.first_turn) + tensor];
}

void PackedCopies::get(std::size_t index, std::size_t tensor, Copy* copy) const {
  const Fields& fields = fields_[index];
  const auto rank = static_cast<std::size_t>(rank_);
  const auto dims = std::span(dims_).subspan(index * 4 * rank, 4 * rank);
  const Holder source = holder(index, tensor);
  copy->copy_class = fields.copy_class;
  copy->route = fields.route;
  copy->source_shard = fields.source_shard;
  copy->target_shard = fields.target_shard;
  copy->source_device = source.device;
  copy->source_worker = source.worker;
  copy->target_device = fields.target.device;
  copy->target_worker = fields.target.worker;
  copy->bytes = fields.bytes;
  copy->source.box = {Dims(dims.subspan(0, rank)), Dims(dims.subspan(rank, rank))};
  copy->target.box = copy->source.box;
  copy->source.local_offset = fields.source_offset;
  copy->target.local_offset = fields.target_offset;
  copy->source.local_strides = Dims(dims.subspan(2 * rank, rank));
  copy->target.local_strides = Dims(dims.subspan(3 * rank, rank));
}

void PackedCopies::add_to(Hasher* hasher) const {
  hasher->add(rank_);
  hasher->add(as_text(bytes_of(fields_)));
  hasher->add(as_text(bytes_of(dims_)));
  hasher->add(as_text(bytes_of(turns_)));
}

void PackedCopies::append_to(std::string* bytes) const {
  const std::int64_t header[] = {rank_, static_cast<std::int64_t>(fields_.size()),
                                 static_cast<std::int64_t>(turns_.size())};
  bytes->append(as_text(std::as_bytes(std::span(header))));
  bytes->append(as_text(bytes_of(fields_)));
  bytes->append(as_text(bytes_of(dims_)));
  bytes->append(as_text(bytes_of(turns_)));
}

}  // namespace tenplex
