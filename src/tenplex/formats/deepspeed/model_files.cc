// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/model_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "tenplex/base/counted.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex::deepspeed {
namespace {

// A rank whose file says otherwise belongs to another checkpoint.
constexpr std::array<std::string_view, 9> kSameOnAllRanks = {
    "buffer_names",  "skipped_steps", "global_steps", "global_samples",           "dp_world_size",
    "mp_world_size", "ds_version",    "ds_config",    "universal_checkpoint_info"};
// What it says of a model rank's part of the model.
constexpr std::array<std::string_view, 2> kOfPart = {"param_shapes", "frozen_param_shapes"};
// The first rank alone says it.
constexpr std::string_view kShared = "shared_params";

template <std::size_t N>
bool has_key(const std::array<std::string_view, N>& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

void add_keys(const StateGraph& graph, std::set<std::string>* keys) {
  const auto items = mapping_items(graph, graph.root);
  for (std::size_t at = 0; items && at + 1 < items->size(); at += 2)
    keys->emplace(text_of(graph, (*items)[at]).value_or(""));
}

}  // namespace

Result<ModelFiles> ModelFiles::make(std::vector<std::vector<Part>> parts, const Expected& expected,
                                    CheckpointJoiner* joiner, RankNotes* notes) {
  ModelFiles files(std::move(parts), joiner);
  files.pipeline_ = expected.layer_ranks > 0 || is_none(files.first().state, files.item("module"));
  for (std::size_t rank = 0; rank < files.rank_count(); ++rank)
    for (std::size_t data_rank = 0; data_rank < files.file_count(rank); ++data_rank) {
      const StateGraph& file = files.graph(rank, data_rank);
      const NodeId module = find_item(file, file.root, "module");
      if (!is_dict(file, file.root) || (!is_dict(file, module) && !files.pipeline_))
        return corrupt("there is no dict 'module'").with_context(files.quoted(rank, data_rank));
      if (files.pipeline_ && !is_none(file, module))
        return corrupt(fmt::format("'module' is not None, as it is in a pipeline, and '{}' holds a layer of one",
                                   expected.layer_file))
            .with_context(files.quoted(rank, data_rank));
    }
  TENPLEX_TRY(files.read_mesh(expected));
  for (std::size_t data_rank = 0; data_rank < files.file_count(0); ++data_rank)
    for (std::size_t rank = 0; rank < files.rank_count(); ++rank) {
      if (data_rank + rank == 0) continue;
      auto compared = files.compare(rank, data_rank, notes);
      if (!compared) return std::move(compared).error().with_context(files.quoted(rank, data_rank));
    }
  return files;
}

Result<void> ModelFiles::read_mesh(const Expected& expected) {
  const StateGraph& file = first().state;
  const auto count = static_cast<std::int64_t>(rank_count());
  if (rank_count() > 1 && integer_of(file, item("mp_world_size")) != count)
    return corrupt(fmt::format("{}: 'mp_world_size' is not {}, which is the number of model parallel ranks",
                               quoted(0, 0), rank_count()));
  mesh_.data_ranks = expected.data_ranks;
  mesh_.tensor_ranks = rank_count();
  const NodeId dimensions = item("checkpoint_parallel_dimensions");
  const auto tensor_ranks = integer_of(file, find_item(file, dimensions, "tp_degree"));
  const auto stages = integer_of(file, find_item(file, dimensions, "pp_degree"));
  if (!pipeline_) {
    if (rank_count() == 1 || stages.value_or(1) == 1) return {};
    return unsupported(
        fmt::format("{}: 'pp_degree' is {}, and the model is not in files of layers: such pipelines are "
                    "not read",
                    quoted(0, 0), *stages));
  }
  if (expected.layer_ranks > 0) {
    mesh_.tensor_ranks = expected.layer_ranks;
  } else if (tensor_ranks && *tensor_ranks > 0 && *tensor_ranks <= count) {
    mesh_.tensor_ranks = static_cast<std::size_t>(*tensor_ranks);
  }
  mesh_.stages = rank_count() / mesh_.tensor_ranks;
  if (!stages && !tensor_ranks) return {};
  if (tensor_ranks == static_cast<std::int64_t>(mesh_.tensor_ranks) &&
      stages == static_cast<std::int64_t>(mesh_.stages) && mesh_.stages * mesh_.tensor_ranks == rank_count())
    return {};
  return corrupt(
      fmt::format("{}: 'checkpoint_parallel_dimensions' says {} stages of {} tensor parallel ranks, and "
                  "there are files of {} model parallel ranks, of layers on {} tensor parallel ranks",
                  quoted(0, 0), stages.value_or(-1), tensor_ranks.value_or(-1), rank_count(), mesh_.tensor_ranks));
}

std::string ModelFiles::quoted(std::size_t model_rank, std::size_t data_rank) const {
  return fmt::format("'{}'", joiner_->name(parts_[model_rank][data_rank]));
}

NodeId ModelFiles::item(std::string_view key) const { return find_item(first().state, first().state.root, key); }

std::optional<TensorId> ModelFiles::tensor_in(std::string_view dict, std::string_view name, std::size_t model_rank,
                                              std::size_t data_rank) const {
  const StateGraph& file = graph(model_rank, data_rank);
  const NodeId node = find_item(file, find_item(file, file.root, dict), name);
  if (!is_tensor(file, node)) return std::nullopt;
  return file.view(node).tensor;
}

// As in the file beside which it must be the same. Errors: corrupt if it must be and is not.
Result<bool> ModelFiles::is_alike(std::string_view key, std::size_t model_rank, std::size_t data_rank) const {
  const bool of_part = has_key(kOfPart, key);
  const std::size_t first_of_stage = mesh_.stage_of(model_rank) * mesh_.tensor_ranks;
  const std::size_t beside = of_part ? model_rank : key == "buffer_names" ? first_of_stage : 0;
  if (beside == model_rank && data_rank == 0) return true;
  const StateGraph& file = graph(beside, 0);
  const StateGraph& other = graph(model_rank, data_rank);
  const NodeId one = find_item(file, file.root, key);
  const NodeId two = find_item(other, other.root, key);
  if (one == kNoNode && two == kNoNode) return corrupt("it has keys that are no text");
  if (one != kNoNode && two != kNoNode && equal_objects(file, one, other, two)) return true;
  const auto items = mapping_items(other, two);
  if (key == kShared && items && items->empty()) return true;
  if (of_part || key == kShared || has_key(kSameOnAllRanks, key))
    return corrupt(fmt::format("'{}' is not that of {}: the files are not of one checkpoint", key, quoted(beside, 0)));
  return false;
}

Result<void> ModelFiles::compare(std::size_t model_rank, std::size_t data_rank, RankNotes* notes) const {
  const StateGraph& other = graph(model_rank, data_rank);
  std::set<std::string> keys;
  add_keys(first().state, &keys);
  add_keys(other, &keys);
  std::vector<NamedNode> kept;
  for (const std::string& key : keys) {
    if (key == "module" || key == "frozen_param_fragments") continue;
    TENPLEX_ASSIGN_OR_RETURN(const bool alike, is_alike(key, model_rank, data_rank));
    const NodeId value = find_item(other, other.root, key);
    if (alike || value == kNoNode) continue;
    const DeviceId rank = device(model_rank, data_rank);
    kept.emplace_back(key, joiner_->copy_state(part(model_rank, data_rank), other, value, rank));
  }
  if (!kept.empty())
    notes->add(device(model_rank, data_rank).value(), "model_states", add_dict_of(kept, &joiner_->state()));
  return {};
}

}  // namespace tenplex::deepspeed
