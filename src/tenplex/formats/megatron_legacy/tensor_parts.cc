// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron_legacy/tensor_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tenplex/formats/megatron_legacy/legacy_sizes.h"
#include "tenplex/ptc/rule_collection.h"
#include "tenplex/ptc/rule_matcher.h"

namespace tenplex::megatron_legacy {
namespace {

constexpr std::int64_t kComparedBytes = 64 << 10;
constexpr std::int64_t kBlockBytes = 1 << 20;

/// What the part would be as a stored tensor of its own.
TensorInfo info_of(const CheckpointJoiner& joiner, const TensorPart& part) {
  TensorInfo info = joiner.stored(part.file).tensors[part.stored.index()];
  if (part.flat) info.shape = part.flat->shape;
  return info;
}

class PartJoiner {
 public:
  PartJoiner(const Layout& layout, const NamedSizes& sizes, const RankFolders& folders,
             std::span<const PartedTensor> tensors, CheckpointJoiner* joiner)
      : layout_(layout), sizes_(sizes), folders_(folders), tensors_(tensors), joiner_(joiner) {}

  Result<std::vector<CheckpointJoiner::Number>> run() {
    TENPLEX_ASSIGN_OR_RETURN(std::vector<TensorInfo> whole, whole_tensors());
    TENPLEX_ASSIGN_OR_RETURN(collection_,
                             RuleCollection::make(layout_, mesh_of_stage(folders_), std::move(whole), {}, sizes_));
    std::vector<CheckpointJoiner::Number> numbers;
    for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
      const TensorInfo& info = collection_->tensors()[tensor];
      TENPLEX_ASSIGN_OR_RETURN(numbers.emplace_back(), joiner_->add_tensor(info.name, info.dtype, info.shape));
      auto added = add_parts(TensorId(tensor), numbers.back());
      if (!added) return std::move(added).error().with_context(fmt::format("tensor '{}'", info.name));
    }
    return numbers;
  }

 private:
  TensorInfo stored(const TensorPart& part) const { return info_of(*joiner_, part); }

  // The part of a tensor on the tensor parallel rank, beside the tensor's first part.
  const TensorPart* beside(const PartedTensor& tensor, std::int64_t rank) const {
    const RankFolder& first = *tensor.parts[0].rank;
    for (const TensorPart& part : tensor.parts)
      if (part.rank->tensor == rank && part.rank->pipeline == first.pipeline && part.rank->expert == first.expert)
        return &part;
    return nullptr;
  }

  // Local extents add up where the layout cuts them over tensor parallel ranks.
  Result<std::vector<TensorInfo>> whole_tensors() const {
    std::vector<TensorInfo> whole;
    for (const PartedTensor& tensor : tensors_) {
      const TensorInfo first = stored(tensor.parts[0]);
      whole.push_back({tensor.name, first.dtype, first.shape});
    }
    TENPLEX_ASSIGN_OR_RETURN(const auto matches, RuleMatcher(layout_, whole, true).match_all());
    for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
      if (!matches[tensor].is_cut_by_rule()) continue;
      for (const SliceRule& slice : matches[tensor].rule->slices) {
        const bool over_tensor_ranks = std::find(slice.by.begin(), slice.by.end(), "tp") != slice.by.end() ||
                                       std::find(slice.by.begin(), slice.by.end(), "etp") != slice.by.end();
        if (slice.kind != SliceRule::Kind::kDim || !over_tensor_ranks) continue;
        if (slice.dim >= whole[tensor].shape.rank())
          return corrupt(fmt::format("tensor '{}' of shape {}: {} cuts dimension {}", whole[tensor].name,
                                     to_string(whole[tensor].shape), layout_.where(slice.line), slice.dim));
        TENPLEX_ASSIGN_OR_RETURN(whole[tensor].shape[slice.dim], sum_of_extents(tensors_[tensor], slice.dim));
      }
    }
    return whole;
  }

  Result<std::int64_t> sum_of_extents(const PartedTensor& tensor, int dim) const {
    std::int64_t sum = 0;
    for (std::int64_t rank = 0; rank < folders_.tensor_size; ++rank) {
      const TensorPart* part = beside(tensor, rank);
      if (part == nullptr)
        return corrupt(fmt::format("tensor '{}' is in '{}', and not in that of tensor rank {}", tensor.name,
                                   tensor.parts[0].rank->name, rank));
      const Dims shape = stored(*part).shape;
      if (shape.rank() <= dim || __builtin_add_overflow(sum, shape[dim], &sum))
        return corrupt(
            fmt::format("tensor '{}' has shape {} in '{}'", tensor.name, to_string(shape), part->rank->name));
    }
    return sum;
  }

  DeviceId device_of(const RankFolder& rank) const {
    return DeviceId(static_cast<std::size_t>(rank.tensor + folders_.tensor_size * rank.expert));
  }

  Result<void> add_parts(TensorId id, CheckpointJoiner::Number number) {
    std::map<std::int64_t, const TensorPart*> first_of_shard;
    std::vector<bool> has_part(static_cast<std::size_t>(collection_->device_count()), false);
    SubTensor shard;
    std::vector<std::int64_t> shards;
    for (const TensorPart& part : tensors_[id.index()].parts) {
      collection_->shards_of_device(id, device_of(*part.rank), &shards);
      if (shards.size() != 1)
        return corrupt(
            fmt::format("'{}' has it, and by layout '{}' it belongs to other ranks", part.rank->name, layout_.name()));
      has_part[device_of(*part.rank).index()] = true;
      collection_->shard(id, shards[0], &shard);
      TENPLEX_TRY(check_part(id, part, shard));
      const auto [first, added] = first_of_shard.try_emplace(shards[0], &part);
      if (added) {
        TENPLEX_TRY(add_pieces(number, part, shard));
      } else {
        TENPLEX_TRY(check_copy(*first->second, part));
      }
    }
    std::vector<DeviceId> holders;
    for (std::int64_t index = 0; index < collection_->shard_count(id); ++index) {
      collection_->holders(id, index, &holders);
      if (tensors_[id.index()].parts[0].flat && first_of_shard.contains(index)) continue;
      for (const DeviceId holder : holders)
        if (!has_part[holder.index()])
          return corrupt(fmt::format("it is missing on tensor rank {}, expert rank {}",
                                     holder.value() % folders_.tensor_size, holder.value() / folders_.tensor_size));
    }
    return {};
  }

  Result<void> check_part(TensorId id, const TensorPart& part, const SubTensor& shard) const {
    const TensorInfo found = stored(part);
    if (found.shape == shard.local_shape) return {};
    return corrupt(fmt::format("it has shape {} in '{}', and by layout '{}' line {} it should have {}",
                               to_string(found.shape), part.rank->name, layout_.name(), collection_->rule_line(id),
                               to_string(shard.local_shape)));
  }

  Result<void> add_pieces(CheckpointJoiner::Number number, const TensorPart& part, const SubTensor& shard) {
    const Dims strides = row_major_strides(shard.local_shape);
    LocalPart local = {shard.local_shape, {}};
    local.pieces.reserve(shard.pieces.size());
    for (const Piece& piece : shard.pieces) {
      TENPLEX_CHECK(piece.local_strides == strides);
      Dims start = Dims::filled(strides.rank(), 0);
      std::int64_t rest = piece.local_offset;
      for (int dim = 0; dim < strides.rank(); ++dim) {
        start[dim] = rest / strides[dim];
        rest %= strides[dim];
      }
      local.pieces.push_back({{std::move(start), piece.box.extent}, piece.box.offset});
    }
    const DeviceId device(static_cast<std::size_t>(part.rank - folders_.ranks.data()));
    if (!part.flat) return joiner_->add_part(number, device, part.file, part.stored, local);
    return joiner_->add_run(number, device, {part.file, part.stored, part.flat->begin, 0, volume(local.shape)}, local);
  }

  Result<void> check_copy(const TensorPart& first, const TensorPart& other) const {
    TENPLEX_ASSIGN_OR_RETURN(const bool same, same_bytes(*joiner_, first, other, kComparedBytes));
    if (same && stored(first).dtype == stored(other).dtype) return {};
    return corrupt(fmt::format("'{}' and '{}' have different values of the same part: they are not of one checkpoint",
                               first.rank->name, other.rank->name));
  }

  const Layout& layout_;
  const NamedSizes& sizes_;
  const RankFolders& folders_;
  std::span<const PartedTensor> tensors_;
  CheckpointJoiner* joiner_;
  std::unique_ptr<RuleCollection> collection_;
};

}  // namespace

Result<std::vector<CheckpointJoiner::Number>> join_tensors(const Layout& layout, const NamedSizes& sizes,
                                                           const RankFolders& folders,
                                                           std::span<const PartedTensor> tensors,
                                                           CheckpointJoiner* joiner) {
  return PartJoiner(layout, sizes, folders, tensors, joiner).run();
}

Result<bool> same_bytes(const CheckpointJoiner& joiner, const TensorPart& one, const TensorPart& other,
                        std::int64_t max_bytes) {
  const TensorInfo a = info_of(joiner, one);
  const TensorInfo b = info_of(joiner, other);
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  const std::int64_t size = std::min(size_bytes(a), max_bytes);
  for (std::int64_t begin = 0; begin < size; begin += kBlockBytes) {
    const std::int64_t block = std::min(kBlockBytes, size - begin);
    TENPLEX_ASSIGN_OR_RETURN(const std::string left, part_bytes(joiner, one, begin, block));
    TENPLEX_ASSIGN_OR_RETURN(const std::string right, part_bytes(joiner, other, begin, block));
    if (left != right) return false;
  }
  return true;
}

Result<std::string> part_bytes(const CheckpointJoiner& joiner, const TensorPart& part, std::int64_t begin,
                               std::int64_t size) {
  const TensorInfo& info = joiner.stored(part.file).tensors[part.stored.index()];
  const std::int64_t first = part.flat ? part.flat->begin * size_bytes(info.dtype) : 0;
  return joiner.bytes(part.file, part.stored, first + begin, size);
}

}  // namespace tenplex::megatron_legacy
