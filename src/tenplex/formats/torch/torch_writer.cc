// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// One segment per part of the zip layout: even segments are literal, odd ones are storages. A storage that is exactly
// one contiguous tensor is a kShard segment (kPiece, if its layout pads it), any other a kStorage segment.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "tenplex/base/counted.h"
#include "tenplex/formats/stale_hint.h"
#include "tenplex/formats/state/object_groups.h"
#include "tenplex/formats/state/row_major.h"
#include "tenplex/formats/torch/torch_format.h"
#include "tenplex/formats/torch/torch_pickle_writer.h"
#include "tenplex/formats/torch/torch_side.h"
#include "tenplex/formats/torch/zip_layout.h"
#include "tenplex/formats/whole_tensor.h"

namespace tenplex {
namespace {

// torch.save takes the folder from the file's name, unless that has characters outside ASCII.
std::string folder_of(std::string_view target_name) {
  std::string_view stem = target_name.substr(0, target_name.rfind('.'));
  const auto plain = [](char letter) { return letter > ' ' && letter < 0x7f && letter != '/' && letter != '\\'; };
  if (stem.empty() || stem == "." || stem == ".." || !std::all_of(stem.begin(), stem.end(), plain)) return "archive";
  return std::string(stem);
}

// Without a state tree: an OrderedDict of all tensors, as a module's state_dict() is one. Aliases share a storage.
StateGraph flat_state(std::span<const TensorInfo> tensors, std::span<const std::pair<TensorId, TensorId>> aliases) {
  StateGraph graph;
  std::vector<std::uint32_t> storages(tensors.size());
  std::iota(storages.begin(), storages.end(), 0);
  for (const auto& [alias, stored] : aliases) storages[alias.index()] = storages[stored.index()];
  ObjectParts dict;
  dict.callable = graph.add_global("collections", "OrderedDict");
  dict.arguments = graph.add_tuple({});
  for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
    dict.dict_items.push_back(graph.add_string(tensors[tensor].name));
    TensorView view;
    view.tensor = TensorId(tensor);
    view.storage = storages[tensor];
    view.strides = row_major_strides(tensors[tensor].shape);
    dict.dict_items.push_back(graph.add_tensor(std::move(view)));
  }
  graph.root = graph.add_object(std::move(dict));
  return graph;
}

Result<void> check_whole(const Collection& target) {
  if (target.device_count() != 1)
    return unsupported(fmt::format(
        "a torch file holds whole tensors of one device, and the target has {}; use --format dcp or safetensors",
        counted(target.device_count(), "device")));
  for (std::size_t index = 0; index < target.tensors().size(); ++index)
    if (!is_whole(target, TensorId(index)))
      return unsupported(fmt::format("tensor '{}' is cut in the target layout; a torch file holds whole tensors",
                                     target.tensors()[index].name));
  return {};
}

class TorchWriter : public CheckpointWriter {
 public:
  Result<OutputPlan> prepare(const WriteRequest& request) override {
    const CheckpointInfo& source = *request.source;
    tensors_ = request.target->tensors();
    target_ = request.target;
    TENPLEX_TRY(check_whole(*target_));
    if (!source.extra_files.empty() && request.keep_all_files)
      return unsupported(
          fmt::format("a torch file has no place for '{}' and {} files in all beside the tensors; --drop-extra-files "
                      "leaves them out",
                      source.extra_files[0].path, source.extra_files.size()));
    state_ = &source.state;
    if (source.state.root == kNoNode) use(flat_state(tensors_, source.aliases));
    tie_leaves(*target_);
    if (own_state_) split_unlike_objects(tensors_, &*own_state_);
    TENPLEX_ASSIGN_OR_RETURN(TorchPickleWriter pickle, TorchPickleWriter::make(*state_, state_->root, tensors_));
    TENPLEX_ASSIGN_OR_RETURN(std::string bytes, pickle.write());
    TENPLEX_TRY(check_all_written(pickle, source));
    TENPLEX_TRY(check_casts(pickle, source));
    OutputPlan plan =
        lay_out(pickle, std::move(bytes), encode_torch_side(source.metadata), folder_of(request.target_name));
    plan.stored_as = stored_as_;
    return plan;
  }

  Result<std::string> literal(std::int32_t file, std::size_t segment,
                              std::span<const std::uint32_t> crcs) const override {
    TENPLEX_CHECK(file == 0 && segment % 2 == 0 && segment < layout_->part_count());
    TENPLEX_CHECK(crcs.size() == segment);
    if (segment == 0) {
      TENPLEX_ASSIGN_OR_RETURN(TorchPickleWriter pickle, TorchPickleWriter::make(*state_, state_->root, tensors_));
      TENPLEX_ASSIGN_OR_RETURN(std::string bytes, pickle.write());
      return layout_->first_literal(std::move(bytes));
    }
    const bool is_last = segment + 1 == layout_->part_count();
    std::vector<std::uint32_t> data_crcs;
    for (std::size_t data = is_last ? 1 : segment - 1; data < segment; data += 2) data_crcs.push_back(crcs[data]);
    return layout_->literal(segment, data_crcs);
  }

  bool needs_crcs() const override { return true; }
  std::size_t crcs_needed(std::int32_t file, std::size_t segment) const override {
    static_cast<void>(file);
    return segment + 1 == layout_->part_count() ? segment : std::min<std::size_t>(segment, 1);
  }

  std::vector<StorageView> storage_views(std::int64_t index) const override {
    return shared_[static_cast<std::size_t>(index)];
  }

 private:
  void use(StateGraph state) { state_ = &own_state_.emplace(std::move(state)); }

  // A pickle may also have storages that nothing leads to; those are of no tensor.
  bool is_of_tensor(NodeId id) const {
    const NodeKind kind = (*state_)[id].kind;
    return (kind == NodeKind::kTensor || kind == NodeKind::kStorage) &&
           state_->view(id).tensor.index() < tensors_.size();
  }

  // What the layout ties becomes one storage: the leaves of the tied tensor are further views of the other one.
  void tie_leaves(const Collection& target) {
    std::unordered_map<TensorId, TensorView> stored;
    for (NodeId id = 0; id < state_->size(); ++id)
      if (is_of_tensor(id)) stored.try_emplace(state_->view(id).tensor, state_->view(id));
    for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor)
      stored_as_.push_back(target.alias_of(TensorId(tensor)).value_or(TensorId(tensor)));
    for (NodeId id = 0; id < state_->size(); ++id) {
      if (!is_of_tensor(id)) continue;
      TensorView view = state_->view(id);
      const auto found = stored.find(stored_as_[view.tensor.index()]);
      if (found == stored.end() || found->first == view.tensor) continue;
      if (!own_state_) use(*state_);
      view.tensor = found->first;
      view.storage = found->second.storage;
      view.offset = found->second.offset;
      view.strides = found->second.strides;
      own_state_->set_view(id, view);
    }
  }

  // The tree must lead to every tensor: what it does not name would be lost.
  Result<void> check_all_written(const TorchPickleWriter& pickle, const CheckpointInfo& source) const {
    std::vector<bool> written(tensors_.size(), false);
    for (const OutputStorage& storage : pickle.storages())
      for (const NodeId node : storage.views) written[state_->view(node).tensor.index()] = true;
    for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor)
      if (!written[stored_as_[tensor].index()])
        return unsupported(
            fmt::format("tensor '{}' is not in the source's state tree{}", tensors_[tensor].name, stale_hint(source)));
    return {};
  }

  // Views of several element types keep their places only while no type changes its size.
  Result<void> check_casts(const TorchPickleWriter& pickle, const CheckpointInfo& source) const {
    for (const OutputStorage& storage : pickle.storages()) {
      const TensorId first = state_->view(storage.views[0]).tensor;
      for (const NodeId node : storage.views) {
        const TensorId tensor = state_->view(node).tensor;
        if (tensor.index() >= source.tensors.size()) continue;
        const DType before = source.tensors[tensor.index()].dtype;
        const DType after = tensors_[tensor.index()].dtype;
        const bool mixed = before != source.tensors[first.index()].dtype || after != tensors_[first.index()].dtype;
        if (mixed && bit_width(before) != bit_width(after))
          return unsupported(
              fmt::format("tensor '{}' shares memory with '{}' of another dtype and so cannot be converted to {}",
                          tensors_[tensor.index()].name, tensors_[first.index()].name, to_string(after)));
      }
    }
    return {};
  }

  OutputPlan lay_out(const TorchPickleWriter& pickle, std::string bytes, std::string side, const std::string& folder) {
    layout_.emplace(folder);
    layout_->begin(std::move(bytes), std::move(side));
    for (const OutputStorage& storage : pickle.storages()) layout_->add_data(storage.size_bytes);
    layout_->close();
    layout_->take_pickle();  // large where objects are; literal() makes it again
    OutputPlan plan;
    plan.single_file = true;
    OutputFile file;
    for (std::size_t part = 0; part < layout_->part_count(); ++part) {
      Segment segment;
      if (part % 2 == 1) segment = data_segment(pickle, pickle.storages()[layout_->data_number(part)]);
      segment.size_bytes = layout_->part_size(part);
      file.segments.push_back(segment);
    }
    plan.files.push_back(std::move(file));
    return plan;
  }

  Segment data_segment(const TorchPickleWriter& pickle, const OutputStorage& storage) {
    const TensorView first = state_->view(storage.views[0]);
    const TensorInfo& tensor = tensors_[first.tensor.index()];
    const bool whole = std::all_of(storage.views.begin(), storage.views.end(), [&](NodeId node) {
      return state_->view(node).tensor == first.tensor && is_contiguous(pickle, node);
    });
    if (whole && storage.size_bytes == size_bytes(tensor)) return whole_segment(*target_, first.tensor);
    Segment segment;
    segment.kind = Segment::Kind::kStorage;
    segment.tensor = first.tensor;
    segment.shard = static_cast<std::int64_t>(shared_.size());
    std::vector<StorageView>& views = shared_.emplace_back();
    std::unordered_set<TensorId> seen;
    for (const NodeId node : storage.views)
      if (seen.insert(state_->view(node).tensor).second)
        views.push_back({state_->view(node).tensor, pickle.offset_in_storage(node), state_->view(node).strides});
    return segment;
  }

  bool is_contiguous(const TorchPickleWriter& pickle, NodeId node) const {
    const TensorView view = state_->view(node);
    return is_row_major(view.strides, tensors_[view.tensor.index()].shape) && pickle.offset_in_storage(node) == 0;
  }

  const Collection* target_ = nullptr;  // outlives the writer, as do its tensors
  std::span<const TensorInfo> tensors_;
  const StateGraph* state_ = nullptr;  // the source's, which outlives the writer, or own_state_
  std::optional<StateGraph> own_state_;
  std::vector<TensorId> stored_as_;  // as OutputPlan::stored_as
  std::optional<ZipLayout> layout_;
  std::vector<std::vector<StorageView>> shared_;
};

}  // namespace

std::unique_ptr<CheckpointWriter> make_torch_writer() { return std::make_unique<TorchWriter>(); }

Format torch_format() {
  return {"torch", "one .pt file, as torch.save writes it", &detect_torch, &open_torch, &make_torch_writer};
}

}  // namespace tenplex
