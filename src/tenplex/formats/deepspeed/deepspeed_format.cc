// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/deepspeed_format.h"

#include <fmt/format.h>

#include "tenplex/formats/deepspeed/rank_files.h"
#include "tenplex/formats/deepspeed/universal_reader.h"
#include "tenplex/formats/deepspeed/zero_reader.h"

namespace tenplex {
namespace {

Result<std::unique_ptr<CheckpointReader>> open_tag(FileSystem& files, const std::string& folder,
                                                   const std::string& root, const ReadOptions& options) {
  TENPLEX_ASSIGN_OR_RETURN(deepspeed::TagFiles tag, deepspeed::list_tag_files(files, folder));
  if (!root.empty()) {
    tag.base = root;
    tag.prefix = fmt::format("{}/", folder.substr(root.size() + 1));
  }
  return tag.universal ? deepspeed::open_universal(files, tag, options) : deepspeed::open_zero(files, tag, options);
}

}  // namespace

bool detect_deepspeed(FileSystem& files, const std::string& path) {
  const auto status = files.status(path);
  if (!status || status->kind == FileKind::kFile) return false;
  std::string root;
  const auto folder = deepspeed::find_tag_folder(files, path, &root);
  // A pointer to nothing is a DeepSpeed checkpoint all the same if its script is there.
  if (!folder) return files.status(path + "/zero_to_fp32.py").has_value() || files.status(path + "/latest_universal");
  return folder->has_value();
}

Result<std::unique_ptr<CheckpointReader>> open_deepspeed(FileSystem& files, const std::string& path,
                                                         const ReadOptions& options) {
  std::string root;
  TENPLEX_ASSIGN_OR_RETURN(const auto folder, deepspeed::find_tag_folder(files, path, &root));
  if (!folder) return not_found(fmt::format("'{}': no DeepSpeed checkpoint", path));
  return open_tag(files, *folder, root, options).with_context(fmt::format("'{}'", *folder));
}

Format deepspeed_format() {
  return {"deepspeed",
          "a folder of DeepSpeed: ZeRO (read), universal checkpoint (read and written)",
          &detect_deepspeed,
          &open_deepspeed,
          &make_deepspeed_writer,
          nullptr,
          true};
}

}  // namespace tenplex
