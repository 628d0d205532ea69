// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron_legacy/rank_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "tenplex/base/decimal.h"
#include "tenplex/formats/megatron/checkpoint_folder.h"

namespace tenplex::megatron_legacy {
namespace {

constexpr std::string_view kPrefix = "mp_rank_";
constexpr std::size_t kMaxRankDigits = 6;

bool has_rank_folders(FileSystem& files, const std::string& folder) {
  const auto entries = files.list(folder);
  if (!entries) return false;
  return std::any_of(entries->begin(), entries->end(), [](const FolderEntry& entry) {
    return entry.status.kind != FileKind::kFile && !parse_rank_folder(entry.name).empty();
  });
}

RankFolder to_rank(std::string name, const std::vector<std::int64_t>& numbers, SecondNumber second) {
  RankFolder rank{std::move(name), numbers[0], 0, 0};
  if (numbers.size() == 3) {
    rank.pipeline = numbers[1];
    rank.expert = numbers[2];
  } else if (numbers.size() == 2) {
    (second == SecondNumber::kPipeline ? rank.pipeline : rank.expert) = numbers[1];
  }
  return rank;
}

}  // namespace

std::vector<std::int64_t> parse_rank_folder(std::string_view name) {
  if (!name.starts_with(kPrefix)) return {};
  std::vector<std::int64_t> numbers;
  for (std::string_view rest = name.substr(kPrefix.size());;) {
    const std::size_t end = std::min(rest.find('_'), rest.size());
    const auto number = end < 2 || end > kMaxRankDigits ? std::nullopt : decimal_of(rest.substr(0, end));
    if (!number || numbers.size() == 3) return {};
    numbers.push_back(*number);
    if (end == rest.size()) return numbers;
    rest.remove_prefix(end + 1);
  }
}

Result<std::optional<std::string>> find_rank_folders(FileSystem& files, const std::string& path) {
  if (has_rank_folders(files, path)) return std::optional<std::string>(path);
  TENPLEX_ASSIGN_OR_RETURN(std::string folder, megatron::find_checkpoint_folder(files, path));
  if (folder != path && has_rank_folders(files, folder)) return std::optional<std::string>(std::move(folder));
  return std::optional<std::string>();
}

Result<RankFolders> list_rank_folders(FileSystem& files, const std::string& folder, SecondNumber second) {
  TENPLEX_ASSIGN_OR_RETURN(const auto entries, files.list(folder));
  RankFolders found;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, RankFolder> by_place;
  std::size_t numbers_each = 0;
  for (const FolderEntry& entry : entries) {
    const auto numbers = parse_rank_folder(entry.name);
    if (numbers.empty() || entry.status.kind == FileKind::kFile) continue;
    if (numbers_each == 0) numbers_each = numbers.size();
    if (numbers.size() != numbers_each)
      return corrupt(fmt::format("'{}' has another form than '{}': the folders are of different checkpoints",
                                 entry.name, by_place.begin()->second.name));
    RankFolder rank = to_rank(entry.name, numbers, second);
    found.tensor_size = std::max(found.tensor_size, rank.tensor + 1);
    found.pipeline_size = std::max(found.pipeline_size, rank.pipeline + 1);
    found.expert_size = std::max(found.expert_size, rank.expert + 1);
    const std::tuple place(rank.pipeline, rank.expert, rank.tensor);
    const auto [other, added] = by_place.try_emplace(place, rank);
    if (!added) return corrupt(fmt::format("'{}' and '{}' are the same rank", other->second.name, entry.name));
  }
  std::tuple<std::int64_t, std::int64_t, std::int64_t> expected(0, 0, 0);
  for (auto& [place, rank] : by_place) {
    if (place != expected)
      return corrupt(
          fmt::format("the folder of tensor rank {}, pipeline rank {}, expert rank {} is missing; there are {} tensor, "
                      "{} pipeline and {} expert ranks",
                      std::get<2>(expected), std::get<0>(expected), std::get<1>(expected), found.tensor_size,
                      found.pipeline_size, found.expert_size));
    found.ranks.push_back(rank);
    auto& [pipeline, expert, tensor] = expected;
    if (++tensor < found.tensor_size) continue;
    tensor = 0;
    if (++expert < found.expert_size) continue;
    expert = 0;
    ++pipeline;
  }
  if (std::get<0>(expected) != found.pipeline_size)
    return corrupt(fmt::format("the last of {} ranks is missing, or there are none", found.ranks.size() + 1));
  return found;
}

}  // namespace tenplex::megatron_legacy
