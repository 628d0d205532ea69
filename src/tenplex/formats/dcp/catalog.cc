// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "tenplex/base/checked.h"
#include "tenplex/formats/dcp/cover.h"

namespace tenplex::dcp {
namespace {

constexpr std::int32_t kNoFile = -1;
constexpr std::int32_t kMaxDevice =
    (1 << 20) - 1;  // a larger rank in a file name is no rank: nothing may be sized by it

class Builder {
 public:
  Builder(const MetadataTables& tables, FilePool& pool) : tables_(tables), pool_(pool) {}
  Result<Catalog> run();

 private:
  Result<ItemRange> range_of(std::uint32_t item);
  Result<std::int32_t> file_of(NodeId path);
  Result<void> add_tensor(const TensorRecord& record);
  Result<Dims> shape_of(const TensorRecord& record) const;
  Result<Box> box_of(const ChunkRecord& chunk, const TensorInfo& tensor) const;
  Result<void> add_chunk(const ChunkRecord& record, TensorId tensor, const Box& box);
  Error no_item(const TensorRecord& record, const ChunkRecord& chunk, const Box& box) const;
  Result<void> check_cover(const TensorRecord& record, const TensorInfo& tensor);

  const MetadataTables& tables_;
  FilePool& pool_;
  Catalog catalog_;
  std::vector<std::int32_t> file_of_atom_;
  std::vector<DeviceId> devices_;   // one per file
  std::vector<std::int64_t> dims_;  // of the chunks of one tensor, for check_cover
};

Result<std::int32_t> Builder::file_of(NodeId path) {
  const std::size_t atom = path - kFirstAtom;
  if (atom >= file_of_atom_.size()) file_of_atom_.resize(atom + 1, kNoFile);
  if (file_of_atom_[atom] != kNoFile) return std::int32_t{file_of_atom_[atom]};
  const std::string_view relative = tables_.text(path);
  auto added = pool_.add(relative);
  if (!added) return std::move(added).error().with_context(fmt::format("data file '{}'", relative));
  file_of_atom_[atom] = *added;
  catalog_.files.emplace_back(relative);
  const DeviceId device = device_of_file(relative);
  devices_.push_back(device);
  catalog_.device_count = std::max(catalog_.device_count, device.value() + 1);
  return std::int32_t{*added};
}

Result<ItemRange> Builder::range_of(std::uint32_t item) {
  const ItemRecord& record = tables_.items[item];
  if (record.transformed) {
    return unsupported("its bytes went through a stream transform (transform_descriptors), which is not supported");
  }
  TENPLEX_ASSIGN_OR_RETURN(const std::int32_t file, file_of(record.path));
  const std::int64_t size = pool_[static_cast<std::size_t>(file)].size();
  if (record.offset < 0 || record.length < 0 || record.offset > size || record.length > size - record.offset) {
    return corrupt(fmt::format("its item at offset {} of length {} lies outside '{}' of {} bytes", record.offset,
                               record.length, tables_.text(record.path), size));
  }
  return ItemRange{file, record.offset, record.length};
}

Result<Dims> Builder::shape_of(const TensorRecord& record) const {
  const std::span<const std::int64_t> shape = tables_.dims[record.shape];
  if (shape.size() > kMaxRank) {
    return unsupported(fmt::format("has {} dimensions, at most {} are supported", shape.size(), kMaxRank));
  }
  return Dims(shape);
}

Result<Box> Builder::box_of(const ChunkRecord& chunk, const TensorInfo& tensor) const {
  const std::span<const std::int64_t> offsets = tables_.dims[chunk.offsets];
  const std::span<const std::int64_t> sizes = tables_.dims[chunk.sizes];
  if (offsets.size() != tensor.shape.size() || sizes.size() != tensor.shape.size()) {
    return corrupt(fmt::format("a chunk has {} offsets and {} sizes, but the tensor of shape {} has {} dimensions",
                               offsets.size(), sizes.size(), to_string(tensor.shape), tensor.shape.size()));
  }
  for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
    const std::int64_t extent = tensor.shape[static_cast<int>(dim)];
    if (offsets[dim] < 0 || sizes[dim] < 0 || offsets[dim] > extent || sizes[dim] > extent - offsets[dim]) {
      return corrupt(fmt::format("a chunk with offsets [{}] and sizes [{}] lies outside the shape {}",
                                 fmt::join(offsets, ", "), fmt::join(sizes, ", "), to_string(tensor.shape)));
    }
  }
  return Box{Dims(offsets), Dims(sizes)};
}

Result<void> Builder::check_cover(const TensorRecord& record, const TensorInfo& tensor) {
  const std::optional<CoverFault> fault =
      find_cover_fault(tensor.shape, BoxList(tensor.shape.rank(), record.chunk_count, dims_));
  if (!fault) return {};
  if (fault->missing) return corrupt(fmt::format("no chunk holds {}", to_string(fault->box)));
  const BoxList boxes(tensor.shape.rank(), record.chunk_count, dims_);
  return corrupt(
      fmt::format("chunks {} and {} overlap", to_string(boxes[fault->first]), to_string(boxes[fault->second])));
}

// An entry of storage_data goes to one chunk; another at the same place has none left.
Error Builder::no_item(const TensorRecord& record, const ChunkRecord& chunk, const Box& box) const {
  int listed = 0;
  for (std::uint32_t i = 0; i < record.chunk_count; ++i)
    if (tables_.chunks[record.first_chunk + i].offsets == chunk.offsets) ++listed;
  if (listed > 1) return corrupt(fmt::format("{} chunks are listed at the offsets {}", listed, to_string(box.offset)));
  return corrupt(fmt::format("chunk {} has no entry in storage_data", to_string(box)));
}

Result<void> Builder::add_chunk(const ChunkRecord& record, TensorId tensor, const Box& box) {
  auto range = range_of(record.item);
  if (!range) return std::move(range).error().with_context(fmt::format("chunk {}", to_string(box)));
  catalog_.chunks.add({tensor, devices_[static_cast<std::size_t>(range->file)], range->file, range->offset, box});
  catalog_.lengths.push_back(range->length);
  return {};
}

Result<void> Builder::add_tensor(const TensorRecord& record) {
  TENPLEX_ASSIGN_OR_RETURN(const Dims shape, shape_of(record));
  const TensorId id(catalog_.tensors.size());
  TensorInfo tensor{std::string(tables_.text(record.name)), record.dtype, shape};
  TENPLEX_TRY(check_shape(tensor.dtype, tensor.shape));
  const bool is_empty = volume(shape) == 0;
  dims_.clear();
  bool any = false;
  for (std::uint32_t i = 0; i < record.chunk_count; ++i) {
    const ChunkRecord& chunk = tables_.chunks[record.first_chunk + i];
    TENPLEX_ASSIGN_OR_RETURN(const Box box, box_of(chunk, tensor));
    dims_.insert(dims_.end(), box.offset.begin(), box.offset.end());
    dims_.insert(dims_.end(), box.extent.begin(), box.extent.end());
    if (box.empty() && (!is_empty || any || chunk.item == kNoItem)) continue;
    if (chunk.item == kNoItem) return no_item(record, chunk, box);
    TENPLEX_TRY(add_chunk(chunk, id, box));
    any = true;
  }
  if (is_empty && !any && record.chunk_count == 0) return corrupt("has no chunk");
  TENPLEX_TRY(check_cover(record, tensor));
  catalog_.tensors.push_back(std::move(tensor));
  catalog_.requires_grad.push_back(record.requires_grad);
  return {};
}

Result<Catalog> Builder::run() {
  catalog_.tensors.reserve(tables_.tensors.size());
  std::size_t chunks = 0;
  for (const TensorRecord& record : tables_.tensors) chunks += record.chunk_count;
  catalog_.chunks.reserve(chunks);
  catalog_.lengths.reserve(chunks);
  for (const ByteRecord& record : tables_.byte_items) {
    auto range = range_of(record.item);
    if (!range) return std::move(range).error().with_context(fmt::format("object '{}'", tables_.text(record.name)));
    catalog_.byte_items.push_back(*range);
  }
  for (const TensorRecord& record : tables_.tensors) {
    TENPLEX_TRY(add_tensor(record).with_context(fmt::format("tensor '{}'", tables_.text(record.name))));
  }
  return std::move(catalog_);
}

}  // namespace

DeviceId device_of_file(std::string_view relative_path) {
  const std::size_t slash = relative_path.rfind('/');
  std::string_view name = slash == std::string_view::npos ? relative_path : relative_path.substr(slash + 1);
  constexpr std::string_view kPrefix = "__";
  constexpr std::string_view kSuffix = ".distcp";
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return DeviceId(0);
  name = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  const std::size_t bar = name.find('_');
  if (bar == std::string_view::npos) return DeviceId(0);
  std::int32_t rank = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + bar, rank);
  const bool whole = error == std::errc{} && end == name.data() + bar;
  return DeviceId(whole && rank >= 0 && rank <= kMaxDevice ? rank : std::int32_t{0});
}

Result<Catalog> build_catalog(const MetadataTables& tables, FilePool& pool) { return Builder(tables, pool).run(); }

}  // namespace tenplex::dcp
