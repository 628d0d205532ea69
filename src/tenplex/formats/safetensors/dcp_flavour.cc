// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Files of torch.distributed.checkpoint's HuggingFaceStorageWriter: safetensors with ShardingInfo.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "tenplex/base/checked.h"
#include "tenplex/base/counted.h"
#include "tenplex/formats/dcp/cover.h"
#include "tenplex/formats/safetensors/natural_order.h"
#include "tenplex/formats/safetensors/plain_reader.h"
#include "tenplex/formats/safetensors/safetensors_reader.h"
#include "tenplex/formats/safetensors/sharding_info.h"
#include "tenplex/formats/safetensors/side_metadata.h"

namespace tenplex::safetensors {
namespace {

/// "shard-00002-model-00001-of-00003.safetensors" is rank 1's; files of other names are ranks in their order.
/// Errors: not_found for a rank without a file.
Result<std::vector<DeviceId>> devices_of(const std::vector<std::string>& names) {
  std::vector<DeviceId> devices;
  std::set<std::int64_t> ranks;
  for (const std::string& name : names) {
    const auto split = split_numbers(name);
    if (!split || split->pattern != "shard-#-model-#-of-#.safetensors") break;
    if (split->numbers[0] < 1 || split->numbers[0] > INT32_MAX)
      return invalid_argument(fmt::format("'{}': shards are numbered from 1", name));
    ranks.insert(split->numbers[0]);
    devices.emplace_back(static_cast<std::int32_t>(split->numbers[0] - 1));
  }
  if (devices.size() == names.size()) {
    std::int64_t expected = 1;
    for (const std::int64_t rank : ranks)
      if (rank != expected++) return not_found(fmt::format("no file of shard {}", expected - 1));
    return devices;
  }
  TENPLEX_TRY(check_numbering(names));
  devices.clear();
  for (std::size_t index = 0; index < names.size(); ++index) devices.emplace_back(index);
  return devices;
}

class DcpFlavoured {
 public:
  DcpFlavoured(FileSystem& files, const std::string& folder, const ReadOptions& options)
      : options_(options), reader_(std::make_unique<PlainReader>(files, folder, options.follow_links)) {}

  Result<std::unique_ptr<CheckpointReader>> run(const std::vector<std::string>& names) && {
    CheckpointInfo& info = reader_->mutable_info();
    info.format = "safetensors";
    info.detail = fmt::format("safetensors of torch.distributed.checkpoint, {}", counted(names.size(), "file"));
    TENPLEX_ASSIGN_OR_RETURN(devices_, devices_of(names));
    info.device_count = std::max_element(devices_.begin(), devices_.end())->value() + 1;
    for (const std::string& name : names) TENPLEX_TRY(add_file(name).with_context(fmt::format("'{}'", name)));
    for (std::size_t index = 0; index < info.tensors.size(); ++index) TENPLEX_TRY(check_tensor_cover(index));
    for (const Chunk& chunk : chunks_) reader_->add_box(chunk, row_major_strides(chunk.box.extent));
    info.problems.emplace_back(
        "global shapes are not stored, they are where the farthest chunks end: a lost last shard cannot be seen");
    return Result<std::unique_ptr<CheckpointReader>>(std::move(reader_));
  }

 private:
  Result<void> add_file(const std::string& name) {
    TENPLEX_ASSIGN_OR_RETURN(Header header, reader_->add_file(name, options_.max_metadata_bytes));
    TENPLEX_ASSIGN_OR_RETURN(const std::optional<ShardingInfo> offsets, read_sharding_info(header));
    if (!offsets) return corrupt(fmt::format("the metadata has no '{}', as other files have", kDcpShardingKey));
    add_metadata(without_sharding(header.metadata), name, &reader_->mutable_info());
    for (const HeaderTensor& tensor : header.tensors) {
      const auto found = offsets->find(tensor.info.name);
      if (found == offsets->end())
        return corrupt(fmt::format("'{}' has no offsets for tensor '{}'", kDcpShardingKey, tensor.info.name));
      TENPLEX_TRY(add_chunk(tensor, found->second, header.data_start));
    }
    return {};
  }

  static Metadata without_sharding(Metadata metadata) {
    std::erase_if(metadata, [](const auto& entry) { return entry.first.starts_with("DCP_"); });
    return metadata;
  }

  Result<void> add_chunk(const HeaderTensor& stored, const Dims& offset, std::int64_t data_start) {
    std::vector<TensorInfo>& tensors = reader_->mutable_info().tensors;
    const TensorInfo& local = stored.info;
    if (offset.rank() != local.shape.rank())
      return corrupt(
          fmt::format("tensor '{}': offsets {} for shape {}", local.name, to_string(offset), to_string(local.shape)));
    const auto [entry, is_new] = by_name_.emplace(local.name, tensors.size());
    if (is_new) {
      tensors.push_back({local.name, local.dtype, Dims::filled(offset.rank(), 0)});
      boxes_.emplace_back();
    }
    TensorInfo& global = tensors[entry->second];
    if (global.dtype != local.dtype || global.shape.rank() != offset.rank())
      return corrupt(fmt::format("tensor '{}' has another dtype or rank in another file", local.name));
    for (int dim = 0; dim < offset.rank(); ++dim) {
      const auto end = checked_add(offset[dim], local.shape[dim]);
      if (offset[dim] < 0 || !end)
        return corrupt(fmt::format("tensor '{}': offsets {} are out of range", local.name, to_string(offset)));
      global.shape[dim] = std::max(global.shape[dim], *end);
    }
    const auto file = static_cast<std::int32_t>(reader_->info().files.size() - 1);
    chunks_.push_back({TensorId(entry->second),
                       devices_[static_cast<std::size_t>(file)],
                       file,
                       data_start + stored.begin,
                       {offset, local.shape}});
    std::vector<std::int64_t>& boxes = boxes_[entry->second];
    boxes.insert(boxes.end(), offset.begin(), offset.end());
    boxes.insert(boxes.end(), local.shape.begin(), local.shape.end());
    return {};
  }

  /// Without holes; chunks that overlap are left to the reader of the collection, which compares them.
  Result<void> check_tensor_cover(std::size_t index) const {
    const TensorInfo& tensor = reader_->info().tensors[index];
    if (auto checked = check_tensor(tensor); !checked) return corrupt(checked.error().message());
    const int rank = tensor.shape.rank();
    if (rank == 0) return {};
    const std::vector<std::int64_t>& dims = boxes_[index];
    const std::size_t count = dims.size() / (2 * static_cast<std::size_t>(rank));
    const auto fault = dcp::find_cover_fault(tensor.shape, dcp::BoxList(rank, count, dims));
    if (fault && fault->missing)
      return corrupt(fmt::format("tensor '{}': no file holds {}", tensor.name, to_string(fault->box)));
    return {};
  }

  const ReadOptions& options_;
  std::unique_ptr<PlainReader> reader_;
  std::unordered_map<std::string, std::size_t> by_name_;
  std::vector<std::vector<std::int64_t>> boxes_;  // per tensor: offset and extent of each chunk
  std::vector<Chunk> chunks_;
  std::vector<DeviceId> devices_;  // per file
};

}  // namespace

Result<std::unique_ptr<CheckpointReader>> open_dcp_flavoured(FileSystem& files, const std::string& folder,
                                                             const std::vector<std::string>& names,
                                                             const ReadOptions& options) {
  return DcpFlavoured(files, folder, options).run(names).with_context(folder);
}

}  // namespace tenplex::safetensors
