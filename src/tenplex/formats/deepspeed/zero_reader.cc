// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/zero_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/base/counted.h"
#include "tenplex/formats/deepspeed/cut_notes.h"
#include "tenplex/formats/deepspeed/flat_places.h"
#include "tenplex/formats/deepspeed/model_tree.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex::deepspeed {
namespace {

// Of optimizer_state_dict: what the flat groups are made of, and how they were cut.
constexpr std::array<std::string_view, 5> kFlatKeys = {"base_optimizer_state", "single_partition_of_fp32_groups",
                                                       "param_slice_mappings", "fp32_flat_groups",
                                                       "optimizer_state_dict"};
// They say how the flat groups of one rank end.
constexpr std::array<std::string_view, 2> kPaddingKeys = {"group_paddings", "param_alignment_paddings"};
constexpr std::array<std::string_view, 2> kSameKeys = {"zero_stage", "ds_version"};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

class ZeroReader {
 public:
  ZeroReader(FileSystem& files, const TagFiles& tag, const ReadOptions& options)
      : tag_(tag), joiner_(files, tag.base, {options, tag.prefix, {kParameterNumber}}) {}

  Result<std::unique_ptr<CheckpointReader>> run() {
    TENPLEX_ASSIGN_OR_RETURN(ModelTree::Files files, open_model());
    TENPLEX_ASSIGN_OR_RETURN(const std::unique_ptr<ModelTree> made, ModelTree::make(std::move(files), &joiner_));
    ModelTree& tree = *made;
    TENPLEX_TRY(check_ranks(tree));
    const auto experts_of = list_items(tree.model_file().state, tree.item("num_experts"));
    if (tag_.experts.empty() && experts_of && !experts_of->empty())
      return corrupt(fmt::format("'{}': 'num_experts' says that there are experts, and no file of one is there",
                                 joiner_.name(tree.model_part())));
    if (tree.files().is_pipeline() && tag_.layers.empty())
      return corrupt(
          fmt::format("'{}': 'module' is None, as in a pipeline, and the files of its layers "
                      "(layer_…_model_states.pt) are missing",
                      joiner_.name(tree.model_part())));
    TENPLEX_TRY(read_optimizers(tree));
    if (!ranks_.empty()) {
      TENPLEX_TRY(compare_optimizers(&tree));
      TENPLEX_TRY(place(&tree));
      tree.add_common("optimizer_state", copy_optimizer_state());
      add_notes(&tree);
      TENPLEX_TRY(add_rest_of_file(&tree));
    }
    TENPLEX_TRY(add_expert_optimizers(&tree));
    CheckpointInfo info;
    info.format = "deepspeed";
    info.has_common = true;
    note_others(tag_, &info.problems);
    const RankMesh& mesh = tree.files().mesh();
    info.detail = fmt::format("DeepSpeed {}, {}", stage_text(), counted(mesh.data_ranks, "data parallel rank"));
    if (mesh.tensor_ranks > 1) info.detail += fmt::format(", {}", counted(mesh.tensor_ranks, "tensor parallel rank"));
    if (mesh.stages > 1) info.detail += fmt::format(", {}", counted(mesh.stages, "pipeline stage"));
    info.device_count = static_cast<int>(mesh.data_ranks * mesh.tensor_ranks * mesh.stages);
    return tree.finish(std::move(info));
  }

 private:
  const ModelRankFiles& first_files() const { return tag_.ranks[0]; }

  Result<ModelTree::Files> open_model() {
    ModelTree::Files files;
    files.data_ranks = std::max<std::size_t>(first_files().optimizers.size(), 1);
    files.models.resize(tag_.ranks.size());
    for (std::size_t rank = 0; rank < tag_.ranks.size(); ++rank)
      for (const std::string& name : tag_.ranks[rank].models()) {
        TENPLEX_ASSIGN_OR_RETURN(files.models[rank].emplace_back(), joiner_.open(name));
      }
    for (const std::string& name : tag_.experts) {
      TENPLEX_ASSIGN_OR_RETURN(files.experts.emplace_back(), joiner_.open(name));
    }
    files.layers.reserve(tag_.layers.size());
    for (const LayerFiles& layer : tag_.layers) {
      files.layers.push_back({layer.layer, {}});
      for (const std::string& name : layer.names) {
        TENPLEX_ASSIGN_OR_RETURN(files.layers.back().parts.emplace_back(), joiner_.open(name));
      }
    }
    return files;
  }

  Result<void> place(ModelTree* tree) {
    const RankMesh& mesh = tree->files().mesh();
    const ExpertOrder order = expert_order(*tree);
    for (std::size_t stage = 0; stage < mesh.stages; ++stage) {
      const std::span ranks = std::span(ranks_).subspan(stage * mesh.tensor_ranks, mesh.tensor_ranks);
      TENPLEX_TRY(check_settings(ranks[0][0]));
      TENPLEX_TRY(place_slots(ranks, {tree->stage_groups(stage), first(), order}, &joiner_, &tree->groups()));
    }
    return {};
  }

  // The groups of all stages become one, so they have the same learning rate and so on.
  Result<void> check_settings(const RankOptimizer& rank) const {
    if (&rank == &first()) return {};
    StateGraph one = graph_of(first());
    StateGraph other = graph_of(rank);
    const auto groups = list_items(one, find_item(one, first().file.base, "param_groups"));
    const auto others = list_items(other, find_item(other, rank.file.base, "param_groups"));
    if (!groups || !others || groups->size() != others->size()) return {};
    for (std::size_t group = 0; group < groups->size(); ++group) {
      if (!is_dict(one, (*groups)[group]) || !is_dict(other, (*others)[group])) continue;
      remove_item(one, (*groups)[group], "params");
      remove_item(other, (*others)[group], "params");
      if (!equal_objects(one, (*groups)[group], other, (*others)[group]))
        return unsupported(
            fmt::format("'{}' group {}: its settings in 'param_groups' are not those in '{}': groups of "
                        "the stages of a pipeline are joined by their numbers",
                        joiner_.name(rank.part), group, joiner_.name(first().part)));
    }
    return {};
  }
  const RankOptimizer& first() const { return ranks_[0][0]; }

  std::string stage_text() const {
    if (ranks_.empty()) return "without ZeRO";
    return first().file.whole_parameters ? "ZeRO stage 3" : "ZeRO stage 1 or 2";
  }

  static ExpertOrder expert_order(const ModelTree& tree) {
    const StateGraph& model = tree.model_file().state;
    const NodeId order = find_item(model, tree.item("ds_config"), "use_data_before_expert_parallelism");
    const bool data_first = order != kNoNode && model[order].kind == NodeKind::kBool && model[order].boolean;
    return data_first ? ExpertOrder::kDataFirst : ExpertOrder::kExpertFirst;
  }

  // Without ZeRO, torch's own optimizer of each expert parallel rank, as it is.
  Result<void> add_expert_optimizers(ModelTree* tree) {
    std::vector<NodeId> items;
    for (std::size_t rank = 0; rank < tag_.expert_optimizers.size(); ++rank) {
      TENPLEX_ASSIGN_OR_RETURN(const auto part, joiner_.open(tag_.expert_optimizers[rank]));
      const StateGraph& graph = joiner_.stored(part).state;
      const NodeId number = joiner_.state().add_int(static_cast<std::int64_t>(rank));
      items.insert(items.end(), {number, joiner_.copy_state(part, graph, graph.root, DeviceId(0))});
    }
    if (!items.empty()) tree->add_common("expert_optimizers", joiner_.state().add_dict(std::move(items)));
    return {};
  }

  Result<void> check_ranks(const ModelTree& tree) const {
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t ranks, tree.data_ranks());
    const auto found = static_cast<std::int64_t>(first_files().optimizers.size());
    if (found == 0) {
      const NodeId shapes = tree.item("param_shapes");
      if (shapes == kNoNode || is_none(tree.model_file().state, shapes)) return {};
      return corrupt("the optimizer's files (zero_pp_rank_…_optim_states.pt) are missing");
    }
    if (found != ranks)
      return corrupt(fmt::format("the model's file says 'dp_world_size' {}, and there {} of the optimizer: {}", ranks,
                                 found == 1 ? "is 1 file" : fmt::format("are {} files", found),
                                 found < ranks ? "one of a rank is missing" : "one is of another job"));
    const auto models = static_cast<std::int64_t>(first_files().zero_models.size());
    if (models != 0 && models != ranks)
      return corrupt(fmt::format("'dp_world_size' is {}, and there are {} files with a rank's states of the model",
                                 ranks, models));
    return {};
  }

  Result<void> read_optimizers(const ModelTree& tree) {
    if (first_files().optimizers.empty()) return {};
    const auto count = static_cast<std::int64_t>(first_files().optimizers.size());
    ranks_.resize(tag_.ranks.size());
    for (std::size_t model_rank = 0; model_rank < tag_.ranks.size(); ++model_rank)
      for (const std::string& name : tag_.ranks[model_rank].optimizers) {
        RankOptimizer& rank = ranks_[model_rank].emplace_back();
        rank.device = tree.files().device(model_rank, ranks_[model_rank].size() - 1);
        TENPLEX_ASSIGN_OR_RETURN(rank.part, joiner_.open(name));
        auto file = read_optimizer_file(joiner_.stored(rank.part), count);
        if (!file) return std::move(file).error().with_context(fmt::format("'{}'", name));
        rank.file = std::move(*file);
        if (rank.file.whole_parameters == first_files().zero_models.empty())
          return corrupt(fmt::format("'{}' is of ZeRO stage {}, and the model's files are not", name,
                                     rank.file.whole_parameters ? "3" : "1 or 2"));
      }
    return {};
  }

  const StateGraph& graph_of(const RankOptimizer& rank) const { return joiner_.stored(rank.part).state; }

  Result<void> compare_optimizers(ModelTree* tree) {
    for (std::size_t data_rank = 0; data_rank < ranks_[0].size(); ++data_rank)
      for (const std::vector<RankOptimizer>& ranks : ranks_) TENPLEX_TRY(compare_optimizer(ranks[data_rank], tree));
    return {};
  }

  Result<void> compare_optimizer(const RankOptimizer& rank, ModelTree* tree) {
    const StateGraph& one = graph_of(first());
    const StateGraph& other = graph_of(rank);
    std::vector<NodeId> kept;
    const auto items = mapping_items(other, rank.file.outer);
    for (std::size_t at = 0; at + 1 < items->size(); at += 2) {
      const std::string_view key = text_of(other, (*items)[at]).value_or("");
      if (is_one_of(kFlatKeys, key) || is_one_of(kPaddingKeys, key) || &rank == &first()) continue;
      const NodeId same = find_item(one, first().file.outer, key);
      if (same != kNoNode && equal_objects(one, same, other, (*items)[at + 1])) continue;
      if (is_one_of(kSameKeys, key))
        return corrupt(fmt::format("'{}': '{}' is not that of '{}': the files are not of one checkpoint",
                                   joiner_.name(rank.part), key, joiner_.name(first().part)));
      const NodeId value = joiner_.copy_state(rank.part, other, (*items)[at + 1], rank.device);
      kept.insert(kept.end(), {joiner_.state().add_string(std::string(key)), value});
    }
    TENPLEX_TRY(compare_versions(rank, *tree));
    if (!kept.empty()) tree->add_of_rank(rank.device, "optimizer_state", joiner_.state().add_dict(std::move(kept)));
    return {};
  }

  Result<void> compare_versions(const RankOptimizer& rank, const ModelTree& tree) const {
    const StateGraph& model = tree.model_file().state;
    const StateGraph& optimizer = graph_of(rank);
    const NodeId one = tree.item("ds_version");
    const NodeId two = find_item(optimizer, optimizer.root, "ds_version");
    if (text_of(model, one) == text_of(optimizer, two)) return {};
    return corrupt(fmt::format("'{}' was written by DeepSpeed {}, the model's states by {}", joiner_.name(rank.part),
                               text_of(optimizer, two).value_or("?"), text_of(model, one).value_or("?")));
  }

  // How each parameter was cut, as a universal checkpoint says it.
  void add_notes(ModelTree* tree) {
    std::vector<NodeId> notes;
    for (const Parameter& parameter : tree->groups().parameters()) {
      const NodeId node = notes_node(parameter.notes, &joiner_.state());
      if (node == kNoNode) continue;
      notes.insert(notes.end(), {joiner_.state().add_string(parameter.name), node});
    }
    if (!notes.empty()) tree->add_common("parameters", joiner_.state().add_dict(std::move(notes)));
  }

  // As in a universal checkpoint of ZeRO-3: without flat tensors, and with what the optimizer has per group.
  NodeId copy_optimizer_state() {
    StateGraph graph = graph_of(first());
    const OptimizerFile& file = first().file;
    std::vector<NodeId> states;
    for (std::size_t group = 0; group < file.groups.size(); ++group) {
      if (file.groups[group].rest.empty()) continue;
      std::vector<NodeId> rest;
      for (const auto& [key, value] : file.groups[group].rest) rest.insert(rest.end(), {graph.add_string(key), value});
      const NodeId number = graph.add_int(static_cast<std::int64_t>(group));
      states.insert(states.end(), {number, graph.add_dict(std::move(rest))});
    }
    const NodeId state = graph.add_dict(std::move(states));
    set_item(graph, file.base, "state", state);
    for (const std::string_view key : kFlatKeys) remove_item(graph, file.outer, key);
    set_item(graph, file.outer, "optimizer_state_dict", file.base);
    // ZeRO-3 has it in the file's outer dict alone.
    const NodeId version = find_item(graph, graph.root, "ds_version");
    if (find_item(graph, file.outer, "ds_version") == kNoNode && version != kNoNode)
      set_item(graph, file.outer, "ds_version", version);
    return joiner_.copy_state(first().part, graph, file.outer, DeviceId(0));
  }

  // ds_config and ds_version are those of the model's file, as a rule.
  Result<void> add_rest_of_file(ModelTree* tree) {
    StateGraph graph = graph_of(first());
    const StateGraph& model = tree->model_file().state;
    remove_item(graph, graph.root, "optimizer_state_dict");
    for (const std::string_view key : {"ds_config", "ds_version"}) {
      const NodeId one = find_item(graph, graph.root, key);
      if (one != kNoNode && tree->item(key) != kNoNode && equal_objects(graph, one, model, tree->item(key)))
        remove_item(graph, graph.root, key);
    }
    if (!mapping_items(graph, graph.root)->empty())
      tree->add_common("optimizer_file", joiner_.copy_state(first().part, graph, graph.root, DeviceId(0)));
    return {};
  }

  const TagFiles& tag_;
  CheckpointJoiner joiner_;
  std::vector<std::vector<RankOptimizer>> ranks_;  // by model rank, and in each of data parallel ranks
};

}  // namespace

Result<std::unique_ptr<CheckpointReader>> open_zero(FileSystem& files, const TagFiles& tag,
                                                    const ReadOptions& options) {
  return ZeroReader(files, tag, options).run();
}

}  // namespace tenplex::deepspeed
