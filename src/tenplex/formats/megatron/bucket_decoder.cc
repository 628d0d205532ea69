// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/bucket_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "tenplex/formats/box_bytes.h"
#include "tenplex/formats/chunk_check.h"
#include "tenplex/formats/derived_reader.h"
#include "tenplex/formats/megatron/bucket_places.h"
#include "tenplex/formats/megatron/bucket_state.h"
#include "tenplex/formats/megatron/master_check.h"
#include "tenplex/formats/state/lookup.h"
#include "tenplex/formats/state/state_numbers.h"

namespace tenplex::megatron {
namespace {

constexpr std::int64_t kComparedElements = 16 << 10;  // of every array of a rank

/// A stored bucket's chunk, seen as an array.
struct ArrayRun {
  std::int64_t offset = 0;  // elements: of the chunk's first one in the array that begins there
  std::int32_t shape = 0;
};

/// Chunks from `first_run` on are runs of those of the stored checkpoint.
class BucketReader final : public DerivedReader {
 public:
  struct Runs {
    std::size_t first = 0;  // chunk
    std::vector<ArrayRun> runs;
    std::vector<Dims> shapes;
  };

  BucketReader(std::unique_ptr<CheckpointReader> stored, CheckpointInfo info, std::vector<std::uint32_t> chunks,
               Runs runs)
      : DerivedReader(std::move(stored), std::move(info), std::move(chunks)), runs_(std::move(runs)) {}

  Result<ChunkLocation> locate(std::size_t index) const override {
    auto location = DerivedReader::locate(index);
    if (!location || index < runs_.first) return location;
    const ArrayRun& run = runs_.runs[index - runs_.first];
    const std::int64_t step = location->strides[0];
    const DType dtype = info().tensors[info().chunks[index].tensor.index()].dtype;
    location->strides = row_major_strides(runs_.shapes[static_cast<std::size_t>(run.shape)]);
    for (std::int64_t& stride : location->strides) stride *= step;
    location->offset_bytes += run.offset * step * size_bytes(dtype);
    return location;
  }

 private:
  const Runs runs_;
};

/// Up to kComparedElements of the piece's first elements.
Box beginning_of(const Box& box) {
  Box beginning = box;
  std::int64_t left = kComparedElements;
  for (int dim = box.rank() - 1; dim >= 0; --dim) {
    beginning.extent[dim] = std::min(box.extent[dim], std::max<std::int64_t>(left, 1));
    left /= std::max<std::int64_t>(beginning.extent[dim], 1);
  }
  return beginning;
}

class BucketDecoder {
 public:
  BucketDecoder(const CheckpointReader& reader, FlatBuffers buffers)
      : stored_(reader.info()), buffers_(std::move(buffers)), bytes_(reader) {}

  Result<void> place(const RankParameters& ranks, const ModelForm& form, std::span<const std::string> order) {
    TENPLEX_ASSIGN_OR_RETURN(placed_, place_parameters(buffers_, ranks, form, order));
    return check_values();
  }

  /// Requires: place() gave no error.
  Result<std::unique_ptr<CheckpointReader>> make(std::unique_ptr<CheckpointReader> reader) {
    list_tensors();
    copy_chunks();
    TENPLEX_TRY(add_runs());
    TENPLEX_TRY(put_slots_into_state(numbers_, first_slot_, &info_));
    return std::unique_ptr<CheckpointReader>(
        std::make_unique<BucketReader>(std::move(reader), std::move(info_), std::move(chunks_), std::move(runs_)));
  }

 private:
  // ── Values ──
  /// Each array's masters round to the parameter, and ranks that have the same array have the same slots.
  Result<void> check_values() {
    first_.clear();
    for (const PlacedPart& part : placed_) {
      const LocalPiece& piece = part.parameter.local.pieces.front();
      const auto [first, added] = first_.try_emplace({part.parameter.tensor, piece.start}, &part);
      TENPLEX_TRY(check_masters(part));
      if (!added) TENPLEX_TRY(check_copies(*first->second, part));
    }
    return {};
  }

  Result<std::string> beginning_of_slot(const PlacedPart& part, TensorId slot) const {
    const LocalPart& local = part.parameter.local;
    const Box box = beginning_of(local.pieces.front().local);
    const Dims strides = row_major_strides(local.shape);
    const int last = box.rank() - 1;
    const std::int64_t columns = last < 0 ? 1 : box.extent[last];
    std::string bytes;
    for (std::int64_t row = 0; row * columns < volume(box); ++row) {
      std::int64_t at = part.begin;
      std::int64_t rest = row;
      for (int dim = last; dim >= 0; --dim) {
        at += box.offset[dim] * strides[dim];
        if (dim == last) continue;
        at += rest % box.extent[dim] * strides[dim];
        rest /= box.extent[dim];
      }
      TENPLEX_ASSIGN_OR_RETURN(const std::string one, bytes_.read(slot, {{at}, {columns}}));
      bytes += one;
    }
    return bytes;
  }

  Result<void> check_masters(const PlacedPart& part) const {
    const TensorInfo& info = stored_.tensors[part.parameter.tensor.index()];
    const TensorId master = part.bucket->slots.find(kMasterBucket)->second;
    if (!can_be_compared(info.dtype) || stored_.tensors[master.index()].dtype != DType::kFloat32)
      return unsupported(fmt::format("'{}' is {} and its copy {}: they cannot be held against each other", part.module,
                                     to_string(info.dtype), to_string(stored_.tensors[master.index()].dtype)));
    const LocalPiece& piece = part.parameter.local.pieces.front();
    Box box = beginning_of(piece.local);
    box.offset = piece.start;
    TENPLEX_ASSIGN_OR_RETURN(const std::string values, bytes_.read(part.parameter.tensor, box));
    TENPLEX_ASSIGN_OR_RETURN(const std::string masters, beginning_of_slot(part, master));
    const auto unlike = first_unlike(masters, values, info.dtype);
    if (!unlike) return {};
    return unsupported(
        fmt::format("the optimizer's copy of '{}' is not what the model has, from element {} of its part "
                    "on: the order of the parameters is another one, or they are not of one iteration",
                    part.module, *unlike));
  }

  Result<void> check_copies(const PlacedPart& first, const PlacedPart& other) const {
    for (const auto& [slot, tensor] : first.bucket->slots) {
      TENPLEX_ASSIGN_OR_RETURN(const std::string one, beginning_of_slot(first, tensor));
      TENPLEX_ASSIGN_OR_RETURN(const std::string two, beginning_of_slot(other, other.bucket->slots.find(slot)->second));
      if (one != two) return corrupt(fmt::format("two ranks have different '{}' of '{}'", slot, first.module));
    }
    return {};
  }

  // ── Tensors and chunks ──
  void list_tensors() {
    info_ = stored_;
    info_.tensors.clear();
    numbers_.assign(stored_.tensors.size(), TensorId());
    for (std::size_t index = 0; index < stored_.tensors.size(); ++index) {
      if (is_of_bucket(stored_.tensors[index].name)) continue;
      numbers_[index] = TensorId(info_.tensors.size());
      info_.tensors.push_back(stored_.tensors[index]);
    }
    std::erase_if(info_.aliases,
                  [this](const auto& alias) { return is_of_bucket(stored_.tensors[alias.first.index()].name); });
    for (auto& [alias, original] : info_.aliases) {
      alias = numbers_[alias.index()];
      original = numbers_[original.index()];
    }
    first_slot_ = info_.tensors.size();
    for (const PlacedPart& part : placed_) {
      for (const auto& [slot, flat] : part.bucket->slots) {
        const TensorInfo& parameter = stored_.tensors[part.parameter.tensor.index()];
        const auto [known, added] = slot_of_.try_emplace({slot, part.parameter.tensor}, TensorId(info_.tensors.size()));
        if (!added) continue;
        info_.tensors.push_back({fmt::format("optimizer.state.{}.{}", slot, parameter.name),
                                 stored_.tensors[flat.index()].dtype, parameter.shape});
      }
    }
    placed_elements_.assign(info_.tensors.size() - first_slot_, 0);
  }

  void copy_chunks() {
    info_.chunks = {};
    for (std::size_t index = 0; index < stored_.chunks.size(); ++index) {
      Chunk chunk = stored_.chunks[index];
      const std::size_t tensor = chunk.tensor.index();
      if (is_of_bucket(stored_.tensors[tensor].name)) {
        chunks_of_[tensor].push_back(static_cast<std::uint32_t>(index));
        continue;
      }
      chunk.tensor = numbers_[tensor];
      info_.chunks.add(chunk);
      chunks_.push_back(static_cast<std::uint32_t>(index));
    }
    runs_.first = chunks_.size();
  }

  Result<void> add_runs() {
    for (const PlacedPart& part : placed_) {
      const LocalPiece& piece = part.parameter.local.pieces.front();
      if (first_.at({part.parameter.tensor, piece.start}) != &part) continue;
      runs_.shapes.push_back(part.parameter.local.shape);
      for (const auto& [slot, flat] : part.bucket->slots)
        add_run(part, flat, slot_of_.at({slot, part.parameter.tensor}));
    }
    for (std::size_t slot = 0; slot < placed_elements_.size(); ++slot) {
      const TensorInfo& tensor = info_.tensors[first_slot_ + slot];
      if (placed_elements_[slot] != volume(tensor.shape))
        return corrupt(fmt::format("'{}' of shape {}: {} of its elements are in buckets", tensor.name,
                                   to_string(tensor.shape), placed_elements_[slot]));
    }
    return {};
  }

  void add_run(const PlacedPart& part, TensorId flat, TensorId slot) {
    const std::int64_t end = part.begin + volume(part.parameter.local.shape);
    const std::int64_t element = size_bytes(info_.tensors[slot.index()].dtype);
    for (const std::uint32_t index : chunks_of_[flat.index()]) {
      const Chunk stored = stored_.chunks[index];
      const std::int64_t from = std::max(part.begin, stored.box.offset[0]);
      const std::int64_t to = std::min(end, stored.box.offset[0] + stored.box.extent[0]);
      if (from >= to) continue;
      for (RunBox& run : boxes_of_run(part.parameter.local, from - part.begin, to - part.begin)) {
        const std::int64_t at = part.begin + run.at - stored.box.offset[0];
        placed_elements_[slot.index() - first_slot_] += volume(run.box);
        info_.chunks.add({slot, stored.device, stored.file, stored.position + at * element, std::move(run.box)});
        chunks_.push_back(index);
        runs_.runs.push_back({at, static_cast<std::int32_t>(runs_.shapes.size() - 1)});
      }
    }
  }

  const CheckpointInfo& stored_;
  const FlatBuffers buffers_;
  const BoxBytes bytes_;
  std::vector<PlacedPart> placed_;
  std::map<std::pair<TensorId, Dims>, const PlacedPart*> first_;  // by parameter and where the part starts in it
  CheckpointInfo info_;
  std::vector<TensorId> numbers_;  // new ones by stored ones; none for buckets
  std::size_t first_slot_ = 0;
  std::map<std::pair<std::string, TensorId>, TensorId> slot_of_;
  std::vector<std::int64_t> placed_elements_;                    // per slot
  std::map<std::size_t, std::vector<std::uint32_t>> chunks_of_;  // by bucket's tensor
  std::vector<std::uint32_t> chunks_;
  BucketReader::Runs runs_;
};

/// The forms that a model may have, most likely first.
std::array<ModelForm, 4> forms_of(const CheckpointInfo& info) {
  constexpr std::array<std::string_view, 3> kImplementation = {"common", "args", "transformer_impl"};
  constexpr std::array<std::string_view, 3> kGrouped = {"common", "args", "moe_grouped_gemm"};
  const auto implementation = node_at(info.state, kImplementation);
  const bool own_norms = implementation && text_of(info.state, *implementation) == "local";
  const bool grouped = number_at(info.state, kGrouped).value_or(0) != 0;
  return {{{own_norms, grouped}, {own_norms, !grouped}, {!own_norms, grouped}, {!own_norms, !grouped}}};
}

/// A decoder that has placed everything.
Result<std::unique_ptr<BucketDecoder>> place_all(const CheckpointReader& reader,
                                                 const std::vector<std::string>& order) {
  const CheckpointInfo& info = reader.info();
  TENPLEX_TRY(check_chunks(info));
  TENPLEX_ASSIGN_OR_RETURN(FlatBuffers buffers, find_buffers(info));
  TENPLEX_ASSIGN_OR_RETURN(const RankParameters ranks, RankParameters::make(info));
  auto decoder = std::make_unique<BucketDecoder>(reader, std::move(buffers));
  std::optional<Error> first;
  for (const ModelForm& form : forms_of(info)) {
    auto placed = decoder->place(ranks, form, order);
    if (placed) return decoder;
    if (!first) first = std::move(placed).error();
    if (!order.empty()) break;
  }
  return *std::move(first);
}

}  // namespace

Result<std::unique_ptr<CheckpointReader>> decode_buckets(std::unique_ptr<CheckpointReader> reader,
                                                         const std::vector<std::string>& order) {
  const CheckpointInfo& info = reader->info();
  const bool has_buckets = std::any_of(info.tensors.begin(), info.tensors.end(), [](const TensorInfo& tensor) {
    return parse_bucket_name(tensor.name).has_value();
  });
  if (!has_buckets) return reader;
  auto decoder = place_all(*reader, order);
  if (decoder) return (*decoder)->make(std::move(reader));
  Error error = std::move(decoder).error();
  // What is damaged fits nothing.
  if (!order.empty() || error.code() != ErrorCode::kUnsupported)
    return std::move(error).with_context("the optimizer's flat buckets (dp_reshardable)");
  CheckpointInfo kept = info;
  kept.problems.push_back(
      fmt::format("the optimizer's flat buckets (dp_reshardable) are left as they are: {}", error.message()));
  return std::unique_ptr<CheckpointReader>(std::make_unique<DerivedReader>(std::move(reader), std::move(kept)));
}

}  // namespace tenplex::megatron
