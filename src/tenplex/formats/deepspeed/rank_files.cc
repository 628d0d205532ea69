// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/rank_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "tenplex/base/counted.h"
#include "tenplex/formats/deepspeed/expert_names.h"
#include "tenplex/formats/deepspeed/layer_names.h"

namespace tenplex::deepspeed {
namespace {

constexpr std::int64_t kMaxTagBytes = 4096;
constexpr std::string_view kModelEnd = "_model_states.pt";
constexpr std::string_view kOptimizerEnd = "_optim_states.pt";

bool take(std::string_view* text, std::string_view start) {
  if (!text->starts_with(start)) return false;
  text->remove_prefix(start.size());
  return true;
}

std::optional<std::int64_t> take_number(std::string_view* text) {
  constexpr std::size_t kMaxDigits = 9;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  const auto digits = static_cast<std::size_t>(end - text->data());
  if (error != std::errc() || digits > kMaxDigits || text->front() == '-') return std::nullopt;
  text->remove_prefix(digits);
  return value;
}

bool looks_like_tag_folder(FileSystem& files, const std::string& folder) {
  const auto entries = files.list(folder);
  if (!entries) return false;
  return std::any_of(entries->begin(), entries->end(), [](const FolderEntry& entry) {
    return entry.name.ends_with(kModelEnd) || entry.name.ends_with(kOptimizerEnd);
  });
}

/// The name in the file, without the spaces and line ends around it; nothing if there is no file.
Result<std::optional<std::string>> read_tag(FileSystem& files, const std::string& path, std::string_view name) {
  const auto source = files.open_below(path, std::string(name));
  if (!source) return std::optional<std::string>();
  if ((*source)->size() > kMaxTagBytes) return std::optional<std::string>();
  TENPLEX_ASSIGN_OR_RETURN(const std::string text, read_string(**source, 0, (*source)->size()));
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return std::optional<std::string>("");
  return std::optional<std::string>(text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin));
}

/// The names by rank. Errors: corrupt for a gap.
Result<std::vector<std::string>> in_order(const std::map<std::int64_t, std::string>& by_rank) {
  std::vector<std::string> names;
  names.reserve(by_rank.size());
  for (const auto& [rank, name] : by_rank) {
    if (rank != static_cast<std::int64_t>(names.size()))
      return corrupt(fmt::format("'{}' is there, and no such file of data parallel rank {}", name, names.size()));
    names.push_back(name);
  }
  return names;
}

struct RankNames {  // by data parallel rank
  std::map<std::int64_t, std::string> model;
  std::map<std::int64_t, std::string> zero_models;
  std::map<std::int64_t, std::string> optimizers;
};

/// Every model parallel rank has as many files of each kind as the first.
Result<void> add_rank(std::int64_t number, const RankNames& names, TagFiles* found) {
  ModelRankFiles rank;
  if (!names.model.empty()) rank.model = names.model.begin()->second;
  TENPLEX_ASSIGN_OR_RETURN(rank.zero_models, in_order(names.zero_models));
  TENPLEX_ASSIGN_OR_RETURN(rank.optimizers, in_order(names.optimizers));
  const auto next = static_cast<std::int64_t>(found->ranks.size());
  const std::string& some = !rank.model.empty()         ? rank.model
                            : !rank.zero_models.empty() ? rank.zero_models[0]
                                                        : rank.optimizers[0];
  if (number != next)
    return corrupt(fmt::format("'{}' is there, and no such file of model parallel rank {}", some, next));
  const ModelRankFiles& first = found->ranks.empty() ? rank : found->ranks[0];
  if (rank.model.empty() != first.model.empty() || rank.zero_models.size() != first.zero_models.size() ||
      rank.optimizers.size() != first.optimizers.size())
    return corrupt(fmt::format(
        "model parallel rank {} has {} of the model and {} of the optimizer, and rank 0 has {} and {}: a "
        "file is missing",
        number, counted(rank.zero_models.size() + (rank.model.empty() ? 0U : 1U), "file"), rank.optimizers.size(),
        first.zero_models.size() + (first.model.empty() ? 0U : 1U), first.optimizers.size()));
  found->ranks.push_back(std::move(rank));
  return {};
}

using ByLayer = std::map<std::int64_t, std::map<std::int64_t, std::string>>;  // names by layer and tensor parallel rank

/// Every layer has files of the same tensor parallel ranks.
Result<std::vector<LayerFiles>> layers_in_order(const ByLayer& by_layer) {
  std::vector<LayerFiles> layers;
  layers.reserve(by_layer.size());
  for (const auto& [number, by_rank] : by_layer) {
    LayerFiles& layer = layers.emplace_back();
    layer.layer = number;
    layer.names.reserve(by_rank.size());
    for (const auto& [rank, name] : by_rank) {
      if (rank != static_cast<std::int64_t>(layer.names.size()))
        return corrupt(
            fmt::format("'{}' is there, and no such file of tensor parallel rank {}", name, layer.names.size()));
      layer.names.push_back(name);
    }
    if (layer.names.size() != layers[0].names.size())
      return corrupt(fmt::format("layer {} has {} and layer {} has {}: one is missing or too many", number,
                                 counted(layer.names.size(), "file"), layers[0].layer, layers[0].names.size()));
  }
  return layers;
}

/// What a pipeline cannot have beside its layers.
Result<void> check_layers(const TagFiles& found) {
  if (found.layers.empty()) return {};
  const std::string& layer = found.layers[0].names[0];
  if (!found.experts.empty() || !found.expert_optimizers.empty())
    return unsupported(fmt::format("'{}' holds a layer of a pipeline, and there are files of experts", layer));
  if (found.universal) return corrupt(fmt::format("both 'zero' of a universal checkpoint and '{}' are there", layer));
  if (!found.ranks[0].zero_models.empty())
    return corrupt(fmt::format("'{}' holds a layer of a pipeline, and '{}' is of ZeRO stage 3", layer,
                               found.ranks[0].zero_models[0]));
  const std::size_t tensor_ranks = found.layers[0].names.size();
  if (found.ranks.size() % tensor_ranks == 0) return {};
  return corrupt(fmt::format("every layer has {}, and there are files of {} model parallel ranks: one is missing",
                             counted(tensor_ranks, "file"), found.ranks.size()));
}

Error refused(std::string_view name) {
  const std::string_view what = name.starts_with("layer_") && name.find("_expert_") == std::string_view::npos
                                    ? "holds a layer of a pipeline on ranks of another axis than 'model'"
                                : name.starts_with("layer_") || name.starts_with("expp_rank_")
                                    ? "holds experts on tensor parallel ranks, which are not read"
                                    : "is none of the files that are read here, and may be a part of the checkpoint";
  return unsupported(fmt::format("'{}' {}", name, what));
}

}  // namespace

std::optional<RankFile> parse_rank_file(std::string_view name) {
  RankFile file;
  const bool optimizer = name.ends_with(kOptimizerEnd);
  if (!optimizer && !name.ends_with(kModelEnd)) return std::nullopt;
  std::string_view rest = name.substr(0, name.size() - (optimizer ? kOptimizerEnd : kModelEnd).size());
  const bool typed = take(&rest, "bf16_") || take(&rest, "fp16_");
  if (take(&rest, "zero_pp_rank_")) {
    const auto rank = take_number(&rest);
    if (!rank || !take(&rest, "_")) return std::nullopt;
    file.data_rank = *rank;
    file.kind = optimizer ? RankFile::Kind::kOptimizer : RankFile::Kind::kZeroModel;
  } else if (optimizer || typed) {
    return std::nullopt;
  }
  const auto rank = take(&rest, "mp_rank_") ? take_number(&rest) : std::nullopt;
  if (!rank || !rest.empty()) return std::nullopt;
  file.model_rank = *rank;
  return file;
}

void note_others(const TagFiles& tag, std::vector<std::string>* problems) {
  if (tag.others.empty()) return;
  const std::string more = tag.others.size() == 1 ? "is" : fmt::format("and {} more are", tag.others.size() - 1);
  problems->push_back(fmt::format("'{}' {} no part of the checkpoint and left out", tag.others[0], more));
}

Result<std::optional<std::string>> find_tag_folder(FileSystem& files, const std::string& path, std::string* root) {
  root->clear();
  if (looks_like_tag_folder(files, path)) return std::optional<std::string>(path);
  for (const std::string_view pointer : {"latest", "latest_universal"}) {
    TENPLEX_ASSIGN_OR_RETURN(const std::optional<std::string> tag, read_tag(files, path, pointer));
    if (!tag) continue;
    auto folder = checked_join(path, *tag);
    if (!folder) return std::move(folder).error().with_context(fmt::format("'{}/{}'", path, pointer));
    if (!looks_like_tag_folder(files, *folder))
      return corrupt(
          fmt::format("'{}/{}' says '{}', and that is no folder of a DeepSpeed checkpoint", path, pointer, *tag));
    *root = path;
    return std::optional<std::string>(*folder);
  }
  return std::optional<std::string>();
}

Result<TagFiles> list_tag_files(FileSystem& files, const std::string& folder) {
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, files.list(folder));
  TagFiles found;
  found.folder = folder;
  found.base = folder;
  std::map<std::int64_t, RankNames> ranks;
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> experts;  // by layer and number
  std::map<std::int64_t, std::string> expert_optimizers;
  ByLayer layers;
  for (const FolderEntry& entry : entries) {
    const auto file = parse_rank_file(entry.name);
    const auto expert = parse_expert_file(entry.name);
    const auto expert_rank = parse_expert_optimizer(entry.name);
    if ((expert && expert->model_rank == 0) || expert_rank) {
      const auto known = expert ? experts.emplace(std::pair(expert->layer, expert->expert), entry.name).first->second
                                : expert_optimizers.emplace(*expert_rank, entry.name).first->second;
      if (known != entry.name) return corrupt(fmt::format("'{}' and '{}' are the same", known, entry.name));
      continue;
    }
    if (const auto layer = parse_layer_file(entry.name)) {
      const auto [known, added] = layers[layer->layer].emplace(layer->tensor_rank, entry.name);
      if (!added) return corrupt(fmt::format("'{}' and '{}' are the same layer", known->second, entry.name));
      continue;
    }
    if (!file && entry.name.ends_with(".pt")) return refused(entry.name);
    if (!file && entry.name == "zero" && entry.status.kind == FileKind::kFolder) {
      found.universal = true;
    } else if (!file) {
      found.others.push_back(entry.name);
    } else {
      RankNames& rank = ranks[file->model_rank];
      auto& names = file->kind == RankFile::Kind::kModel       ? rank.model
                    : file->kind == RankFile::Kind::kZeroModel ? rank.zero_models
                                                               : rank.optimizers;
      const auto [known, added] = names.emplace(file->data_rank, entry.name);
      if (!added) return corrupt(fmt::format("'{}' and '{}' are of the same rank", known->second, entry.name));
    }
  }
  found.experts.reserve(experts.size());
  for (auto& [number, name] : experts) found.experts.push_back(std::move(name));
  TENPLEX_ASSIGN_OR_RETURN(found.layers, layers_in_order(layers));
  TENPLEX_ASSIGN_OR_RETURN(found.expert_optimizers, in_order(expert_optimizers));
  for (const auto& [number, names] : ranks) TENPLEX_TRY(add_rank(number, names, &found));
  if (found.ranks.empty() || found.ranks[0].models()[0].empty())
    return not_found("no file with the model's states (mp_rank_00_model_states.pt or zero_pp_rank_0_mp_rank_00_…)");
  TENPLEX_TRY(check_layers(found));
  if (!found.experts.empty() && (found.universal || found.ranks.size() > 1 || !found.ranks[0].zero_models.empty()))
    return unsupported(fmt::format("'{}' holds an expert, which is read only beside one 'mp_rank_00_model_states.pt'",
                                   found.experts[0]));
  if (found.universal && !found.ranks[0].optimizers.empty())
    return corrupt(
        fmt::format("both 'zero' of a universal checkpoint and '{}' are there", found.ranks[0].optimizers[0]));
  return found;
}

}  // namespace tenplex::deepspeed
