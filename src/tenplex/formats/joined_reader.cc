// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/joined_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "tenplex/formats/state/flatten.h"
#include "tenplex/formats/state/graph_copy.h"
#include "tenplex/formats/state/row_major.h"
#include "tenplex/formats/torch/torch_format.h"

namespace tenplex {
namespace {

constexpr std::int64_t kMaxSmallBytes = 64;

/// A file of the pool, for a reader that wants one of its own.
class PooledSource final : public ByteSource {
 public:
  explicit PooledSource(const ByteSource& source) : source_(source) {}
  std::int64_t size() const override { return source_.size(); }
  FileStamp stamp() const override { return source_.stamp(); }
  Result<void> read_at(std::int64_t offset, MutableByteSpan buffer) const override {
    return source_.read_at(offset, buffer);
  }
  const std::string& name() const override { return source_.name(); }

 private:
  const ByteSource& source_;
};

}  // namespace

class CheckpointJoiner::Reader final : public CheckpointReader {
 public:
  explicit Reader(CheckpointJoiner joiner) : joiner_(std::move(joiner)) {}

  const CheckpointInfo& info() const override { return joiner_.info_; }

  Result<const ByteSource*> file(std::int32_t index) const override {
    return joiner_.parts_[static_cast<std::size_t>(index)]->file(0);
  }

  Result<ChunkLocation> locate(std::size_t index) const override {
    const Place& place = joiner_.places_[index];
    const Chunk chunk = info().chunks[index];
    const TensorInfo& tensor = info().tensors[chunk.tensor.index()];
    auto stored = joiner_.parts_[place.part]->locate(place.stored.index());
    if (!stored)
      return std::move(stored).error().with_context(
          fmt::format("tensor '{}' in '{}'", tensor.name, joiner_.names_[place.part]));
    ChunkLocation location = std::move(*stored);
    std::int64_t elements = 0;
    if (place.run >= 0) {
      const std::int64_t step = location.strides[0];
      elements = place.offset * step;
      location.strides = row_major_strides(joiner_.run_shapes_[static_cast<std::size_t>(place.run)]);
      for (std::int64_t& stride : location.strides) stride *= step;
    } else if (place.offset >= 0) {
      const Dims& start = joiner_.starts_[static_cast<std::size_t>(place.offset)];
      for (int dim = 0; dim < start.rank(); ++dim) elements += start[dim] * location.strides[dim];
    }
    location.offset_bytes += elements * size_bytes(tensor.dtype);
    return location;
  }

  Result<std::string> read_extra_file(const ExtraFile& file) const override {
    return not_found(fmt::format("'{}': the checkpoint lists no such file", file.path));
  }

 private:
  const CheckpointJoiner joiner_;
};

CheckpointJoiner::CheckpointJoiner(FileSystem& files, const std::string& folder, Options options)
    : pool_(std::make_unique<FilePool>(files, folder, options.read.follow_links)), options_(std::move(options)) {}

Result<CheckpointJoiner::Part> CheckpointJoiner::open(const std::string& relative) {
  const auto named = [&](Error error) { return std::move(error).with_context(fmt::format("'{}'", relative)); };
  auto index = pool_->add(options_.prefix + relative);
  if (!index) return named(std::move(index).error());
  const ByteSource& source = (*pool_)[static_cast<std::size_t>(*index)];
  auto reader =
      open_torch_source(std::make_unique<PooledSource>(source), relative, options_.read, options_.ignored_attributes);
  if (!reader) return named(std::move(reader).error());
  for (const std::string& problem : (*reader)->info().problems)
    if (info_.problems.size() < 8 &&
        std::find(info_.problems.begin(), info_.problems.end(), problem) == info_.problems.end())
      info_.problems.push_back(problem);
  parts_.push_back(std::move(*reader));
  names_.push_back(relative);
  info_.files.push_back(options_.prefix + relative);
  return static_cast<Part>(parts_.size() - 1);
}

Result<std::string> CheckpointJoiner::bytes(Part part, TensorId tensor, std::int64_t begin, std::int64_t size) const {
  const TensorInfo& info = stored(part).tensors[tensor.index()];
  TENPLEX_ASSIGN_OR_RETURN(const ChunkLocation location, parts_[part]->locate(tensor.index()));
  if (!is_row_major(location.strides, info.shape))
    return unsupported(fmt::format("'{}': tensor '{}' is not contiguous", names_[part], info.name));
  TENPLEX_ASSIGN_OR_RETURN(const ByteSource* source, parts_[part]->file(0));
  return read_string(*source, location.offset_bytes + begin, size);
}

Result<std::string> CheckpointJoiner::small_bytes(Part part, TensorId tensor) const {
  const TensorInfo& info = stored(part).tensors[tensor.index()];
  if (tenplex::size_bytes(info) > kMaxSmallBytes)
    return unsupported(fmt::format("'{}': tensor '{}' of shape {} is no single number", names_[part], info.name,
                                   to_string(info.shape)));
  return bytes(part, tensor, 0, tenplex::size_bytes(info));
}

Result<CheckpointJoiner::Number> CheckpointJoiner::add_tensor(std::string_view name, DType dtype, const Dims& shape) {
  TENPLEX_TRY(check_tensor({std::string(name), dtype, shape}));
  tensors_.push_back({dtype, shape, {}});
  return static_cast<Number>(tensors_.size() - 1);
}

CheckpointJoiner::Number CheckpointJoiner::stored_tensor(Part part, TensorId tensor, DeviceId device) {
  const auto [known, added] = of_stored_.try_emplace({part, tensor}, static_cast<Number>(tensors_.size()));
  if (!added) return known->second;
  const TensorInfo& info = stored(part).tensors[tensor.index()];
  tensors_.push_back({info.dtype, info.shape, {{{part, tensor, -1, -1}, device, Box::whole(info.shape)}}});
  return known->second;
}

Result<void> CheckpointJoiner::check_type(const Pending& tensor, Part part, TensorId id) const {
  const DType found = stored(part).tensors[id.index()].dtype;
  if (found == tensor.dtype) return {};
  return corrupt(fmt::format("'{}': '{}' is expected to be {}, found {}", names_[part],
                             stored(part).tensors[id.index()].name, to_string(tensor.dtype), to_string(found)));
}

std::int32_t CheckpointJoiner::run_shape(const Dims& shape) {
  if (run_shapes_.empty() || run_shapes_.back() != shape) run_shapes_.push_back(shape);
  return static_cast<std::int32_t>(run_shapes_.size() - 1);
}

Result<void> CheckpointJoiner::add_run(Number number, DeviceId device, const Run& run) {
  const Dims whole = tensors_[number].shape;
  return add_run(number, device, run, {whole, {{Box::whole(whole), Dims::filled(whole.rank(), 0)}}});
}

Result<void> CheckpointJoiner::add_run(Number number, DeviceId device, const Run& run, const LocalPart& local) {
  Pending& tensor = tensors_[number];
  TENPLEX_TRY(check_type(tensor, run.part, run.stored));
  const TensorInfo& flat = stored(run.part).tensors[run.stored.index()];
  if (flat.shape.rank() != 1 || run.begin < 0 || run.end < run.begin || run.end > volume(local.shape) ||
      run.offset < 0 || run.offset > flat.shape[0] || run.end - run.begin > flat.shape[0] - run.offset)
    return corrupt(fmt::format("'{}': elements {} to {} of a tensor of shape {} do not lie at {} of '{}' of shape {}",
                               names_[run.part], run.begin, run.end, to_string(local.shape), run.offset, flat.name,
                               to_string(flat.shape)));
  const std::int32_t shape = run_shape(local.shape);
  for (RunBox& part : boxes_of_run(local, run.begin, run.end))
    tensor.sources.push_back(
        {{run.part, run.stored, run.offset - run.begin + part.at, shape}, device, std::move(part.box)});
  return {};
}

Result<void> CheckpointJoiner::add_part(Number number, DeviceId device, Part part, TensorId id,
                                        const LocalPart& local) {
  const TensorInfo& from = stored(part).tensors[id.index()];
  if (from.shape != local.shape)
    return corrupt(fmt::format("'{}': '{}' has the shape {}, expected {}", names_[part], from.name,
                               to_string(from.shape), to_string(local.shape)));
  for (const LocalPiece& piece : local.pieces)
    TENPLEX_TRY(add_box(number, device, part, id, {piece.start, piece.local.extent}, piece.local.offset));
  return {};
}

Result<void> CheckpointJoiner::add_box(Number number, DeviceId device, Part part, TensorId id, const Box& box,
                                       const Dims& start) {
  Pending& tensor = tensors_[number];
  TENPLEX_TRY(check_type(tensor, part, id));
  const TensorInfo& from = stored(part).tensors[id.index()];
  bool inside = box.rank() == tensor.shape.rank() && start.rank() == box.rank() && from.shape.rank() == box.rank();
  for (int dim = 0; inside && dim < box.rank(); ++dim)
    inside = box.offset[dim] >= 0 && box.extent[dim] >= 0 && box.extent[dim] <= tensor.shape[dim] &&
             box.offset[dim] <= tensor.shape[dim] - box.extent[dim] && start[dim] >= 0 &&
             box.extent[dim] <= from.shape[dim] && start[dim] <= from.shape[dim] - box.extent[dim];
  if (!inside)
    return corrupt(fmt::format("'{}': box {} of a tensor of shape {} does not lie at {} of '{}' of shape {}",
                               names_[part], to_string(box), to_string(tensor.shape), to_string(start), from.name,
                               to_string(from.shape)));
  std::int64_t row = -1;
  if (std::any_of(start.begin(), start.end(), [](std::int64_t value) { return value != 0; })) {
    row = static_cast<std::int64_t>(starts_.size());
    starts_.push_back(start);
  }
  tensor.sources.push_back({{part, id, row, -1}, device, box});
  return {};
}

NodeId CheckpointJoiner::copy_state(Part part, const StateGraph& graph, NodeId node, DeviceId device) {
  const std::uint32_t first_storage = next_storage_;
  const std::uint32_t first_object = next_object_;
  return copy_reachable(graph, node, &info_.state, [&](TensorView view) {
    view.tensor = TensorId(std::size_t{stored_tensor(part, view.tensor, device)});
    view.storage += first_storage;
    next_storage_ = std::max(next_storage_, view.storage + 1);
    if (view.object != 0) view.object += first_object;
    next_object_ = std::max(next_object_, view.object);
    return view;
  });
}

NodeId CheckpointJoiner::tensor_node(Number tensor) {
  TensorView view;
  view.tensor = TensorId(std::size_t{tensor});
  view.storage = next_storage_++;
  view.strides = row_major_strides(tensors_[tensor].shape);
  return info_.state.add_tensor(view);
}

Result<void> CheckpointJoiner::add_chunks(const Pending& tensor, TensorId id) {
  const std::int64_t element = size_bytes(tensor.dtype);
  for (const Source& source : tensor.sources) {
    const Place& place = source.place;
    const std::int64_t item = stored(place.part).chunks[place.stored.index()].position;
    info_.chunks.add({id, source.device, static_cast<std::int32_t>(place.part),
                      item + (place.run >= 0 ? place.offset * element : 0), source.box});
    places_.push_back(place);
  }
  if (!tensor.sources.empty() || volume(tensor.shape) == 0) return {};
  return corrupt(fmt::format("tensor '{}' of shape {} is stored nowhere", info_.tensors[id.index()].name,
                             to_string(tensor.shape)));
}

Result<std::unique_ptr<CheckpointReader>> CheckpointJoiner::finish(NodeId root, CheckpointInfo info) {
  info_.state.root = root;
  info_.format = std::move(info.format);
  info_.detail = std::move(info.detail);
  info_.device_count = info.device_count;
  info_.has_common = info.has_common;
  for (std::string& problem : info.problems) info_.problems.push_back(std::move(problem));
  TENPLEX_ASSIGN_OR_RETURN(auto names, tensor_names(info_.state));
  for (auto& [node, name] : names) {
    TensorView view = info_.state.view(node);
    const Pending& tensor = tensors_[view.tensor.index()];
    const TensorId id(info_.tensors.size());
    info_.tensors.push_back({std::move(name), tensor.dtype, tensor.shape});
    TENPLEX_TRY(check_tensor(info_.tensors.back()));
    TENPLEX_TRY(add_chunks(tensor, id));
    view.tensor = id;
    info_.state.set_view(node, view);
  }
  tensors_.clear();
  return std::unique_ptr<CheckpointReader>(std::make_unique<Reader>(std::move(*this)));
}

}  // namespace tenplex
