// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/hf/hf_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tenplex/formats/hf/hf_index.h"
#include "tenplex/formats/manifest/manifest.h"
#include "tenplex/formats/member_file.h"

namespace tenplex::hf {
namespace {

constexpr std::string_view kIndexExtension = ".safetensors.index.json";
constexpr std::string_view kMainIndex = "model.safetensors.index.json";
constexpr std::string_view kMainFile = "model.safetensors";

bool is_file(const FolderEntry& entry) { return entry.status.kind != FileKind::kFolder; }

/// Families of numbered shards in the folder, by stem and count. DCP's own "shard-00001-model-…" files are none.
std::map<std::pair<std::string, std::int64_t>, std::vector<std::string>> families(
    const std::vector<FolderEntry>& entries) {
  std::map<std::pair<std::string, std::int64_t>, std::vector<std::string>> found;
  for (const FolderEntry& entry : entries) {
    const auto shard = parse_shard_name(entry.name);
    if (!is_file(entry) || !shard || shard->number < 1 || entry.name.starts_with("shard-")) continue;
    found[{shard->stem, shard->count}].push_back(entry.name);
  }
  return found;
}

std::vector<std::string> names_ending(const std::vector<FolderEntry>& entries, std::string_view ending) {
  std::vector<std::string> names;
  for (const FolderEntry& entry : entries)
    if (is_file(entry) && entry.name.ends_with(ending)) names.push_back(entry.name);
  return names;
}

bool has(const std::vector<FolderEntry>& entries, std::string_view name) {
  return std::any_of(entries.begin(), entries.end(), [&](const FolderEntry& entry) { return entry.name == name; });
}

/// The shards of one family. Errors: not_found for the first that is missing.
Result<std::vector<std::string>> complete_family(std::vector<std::string> names, std::int64_t count) {
  std::sort(names.begin(), names.end());
  for (std::int64_t number = 1; number <= count; ++number) {
    const auto index = static_cast<std::size_t>(number - 1);
    if (index < names.size() && parse_shard_name(names[index])->number == number) continue;
    const auto shard = parse_shard_name(names.front());
    return not_found(fmt::format("shard {} of {} is missing beside '{}'", number, shard->count, names.front()));
  }
  return names;
}

/// Without a main index transformers finds none of the others.
Result<void> choose_index(const std::vector<std::string>& indexes, Folder* folder) {
  folder->index = indexes.front();
  if (indexes.size() == 1) return {};
  const bool main = std::find(indexes.begin(), indexes.end(), kMainIndex) != indexes.end();
  if (main) return two_models(kMainIndex, indexes[indexes[0] == kMainIndex ? 1 : 0]);
  return invalid_argument(
      fmt::format("which index is meant: '{}' or '{}'; move the other one away", indexes[0], indexes[1]));
}

Result<void> choose_weights(const std::vector<FolderEntry>& entries, Folder* folder) {
  const std::vector<std::string> indexes = names_ending(entries, kIndexExtension);
  if (!indexes.empty() && has(entries, kMainFile)) folder->beside_index = kMainFile;
  if (!indexes.empty()) return choose_index(indexes, folder);
  const std::vector<std::string> all = names_ending(entries, kExtension);
  const auto found = families(entries);
  if (has(entries, kMainFile) || (all.size() == 1 && found.empty())) {
    folder->weights = {has(entries, kMainFile) ? std::string(kMainFile) : all.front()};
    return {};
  }
  if (found.size() != 1)
    return invalid_argument(fmt::format("{} .safetensors files and no index: which are the model's?", all.size()));
  TENPLEX_ASSIGN_OR_RETURN(folder->weights, complete_family(found.begin()->second, found.begin()->first.second));
  folder->problems.push_back(fmt::format("'{}' is missing; the shards' names are complete",
                                         found.begin()->first.first + std::string(kIndexExtension)));
  return {};
}

}  // namespace

Error two_models(std::string_view read, std::string_view other) {
  return invalid_argument(
      fmt::format("'{}' and '{}' may be two models in one folder: transformers reads '{}'; move the other one away",
                  read, other, read));
}

bool looks_like_model(const std::vector<FolderEntry>& entries) {
  if (has(entries, kManifestName)) return false;
  if (!names_ending(entries, kIndexExtension).empty() || has(entries, kMainFile)) return true;
  if (!families(entries).empty()) return true;
  return has(entries, "config.json") && names_ending(entries, kExtension).size() == 1;
}

Result<Folder> list_folder(FileSystem& files, const std::string& folder, bool follow_links) {
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, files.list(folder));
  Folder found;
  TENPLEX_TRY(choose_weights(entries, &found));
  TENPLEX_TRY(list_members(files, folder, follow_links, &found.extra_files, &found.problems));
  return found;
}

}  // namespace tenplex::hf
