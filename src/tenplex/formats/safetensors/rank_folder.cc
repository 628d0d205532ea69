// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/safetensors/rank_folder.h"

#include <fmt/format.h>

#include "tenplex/formats/safetensors/natural_order.h"
#include "tenplex/formats/safetensors/plain_reader.h"
#include "tenplex/formats/safetensors/safetensors_reader.h"
#include "tenplex/formats/safetensors/side_metadata.h"

namespace tenplex::safetensors {
namespace {

Result<std::vector<std::string>> numbered_files(FileSystem& files, const std::string& folder) {
  TENPLEX_ASSIGN_OR_RETURN(std::vector<std::string> names, safetensors_files(files, folder));
  if (names.empty()) return not_found(fmt::format("{}: no .safetensors file in this folder", folder));
  if (auto numbering = check_numbering(names); !numbering) return std::move(numbering).with_context(folder).error();
  return names;
}

/// Chunks of one device's file. Errors: invalid_argument if the file and the collection disagree.
Result<void> add_device(const Collection& collection, DeviceId device, const Header& header, PlainReader* reader) {
  std::vector<std::int64_t> shards;
  SubTensor shard;
  for (const HeaderTensor& stored : header.tensors) {
    const auto tensor = collection.find(stored.info.name);
    if (!tensor) return invalid_argument(fmt::format("tensor '{}' is not in the collection", stored.info.name));
    collection.shards_of_device(*tensor, device, &shards);
    if (shards.size() != 1)
      return invalid_argument(fmt::format("tensor '{}': the layout puts {} shards on device {}, the file holds 1",
                                          stored.info.name, shards.size(), device.value()));
    collection.shard(*tensor, shards[0], &shard);
    const DType dtype = collection.tensors()[tensor->index()].dtype;
    if (stored.info.shape != shard.local_shape || stored.info.dtype != dtype)
      return invalid_argument(fmt::format("tensor '{}': the layout says {} {} on device {}, the file holds {} {}",
                                          stored.info.name, to_string(dtype), to_string(shard.local_shape),
                                          device.value(), to_string(stored.info.dtype), to_string(stored.info.shape)));
    for (const Piece& piece : shard.pieces) {
      const auto start = packed_bytes(dtype, piece.local_offset);
      if (!start)
        return invalid_argument(fmt::format("tensor '{}': a piece does not start at a whole byte", stored.info.name));
      reader->add_box({*tensor, device, device.value(), header.data_start + stored.begin + *start, piece.box},
                      piece.local_strides);
    }
  }
  return {};
}

/// Every shard that the collection places on a device is in that device's file.
Result<void> check_complete(const Collection& collection, const std::vector<std::size_t>& stored_counts) {
  std::vector<std::size_t> expected(stored_counts.size());
  std::vector<DeviceId> devices;
  for (std::size_t index = 0; index < collection.tensors().size(); ++index)
    for (std::int64_t shard = 0; shard < collection.shard_count(TensorId(index)); ++shard) {
      collection.holders(TensorId(index), shard, &devices);
      for (const DeviceId device : devices) ++expected[device.index()];
    }
  for (std::size_t device = 0; device < expected.size(); ++device)
    if (expected[device] != stored_counts[device])
      return invalid_argument(fmt::format("the layout puts {} tensors on device {}, its file holds {}",
                                          expected[device], device, stored_counts[device]));
  return {};
}

}  // namespace

Result<std::vector<RankFile>> list_rank_folder(FileSystem& files, const std::string& folder,
                                               const ReadOptions& options) {
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<std::string> names, numbered_files(files, folder));
  std::vector<RankFile> ranks;
  for (const std::string& name : names) {
    TENPLEX_ASSIGN_OR_RETURN(const auto source, files.open_below(folder, name));
    TENPLEX_ASSIGN_OR_RETURN(Header header, read_header(*source, options.max_metadata_bytes));
    RankFile& rank = ranks.emplace_back();
    rank.name = name;
    for (HeaderTensor& tensor : header.tensors) rank.tensors.push_back(std::move(tensor.info));
  }
  return ranks;
}

Result<std::unique_ptr<CheckpointReader>> open_rank_folder(FileSystem& files, const std::string& folder,
                                                           const Collection& collection, const ReadOptions& options) {
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<std::string> names, numbered_files(files, folder));
  if (std::int64_t(names.size()) != collection.device_count())
    return invalid_argument(
        fmt::format("{}: {} files, and the layout has {} devices", folder, names.size(), collection.device_count()));
  auto reader = std::make_unique<PlainReader>(files, folder);
  CheckpointInfo& info = reader->mutable_info();
  info.format = "safetensors";
  info.detail = fmt::format("safetensors, {} files, one per rank", names.size());
  info.device_count = collection.device_count();
  info.tensors.assign(collection.tensors().begin(), collection.tensors().end());
  std::vector<std::size_t> stored_counts;
  for (std::size_t index = 0; index < names.size(); ++index) {
    TENPLEX_ASSIGN_OR_RETURN(const Header header, reader->add_file(names[index], options.max_metadata_bytes));
    add_metadata(header.metadata, names[index], &info);
    stored_counts.push_back(header.tensors.size());
    auto added = add_device(collection, DeviceId(index), header, reader.get());
    if (!added) return std::move(added).with_context(fmt::format("{}/{}", folder, names[index])).error();
  }
  if (auto complete = check_complete(collection, stored_counts); !complete)
    return std::move(complete).with_context(folder).error();
  return Result<std::unique_ptr<CheckpointReader>>(std::move(reader));
}

}  // namespace tenplex::safetensors
