// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/safetensors/rank_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tenplex/base/counted.h"
#include "tenplex/formats/manifest/manifest.h"
#include "tenplex/formats/member_file.h"
#include "tenplex/formats/safetensors/natural_order.h"
#include "tenplex/formats/safetensors/plain_reader.h"
#include "tenplex/formats/safetensors/safetensors_reader.h"
#include "tenplex/formats/safetensors/sharding_info.h"
#include "tenplex/formats/safetensors/side_metadata.h"

namespace tenplex::safetensors {
namespace {

Result<std::vector<std::string>> numbered_files(FileSystem& files, const std::string& folder) {
  TENPLEX_ASSIGN_OR_RETURN(std::vector<std::string> names, safetensors_files(files, folder));
  if (names.empty()) return not_found(fmt::format("{}: no .safetensors file in this folder", folder));
  if (auto numbering = check_numbering(names); !numbering) return std::move(numbering).with_context(folder).error();
  return names;
}

bool has(const std::vector<FolderEntry>& entries, std::string_view name) {
  return std::any_of(entries.begin(), entries.end(), [&](const FolderEntry& entry) { return entry.name == name; });
}

/// Files of a model or of a whole checkpoint lie in the folder.
bool says_what_it_is(const std::vector<FolderEntry>& entries, std::size_t weights) {
  const bool index = std::any_of(entries.begin(), entries.end(), [](const FolderEntry& entry) {
    return entry.name.ends_with(".safetensors.index.json");
  });
  return index || has(entries, kManifestName) || has(entries, ".metadata") || has(entries, "model.safetensors") ||
         (weights == 1 && has(entries, "config.json"));
}

bool share_a_name(const Header& a, const Header& b) {
  std::set<std::string_view> names;
  for (const HeaderTensor& tensor : a.tensors) names.insert(tensor.info.name);
  return std::any_of(b.tensors.begin(), b.tensors.end(),
                     [&](const HeaderTensor& tensor) { return names.contains(tensor.info.name); });
}

Result<Header> header_of(FileSystem& files, const std::string& folder, const std::string& name,
                         const ReadOptions& options) {
  TENPLEX_ASSIGN_OR_RETURN(const auto source, open_member(files, folder, name, options.follow_links));
  return read_header(*source, options.max_metadata_bytes);
}

/// Everything in the folder but the ranks' files.
Result<void> add_extra_files(FileSystem& files, const std::string& folder, bool follow_links, CheckpointInfo* info) {
  std::vector<ExtraFile> members;
  TENPLEX_TRY(list_members(files, folder, follow_links, &members, &info->problems));
  const std::set<std::string_view> ranks(info->files.begin(), info->files.end());
  for (ExtraFile& member : members)
    if (!ranks.contains(member.path)) info->extra_files.push_back(std::move(member));
  return {};
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
      return invalid_argument(fmt::format("the layout puts {} on device {}, its file holds {}",
                                          counted(expected[device], "tensor"), device, stored_counts[device]));
  return {};
}

}  // namespace

Result<bool> is_rank_folder(FileSystem& files, const std::string& folder, const ReadOptions& options) {
  const auto entries = files.list(folder);
  if (!entries) return false;
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<std::string> names, safetensors_files(files, folder));
  if (names.empty() || says_what_it_is(*entries, names.size())) return false;
  TENPLEX_ASSIGN_OR_RETURN(const Header first, header_of(files, folder, names.front(), options));
  if (first.find_metadata(kDcpShardingKey)) return false;
  const auto numbered = split_numbers(names.front());
  if (names.size() == 1 || !numbered || !numbered->pattern.ends_with("-#-of-#.safetensors")) return true;
  TENPLEX_ASSIGN_OR_RETURN(const Header second, header_of(files, folder, names[1], options));
  return share_a_name(first, second);
}

Result<std::vector<RankFile>> list_rank_folder(FileSystem& files, const std::string& folder,
                                               const ReadOptions& options) {
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<std::string> names, numbered_files(files, folder));
  std::vector<RankFile> ranks;
  for (const std::string& name : names) {
    TENPLEX_ASSIGN_OR_RETURN(Header header, header_of(files, folder, name, options));
    RankFile& rank = ranks.emplace_back();
    rank.name = name;
    for (HeaderTensor& tensor : header.tensors) rank.tensors.push_back(std::move(tensor.info));
  }
  return ranks;
}

Result<std::unique_ptr<CheckpointReader>> open_rank_folder(FileSystem& files, const std::string& folder,
                                                           const Collection& collection, const LayoutNote& layout,
                                                           const ReadOptions& options) {
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<std::string> names, numbered_files(files, folder));
  if (std::int64_t(names.size()) != collection.device_count())
    return invalid_argument(fmt::format("{}: {}, and the layout has {}", folder, counted(names.size(), "file"),
                                        counted(collection.device_count(), "device")));
  auto reader = std::make_unique<PlainReader>(files, folder, options.follow_links);
  CheckpointInfo& info = reader->mutable_info();
  info.format = "safetensors";
  info.detail = fmt::format("safetensors, {}, one per rank", counted(names.size(), "file"));
  info.device_count = collection.device_count();
  info.tensors.assign(collection.tensors().begin(), collection.tensors().end());
  info.layout = layout;
  std::vector<std::size_t> stored_counts;
  for (std::size_t index = 0; index < names.size(); ++index) {
    TENPLEX_ASSIGN_OR_RETURN(const Header header, reader->add_file(names[index], options.max_metadata_bytes));
    add_metadata(header.metadata, names[index], &info);
    if (header.find_metadata(kSideKey))
      info.problems.push_back(fmt::format("'{}': its metadata '{}' is passed over", names[index], kSideKey));
    stored_counts.push_back(header.tensors.size());
    auto added = add_device(collection, DeviceId(index), header, reader.get());
    if (!added) return std::move(added).with_context(fmt::format("{}/{}", folder, names[index])).error();
  }
  if (auto complete = check_complete(collection, stored_counts); !complete)
    return std::move(complete).with_context(folder).error();
  TENPLEX_TRY(add_extra_files(files, folder, options.follow_links, &info));
  return Result<std::unique_ptr<CheckpointReader>>(std::move(reader));
}

}  // namespace tenplex::safetensors
