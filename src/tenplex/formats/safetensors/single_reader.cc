// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tenplex/formats/manifest/manifest.h"
#include "tenplex/formats/member_file.h"
#include "tenplex/formats/safetensors/natural_order.h"
#include "tenplex/formats/safetensors/plain_reader.h"
#include "tenplex/formats/safetensors/safetensors_reader.h"
#include "tenplex/formats/safetensors/sharding_info.h"
#include "tenplex/formats/safetensors/side_metadata.h"
#include "tenplex/io/path.h"

namespace tenplex::safetensors {
namespace {

Result<std::unique_ptr<CheckpointReader>> open_single(FileSystem& files, const std::string& path,
                                                      const ReadOptions& options) {
  auto reader = std::make_unique<PlainReader>(files, "", options.follow_links);
  TENPLEX_ASSIGN_OR_RETURN(Header header, reader->add_single_file(path, options.max_metadata_bytes));
  if (header.find_metadata(kDcpShardingKey))
    return open_dcp_flavoured(files, parent_path(path), {last_component(path)}, options);
  CheckpointInfo& info = reader->mutable_info();
  info.format = "safetensors";
  info.detail = "safetensors, one file";
  add_metadata(header.metadata, info.files[0], &info);
  info.chunks.reserve(header.tensors.size());
  for (HeaderTensor& tensor : header.tensors) {
    info.tensors.push_back(std::move(tensor.info));
    reader->add_whole(TensorId(info.tensors.size() - 1), DeviceId(0), 0, header.data_start + tensor.begin);
  }
  if (const auto text = header.find_metadata(kSideKey)) {
    auto side = decode_side_metadata(*text);
    if (!side) return std::move(side).error().with_context(fmt::format("{}: metadata '{}'", path, kSideKey));
    reader->set_extra_folder(options.objects_folder);
    auto applied = apply_side_metadata(*side, files, {options.objects_folder, options.follow_links}, reader.get());
    if (!applied) return std::move(applied).with_context(path).error();
    if (options.objects_folder.empty()) {
      for (const ExtraFile& file : info.extra_files)
        info.problems.push_back(fmt::format("'{}' is in a folder of objects that was not given", file.path));
      info.unread_files = std::exchange(info.extra_files, {});
    }
  }
  return Result<std::unique_ptr<CheckpointReader>>(std::move(reader));
}

}  // namespace

Result<std::vector<std::string>> safetensors_files(FileSystem& files, const std::string& folder) {
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, files.list(folder));
  std::vector<std::string> names;
  for (const FolderEntry& entry : entries)
    if (entry.status.kind != FileKind::kFolder && entry.name.ends_with(".safetensors")) names.push_back(entry.name);
  std::sort(names.begin(), names.end(), natural_less);
  return names;
}

Result<std::unique_ptr<CheckpointReader>> open_safetensors(FileSystem& files, const std::string& path,
                                                           const ReadOptions& options) {
  TENPLEX_ASSIGN_OR_RETURN(const FileStatus status, files.status(path));
  bool folder = status.kind == FileKind::kFolder;
  if (status.kind == FileKind::kLink) folder = files.list(path).has_value();
  if (!folder) return open_single(files, path, options);
  if (files.status(path + "/" + std::string(kManifestName)).has_value())
    return open_manifest_folder(files, path, options);
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<std::string> names, safetensors_files(files, path));
  if (names.empty()) return not_found(fmt::format("{}: no .safetensors file in this folder", path));
  TENPLEX_ASSIGN_OR_RETURN(const auto first, open_member(files, path, names.front(), options.follow_links));
  TENPLEX_ASSIGN_OR_RETURN(const Header header, read_header(*first, options.max_metadata_bytes));
  if (header.find_metadata(kDcpShardingKey)) return open_dcp_flavoured(files, path, names, options);
  return unsupported(fmt::format(
      "{}: {} .safetensors files and neither '{}' nor an index: the folder does not say how its tensors are "
      "cut; give --from with the sizes of the mesh and --from-layout with the layout",
      path, names.size(), kManifestName));
}

}  // namespace tenplex::safetensors
