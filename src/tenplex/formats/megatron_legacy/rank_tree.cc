// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron_legacy/rank_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "tenplex/formats/megatron_legacy/rank_optimizer.h"
#include "tenplex/formats/state/graph_copy.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex::megatron_legacy {
namespace {

class RankTreeMaker {
 public:
  RankTreeMaker(const TargetModel& model, std::size_t rank)
      : model_(model),
        source_(model.source->state),
        target_(*model.target),
        rank_(model.grid.folders.ranks[rank]),
        device_(model.grid.devices[rank]),
        chunks_(static_cast<std::size_t>(model.stages.chunks)) {}

  Result<RankTree> run() {
    TENPLEX_TRY(copy_common());
    TENPLEX_TRY(add_model());
    add_objects();
    put_model();
    TENPLEX_TRY(add_optimizer());
    add_random_state();
    if (problem_) return *problem_;
    return std::move(tree_);
  }

 private:
  StateGraph& graph() { return tree_.graph; }
  const RankFolders& folders() const { return model_.grid.folders; }

  // ── Tensors ──
  NodeId leaf(TensorId tensor, std::int64_t shard, const Dims& shape) {
    TensorView view;
    view.tensor = TensorId(tree_.tensors.size());
    view.storage = static_cast<std::uint32_t>(tree_.tensors.size());
    view.strides = row_major_strides(shape);
    const TensorInfo& whole = target_.tensors()[tensor.index()];
    tree_.tensors.push_back({whole.name, whole.dtype, shape});
    tree_.shards.emplace_back(tensor, shard);
    return graph().add_tensor(view);
  }

  // A tensor in an object: every rank has the whole of it.
  TensorView inner_view(const TensorView& view) {
    if (view.tensor.index() >= target_.tensors().size()) {
      problem_ = corrupt("an object leads to a storage of no tensor");
      return view;
    }
    const auto [known, added] = inner_.try_emplace(view.tensor, tree_.tensors.size());
    if (added) {
      const TensorInfo& info = target_.tensors()[view.tensor.index()];
      SubTensor shard = whole_tensor(info.shape);
      if (size_bytes(info) > 0) target_.shard(view.tensor, 0, &shard);
      if (shard != whole_tensor(info.shape))
        problem_ = unsupported(fmt::format(
            "tensor '{}' of an object is cut in the target layout; a legacy checkpoint has it whole", info.name));
      tree_.tensors.push_back(info);
      tree_.shards.emplace_back(view.tensor, 0);
    }
    TensorView copy = view;
    copy.tensor = TensorId(known->second);
    copy.storage = static_cast<std::uint32_t>(known->second);
    copy.offset = 0;
    copy.strides = row_major_strides(tree_.tensors[copy.tensor.index()].shape);
    copy.object = 0;
    return copy;
  }

  NodeId copy(NodeId node) {
    return copy_reachable(source_, node, &graph(), [this](const TensorView& view) { return inner_view(view); });
  }

  // ── What all ranks have ──
  Result<void> copy_common() {
    if (model_.state.common == kNoNode) {
      graph().root = graph().add_dict({});
    } else if (!is_dict(source_, model_.state.common)) {
      return unsupported("'common' is no dict");
    } else {
      graph().root = copy(model_.state.common);
    }
    for (const std::string_view key :
         std::array<std::string_view, 4>{"model", "model0", "rng_state", kOtherRandomStates})
      if (find_item(graph(), graph().root, key) != kNoNode)
        return unsupported(fmt::format("'common' has an item '{}', whose place in a rank's file is taken", key));
    change_arguments();
    if (find_item(graph(), graph().root, "checkpoint_version") == kNoNode) {
      const NodeId version = graph().add_float(3.0);
      set_item(graph(), graph().root, "checkpoint_version", version);
    }
    if (find_item(graph(), graph().root, "iteration") == kNoNode) {
      const NodeId iteration = graph().add_int(0);
      set_item(graph(), graph().root, "iteration", iteration);
    }
    return {};
  }

  // What they say of the ranks is what the target's are.
  void change_arguments() {
    const NodeId arguments = find_item(graph(), graph().root, "args");
    if (arguments == kNoNode || graph()[arguments].kind != NodeKind::kObject) return;
    const NodeId values = graph().object(arguments).state;
    if (!is_dict(graph(), values)) return;
    const auto set = [&](std::string_view name, NodeId value) { set_item(graph(), values, name, value); };
    const auto has = [&](std::string_view name) { return find_item(graph(), values, name) != kNoNode; };
    const auto number = [&](std::int64_t value) { return graph().add_int(value); };
    set("tensor_model_parallel_size", number(folders().tensor_size));
    set("pipeline_model_parallel_size", number(folders().pipeline_size));
    set("expert_model_parallel_size", number(folders().expert_size));
    if (has("expert_tensor_parallel_size")) set("expert_tensor_parallel_size", number(folders().tensor_size));
    const std::int64_t chunks = model_.stages.chunks;
    if (has("virtual_pipeline_model_parallel_size"))
      set("virtual_pipeline_model_parallel_size", chunks > 1 ? number(chunks) : graph().add_none());
    if (has("num_layers_per_virtual_pipeline_stage") && chunks == 1)
      set("num_layers_per_virtual_pipeline_stage", graph().add_none());
    if (has("ckpt_format")) set("ckpt_format", graph().add_string("torch"));
    if (has("use_dist_ckpt")) set("use_dist_ckpt", graph().add_bool(false));
    if (has("use_distributed_optimizer")) set("use_distributed_optimizer", graph().add_bool(false));
  }

  // ── The model ──
  bool is_copy_of_embeddings(const megatron::NumberedName& name) const {
    return rank_.pipeline > 0 && !name.layer && name.before_layer == kWordEmbeddings;
  }

  Result<void> add_model() {
    std::vector<std::int64_t> shards;
    SubTensor shard;
    for (const TargetParameter& parameter : model_.state.model) {
      target_.shards_of_device(parameter.tensor, device_, &shards);
      if (shards.empty()) continue;
      const std::string& whole_name = target_.tensors()[parameter.tensor.index()].name;
      target_.shard(parameter.tensor, shards[0], &shard);
      if (shards.size() > 1 || shard.local_shape.rank() != target_.tensors()[parameter.tensor.index()].shape.rank())
        return unsupported(
            fmt::format("tensor '{}' is cut in the target layout in another way than that of tensor "
                        "parallel ranks",
                        whole_name));
      TENPLEX_ASSIGN_OR_RETURN(Entry entry, local_entry(parameter.name, whole_name));
      const Dims shape = shard.local_shape;
      entry.node = leaf(parameter.tensor, shards[0], shape);
      RankParameter own{
          whole_name, target_.tensors()[parameter.tensor.index()].dtype, shape, parameter.name.expert.has_value(), {}};
      for (const auto& [slot, tensor] : parameter.slots) {
        std::vector<std::int64_t> of_slot;
        target_.shards_of_device(tensor, device_, &of_slot);
        if (of_slot.size() == 1) target_.shard(tensor, of_slot[0], &shard);
        if (of_slot.size() != 1 || shard.local_shape != shape)
          return unsupported(
              fmt::format("'{}' is not cut in the target layout as its parameter '{}', and the "
                          "mixed-precision optimizer has both alike",
                          target_.tensors()[tensor.index()].name, whole_name));
        own.slots.emplace_back(slot, leaf(tensor, of_slot[0], shape));
      }
      parameters_.push_back(std::move(own));
      add_entry(std::move(entry));
    }
    return {};
  }

  struct Entry {
    std::size_t chunk = 0;
    std::string name;
    NodeId node = kNoNode;
  };

  Result<Entry> local_entry(const megatron::NumberedName& name, std::string_view whole_name) const {
    Entry entry;
    std::int64_t layer = 0;
    if (name.layer) {
      const LayerPlace& place = model_.stages.layers.find(name.stack)->second[static_cast<std::size_t>(*name.layer)];
      entry.chunk = static_cast<std::size_t>(place.chunk);
      layer = place.number;
    } else if (megatron::place_in_model(name).section == megatron::kBehindLayers || is_copy_of_embeddings(name)) {
      entry.chunk = chunks_.size() - 1;
    }
    const std::int64_t expert = name.expert.value_or(0) - (name.expert ? rank_.expert * model_.stages.experts_each : 0);
    if (name.expert && (expert < 0 || expert >= model_.stages.experts_each))
      return unsupported(
          fmt::format("the target layout gives '{}' to expert rank {}; a legacy checkpoint deals experts "
                      "out in order, {} to each",
                      whole_name, rank_.expert, model_.stages.experts_each));
    entry.name = is_copy_of_embeddings(name) ? std::string(kHeadWeight) : name.with(layer, expert);
    return entry;
  }

  void add_entry(Entry entry) {
    std::vector<NodeId>& items = chunks_[entry.chunk];
    items.push_back(graph().add_string(std::move(entry.name)));
    items.push_back(entry.node);
  }

  // The objects of modules that the rank has: of its layers and experts, or on its stage.
  void add_objects() {
    bool has_head_state = false;
    for (const TargetObject& object : model_.state.objects) {
      const megatron::NumberedName name = megatron::split_numbers(object.name);
      has_head_state = has_head_state || object.name == kHeadState;
      if (!is_mine(name)) continue;
      auto entry = local_entry(name, object.name);
      if (!entry) continue;  // experts of another rank
      entry->node = copy(object.node);
      add_entry(std::move(*entry));
    }
    // Distributed checkpoints leave this one out, which is always None.
    if (has_head_state || model_.state.objects.empty() || rank_.pipeline + 1 < folders().pipeline_size) return;
    add_entry({chunks_.size() - 1, std::string(kHeadState), graph().add_none()});
  }

  bool is_mine(const megatron::NumberedName& name) const {
    if (!name.layer) {
      const bool behind = megatron::place_in_model(name).section == megatron::kBehindLayers;
      return rank_.pipeline == (behind ? folders().pipeline_size - 1 : 0);
    }
    const auto stack = model_.stages.layers.find(name.stack);
    const auto layer = static_cast<std::size_t>(*name.layer);
    return stack != model_.stages.layers.end() && layer < stack->second.size() &&
           stack->second[layer].stage == rank_.pipeline;
  }

  void put_model() {
    for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      const NodeId dict = graph().add_dict(std::move(chunks_[chunk]));
      set_item(graph(), graph().root, chunks_.size() == 1 ? std::string("model") : fmt::format("model{}", chunk), dict);
    }
  }

  Result<void> add_optimizer() {
    if (!model_.state.has_slots) {
      const NodeId optimizer = find_item(graph(), graph().root, "optimizer");
      if (optimizer == kNoNode || is_none(graph(), optimizer)) return {};
      return unsupported(
          "there is an optimizer, and no slots that say which parameters it has; --only model writes the model alone");
    }
    RankOptimizerOptions options;
    options.experts_apart = folders().expert_size > 1;
    options.own_copy = [this](NodeId node) {
      const auto [tensor, shard] = tree_.shards[graph().view(node).tensor.index()];
      return leaf(tensor, shard, target_.tensors()[tensor.index()].shape);
    };
    return fill_optimizer(&graph(), graph().root, parameters_, options);
  }

  void add_random_state() {
    const std::string own = random_state_key(folders(), rank_);
    std::set<std::string, std::less<>> of_ranks;
    for (const RankFolder& rank : folders().ranks) of_ranks.insert(random_state_key(folders(), rank));
    std::vector<NodeId> others;
    for (const auto& [key, node] : model_.state.random) {
      if (key == own) {
        const NodeId state = copy(node);
        set_item(graph(), graph().root, "rng_state", state);
      } else if (device_ == model_.grid.devices[0] && !of_ranks.contains(key)) {
        others.push_back(graph().add_string(key));
        others.push_back(copy(node));
      }
    }
    if (others.empty()) return;
    const NodeId dict = graph().add_dict(std::move(others));
    set_item(graph(), graph().root, kOtherRandomStates, dict);
  }

  const TargetModel& model_;
  const StateGraph& source_;
  const Collection& target_;
  const RankFolder& rank_;
  DeviceId device_;
  RankTree tree_;
  std::map<TensorId, std::size_t> inner_;    // of tensors in objects: number in tree_.tensors
  std::vector<std::vector<NodeId>> chunks_;  // key, value, …
  std::vector<RankParameter> parameters_;
  std::optional<Error> problem_;
};

}  // namespace

Result<RankTree> make_rank_tree(const TargetModel& model, std::size_t rank) { return RankTreeMaker(model, rank).run(); }

std::string random_state_key(const RankFolders& folders, const RankFolder& rank) {
  if (folders.expert_size == 1)
    return fmt::format("rng_state/shard_{}.{}_{}.{}", rank.pipeline, rank.tensor, folders.pipeline_size,
                       folders.tensor_size);
  return fmt::format("rng_state/shard_{}.{}.{}_{}.{}.{}", rank.pipeline, rank.tensor, rank.expert,
                     folders.pipeline_size, folders.tensor_size, folders.expert_size);
}

}  // namespace tenplex::megatron_legacy
