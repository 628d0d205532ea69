// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "tenplex/base/decimal.h"
#include "tenplex/formats/megatron/backend_file.h"
#include "tenplex/formats/megatron/common_state.h"

namespace tenplex::megatron {
namespace {

constexpr std::string_view kLatestName = "latest_checkpointed_iteration.txt";
constexpr std::int64_t kMaxLatestBytes = 64;
constexpr std::int64_t kDetectBytes = 4096;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

bool has_file(FileSystem& files, const std::string& folder, std::string_view name) {
  const auto status = files.status(fmt::format("{}/{}", folder, name));
  return status && status->kind != FileKind::kFolder;
}

}  // namespace

Result<std::string> find_checkpoint_folder(FileSystem& files, const std::string& path) {
  if (has_file(files, path, kBackendFileName) || !has_file(files, path, kLatestName)) return std::string(path);
  TENPLEX_ASSIGN_OR_RETURN(const auto source, files.open_below(path, std::string(kLatestName)));
  if (source->size() > kMaxLatestBytes) return corrupt(fmt::format("'{}' is too long", kLatestName));
  TENPLEX_ASSIGN_OR_RETURN(const std::string text, read_string(*source, 0, source->size()));
  const std::string_view word = trimmed(text);
  if (word == "release") return fmt::format("{}/release", path);
  const auto iteration = decimal_of(word);
  if (!iteration)
    return corrupt(
        fmt::format("'{}': expected the number of an iteration or 'release', found '{}'", kLatestName, word));
  return fmt::format("{}/iter_{:07}", path, *iteration);
}

bool is_torch_dist(FileSystem& files, const std::string& folder) {
  const bool is_dcp = has_file(files, folder, ".metadata");
  if (!has_file(files, folder, kBackendFileName)) {
    // Of a save that did not get to metadata.json.
    return is_dcp && has_file(files, folder, kCommonFileName);
  }
  if (is_dcp) return true;
  const auto source = files.open(fmt::format("{}/{}", folder, kBackendFileName));
  if (!source) return false;
  const auto text = read_string(**source, 0, std::min(kDetectBytes, (*source)->size()));
  return text && text->find("\"sharded_backend\"") != std::string::npos;
}

}  // namespace tenplex::megatron
