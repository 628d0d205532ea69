// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/universal_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/base/counted.h"
#include "tenplex/formats/deepspeed/model_tree.h"
#include "tenplex/formats/deepspeed/universal_state.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex::deepspeed {
namespace {

constexpr std::string_view kOptimizerState = "zero/optimizer_state.pt";
constexpr std::string_view kStepFile = "step";

/// The part of a file's name before ".pt", or nothing.
std::optional<std::string_view> stem_of(std::string_view name) {
  if (!name.ends_with(".pt") || name.size() == 3) return std::nullopt;
  return name.substr(0, name.size() - 3);
}

class UniversalReader {
 public:
  UniversalReader(FileSystem& files, const TagFiles& tag, const ReadOptions& options)
      : files_(files), tag_(tag), joiner_(files, tag.base, {options, tag.prefix, {kParameterNumber}}) {}

  Result<std::unique_ptr<CheckpointReader>> run() {
    ModelTree::Files files;
    files.models.reserve(tag_.ranks.size());
    for (const ModelRankFiles& rank : tag_.ranks) {
      std::vector<Part>& models = files.models.emplace_back();
      for (const std::string& name : rank.model.empty() ? rank.zero_models : std::vector{rank.model}) {
        TENPLEX_ASSIGN_OR_RETURN(models.emplace_back(), joiner_.open(name));
      }
    }
    TENPLEX_ASSIGN_OR_RETURN(const std::unique_ptr<ModelTree> made, ModelTree::make(std::move(files), &joiner_));
    ModelTree& tree = *made;
    tree_ = &tree;
    const NodeId shapes = tree.item("param_shapes");
    if (shapes == kNoNode || is_none(tree.model_file().state, shapes))
      return corrupt("the model's file has no 'param_shapes', without which groups of parameters are not known");
    TENPLEX_TRY(read_parameters());
    TENPLEX_TRY(read_optimizer_state());
    if (!notes_.empty()) tree.add_common("parameters", joiner_.state().add_dict(std::move(notes_)));
    CheckpointInfo info;
    info.format = "deepspeed";
    info.has_common = true;
    note_others(tag_, &info.problems);
    info.detail =
        fmt::format("DeepSpeed universal checkpoint, {}", counted(tree.groups().parameters().size(), "parameter"));
    return tree.finish(std::move(info));
  }

 private:
  using Part = CheckpointJoiner::Part;

  Result<void> read_parameters() {
    TENPLEX_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, files_.list(tag_.folder + "/zero"));
    for (const FolderEntry& entry : entries) {
      if (entry.name == "optimizer_state.pt") continue;
      Parameter* parameter = tree_->groups().find(entry.name);
      TENPLEX_TRY(parameter == nullptr ? read_untrained(entry.name) : read_parameter(parameter));
    }
    for (const Parameter& parameter : tree_->groups().parameters())
      if (parameter.slots.empty())
        return corrupt(fmt::format("parameter '{}' of 'param_shapes' has no folder in 'zero'", parameter.name));
    return check_groups();
  }

  /// ds_to_universal writes frozen parameters and buffers too, which 'module' has; as float32. A copy of the same type
  /// is compared when it is read.
  Result<void> read_untrained(const std::string& name) {
    const std::string folder = fmt::format("zero/{}", name);
    const auto entries = files_.list(fmt::format("{}/{}", tag_.folder, folder));
    const CheckpointInfo& model = tree_->model_file();
    const NodeId node = find_item(model.state, tree_->item("module"), name);
    if (!entries || entries->size() != 1 || entries->front().name != "fp32.pt" || !is_tensor(model.state, node) ||
        volume(model.tensors[model.state.view(node).tensor.index()].shape) == 0)
      return unsupported(fmt::format(
          "'{}' is of no parameter in 'param_shapes', and not the float32 copy of a tensor in 'module'", folder));
    TENPLEX_ASSIGN_OR_RETURN(const auto number, tree_->module_tensor(name));
    TENPLEX_ASSIGN_OR_RETURN(const Part part, joiner_.open(fmt::format("{}/fp32.pt", folder)));
    const StateGraph& graph = joiner_.stored(part).state;
    const NodeId copy = find_item(graph, graph.root, "param");
    if (!is_tensor(graph, copy)) return corrupt(fmt::format("'{}' holds no tensor", joiner_.name(part)));
    const Dims shape = joiner_.shape(*number);
    const TensorId stored = graph.view(copy).tensor;
    if (joiner_.dtype(*number) != DType::kFloat32) return {};
    // Of a tensor that tensor parallel ranks have parts of, ds_to_universal writes the first part only.
    if (tree_->files().rank_count() > 1 && joiner_.stored(part).tensors[stored.index()].shape != shape) return {};
    return joiner_.add_box(*number, DeviceId(0), part, stored, Box::whole(shape), Dims::filled(shape.rank(), 0));
  }

  Result<void> read_parameter(Parameter* parameter) {
    const std::string folder = fmt::format("zero/{}", parameter->name);
    TENPLEX_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries,
                             files_.list(fmt::format("{}/{}", tag_.folder, folder)));
    const auto has = [&](std::string_view file) {
      return std::any_of(entries.begin(), entries.end(), [&](const FolderEntry& entry) { return entry.name == file; });
    };
    if (!has("fp32.pt")) return corrupt(fmt::format("'{}/fp32.pt' is missing", folder));
    TENPLEX_TRY(read_slot(parameter, folder, kMasterFile));
    for (const FolderEntry& entry : entries) {
      const auto stem = stem_of(entry.name);
      if (!stem || *stem == kMasterSlot)
        return unsupported(fmt::format("'{}/{}' is none of the files that are read here", folder, entry.name));
      if (*stem == kStepFile) {
        TENPLEX_TRY(read_step(*parameter, fmt::format("{}/{}", folder, entry.name)));
      } else if (*stem != kMasterFile) {
        TENPLEX_TRY(read_slot(parameter, folder, *stem));
      }
    }
    return {};
  }

  Result<void> read_slot(Parameter* parameter, const std::string& folder, std::string_view slot) {
    const std::string name = fmt::format("{}/{}.pt", folder, slot);
    TENPLEX_ASSIGN_OR_RETURN(const Part part, joiner_.open(name));
    const StateGraph& graph = joiner_.stored(part).state;
    const NodeId tensor = is_dict(graph, graph.root) ? find_item(graph, graph.root, "param") : graph.root;
    if (!is_tensor(graph, tensor)) return corrupt(fmt::format("'{}' holds no tensor", name));
    const TensorId stored = graph.view(tensor).tensor;
    const TensorInfo& found = joiner_.stored(part).tensors[stored.index()];
    if (slot == kMasterFile) TENPLEX_TRY(use_shape(parameter, graph, found.shape, name));
    TENPLEX_ASSIGN_OR_RETURN(const auto number, joiner_.add_tensor(parameter->name, found.dtype, parameter->shape));
    const std::string_view slot_name = slot == kMasterFile ? kMasterSlot : slot;
    parameter->slots.emplace_back(slot_name, number);
    TENPLEX_TRY(read_notes(*parameter, part, slot, name));
    if (found.shape == parameter->shape)
      return joiner_.add_box(number, DeviceId(0), part, stored, Box::whole(parameter->shape),
                             Dims::filled(parameter->shape.rank(), 0));
    if (found.shape == Dims{volume(parameter->shape)})
      return joiner_.add_run(number, DeviceId(0), {part, stored, 0, 0, volume(parameter->shape)});
    return corrupt(
        fmt::format("'{}' has the shape {}, expected {}", name, to_string(found.shape), to_string(parameter->shape)));
  }

  /// A vocabulary is stored without its padding, so it has fewer rows than 'param_shapes' says.
  static Result<void> use_shape(Parameter* parameter, const StateGraph& graph, const Dims& found,
                                const std::string& name) {
    const NodeId vocabulary = find_item(graph, graph.root, "vocab_tensor");
    if (vocabulary == kNoNode || found == parameter->shape) return {};
    Dims rows = found;
    if (rows.rank() == parameter->shape.rank() && !rows.empty() && rows[0] < parameter->shape[0])
      rows[0] = parameter->shape[0];
    if (rows != parameter->shape)
      return corrupt(fmt::format("'{}' has the shape {}, expected at most {}", name, to_string(found),
                                 to_string(parameter->shape)));
    parameter->shape = found;
    return {};
  }

  /// What a file says beside its tensor; that the tensor is joined along dimension 0 is what all say.
  Result<void> read_notes(const Parameter& parameter, Part part, std::string_view slot, const std::string& name) {
    StateGraph graph = joiner_.stored(part).state;
    if (!is_dict(graph, graph.root)) return {};
    remove_item(graph, graph.root, "param");
    if (integer_of(graph, find_item(graph, graph.root, "cat_dim")) == 0) remove_item(graph, graph.root, "cat_dim");
    const bool empty = mapping_items(graph, graph.root)->empty();
    if (slot == kMasterFile) {
      notes_of_master_ = kNoNode;
      if (empty) return {};
      notes_of_master_ = joiner_.copy_state(part, graph, graph.root, DeviceId(0));
      notes_.insert(notes_.end(), {joiner_.state().add_string(parameter.name), notes_of_master_});
      return {};
    }
    const bool same =
        notes_of_master_ == kNoNode ? empty : equal_objects(joiner_.state(), notes_of_master_, graph, graph.root);
    if (same) return {};
    return corrupt(fmt::format("'{}' says something else beside its tensor than 'fp32.pt'", name));
  }

  Result<void> read_step(const Parameter& parameter, const std::string& name) {
    TENPLEX_ASSIGN_OR_RETURN(const Part part, joiner_.open(name));
    steps_.resize(tree_->groups().group_count());
    std::optional<Step>& first = steps_[parameter.group];
    TENPLEX_ASSIGN_OR_RETURN(const std::string bytes, number_of(part));
    if (!first) first = Step{part, bytes, 0};
    ++first->count;
    if (first->bytes == bytes) return {};
    return corrupt(
        fmt::format("'{}' is not the step of '{}' in the same group of parameters", name, joiner_.name(first->part)));
  }

  /// What tells two numbers apart. Errors: corrupt if it is none.
  Result<std::string> number_of(Part part) const {
    const StateGraph& graph = joiner_.stored(part).state;
    const Node& node = graph[graph.root];
    if (node.kind == NodeKind::kInt) return fmt::format("i{}", node.integer);
    if (node.kind == NodeKind::kFloat) return fmt::format("f{}", node.real);
    if (node.kind != NodeKind::kTensor) return corrupt(fmt::format("'{}' holds no number", joiner_.name(part)));
    const TensorId tensor = graph.view(graph.root).tensor;
    TENPLEX_ASSIGN_OR_RETURN(const std::string bytes, joiner_.small_bytes(part, tensor));
    return fmt::format("{}{}", to_string(joiner_.stored(part).tensors[tensor.index()].dtype), bytes);
  }

  /// The parameters of a group have the same slots, and all or none a step.
  Result<void> check_groups() {
    steps_.resize(tree_->groups().group_count());
    const std::vector<Parameter>& parameters = tree_->groups().parameters();
    for (std::size_t group = 0; group < steps_.size(); ++group) {
      const std::size_t begin = tree_->groups().first_of(group);
      const std::size_t end = tree_->groups().first_of(group + 1);
      for (std::size_t at = begin; at < end; ++at) {
        for (std::size_t slot = 0; slot < std::max(parameters[at].slots.size(), parameters[begin].slots.size()); ++slot)
          if (slot >= parameters[at].slots.size() || slot >= parameters[begin].slots.size() ||
              parameters[at].slots[slot].first != parameters[begin].slots[slot].first)
            return corrupt(fmt::format("parameters '{}' and '{}' of one group have different files in 'zero'",
                                       parameters[at].name, parameters[begin].name));
      }
      if (steps_[group] && steps_[group]->count != end - begin)
        return corrupt(fmt::format("group {} has {}, of which {} have a 'step.pt'", group,
                                   counted(end - begin, "parameter"), steps_[group]->count));
    }
    return {};
  }

  // In the form that a ZeRO folder is read in.
  Result<void> read_optimizer_state() {
    TENPLEX_ASSIGN_OR_RETURN(const Part part, joiner_.open(std::string(kOptimizerState)));
    StateGraph graph = joiner_.stored(part).state;
    const auto bad = [](std::string_view why) { return corrupt(fmt::format("'{}' {}", kOptimizerState, why)); };
    if (!is_dict(graph, graph.root)) return bad("holds no dict");
    const NodeId groups = find_item(graph, graph.root, "param_groups");
    NodeId base = find_item(graph, graph.root, "optimizer_state_dict");
    if (base == kNoNode) {
      if (!is_list(graph, groups)) return bad("has no list 'param_groups'");
      base = graph.add_dict({});
      const NodeId state = graph.add_dict({});
      set_item(graph, base, "state", state);
      set_item(graph, base, "param_groups", groups);
      set_item(graph, graph.root, "optimizer_state_dict", base);
    }
    const NodeId state = find_item(graph, base, "state");
    if (!is_dict(graph, base) || !is_dict(graph, state)) return bad("has no dict 'state' of the optimizer");
    remove_item(graph, graph.root, "param_groups");
    remove_item(graph, graph.root, "fp32_flat_groups");
    TENPLEX_TRY(remove_flat_tensors(part, graph, state));
    const auto version = text_of(tree_->model_file().state, tree_->item("ds_version"));
    if (find_item(graph, graph.root, "ds_version") == kNoNode && version) {
      const NodeId text = graph.add_string(std::string(*version));
      set_item(graph, graph.root, "ds_version", text);
    }
    const NodeId copied = joiner_.copy_state(part, graph, graph.root, DeviceId(0));
    add_steps(find_item(joiner_.state(), find_item(joiner_.state(), copied, "optimizer_state_dict"), "state"));
    tree_->add_common("optimizer_state", copied);
    return {};
  }

  // ds_to_universal leaves those of rank 0 in, of ZeRO-3.
  Result<void> remove_flat_tensors(Part part, StateGraph& graph, NodeId state) const {
    const std::vector<NodeId> groups = items_of(graph, state);  // a copy: a damaged state may be a group of itself
    for (std::size_t at = 0; at + 1 < groups.size(); at += 2) {
      const NodeId group = groups[at + 1];
      if (!is_dict(graph, group)) return corrupt(fmt::format("'{}': a group's state is no dict", kOptimizerState));
      std::vector<NodeId>& items = items_of(graph, group);
      std::vector<NodeId> kept;
      for (std::size_t item = 0; item + 1 < items.size(); item += 2) {
        const NodeId value = items[item + 1];
        const bool flat =
            is_tensor(graph, value) && joiner_.stored(part).tensors[graph.view(value).tensor.index()].shape.rank() > 0;
        if (!flat) kept.insert(kept.end(), {items[item], value});
      }
      items = std::move(kept);
    }
    return {};
  }

  void add_steps(NodeId state) {
    for (std::size_t group = 0; group < steps_.size(); ++group) {
      if (!steps_[group]) continue;
      StateGraph& to = joiner_.state();
      NodeId entry = find_item(to, state, static_cast<std::int64_t>(group));
      if (entry == kNoNode) {
        entry = to.add_dict({});
        const NodeId number = to.add_int(static_cast<std::int64_t>(group));
        std::vector<NodeId>& items = items_of(to, state);
        items.insert(items.end(), {number, entry});
      }
      if (find_item(to, entry, kStepFile) != kNoNode) continue;
      const StateGraph& graph = joiner_.stored(steps_[group]->part).state;
      const NodeId step = joiner_.copy_state(steps_[group]->part, graph, graph.root, DeviceId(0));
      set_item(to, entry, kStepFile, step);
    }
  }

  struct Step {
    Part part = 0;
    std::string bytes;
    std::size_t count = 0;  // of parameters that have it
  };

  FileSystem& files_;
  const TagFiles& tag_;
  CheckpointJoiner joiner_;
  ModelTree* tree_ = nullptr;
  std::vector<std::optional<Step>> steps_;  // per group
  std::vector<NodeId> notes_;               // name, dict, …
  NodeId notes_of_master_ = kNoNode;
};

}  // namespace

Result<std::unique_ptr<CheckpointReader>> open_universal(FileSystem& files, const TagFiles& tag,
                                                         const ReadOptions& options) {
  return UniversalReader(files, tag, options).run();
}

}  // namespace tenplex::deepspeed
