// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Writing: every file is the archive that torch.save makes of a small tree, and only what the tree is made of is kept;
// the trees are made again when their literal parts are asked for.
//
//   global_step2_universal/zero/words.weight/{fp32,exp_avg,exp_avg_sq,step}.pt    per trained parameter
//   global_step2_universal/zero/frozen.weight/fp32.pt                             what else the model has in float32
//   global_step2_universal/zero/optimizer_state.pt
//   global_step2_universal/mp_rank_00_model_states.pt                             for ZeRO-1/2
//   global_step2_universal/zero_pp_rank_0_mp_rank_00_model_states.pt              for ZeRO-3: parameters are empty
//   latest_universal                                                              last: the checkpoint is complete
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tenplex/base/crc32.h"
#include "tenplex/base/utf8.h"
#include "tenplex/formats/deepspeed/deepspeed_format.h"
#include "tenplex/formats/deepspeed/made_state.h"
#include "tenplex/formats/deepspeed/model_tree.h"
#include "tenplex/formats/deepspeed/universal_state.h"
#include "tenplex/formats/state/graph_copy.h"
#include "tenplex/formats/state/lookup.h"
#include "tenplex/formats/state/row_major.h"
#include "tenplex/formats/target_notes.h"
#include "tenplex/formats/torch/torch_object.h"
#include "tenplex/formats/whole_tensor.h"

namespace tenplex {
namespace deepspeed {
namespace {

static_assert(std::endian::native == std::endian::little, "the bytes of a float are written as they are in memory");
constexpr std::size_t kFewParts = 3;  // one tensor: the archive is made again for each literal

class UniversalWriter final : public CheckpointWriter, public NotedWriter {
 public:
  const TargetNotes& notes() const override { return notes_; }
  Result<OutputPlan> prepare(const WriteRequest& request) override;
  Result<std::string> literal(std::int32_t file, std::size_t segment,
                              std::span<const std::uint32_t> crcs) const override;
  bool needs_crcs() const override { return true; }
  std::size_t crcs_needed(std::int32_t file, std::size_t segment) const override {
    const bool last = file < 0 || segment + 1 == files_[static_cast<std::size_t>(file)].parts;
    return last ? segment : std::min<std::size_t>(segment, 1);
  }
  std::vector<StorageView> storage_views(std::int64_t index) const override {
    return shared_[static_cast<std::size_t>(index)];
  }

 private:
  enum class Kind : std::uint8_t { kSlot, kStep, kUntrained, kOptimizer, kModel, kEmptyModel };
  struct File {
    Kind kind = Kind::kModel;
    std::uint32_t index = 0;  // of the parameter, or in the model
    std::uint32_t slot = 0;
    std::size_t parts = 0;
    std::vector<std::size_t> steps;  // parts with the bytes of step()
    std::unique_ptr<ZipLayout> zip;  // without its pickle; of files with many tensors
  };

  Result<void> check_request(const WriteRequest& request) const;
  void list_files();
  void add_file(Kind kind, std::uint32_t index = 0, std::uint32_t slot = 0);
  std::string path_of(const File& file) const;
  Result<StateGraph> tree_of(const File& file) const;
  StateGraph slot_tree(const File& file) const;
  StateGraph optimizer_tree() const;
  StateGraph model_tree(bool with_parameters) const;
  NodeId leaf(StateGraph* to, NodeId tensor) const;
  NodeId copy(StateGraph* to, NodeId node) const;
  Result<TorchObject> object_of(const File& file) const;
  Result<void> use_state(const StateGraph& source, const std::optional<std::int64_t>& steps);
  Result<void> add_parts(File* file, TorchObject object, OutputFile* out);
  Segment data_segment(std::vector<StorageView> views, std::int64_t bytes);
  bool is_made(const File& file, std::size_t segment) const;

  // After the target's tensors.
  TensorId step() const { return TensorId(target_->tensors().size()); }
  TensorId empty() const { return TensorId(target_->tensors().size() + 1); }

  const Collection* target_ = nullptr;
  const StateGraph* graph_ = nullptr;  // of the source, which outlives the writer, or of made_
  std::optional<MadeState> made_;
  UniversalState state_;
  std::vector<TensorInfo> tensors_;  // of the target, step() and empty()
  std::vector<File> files_;
  TargetNotes notes_;
  std::vector<std::vector<StorageView>> shared_;
};

bool is_floating(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

bool is_folder_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos && find_invalid_utf8(name) == std::string_view::npos;
}

Result<void> UniversalWriter::check_request(const WriteRequest& request) const {
  const CheckpointInfo& source = *request.source;
  const Collection& target = *request.target;
  if (target.device_count() != 1)
    return unsupported(
        fmt::format("a universal checkpoint of DeepSpeed holds whole tensors, and the target has {} devices",
                    target.device_count()));
  for (std::size_t index = 0; index < target.tensors().size(); ++index) {
    const std::string& name = target.tensors()[index].name;
    if (!is_whole(target, TensorId(index)))
      return unsupported(
          fmt::format("tensor '{}' is cut in the target layout; a universal checkpoint holds whole ones", name));
    if (const auto stored = target.alias_of(TensorId(index)))
      return unsupported(fmt::format("the target layout ties '{}' to '{}'; a universal checkpoint holds both", name,
                                     target.tensors()[stored->index()].name));
  }
  if (!source.extra_files.empty() && request.keep_all_files)
    return unsupported(
        fmt::format("a universal checkpoint has no place for '{}' and {} files in all beside the tensors; "
                    "--drop-extra-files leaves them out",
                    source.extra_files[0].path, source.extra_files.size()));
  for (const auto& [key, text] : source.metadata)
    if (key != "format") return unsupported(fmt::format("a universal checkpoint has no place for the text '{}'", key));
  return {};
}

void UniversalWriter::add_file(Kind kind, std::uint32_t index, std::uint32_t slot) {
  File& file = files_.emplace_back();
  file.kind = kind;
  file.index = index;
  file.slot = slot;
}

void UniversalWriter::list_files() {
  for (std::uint32_t index = 0; index < state_.parameters.size(); ++index) {
    for (std::uint32_t slot = 0; slot < state_.parameters[index].slots.size(); ++slot)
      add_file(Kind::kSlot, index, slot);
    if (state_.parameters[index].step != kNoNode) add_file(Kind::kStep, index);
  }
  // Frozen parameters and buffers, as ds_to_universal; there they are float32 whatever they were.
  const bool only_weights = made_ && !made_->has_optimizer;
  std::unordered_set<std::string_view> trained;
  for (const UniversalParameter& parameter : state_.parameters) trained.insert(parameter.name);
  for (std::uint32_t index = 0; index < state_.model.size(); ++index) {
    const auto& [name, node] = state_.model[index];
    const DType dtype = tensors_[graph_->view(node).tensor.index()].dtype;
    // Weights alone are loaded from these files, of any type.
    const bool is_float = dtype == DType::kFloat32 || (only_weights && is_floating(dtype));
    if (is_float && !trained.contains(name) && is_folder_name(name)) add_file(Kind::kUntrained, index);
  }
  for (const Kind kind : {Kind::kOptimizer, Kind::kModel, Kind::kEmptyModel}) add_file(kind);
}

std::string UniversalWriter::path_of(const File& file) const {
  switch (file.kind) {
    case Kind::kSlot: {
      const UniversalParameter& parameter = state_.parameters[file.index];
      return fmt::format("{}/zero/{}/{}.pt", state_.tag, parameter.name, parameter.slots[file.slot].file);
    }
    case Kind::kStep:
      return fmt::format("{}/zero/{}/step.pt", state_.tag, state_.parameters[file.index].name);
    case Kind::kUntrained:
      return fmt::format("{}/zero/{}/fp32.pt", state_.tag, state_.model[file.index].first);
    case Kind::kOptimizer:
      return fmt::format("{}/zero/optimizer_state.pt", state_.tag);
    case Kind::kModel:
      return fmt::format("{}/mp_rank_00_model_states.pt", state_.tag);
    case Kind::kEmptyModel:
      break;
  }
  return fmt::format("{}/zero_pp_rank_0_mp_rank_00_model_states.pt", state_.tag);
}

// A contiguous tensor in a storage of its own.
NodeId UniversalWriter::leaf(StateGraph* to, NodeId tensor) const {
  TensorView view;
  view.tensor = graph_->view(tensor).tensor;
  view.storage = static_cast<std::uint32_t>(to->size());
  view.strides = row_major_strides(tensors_[view.tensor.index()].shape);
  return to->add_tensor(view);
}

NodeId UniversalWriter::copy(StateGraph* to, NodeId node) const {
  return copy_reachable(*graph_, node, to, [](const TensorView& view) { return view; });
}

StateGraph UniversalWriter::slot_tree(const File& file) const {
  StateGraph tree;
  tree.root = tree.add_dict({});
  NodeId tensor = kNoNode;
  if (file.kind == Kind::kSlot) {
    const UniversalParameter& parameter = state_.parameters[file.index];
    tensor = parameter.slots[file.slot].tensor;
    const NodeId zero = tree.add_int(0);
    set_item(tree, tree.root, "cat_dim", zero);
    if (is_dict(*graph_, parameter.notes)) {
      const std::vector<NodeId> notes = items_of(tree, copy(&tree, parameter.notes));
      for (std::size_t at = 0; at + 1 < notes.size(); at += 2)
        set_item(tree, tree.root, text_of(tree, notes[at]).value_or("cat_dim"), notes[at + 1]);
    }
    if (parameter.vocabulary) {
      const NodeId yes = tree.add_bool(true);
      set_item(tree, tree.root, "vocab_tensor", yes);
    }
  } else {
    tensor = state_.model[file.index].second;
  }
  const NodeId value = leaf(&tree, tensor);
  set_item(tree, tree.root, "param", value);
  return tree;
}

// Each stage looks for the groups elsewhere, and ZeRO-1/2 for the version.
StateGraph UniversalWriter::optimizer_tree() const {
  StateGraph tree;
  tree.root = copy(&tree, state_.optimizer_state);
  if (find_item(tree, tree.root, "ds_version") == kNoNode) {
    const NodeId version = copy(&tree, find_item(*graph_, state_.model_states, "ds_version"));
    set_item(tree, tree.root, "ds_version", version);
  }
  set_item(tree, tree.root, "param_groups",
           find_item(tree, find_item(tree, tree.root, "optimizer_state_dict"), "param_groups"));
  return tree;
}

StateGraph UniversalWriter::model_tree(bool with_parameters) const {
  StateGraph tree;
  // One copy of all, so that what shares a storage still does.
  StateGraph source = *graph_;
  std::vector<NodeId> module;
  module.reserve(2 * state_.model.size());
  for (const auto& [name, tensor] : state_.model) module.insert(module.end(), {source.add_string(name), tensor});
  const NodeId dict = find_item(source, state_.model_states, "module");
  std::vector<NodeId>& items = items_of(source, dict);
  items.insert(items.begin(), module.begin(), module.end());
  if (!state_.rest.empty()) {
    const NodeId rest = source.add_dict({});
    for (const auto& [key, value] : state_.rest) set_item(source, rest, key, value);
    set_item(source, state_.model_states, kCommonKey, rest);
  }
  tree.root = copy_reachable(source, state_.model_states, &tree, [](const TensorView& view) { return view; });
  if (with_parameters) return tree;
  const NodeId copied = find_item(tree, tree.root, "module");
  for (const UniversalParameter& parameter : state_.parameters) {
    TensorView place;
    place.tensor = empty();
    place.storage = 0x80000000U + static_cast<std::uint32_t>(&parameter - state_.parameters.data());
    place.strides = Dims{1};
    const NodeId value = tree.add_tensor(place);
    set_item(tree, copied, parameter.name, value);
  }
  // The values that were there are reached no more.
  StateGraph small;
  small.root = copy_reachable(tree, tree.root, &small, [](const TensorView& view) { return view; });
  return small;
}

Result<StateGraph> UniversalWriter::tree_of(const File& file) const {
  switch (file.kind) {
    case Kind::kSlot:
    case Kind::kUntrained:
      return slot_tree(file);
    case Kind::kStep: {
      StateGraph tree;
      tree.root = copy(&tree, state_.parameters[file.index].step);
      return tree;
    }
    case Kind::kOptimizer:
      return optimizer_tree();
    case Kind::kModel:
    case Kind::kEmptyModel:
      break;
  }
  return model_tree(file.kind == Kind::kModel);
}

Result<TorchObject> UniversalWriter::object_of(const File& file) const {
  const std::string path = path_of(file);
  const std::size_t begin = path.rfind('/') + 1;
  TENPLEX_ASSIGN_OR_RETURN(const StateGraph tree, tree_of(file));
  return make_torch_object(tree, tree.root, tensors_, std::string_view(path).substr(begin, path.size() - begin - 3))
      .with_context(fmt::format("'{}'", path));
}

Segment UniversalWriter::data_segment(std::vector<StorageView> views, std::int64_t bytes) {
  const StorageView& first = views.front();
  const TensorInfo& tensor = tensors_[first.tensor.index()];
  if (views.size() == 1 && first.offset == 0 && is_row_major(first.strides, tensor.shape) &&
      bytes == size_bytes(tensor))
    return whole_segment(*target_, first.tensor);
  Segment segment;
  segment.kind = Segment::Kind::kStorage;
  segment.tensor = first.tensor;
  segment.shard = static_cast<std::int64_t>(shared_.size());
  shared_.push_back(std::move(views));
  return segment;
}

// That of the source, or what is made of it if it is no DeepSpeed checkpoint.
Result<void> UniversalWriter::use_state(const StateGraph& source, const std::optional<std::int64_t>& steps) {
  tensors_.push_back({"", DType::kFloat32, {}});
  tensors_.push_back({"", DType::kFloat32, {0}});
  graph_ = &source;
  TENPLEX_ASSIGN_OR_RETURN(made_, make_state(source, target_->tensors(), {steps, step()}));
  if (made_) {
    graph_ = &made_->graph;
    notes_.not_compared = {"common.model_states", "common.optimizer_state", "optimizer.state.step."};
    notes_.equal = made_->equal;
    if (made_->has_masters) notes_.not_compared.push_back(fmt::format("{}{}.", kSlotStart, kMasterSlot));
  } else if (steps) {
    return invalid_argument("--optimizer-steps: the source says itself how many steps its optimizer has made");
  }
  TENPLEX_ASSIGN_OR_RETURN(state_, find_universal_state(*graph_, tensors_));
  for (const UniversalParameter& parameter : state_.parameters)
    if (!is_folder_name(parameter.name) || parameter.name == "optimizer_state.pt")
      return unsupported(fmt::format("parameter '{}' cannot be the name of a folder", parameter.name));
  if (!made_ || made_->has_optimizer) return {};
  for (const auto& [name, node] : state_.model)
    if (!is_folder_name(name)) return unsupported(fmt::format("parameter '{}' cannot be the name of a folder", name));
  return {};
}

Result<void> UniversalWriter::add_parts(File* file, TorchObject object, OutputFile* out) {
  file->parts = object.zip.part_count();
  for (std::size_t part = 0; part < file->parts; ++part) {
    Segment segment;
    if (part % 2 == 1) {
      std::vector<StorageView>& views = object.storages[object.zip.data_number(part)];
      if (views.front().tensor == step()) {
        file->steps.push_back(part);
      } else {
        segment = data_segment(std::move(views), object.zip.part_size(part));
      }
    }
    segment.size_bytes = object.zip.part_size(part);
    out->segments.push_back(segment);
  }
  if (file->parts <= kFewParts) return {};
  object.zip.take_pickle();
  file->zip = std::make_unique<ZipLayout>(std::move(object.zip));
  return {};
}

Result<OutputPlan> UniversalWriter::prepare(const WriteRequest& request) {
  target_ = request.target;
  tensors_.assign(target_->tensors().begin(), target_->tensors().end());
  TENPLEX_TRY(check_request(request));
  TENPLEX_TRY(use_state(request.source->state, request.optimizer_steps));
  list_files();
  OutputPlan plan;
  plan.files.reserve(files_.size());
  for (File& file : files_) {
    TENPLEX_ASSIGN_OR_RETURN(TorchObject object, object_of(file));
    OutputFile& out = plan.files.emplace_back();
    out.path = path_of(file);
    TENPLEX_TRY(add_parts(&file, std::move(object), &out));
  }
  OutputFile& latest = plan.manifest.emplace();
  latest.path = "latest_universal";
  latest.segments.emplace_back().size_bytes = static_cast<std::int64_t>(state_.tag.size());
  return plan;
}

bool UniversalWriter::is_made(const File& file, std::size_t segment) const {
  return std::find(file.steps.begin(), file.steps.end(), segment) != file.steps.end();
}

Result<std::string> UniversalWriter::literal(std::int32_t index, std::size_t segment,
                                             std::span<const std::uint32_t> crcs) const {
  if (index < 0) return state_.tag;
  const File& file = files_[static_cast<std::size_t>(index)];
  TENPLEX_CHECK(segment < file.parts && (segment % 2 == 0 || is_made(file, segment)));
  std::string steps(sizeof(float), '\0');
  if (made_) std::memcpy(steps.data(), &made_->steps, sizeof(float));
  if (segment % 2 == 1) return steps;
  std::vector<std::uint32_t> data_crcs;
  const bool is_last = segment + 1 == file.parts;
  for (std::size_t data = is_last || segment == 0 ? 1 : segment - 1; data < segment; data += 2)
    data_crcs.push_back(is_made(file, data) ? crc32(0, as_bytes(steps)) : crcs[data]);
  if (file.zip && segment > 0) return file.zip->literal(segment, data_crcs);
  TENPLEX_ASSIGN_OR_RETURN(const TorchObject object, object_of(file));
  return object.zip.literal(segment, data_crcs);
}

}  // namespace
}  // namespace deepspeed

std::unique_ptr<CheckpointWriter> make_deepspeed_writer() { return std::make_unique<deepspeed::UniversalWriter>(); }

}  // namespace tenplex
