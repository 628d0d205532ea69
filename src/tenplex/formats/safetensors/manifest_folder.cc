// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "tenplex/base/counted.h"
#include "tenplex/formats/manifest/manifest.h"
#include "tenplex/formats/member_file.h"
#include "tenplex/formats/safetensors/plain_reader.h"
#include "tenplex/formats/safetensors/safetensors_reader.h"
#include "tenplex/formats/safetensors/side_metadata.h"

namespace tenplex::safetensors {
namespace {

class ManifestFolder {
 public:
  ManifestFolder(FileSystem& files, const std::string& folder, const ReadOptions& options)
      : files_(files),
        folder_(folder),
        options_(options),
        reader_(std::make_unique<PlainReader>(files, folder, options.follow_links)) {}

  Result<std::unique_ptr<CheckpointReader>> run(std::string_view text) && {
    ManifestVisitor visitor;
    visitor.head = [this](const ManifestHead& head) { return open_files(head); };
    visitor.tensor = [this](const TensorInfo& tensor) {
      info().tensors.push_back(tensor);
      return Result<void>();
    };
    visitor.shard = [this](const ManifestShard& shard) { return add_shard(shard); };
    TENPLEX_TRY(decode_manifest(text, visitor));
    TENPLEX_TRY(check_all_claimed());
    TENPLEX_TRY(apply_side_data(side_, files_, {folder_, options_.follow_links}, reader_.get()));
    note_other_files(files_, folder_, {std::string(kManifestName), "objects"}, &info());
    return Result<std::unique_ptr<CheckpointReader>>(std::move(reader_));
  }

 private:
  struct DeviceFile {
    Header header;
    std::unordered_map<std::string_view, std::size_t> by_name;  // borrows from header
    std::size_t claimed = 0;
    std::vector<bool> is_claimed;
  };

  CheckpointInfo& info() { return reader_->mutable_info(); }

  Result<void> open_files(const ManifestHead& head) {
    if (head.container != "safetensors")
      return unsupported(fmt::format("the manifest's files are '{}', expected 'safetensors'", head.container));
    info().format = "safetensors";
    info().detail = fmt::format("safetensors, {}", counted(head.files.size(), "device"));
    info().device_count = std::max(1, static_cast<int>(head.files.size()));
    info().metadata = head.metadata;
    if (head.layout != LayoutNote{}) info().layout = head.layout;
    side_ = head.side;
    devices_.reserve(head.files.size());
    for (const ManifestFile& file : head.files) TENPLEX_TRY(open_file(file));
    return {};
  }

  Result<void> open_file(const ManifestFile& file) {
    DeviceFile& device = devices_.emplace_back();
    TENPLEX_ASSIGN_OR_RETURN(device.header, reader_->add_file(file.path, options_.max_metadata_bytes));
    const std::int64_t size = reader_->file_size(static_cast<std::int32_t>(devices_.size() - 1));
    if (size != file.size_bytes)
      return corrupt(fmt::format("'{}' has {} bytes, the manifest says {}", file.path, size, file.size_bytes));
    TENPLEX_TRY(check_device(device.header, static_cast<std::int64_t>(devices_.size()) - 1).with_context(file.path));
    device.by_name.reserve(device.header.tensors.size());
    for (std::size_t index = 0; index < device.header.tensors.size(); ++index)
      device.by_name.emplace(device.header.tensors[index].info.name, index);
    device.is_claimed.resize(device.header.tensors.size());
    return {};
  }

  /// Files of folders that older versions wrote do not say whose they are.
  static Result<void> check_device(const Header& header, std::int64_t expected) {
    const auto text = header.find_metadata(kSideKey);
    if (!text) return {};
    TENPLEX_ASSIGN_OR_RETURN(const auto device,
                             decode_device_metadata(*text).with_context(fmt::format("metadata '{}'", kSideKey)));
    if (!device || *device == expected) return {};
    return corrupt(fmt::format("the file is of device {}, the manifest names it for device {}", *device, expected));
  }

  Result<void> add_shard(const ManifestShard& shard) {
    const TensorInfo& tensor = info().tensors.back();
    for (const DeviceId id : shard.devices) {
      DeviceFile& device = devices_[id.index()];
      const std::string& path = info().files[id.index()];
      const auto found = device.by_name.find(shard.key);
      if (found == device.by_name.end()) return corrupt(fmt::format("'{}' has no tensor '{}'", path, shard.key));
      const HeaderTensor& stored = device.header.tensors[found->second];
      if (stored.info.dtype != tensor.dtype || stored.info.shape != shard.shard.local_shape)
        return corrupt(fmt::format("'{}' holds {} {}, the manifest says {} {}", path, to_string(stored.info.dtype),
                                   to_string(stored.info.shape), to_string(tensor.dtype),
                                   to_string(shard.shard.local_shape)));
      if (device.is_claimed[found->second])
        return corrupt(fmt::format("two shards claim '{}' of '{}'", shard.key, path));
      device.is_claimed[found->second] = true;
      ++device.claimed;
      for (const Piece& piece : shard.shard.pieces) {
        const std::int64_t position =
            device.header.data_start + stored.begin + *packed_bytes(tensor.dtype, piece.local_offset);
        reader_->add_box({TensorId(info().tensors.size() - 1), id, id.value(), position, piece.box},
                         piece.local_strides);
      }
    }
    return {};
  }

  Result<void> check_all_claimed() const {
    for (std::size_t index = 0; index < devices_.size(); ++index) {
      const DeviceFile& device = devices_[index];
      if (device.claimed == device.header.tensors.size()) continue;
      const auto first = static_cast<std::size_t>(std::find(device.is_claimed.begin(), device.is_claimed.end(), false) -
                                                  device.is_claimed.begin());
      return corrupt(fmt::format("'{}' holds '{}', which the manifest does not name", reader_->info().files[index],
                                 device.header.tensors[first].info.name));
    }
    return {};
  }

  FileSystem& files_;
  const std::string& folder_;
  const ReadOptions& options_;
  std::unique_ptr<PlainReader> reader_;
  SideData side_;
  std::vector<DeviceFile> devices_;
};

}  // namespace

Result<std::unique_ptr<CheckpointReader>> open_manifest_folder(FileSystem& files, const std::string& folder,
                                                               const ReadOptions& options) {
  TENPLEX_ASSIGN_OR_RETURN(const auto source,
                           open_member(files, folder, std::string(kManifestName), options.follow_links));
  if (source->size() > options.max_metadata_bytes)
    return resource_exhausted(
        fmt::format("{} has {} bytes, the limit is {}", source->name(), source->size(), options.max_metadata_bytes));
  TENPLEX_ASSIGN_OR_RETURN(const std::string text, read_string(*source, 0, source->size()));
  return ManifestFolder(files, folder, options).run(text).with_context(source->name());
}

}  // namespace tenplex::safetensors
