// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/other_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "tenplex/formats/manifest/manifest.h"

namespace tenplex {
namespace {

template <std::size_t N>
bool ends_with_any(std::string_view name, const std::array<std::string_view, N>& endings) {
  return std::any_of(endings.begin(), endings.end(), [name](auto ending) { return name.ends_with(ending); });
}

template <std::size_t N>
bool starts_with_any(std::string_view name, const std::array<std::string_view, N>& starts) {
  return std::any_of(starts.begin(), starts.end(), [name](auto start) { return name.starts_with(start); });
}

/// Names of files that Hugging Face's libraries write into a model's folder or read from it, not from folders in it.
bool is_model_file(std::string_view name) {
  constexpr std::array<std::string_view, 17> kNames = {"config.json",
                                                       "tokenizer.json",
                                                       "vocab.json",
                                                       "vocab.txt",
                                                       "merges.txt",
                                                       "modules.json",
                                                       "added_tokens.json",
                                                       "chat_template.json",
                                                       "special_tokens_map.json",
                                                       "README.md",
                                                       "LICENSE",
                                                       "LICENSE.md",
                                                       "LICENSE.txt",
                                                       "NOTICE",
                                                       "NOTICE.txt",
                                                       "USE_POLICY.md",
                                                       ".gitattributes"};
  constexpr std::array<std::string_view, 5> kEndings = {"_config.json", ".safetensors.index.json", ".model",
                                                        ".tiktoken", ".jinja"};
  constexpr std::array<std::string_view, 6> kCode = {"configuration_", "modeling_",         "tokenization_",
                                                     "processing_",    "image_processing_", "feature_extraction_"};
  if (name.find('/') != std::string_view::npos) return false;
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() || ends_with_any(name, kEndings) ||
         (name.ends_with(".py") && starts_with_any(name, kCode));
}

/// Of the tag that was read: others are other checkpoints.
bool is_of_tag(const CheckpointInfo& info, std::string_view path) {
  constexpr std::array<std::string_view, 4> kBeside = {"latest", "latest_universal", "zero_to_fp32.py",
                                                       "zero_to_torch.py"};
  if (std::find(kBeside.begin(), kBeside.end(), path) != kBeside.end()) return true;
  const std::string_view first = info.files.empty() ? std::string_view() : std::string_view(info.files[0]);
  return path.ends_with(".pt") && path.starts_with(first.substr(0, first.rfind('/') + 1));
}

/// What the format itself puts into a folder beside the files that CheckpointInfo names.
bool belongs_to_format(const CheckpointInfo& info, std::string_view path) {
  const std::string_view format = info.format;
  if (format == "hf") return is_model_file(path);
  if (format == "deepspeed") return is_of_tag(info, path);
  if (path == kManifestName) return true;
  if (format == "megatron-dist" && (path == "metadata.json" || path == "common.pt" || path == "integrity.json"))
    return true;
  if (format == "dcp" || format == "megatron-dist")
    return path == ".metadata" || path == ".metadata.tmp" || path.ends_with(".distcp");
  return path.starts_with("objects/object-") && path.ends_with(".pkl");
}

}  // namespace

Result<std::vector<std::string>> other_files(FileSystem& files, const std::string& folder, const CheckpointInfo& info) {
  std::set<std::string_view> known(info.files.begin(), info.files.end());
  if (info.format != "hf")
    for (const ExtraFile& file : info.extra_files) known.insert(file.path);
  std::vector<std::string> others;
  std::vector<std::string> pending = {""};
  while (!pending.empty()) {
    const std::string below = std::move(pending.back());
    pending.pop_back();
    TENPLEX_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, files.list(fmt::format("{}/{}", folder, below)));
    for (const FolderEntry& entry : entries) {
      std::string path = below + entry.name;
      if (entry.status.kind == FileKind::kFolder) {
        pending.push_back(path + "/");
      } else if (!known.contains(path) && !belongs_to_format(info, path)) {
        others.push_back(std::move(path));
      }
    }
  }
  std::sort(others.begin(), others.end());
  return others;
}

}  // namespace tenplex
