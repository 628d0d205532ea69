// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/output_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "tenplex/base/checked.h"
#include "tenplex/formats/dcp/cover.h"
#include "tenplex/formats/manifest/side_data.h"
#include "tenplex/formats/state/flatten.h"

namespace tenplex::dcp {
namespace {

constexpr std::int64_t kNotWritten = -1;
constexpr std::int32_t kOwnFile = -1;  // as OutputItem::file, until files are numbered

class OutputBuilder {
 public:
  OutputBuilder(const WriteRequest& request, const ItemLayouts& layouts, const FolderContents& contents)
      : request_(request), target_(*request.target), layouts_(layouts), contents_(contents) {
    output_.items.target = request.target;
  }
  Result<Output> run();

 private:
  Result<void> check_root() const;
  Result<void> find_leaves();
  Result<void> check_no_storages() const;
  void take_contents();
  void add_tensor_leaf(TensorId tensor);
  void add_leaf(const OutputLeaf& leaf, NodeId node);
  Result<void> add_byte_item(OutputLeaf* leaf, std::uint32_t number);
  Result<void> add_tensor(OutputLeaf* leaf, std::uint32_t number);
  Result<void> check_cover(TensorId tensor, std::int64_t items) const;
  void add_item(std::uint32_t leaf, OutputItem item, std::int64_t bytes);
  Result<std::int64_t> length_of(DType dtype, const Dims& extent);
  std::int32_t lightest(const std::vector<DeviceId>& devices) const;
  DeviceId owner_of(const std::string& name) const;
  Result<void> place_items();
  Result<void> place_tensor(std::uint32_t number, std::int64_t* first);
  void number_files();

  const WriteRequest& request_;
  const Collection& target_;
  const ItemLayouts& layouts_;
  const FolderContents& contents_;
  Output output_;
  std::vector<std::int64_t> device_bytes_;
  std::vector<std::int64_t> dims_;  // boxes of one tensor
  std::unordered_map<std::string_view, DeviceId> owners_;
  // The last answer of length_of(): neighbours are mostly alike.
  DType last_dtype_ = DType::kBool;
  Dims last_extent_;
  std::int64_t last_length_ = -1;
};

void OutputBuilder::add_leaf(const OutputLeaf& leaf, NodeId node) {
  output_.items.leaves.push_back(leaf);
  output_.nodes.push_back(node);
}

// torch.distributed.checkpoint.save() takes no list, and torch's own readers build a dict from the names "0", "1", ….
Result<void> OutputBuilder::check_root() const {
  const StateGraph& graph = request_.source->state;
  const LeafList& tree = output_.items.tree;
  const bool is_leaf = tree.size() == 1 && tree.node(0) == graph.root;
  if (graph[graph.root].kind != NodeKind::kList || is_leaf) return {};
  return unsupported(
      "a dcp folder holds a dict at the top, and the source is a list: write another format (torch, safetensors), or "
      "put "
      "it into a dict before it is saved");
}

// A stored item with one is refused by our reader: what shares the storage with it lies in other items.
Result<void> OutputBuilder::check_no_storages() const {
  const StateGraph& graph = contents_.graph != nullptr ? *contents_.graph : request_.source->state;
  const auto holds_one = [&](std::span<const NodeId> nodes) {
    const std::vector<NodeId> inside = layouts_.tensors_inside(nodes);
    return std::any_of(inside.begin(), inside.end(), [&](NodeId id) { return graph[id].kind == NodeKind::kStorage; });
  };
  const std::span<const NodeId> listed = std::span(output_.nodes).first(output_.items.listed);
  if (graph.root == kNoNode || !holds_one(listed)) return {};
  for (std::size_t i = 0; i < listed.size(); ++i)
    if (holds_one(listed.subspan(i, 1)))
      return unsupported(fmt::format(
          "'{}' is or holds a bare torch storage, which a dcp folder has no place for: write another format "
          "(torch, safetensors), or make it a tensor before it is saved",
          output_.items.name(i)));
  return {};
}

Result<void> OutputBuilder::find_leaves() {
  const StateGraph& graph = request_.source->state;
  const std::span<const TensorInfo> tensors = target_.tensors();
  std::vector<bool> named(tensors.size(), false);
  if (graph.root != kNoNode) {
    TENPLEX_ASSIGN_OR_RETURN(output_.items.tree, flatten(graph));
    TENPLEX_TRY(check_root());
    const LeafList& tree = output_.items.tree;
    output_.items.leaves.reserve(tree.size());
    output_.nodes.reserve(tree.size());
    for (std::size_t leaf = 0; leaf < tree.size(); ++leaf) {
      OutputLeaf out;
      const NodeId node = tree.node(leaf);
      const bool is_tensor = graph[node].kind == NodeKind::kTensor;
      if (is_tensor) {
        const TensorView view = graph.view(node);
        out.is_tensor = true;
        out.tensor = view.tensor;
        out.requires_grad = view.requires_grad;
        named[view.tensor.index()] = true;
      }
      add_leaf(out, is_tensor ? kNoNode : node);
    }
    for (const NodeId node : layouts_.tensors_inside(output_.nodes)) named[graph.view(node).tensor.index()] = true;
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!named[i]) add_tensor_leaf(TensorId(i));
  }
  output_.items.listed = output_.items.leaves.size();
  return {};
}

void OutputBuilder::add_tensor_leaf(TensorId tensor) {
  OutputLeaf out;
  out.is_tensor = true;
  out.tensor = tensor;
  out.name_of = tensor;
  add_leaf(out, kNoNode);
}

void OutputBuilder::take_contents() {
  OutputItems& items = output_.items;
  items.has_paths = false;
  for (const NamedObject& object : contents_.objects) {
    items.object_names.push_back(object.name);
    owners_[object.name] = object.owner;
    add_leaf({}, object.node);
  }
  for (const TensorId tensor : contents_.tensors) add_tensor_leaf(tensor);
  items.listed = items.leaves.size();
  if (contents_.own_file) add_leaf({}, contents_.own_file->node);
}

DeviceId OutputBuilder::owner_of(const std::string& name) const {
  const auto found = owners_.find(name);
  return found == owners_.end() ? DeviceId(0) : found->second;
}

std::int32_t OutputBuilder::lightest(const std::vector<DeviceId>& devices) const {
  const auto less = [&](DeviceId a, DeviceId b) { return device_bytes_[a.index()] < device_bytes_[b.index()]; };
  return devices.empty() ? 0 : std::min_element(devices.begin(), devices.end(), less)->value();
}

void OutputBuilder::add_item(std::uint32_t leaf, OutputItem item, std::int64_t bytes) {
  if (item.file != kOwnFile) device_bytes_[static_cast<std::size_t>(item.file)] += bytes;
  output_.items.items.push_back(item);
  output_.leaf_of_item.push_back(leaf);
}

Result<void> OutputBuilder::add_byte_item(OutputLeaf* leaf, std::uint32_t number) {
  OutputItem item;
  const bool listed = number < output_.items.listed;
  TENPLEX_ASSIGN_OR_RETURN(
      const TorchObject object,
      layouts_.object(output_.nodes[number], listed ? kArchiveFolder : contents_.own_file->top_folder));
  item.length = object.zip.size_bytes();
  item.file = listed ? owner_of(output_.items.name(number)).value() : kOwnFile;
  leaf->first_item = static_cast<std::uint32_t>(output_.items.items.size());
  leaf->item_count = 1;
  add_item(number, item, item.length);
  return {};
}

Result<std::int64_t> OutputBuilder::length_of(DType dtype, const Dims& extent) {
  if (last_length_ >= 0 && dtype == last_dtype_ && extent == last_extent_) return std::int64_t{last_length_};
  TENPLEX_ASSIGN_OR_RETURN(last_length_, layouts_.tensor_length(dtype, extent));
  last_dtype_ = dtype;
  last_extent_ = extent;
  return std::int64_t{last_length_};
}

Result<void> OutputBuilder::check_cover(TensorId tensor, std::int64_t items) const {
  const Dims& shape = target_.tensors()[tensor.index()].shape;
  const BoxList boxes(shape.rank(), static_cast<std::size_t>(items), dims_);
  const std::optional<CoverFault> fault = find_cover_fault(shape, boxes);
  if (!fault) return {};
  if (fault->missing) return invalid_argument(fmt::format("no shard of the target holds {}", to_string(fault->box)));
  return unsupported(
      fmt::format("different shards of the target both hold {}, DCP can store an element once", to_string(fault->box)));
}

Result<void> OutputBuilder::add_tensor(OutputLeaf* leaf, std::uint32_t number) {
  const TensorInfo& tensor = target_.tensors()[leaf->tensor.index()];
  leaf->first_item = static_cast<std::uint32_t>(output_.items.items.size());
  dims_.clear();
  SubTensor shard;
  std::vector<DeviceId> devices;
  const std::int64_t shards = target_.shard_count(leaf->tensor);
  for (std::int64_t index = 0; index < shards; ++index) {
    target_.shard(leaf->tensor, index, &shard);
    std::int32_t device = -1;
    for (std::size_t piece = 0; piece < shard.pieces.size(); ++piece) {
      const Box& box = shard.pieces[piece].box;
      if (box.empty()) continue;
      if (device < 0) {
        target_.holders(leaf->tensor, index, &devices);
        device = lightest(devices);
      }
      dims_.insert(dims_.end(), box.offset.begin(), box.offset.end());
      dims_.insert(dims_.end(), box.extent.begin(), box.extent.end());
      OutputItem item;
      item.shard = index;
      item.piece = static_cast<std::int32_t>(piece);
      item.file = device;
      TENPLEX_ASSIGN_OR_RETURN(item.length, length_of(tensor.dtype, box.extent));
      add_item(number, item, item.length);
    }
  }
  leaf->item_count = static_cast<std::uint32_t>(output_.items.items.size()) - leaf->first_item;
  TENPLEX_TRY(check_cover(leaf->tensor, leaf->item_count));
  if (leaf->item_count > 0) return {};
  OutputItem item;
  item.shard = OutputItem::kWholeEmpty;
  TENPLEX_ASSIGN_OR_RETURN(item.length, length_of(tensor.dtype, tensor.shape));
  leaf->item_count = 1;
  add_item(number, item, item.length);
  return {};
}

// Byte items first, then tensors, both in the order of the leaves; offsets follow.
Result<void> OutputBuilder::place_items() {
  std::vector<OutputLeaf>& leaves = output_.items.leaves;
  output_.stored_as = find_aliases(*request_.source, target_);
  const std::vector<TensorId>& same = output_.stored_as;
  std::vector<std::int64_t> written(target_.tensors().size(), kNotWritten);
  std::size_t expected = 0;
  for (const OutputLeaf& leaf : leaves)
    expected += leaf.is_tensor ? static_cast<std::size_t>(target_.shard_count(leaf.tensor)) : 1;
  output_.items.items.reserve(expected);
  output_.leaf_of_item.reserve(expected);
  for (std::uint32_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].is_tensor) continue;
    if (auto added = add_byte_item(&leaves[i], i); !added) {
      const bool listed = i < output_.items.listed;
      return std::move(added).error().with_context(
          fmt::format("object '{}'", listed ? output_.items.name(i) : contents_.own_file->path));
    }
  }
  // Those that others are stored as come first.
  for (const bool alias : {false, true}) {
    for (std::uint32_t i = 0; i < leaves.size(); ++i) {
      if (leaves[i].is_tensor && (same[leaves[i].tensor.index()] != leaves[i].tensor) == alias) {
        TENPLEX_TRY(place_tensor(i, &written[same[leaves[i].tensor.index()].index()]));
      }
    }
  }
  return {};
}

// `*first` is the first leaf that holds the same tensor, if there was one.
Result<void> OutputBuilder::place_tensor(std::uint32_t number, std::int64_t* first) {
  OutputLeaf& leaf = output_.items.leaves[number];
  if (*first != kNotWritten) {
    const OutputLeaf& before = output_.items.leaves[static_cast<std::size_t>(*first)];
    if (before.requires_grad == leaf.requires_grad || target_.alias_of(leaf.tensor)) {
      leaf.first_item = before.first_item;
      leaf.item_count = before.item_count;
      // Only the one that a layout ties it to has shards.
      if (target_.alias_of(leaf.tensor)) leaf.tensor = before.tensor;
      return {};
    }
  } else {
    *first = number;
  }
  if (auto added = add_tensor(&leaf, number); !added) {
    return std::move(added).error().with_context(fmt::format("tensor '{}'", output_.items.name(number)));
  }
  return {};
}

// Devices become files; a device that writes nothing has none.
void OutputBuilder::number_files() {
  std::vector<std::int32_t> file_of(device_bytes_.size(), -1);
  std::vector<std::int64_t> end;
  for (std::size_t device = 0; device < device_bytes_.size(); ++device) {
    if (device_bytes_[device] == 0) continue;
    file_of[device] = static_cast<std::int32_t>(output_.items.files.size());
    output_.items.files.push_back(fmt::format("__{}_0.distcp", device));
  }
  for (const std::string& path : output_.items.files) output_.files.push_back({path, {}});
  end.resize(output_.items.files.size(), 0);
  for (std::uint32_t i = 0; i < output_.items.items.size(); ++i) {
    OutputItem& item = output_.items.items[i];
    if (item.file == kOwnFile) {
      item.file = static_cast<std::int32_t>(output_.files.size());
      output_.files.push_back({contents_.own_file->path, {i}});
      continue;
    }
    item.file = file_of[static_cast<std::size_t>(item.file)];
    item.offset = end[static_cast<std::size_t>(item.file)];
    end[static_cast<std::size_t>(item.file)] += item.length;
    output_.files[static_cast<std::size_t>(item.file)].items.push_back(i);
  }
}

Result<Output> OutputBuilder::run() {
  device_bytes_.assign(static_cast<std::size_t>(std::max(target_.device_count(), 1)), 0);
  for (const ObjectInfo& object : target_.objects()) owners_.emplace(object.name, object.owner);
  if (contents_.graph != nullptr) {
    take_contents();
  } else {
    TENPLEX_TRY(find_leaves());
  }
  TENPLEX_TRY(check_no_storages());
  TENPLEX_TRY(place_items());
  if (output_.items.items.size() > std::numeric_limits<std::uint32_t>::max()) {
    return unsupported("more than 2^32 chunks");
  }
  number_files();
  return std::move(output_);
}

}  // namespace

Result<Output> build_output(const WriteRequest& request, const ItemLayouts& layouts, const FolderContents& contents) {
  return OutputBuilder(request, layouts, contents).run();
}

}  // namespace tenplex::dcp
