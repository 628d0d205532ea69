// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/state_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "tenplex/formats/dcp/shared_nodes.h"
#include "tenplex/formats/dcp/stored_item.h"
#include "tenplex/formats/state/flatten.h"
#include "tenplex/formats/state/unflattener.h"

namespace tenplex::dcp {
namespace {

std::string joined(std::span<const PathStep> path) {
  std::string name;
  for (const PathStep& step : path) {
    if (&step != path.data()) name += '.';
    name += step.is_index ? fmt::to_string(step.index) : step.key;
  }
  return name;
}

class StateBuilder {
 public:
  explicit StateBuilder(const StateInput& input)
      : in_(input),
        tables_(input.tables),
        has_skeleton_(!input.side.side.state_json.empty()),
        has_whole_tree_(has_skeleton_ && !input.dialect.common_key.empty()),
        unflattener_(built_.graph, tables_.tensors.size() + tables_.byte_items.size()) {}

  Result<BuiltState> run();

 private:
  enum class Kind : std::uint8_t { kNone, kTensor, kObject, kDone };
  struct Record {
    Kind kind = Kind::kNone;
    std::uint32_t index = 0;
  };

  // Names are atoms, numbered densely.
  Record& record(NodeId atom) {
    const std::size_t index = atom - kFirstAtom;
    if (index >= records_.size()) records_.resize(index + 1);
    return records_[index];
  }
  void index_names();
  Result<void> add_planned(std::size_t path);
  Result<void> add_at_top(NodeId name);
  Result<void> add_leaf(NodeId name);
  Result<NodeId> tensor_node(std::uint32_t index);
  bool is_flat() const;
  bool is_common(const ByteRecord& record) const;
  Result<NodeId> object_node(const ItemRange& range, bool in_list);
  Result<NodeId> common_node();
  Result<void> add_common();
  Result<void> adopt_tensors(const StoredItem& item, const ItemRange& range, NodeId base);
  Result<void> add_leaves();
  bool is_inner(NodeId id) const;
  void number_inner_tensors();
  Result<void> name_inner_tensors();

  const StateInput& in_;
  const MetadataTables& tables_;
  std::vector<Record> records_;
  bool has_skeleton_;
  bool has_whole_tree_;               // the objects of the files are not needed
  std::vector<SkeletonLeaf> leaves_;  // for the skeleton
  std::vector<PathStep> path_;        // of the leaf at hand
  std::uint32_t next_storage_ = 0;    // of tensors inside objects, numbered apart until number_inner_tensors()
  std::uint32_t next_object_ = 0;
  bool has_common_ = false;  // and it is not empty
  BuiltState built_;
  Unflattener unflattener_;
};

void StateBuilder::index_names() {
  for (std::uint32_t i = 0; i < tables_.tensors.size(); ++i) record(tables_.tensors[i].name) = {Kind::kTensor, i};
  for (std::uint32_t i = 0; i < tables_.byte_items.size(); ++i) record(tables_.byte_items[i].name) = {Kind::kObject, i};
}

Result<NodeId> StateBuilder::tensor_node(std::uint32_t index) {
  TensorView view;
  view.tensor = TensorId(static_cast<std::size_t>(index));
  view.storage = index;
  view.strides = row_major_strides(in_.catalog.tensors[index].shape);
  view.requires_grad = tables_.tensors[index].requires_grad;
  return built_.graph.add_tensor(view);
}

// The tensors of an object become tensors of the checkpoint; their nodes were grafted at `base`.
Result<void> StateBuilder::adopt_tensors(const StoredItem& item, const ItemRange& range, NodeId base) {
  const std::size_t first = in_.catalog.tensors.size() + built_.inner.size();
  for (std::size_t i = 0; i < item.pickle.nodes.size(); ++i) {
    const TensorInfo& tensor = item.pickle.tensors[i];
    const DeviceId device = device_of_file(in_.catalog.files[static_cast<std::size_t>(range.file)]);
    built_.inner.push_back(
        {tensor, {TensorId(first + i), device, range.file, range.offset, Box::whole(tensor.shape)}, item.location(i)});
  }
  std::uint32_t last_object = next_object_;
  for (NodeId id = base; id < built_.graph.size(); ++id) {
    const NodeKind kind = built_.graph[id].kind;
    if (kind == NodeKind::kStorage) return unsupported("it holds a bare torch storage");
    if (kind != NodeKind::kTensor) continue;
    TensorView view = built_.graph.view(id);
    view.storage += next_storage_;
    if (view.object != 0) {
      view.object += next_object_;
      last_object = std::max(last_object, view.object);
    }
    view.tensor = TensorId(first + view.tensor.index());
    built_.graph.set_view(id, view);
  }
  next_storage_ += static_cast<std::uint32_t>(item.storages.size());
  next_object_ = last_object;
  return {};
}

Result<NodeId> StateBuilder::object_node(const ItemRange& range, bool in_list) {
  TENPLEX_ASSIGN_OR_RETURN(StoredItem item,
                           read_item(in_.pool[static_cast<std::size_t>(range.file)], range, in_.max_pickle_bytes));
  const NodeId root = item.pickle.state.root;
  const NodeId base = graft(std::move(item.pickle.state), &built_.graph);
  TENPLEX_TRY(adopt_tensors(item, range, base));
  if (!in_list) return base + root;
  const Node& list = built_.graph[base + root];
  if (list.kind != NodeKind::kList || list.children.size() != 1)
    return corrupt("expected a list of one object in its item");
  return NodeId{list.children.front()};
}

bool StateBuilder::is_common(const ByteRecord& record) const {
  return !in_.common_file && !in_.dialect.common_item.empty() && tables_.text(record.name) == in_.dialect.common_item;
}

Result<NodeId> StateBuilder::common_node() {
  if (in_.common_file) return object_node(*in_.common_file, false).with_context(in_.dialect.common_file);
  for (std::uint32_t i = 0; i < tables_.byte_items.size(); ++i) {
    if (!is_common(tables_.byte_items[i])) continue;
    record(tables_.byte_items[i].name).kind = Kind::kDone;
    return object_node(in_.catalog.byte_items[i], in_.dialect.objects_in_lists).with_context(in_.dialect.common_item);
  }
  return corrupt(fmt::format("incomplete: there is no object '{}'", in_.dialect.common_item));
}

// What is not cut, at the top.
Result<void> StateBuilder::add_common() {
  TENPLEX_ASSIGN_OR_RETURN(const NodeId node, common_node());
  if (built_.graph[node].kind != NodeKind::kDict)
    return corrupt(fmt::format("expected a dict of what is not cut in '{}'",
                               in_.common_file ? in_.dialect.common_file : in_.dialect.common_item));
  path_.assign(1, PathStep{});
  path_[0].key = in_.dialect.common_key;
  has_common_ = !built_.graph[node].children.empty();
  return unflattener_.place(path_, node);
}

// At path_.
Result<void> StateBuilder::add_leaf(NodeId name) {
  const Record found = std::exchange(record(name), {Kind::kDone, 0});
  if (found.kind == Kind::kNone || found.kind == Kind::kDone) return {};
  // Where tenplex.json has the tree, it has the tensors too.
  if (has_whole_tree_ || (found.kind == Kind::kTensor && has_skeleton_)) return {};
  TENPLEX_ASSIGN_OR_RETURN(const NodeId node,
                           found.kind == Kind::kTensor
                               ? tensor_node(found.index)
                               : object_node(in_.catalog.byte_items[found.index], in_.dialect.objects_in_lists));
  if (!has_skeleton_) return unflattener_.place(path_, node);
  leaves_.push_back({tables_.text(name), node});
  return {};
}

Result<void> StateBuilder::add_planned(std::size_t path) {
  TENPLEX_TRY(tables_.paths.read(path, tables_.document, &path_));
  const NodeId name = tables_.paths.name(path);
  if (const std::string text = joined(path_); text != tables_.text(name))
    return corrupt(fmt::format("its path in planner_data is that of '{}'", text));
  return add_leaf(name);
}

Result<void> StateBuilder::add_at_top(NodeId name) {
  path_.assign(1, PathStep{});
  path_[0].key = tables_.text(name);
  return add_leaf(name);
}

// In the order of planner_data, which is that of the tree; then what it does not name, at the top.
Result<void> StateBuilder::add_leaves() {
  const auto named = [&](NodeId name, Result<void> added) -> Result<void> {
    if (added) return {};
    return std::move(added).error().with_context(fmt::format("'{}'", tables_.text(name)));
  };
  for (std::size_t path = 0; path < tables_.paths.size(); ++path) {
    const NodeId name = tables_.paths.name(path);
    if (tables_.document.kind(name) == NodeKind::kString) TENPLEX_TRY(named(name, add_planned(path)));
  }
  for (const TensorRecord& tensor : tables_.tensors) TENPLEX_TRY(named(tensor.name, add_at_top(tensor.name)));
  for (const ByteRecord& object : tables_.byte_items) TENPLEX_TRY(named(object.name, add_at_top(object.name)));
  return {};
}

bool StateBuilder::is_inner(NodeId id) const {
  return built_.graph[id].kind == NodeKind::kTensor &&
         built_.graph.view(id).tensor.index() >= in_.catalog.tensors.size();
}

// Each object was written on its own: what lies in it shares nothing with the rest, as far as DCP knows.
void StateBuilder::number_inner_tensors() {
  std::uint32_t storage = 0;
  std::uint32_t object = 0;
  const auto count = [&](const TensorView& view) {
    storage = std::max(storage, view.storage + 1);
    object = std::max(object, view.object);
  };
  for (const InnerView& inner : in_.side.inner_views) count(inner.view);
  for (NodeId id = 0; id < built_.graph.size(); ++id) {
    if (built_.graph[id].kind == NodeKind::kTensor && !is_inner(id)) count(built_.graph.view(id));
  }
  for (NodeId id = 0; id < built_.graph.size(); ++id) {
    if (!is_inner(id)) continue;
    TensorView view = built_.graph.view(id);
    view.storage += storage;
    if (view.object != 0) view.object += object;
    built_.graph.set_view(id, view);
  }
}

Result<void> StateBuilder::name_inner_tensors() {
  if (built_.inner.empty()) return {};
  number_inner_tensors();
  TENPLEX_ASSIGN_OR_RETURN(const auto names, tensor_names(built_.graph));
  const std::size_t first = in_.catalog.tensors.size();
  std::unordered_map<std::string_view, const TensorView*> views;
  for (const InnerView& inner : in_.side.inner_views) views.emplace(inner.name, &inner.view);
  for (const auto& [node, name] : names) {
    TensorView view = built_.graph.view(node);
    if (view.tensor.index() < first) continue;
    TensorInfo& tensor = built_.inner[view.tensor.index() - first].tensor;
    tensor.name = name;
    const auto found = views.find(name);
    if (found == views.end()) continue;
    if (found->second->strides.rank() != tensor.shape.rank())
      return corrupt(fmt::format("tensor '{}': {} strides for the shape {}", name, found->second->strides.rank(),
                                 to_string(tensor.shape)));
    view.storage = found->second->storage;
    view.offset = found->second->offset;
    view.strides = found->second->strides;
    view.object = found->second->object;
    built_.graph.set_view(node, view);
  }
  return {};
}

Result<BuiltState> StateBuilder::run() {
  const bool has_common = !in_.dialect.common_key.empty() && !has_whole_tree_;
  if (!has_common && is_flat()) return std::move(built_);
  index_names();
  if (has_common) {
    TENPLEX_TRY(add_common());
    if (is_flat()) return BuiltState();
  }
  TENPLEX_TRY(add_leaves());
  if (!has_skeleton_) {
    built_.graph.root = unflattener_.finish();
  } else {
    TENPLEX_ASSIGN_OR_RETURN(built_.graph.root,
                             restore_skeleton(in_.side, in_.catalog.tensors, leaves_, &built_.graph));
  }
  TENPLEX_TRY(join_shared_nodes(in_.side.shared_nodes, in_.catalog.tensors, &built_));
  TENPLEX_TRY(name_inner_tensors());
  return std::move(built_);
}

bool StateBuilder::is_flat() const {
  if (has_common_ || has_skeleton_) return false;
  for (const ByteRecord& object : tables_.byte_items)
    if (!is_common(object)) return false;
  for (const TensorRecord& tensor : tables_.tensors)
    if (tensor.requires_grad) return false;
  for (std::size_t path = 0; path < tables_.paths.size(); ++path)
    if (!tables_.paths.is_own_name(path)) return false;
  return true;
}

}  // namespace

Result<BuiltState> build_state(const StateInput& input) { return StateBuilder(input).run(); }

}  // namespace tenplex::dcp
