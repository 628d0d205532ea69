// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "tenplex/base/counted.h"
#include "tenplex/formats/megatron_legacy/legacy_format.h"
#include "tenplex/formats/megatron_legacy/legacy_optimizers.h"
#include "tenplex/formats/megatron_legacy/legacy_sizes.h"
#include "tenplex/formats/megatron_legacy/rank_folders.h"
#include "tenplex/formats/megatron_legacy/rank_tree.h"
#include "tenplex/formats/megatron_legacy/tensor_parts.h"
#include "tenplex/formats/state/lookup.h"
#include "tenplex/ptc/builtin_layouts.h"

namespace tenplex {
namespace megatron_legacy {
namespace {

constexpr std::string_view kModelFile = "model_optim_rng.pt";

class LegacyReader {
 public:
  LegacyReader(FileSystem& files, std::string folder, const ReadOptions& options)
      : files_(files),
        folder_(std::move(folder)),
        model_only_(options.model_only),
        joiner_(files, folder_, {options, "", {}}),
        optimizers_(files, folder_, options.parameter_order, &joiner_) {}

  Result<std::unique_ptr<CheckpointReader>> run() {
    TENPLEX_TRY(open_ranks());
    TENPLEX_TRY(check_ranks());
    TENPLEX_TRY(number_layers());
    for (RankFile& rank : ranks_) add_model(&rank);
    TENPLEX_TRY(add_optimizers());
    TENPLEX_TRY(merge_tied());
    TENPLEX_ASSIGN_OR_RETURN(const Layout layout, builtin_layout("megatron-gpt"));
    auto numbers = join_tensors(layout, layout_sizes(stored(ranks_[0])), folders_, tensors_, &joiner_);
    if (!numbers) return std::move(numbers).error();
    return finish(*numbers);
  }

 private:
  const CheckpointInfo& stored(const RankFile& rank) const { return joiner_.stored(rank.file); }
  const StateGraph& graph(const RankFile& rank) const { return stored(rank).state; }

  // ── Files ──
  Result<void> open_ranks() {
    TENPLEX_ASSIGN_OR_RETURN(folders_, list_rank_folders(files_, folder_, SecondNumber::kPipeline));
    for (const RankFolder& folder : folders_.ranks) TENPLEX_TRY(open_rank(folder));
    const auto experts = argument(stored(ranks_[0]), "expert_model_parallel_size");
    const auto stages = argument(stored(ranks_[0]), "pipeline_model_parallel_size");
    const bool has_two_numbers = parse_rank_folder(folders_.ranks[0].name).size() == 2;
    if (!has_two_numbers || !experts || *experts == 1 || stages.value_or(1) != 1) return {};
    std::map<std::string, CheckpointJoiner::Part> part_of;
    for (const RankFile& rank : ranks_) part_of[rank.rank->name] = rank.file;
    TENPLEX_ASSIGN_OR_RETURN(folders_, list_rank_folders(files_, folder_, SecondNumber::kExpert));
    ranks_.clear();
    for (const RankFolder& folder : folders_.ranks) ranks_.push_back({&folder, part_of.at(folder.name), {}, {}});
    return {};
  }

  Result<void> open_rank(const RankFolder& folder) {
    TENPLEX_ASSIGN_OR_RETURN(const CheckpointJoiner::Part part,
                             joiner_.open(fmt::format("{}/{}", folder.name, kModelFile)));
    ranks_.push_back({&folder, part, {}, {}});
    return {};
  }

  Error of_rank(const RankFile& rank, Error error) const {
    return std::move(error).with_context(fmt::format("'{}'", joiner_.name(rank.file)));
  }

  // What args and counters say must be the same everywhere, and what the folders are.
  Result<void> check_ranks() {
    for (RankFile& rank : ranks_) {
      auto model = read_rank_model(stored(rank));
      if (!model) return of_rank(rank, std::move(model).error());
      rank.model = std::move(*model);
      if (rank.model.chunks.size() != ranks_[0].model.chunks.size())
        return corrupt(fmt::format("'{}' has {} of the model, '{}' has {}", joiner_.name(rank.file),
                                   counted(rank.model.chunks.size(), "part"), joiner_.name(ranks_[0].file),
                                   ranks_[0].model.chunks.size()));
      for (const std::string_view key : {"iteration", "checkpoint_version"}) {
        const NodeId first = find_item(graph(ranks_[0]), graph(ranks_[0]).root, key);
        const NodeId here = find_item(graph(rank), graph(rank).root, key);
        const bool same = (first == kNoNode) == (here == kNoNode) &&
                          (first == kNoNode || equal_objects(graph(ranks_[0]), first, graph(rank), here));
        if (!same)
          return corrupt(fmt::format("'{}' has another '{}' than '{}': they are not of one checkpoint",
                                     joiner_.name(rank.file), key, joiner_.name(ranks_[0].file)));
      }
      TENPLEX_TRY(check_argument(rank, "tensor_model_parallel_size", folders_.tensor_size));
      TENPLEX_TRY(check_argument(rank, "pipeline_model_parallel_size", folders_.pipeline_size));
      TENPLEX_TRY(check_argument(rank, "expert_model_parallel_size", folders_.expert_size));
    }
    return {};
  }

  Result<void> check_argument(const RankFile& rank, std::string_view name, std::int64_t expected) const {
    const auto found = argument(stored(rank), name);
    if (!found || *found == expected) return {};
    return corrupt(
        fmt::format("'{}' says '{}' {}, and the folders are of {}", joiner_.name(rank.file), name, *found, expected));
  }

  // ── Names ──
  // Chunk v of stage p comes v · stages + p-th.
  Result<void> number_layers() {
    const std::size_t chunks = ranks_[0].model.chunks.size();
    std::map<std::string, std::int64_t, std::less<>> next;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      for (std::int64_t stage = 0; stage < folders_.pipeline_size; ++stage) {
        const auto& layers = rank_at(0, 0, stage).model.chunks[chunk].layers;
        for (const RankFile& rank : ranks_)
          if (rank.rank->pipeline == stage && rank.model.chunks[chunk].layers != layers)
            return corrupt(fmt::format("'{}' has other layers than the other ranks of its stage", rank.rank->name));
        for (const auto& [stack, count] : layers) {
          first_layer_[{chunk, stage, std::string(stack)}] = next[std::string(stack)];
          next[std::string(stack)] += count;
        }
      }
    }
    const auto layers = argument(stored(ranks_[0]), "num_layers");
    const auto found = next.find("decoder");
    if (layers && found != next.end() && found->second != *layers)
      return corrupt(
          fmt::format("'num_layers' is {}, and the files have {}", *layers, counted(found->second, "layer")));
    for (const RankFile& rank : ranks_)
      if (rank.model.experts != ranks_[0].model.experts && rank.model.experts != 0 && ranks_[0].model.experts != 0)
        return corrupt(fmt::format("'{}' has {}, '{}' has {}", rank.rank->name, counted(rank.model.experts, "expert"),
                                   ranks_[0].rank->name, ranks_[0].model.experts));
    return {};
  }

  const RankFile& rank_at(std::int64_t tensor, std::int64_t expert, std::int64_t stage) const {
    return ranks_[static_cast<std::size_t>(&folders_.at(tensor, expert, stage) - folders_.ranks.data())];
  }

  std::string global_name(const RankFile& rank, std::size_t chunk, const megatron::NumberedName& name) const {
    const auto first = first_layer_.find({chunk, rank.rank->pipeline, std::string(name.stack)});
    const std::int64_t layer = first == first_layer_.end() ? 0 : first->second;
    return name.with(name.layer.value_or(0) + layer, name.expert.value_or(0) + rank.rank->expert * rank.model.experts);
  }

  // ── Tensors ──
  void add_model(RankFile* rank) {
    for (std::size_t chunk = 0; chunk < rank->model.chunks.size(); ++chunk) {
      for (const ModelEntry& entry : rank->model.chunks[chunk].entries) {
        std::string name = global_name(*rank, chunk, entry.name);
        if (!is_tensor(graph(*rank), entry.node) || name.ends_with("_extra_state")) {
          if (rank->rank->tensor == 0 && (rank->rank->expert == 0 || entry.name.expert))
            objects_.push_back({object_name(*rank, std::move(name), entry.name), rank, entry.node});
          continue;
        }
        const TensorId tensor = graph(*rank).view(entry.node).tensor;
        // Without several expert ranks, experts are parameters like the others; one of these is a buffer.
        if (!name.ends_with(".expert_bias"))
          rank->parameters.push_back({name, tensor, entry.name.expert && folders_.expert_size > 1, chunk});
        add_part(name, {rank->rank, rank->file, tensor, {}});
      }
    }
  }

  // As Megatron-Core's distributed checkpoints name it: those of the experts of a layer are numbered.
  std::string object_name(const RankFile& rank, std::string name, const megatron::NumberedName& parts) const {
    constexpr std::string_view kModules = ".local_experts.";
    const std::size_t at = name.find(kModules);
    if (!parts.expert || at == std::string::npos) return name + "/shard_0_1";
    const std::int64_t expert = *parts.expert + rank.rank->expert * rank.model.experts;
    name.replace(at, name.find('.', at + kModules.size()) - at, ".experts");
    return fmt::format("{}/shard_{}_{}", name, expert, folders_.expert_size * rank.model.experts);
  }

  void add_part(const std::string& name, const TensorPart& part) {
    const auto [known, added] = tensor_of_name_.try_emplace(name, tensors_.size());
    if (added) tensors_.push_back({name, {}});
    tensors_[known->second].parts.push_back(part);
  }

  Result<void> add_optimizers() {
    if (model_only_) return {};
    auto parts = optimizers_.read(ranks_, folders_.pipeline_size);
    if (!parts) return std::move(parts).error().with_context("--only model reads the model alone");
    for (const NamedPart& part : *parts) add_part(part.name, part.part);
    return {};
  }

  // The last stage of a model with tied embeddings has a copy of them, under the name of the head.
  Result<void> merge_tied() {
    const auto untied = argument(stored(ranks_[0]), "untie_embeddings_and_output_weights");
    if (!untied || *untied != 0 || !tensor_of_name_.contains(kHeadWeight) || !tensor_of_name_.contains(kWordEmbeddings))
      return {};
    std::vector<std::pair<std::string, std::string>> pairs = {{std::string(kHeadWeight), std::string(kWordEmbeddings)}};
    for (const PartedTensor& tensor : tensors_)
      if (tensor.name.starts_with("optimizer.state.") && tensor.name.ends_with(fmt::format(".{}", kHeadWeight)))
        pairs.emplace_back(
            tensor.name, tensor.name.substr(0, tensor.name.size() - kHeadWeight.size()) + std::string(kWordEmbeddings));
    for (const auto& [head, words] : pairs) {
      TENPLEX_ASSIGN_OR_RETURN(const bool same, same_parts(head, words));
      if (same) continue;
      problems_.push_back(fmt::format("args say that '{}' is '{}', and '{}' is not '{}': both are kept", kHeadWeight,
                                      kWordEmbeddings, head, words));
      return {};
    }
    std::set<std::string, std::less<>> merged;
    for (const auto& [head, words] : pairs) merged.insert(head);
    std::erase_if(tensors_, [&](const PartedTensor& tensor) { return merged.contains(tensor.name); });
    return {};
  }

  Result<bool> same_parts(const std::string& one, const std::string& other) const {
    const auto found = tensor_of_name_.find(other);
    if (found == tensor_of_name_.end()) return false;
    const std::vector<TensorPart>& left = tensors_[tensor_of_name_.find(one)->second].parts;
    const std::vector<TensorPart>& right = tensors_[found->second].parts;
    if (left.size() != right.size()) return false;
    for (std::size_t part = 0; part < left.size(); ++part) {
      TENPLEX_ASSIGN_OR_RETURN(const bool same,
                               same_bytes(joiner_, left[part], right[part], std::numeric_limits<std::int64_t>::max()));
      if (!same) return false;
    }
    return true;
  }

  // ── Tree ──
  Result<std::unique_ptr<CheckpointReader>> finish(const std::vector<CheckpointJoiner::Number>& numbers) {
    std::vector<NodeId> top;
    const auto put = [&](std::string key, NodeId value) {
      top.push_back(joiner_.state().add_string(std::move(key)));
      top.push_back(value);
    };
    for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor)
      put(tensors_[tensor].name, joiner_.tensor_node(numbers[tensor]));
    for (const NamedNode& object : objects_)
      put(object.name, joiner_.copy_state(object.rank->file, graph(*object.rank), object.node, device(*object.rank)));
    for (const RankFile& rank : ranks_) {
      const NodeId state = find_item(graph(rank), graph(rank).root, "rng_state");
      if (state != kNoNode)
        put(random_state_name(*rank.rank), joiner_.copy_state(rank.file, graph(rank), state, device(rank)));
    }
    TENPLEX_TRY(put_other_random_states(&top));
    put("common", copy_common());
    note_differences();
    CheckpointInfo info;
    info.format = "megatron";
    info.detail = fmt::format("Megatron-LM, {}", counted(ranks_.size(), "model parallel rank"));
    info.device_count = static_cast<int>(ranks_.size());
    info.has_common = true;
    info.problems = std::move(problems_);
    return joiner_.finish(joiner_.state().add_dict(std::move(top)), std::move(info));
  }

  DeviceId device(const RankFile& rank) const {
    return DeviceId(static_cast<std::size_t>(rank.rank - folders_.ranks.data()));
  }

  // As Megatron-Core's distributed checkpoints name them.
  std::string random_state_name(const RankFolder& rank) const {
    if (folders_.expert_size == 1)
      return fmt::format("rng_state/shard_{}.{}_{}.{}", rank.pipeline, rank.tensor, folders_.pipeline_size,
                         folders_.tensor_size);
    return fmt::format("rng_state/shard_{}.{}.{}_{}.{}.{}", rank.pipeline, rank.tensor, rank.expert,
                       folders_.pipeline_size, folders_.tensor_size, folders_.expert_size);
  }

  // Those that a writer with other ranks kept.
  Result<void> put_other_random_states(std::vector<NodeId>* top) {
    const RankFile& rank = ranks_[0];
    const NodeId dict = find_item(graph(rank), graph(rank).root, kOtherRandomStates);
    if (dict == kNoNode) return {};
    const auto items = mapping_items(graph(rank), dict);
    if (!items) return of_rank(rank, corrupt(fmt::format("'{}' is no dict", kOtherRandomStates)));
    for (std::size_t at = 0; at + 1 < items->size(); at += 2) {
      const auto key = text_of(graph(rank), (*items)[at]);
      if (!key || !key->starts_with("rng_state/shard_"))
        return of_rank(rank, corrupt(fmt::format("'{}' has a key that names no rank", kOtherRandomStates)));
      top->push_back(joiner_.state().add_string(std::string(*key)));
      top->push_back(joiner_.copy_state(rank.file, graph(rank), (*items)[at + 1], device(rank)));
    }
    return {};
  }

  // Of the first rank, without what has a place of its own.
  NodeId copy_common() {
    const RankFile& rank = ranks_[0];
    StateGraph common = graph(rank);
    remove_item(common, common.root, "model");
    for (std::size_t chunk = 0; chunk < rank.model.chunks.size(); ++chunk)
      remove_item(common, common.root, fmt::format("model{}", chunk));
    remove_item(common, common.root, "rng_state");
    remove_item(common, common.root, kOtherRandomStates);
    const NodeId optimizer = find_item(common, common.root, "optimizer");
    if (model_only_) {
      remove_item(common, common.root, "optimizer");
    } else if (optimizer != kNoNode && !is_none(common, optimizer)) {
      optimizers_.tidy(&common, optimizer);
    }
    return joiner_.copy_state(rank.file, common, common.root, device(rank));
  }

  // What other ranks have beside their part of the model, if it is not what the first one has.
  void note_differences() {
    const StateGraph& first = graph(ranks_[0]);
    std::set<std::string, std::less<>> different;
    for (std::size_t rank = 1; rank < ranks_.size(); ++rank) {
      const StateGraph& other = graph(ranks_[rank]);
      const auto items = mapping_items(other, other.root);
      for (std::size_t at = 0; at + 1 < items->size(); at += 2) {
        const std::string_view key = text_of(other, (*items)[at]).value_or("");
        if (key.starts_with("model") || key == "optimizer" || key == "rng_state" || key == "args") continue;
        const NodeId same = find_item(first, first.root, key);
        if (same == kNoNode || !equal_objects(first, same, other, (*items)[at + 1])) different.emplace(key);
      }
    }
    for (const std::string& key : different)
      problems_.push_back(fmt::format("'{}' of '{}' is kept; other ranks have another one, or one with tensors", key,
                                      ranks_[0].rank->name));
  }

  struct NamedNode {
    std::string name;
    const RankFile* rank;
    NodeId node;
  };

  FileSystem& files_;
  std::string folder_;
  bool model_only_;
  CheckpointJoiner joiner_;
  LegacyOptimizers optimizers_;
  RankFolders folders_;
  std::vector<RankFile> ranks_;                                                             // as folders_.ranks
  std::map<std::tuple<std::size_t, std::int64_t, std::string>, std::int64_t> first_layer_;  // of chunk, stage, stack
  std::vector<PartedTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> tensor_of_name_;  // in tensors_, until merge_tied()
  std::vector<NamedNode> objects_;
  std::vector<std::string> problems_;
};

}  // namespace
}  // namespace megatron_legacy

bool detect_megatron_legacy(FileSystem& files, const std::string& path) {
  const auto folder = megatron_legacy::find_rank_folders(files, path);
  return folder && *folder;
}

Result<std::unique_ptr<CheckpointReader>> open_megatron_legacy(FileSystem& files, const std::string& path,
                                                               const ReadOptions& options) {
  TENPLEX_ASSIGN_OR_RETURN(const auto folder, megatron_legacy::find_rank_folders(files, path));
  if (!folder) return corrupt(fmt::format("'{}' has no mp_rank folders", path));
  auto reader = megatron_legacy::LegacyReader(files, *folder, options).run();
  if (reader) return reader;
  return std::move(reader).error().with_context(fmt::format("'{}'", *folder));
}

Format megatron_legacy_format() {
  return {"megatron",
          "a folder of Megatron-LM, one file per model parallel rank (--ckpt-format torch)",
          &detect_megatron_legacy,
          &open_megatron_legacy,
          &make_megatron_legacy_writer,
          nullptr,
          true};
}

}  // namespace tenplex
