// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/manifest/side_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace tenplex {
namespace {

Result<void> read_mesh(JsonReader& json, LayoutNote* layout) {
  return for_each_element(json, [&]() -> Result<void> {
    auto& [axis, size] = layout->mesh.emplace_back();
    TENPLEX_TRY(read_list(json, &axis, &size));
    if (size < 1) return json.fail(fmt::format("axis '{}' has size {}", axis, size));
    return {};
  });
}

}  // namespace

void append_side_members(JsonWriter& json, const SideData& side) {
  if (!side.aliases.empty()) {
    json.key("aliases");
    append_texts(json, side.aliases);
  }
  if (!side.extra_files.empty()) {
    json.key("extra_files");
    json.begin_array();
    for (const ExtraFile& file : side.extra_files) json.list(file.path, file.size_bytes);
    json.end_array();
  }
  if (!side.state_json.empty()) {
    json.key("state");
    json.raw(side.state_json);
  }
}

Result<void> read_side_member(JsonReader& json, std::string_view key, SideData* side) {
  if (key == "aliases") return read_value(json, &side->aliases);
  if (key == "extra_files")
    return for_each_element(json, [&] {
      ExtraFile& file = side->extra_files.emplace_back();
      return read_path_and_size(json, &file.path, &file.size_bytes);
    });
  TENPLEX_ASSIGN_OR_RETURN(const std::string_view value, json.skip());
  if (key == "state") side->state_json = value;
  return {};
}

void append_layout(JsonWriter& json, const LayoutNote& layout) {
  if (layout == LayoutNote{}) return;
  json.key("layout");
  json.begin_object();
  json.member("name", layout.name);
  json.member("text", layout.text);
  json.key("mesh");
  json.begin_array();
  for (const auto& [axis, size] : layout.mesh) json.list(axis, size);
  json.end_array();
  json.end_object();
}

Result<void> read_layout(JsonReader& json, LayoutNote* layout) {
  return for_each_member(json, [&](std::string_view key) {
    if (key == "name") return read_value(json, &layout->name);
    if (key == "text") return read_value(json, &layout->text);
    if (key == "mesh") return read_mesh(json, layout);
    return skip_value(json);
  });
}

Result<void> read_path_and_size(JsonReader& json, std::string* path, std::int64_t* size_bytes) {
  TENPLEX_TRY(read_list(json, path, size_bytes));
  if (auto checked = checked_join(".", *path); !checked) return json.fail(checked.error().message());
  if (*size_bytes < 0) return json.fail(fmt::format("'{}' has {} bytes", *path, *size_bytes));
  return {};
}

Result<void> add_alias_tensors(const SideData& side, std::vector<TensorInfo>* tensors, std::vector<TensorId>* sources) {
  if (side.aliases.empty()) return {};
  std::unordered_map<std::string_view, std::size_t> names;
  for (std::size_t index = 0; index < tensors->size(); ++index) names.emplace((*tensors)[index].name, index);
  std::vector<TensorInfo> added;
  for (const auto& [name, stored] : side.aliases) {
    const auto found = names.find(stored);
    if (found == names.end())
      return corrupt(fmt::format("tensor '{}' is said to be '{}', which is not stored", name, stored));
    if (names.contains(name)) return corrupt(fmt::format("tensor '{}' is stored and an alias of '{}'", name, stored));
    added.push_back({name, (*tensors)[found->second].dtype, (*tensors)[found->second].shape});
    sources->push_back(TensorId(found->second));
  }
  tensors->insert(tensors->end(), std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
  return {};
}

std::vector<TensorId> find_aliases(const CheckpointInfo& source, const Collection& target) {
  const std::size_t count = target.tensors().size();
  std::vector<TensorId> same(count);
  for (std::size_t index = 0; index < count; ++index) same[index] = TensorId(index);
  std::vector<NodeId> nodes;
  const StateGraph& graph = source.state;
  for (NodeId id = 0; graph.root != kNoNode && id < graph.size(); ++id)
    if (graph[id].kind == NodeKind::kTensor && graph.view(id).tensor.index() < count) nodes.push_back(id);
  const auto key = [&](const TensorView& view) {
    const TensorInfo& tensor = source.tensors[view.tensor.index()];
    return std::tuple(view.storage, view.offset, tensor.dtype, tensor.shape, view.strides,
                      target.tensors()[view.tensor.index()].dtype, target.geometry_key(view.tensor));
  };
  std::sort(nodes.begin(), nodes.end(), [&](NodeId a, NodeId b) {
    const TensorView view_a = graph.view(a);
    const TensorView view_b = graph.view(b);
    const auto key_a = key(view_a);
    const auto key_b = key(view_b);
    return key_a < key_b || (!(key_b < key_a) && view_a.tensor < view_b.tensor);
  });
  for (std::size_t index = 1; index < nodes.size(); ++index) {
    const TensorView before = graph.view(nodes[index - 1]);
    const TensorView view = graph.view(nodes[index]);
    if (key(before) == key(view) && volume(source.tensors[view.tensor.index()].shape) > 0)
      same[view.tensor.index()] = same[before.tensor.index()];
  }
  for (const auto& [alias, stored] : source.aliases) {
    const TensorInfo& tensor = target.tensors()[alias.index()];
    if (tensor.dtype == target.tensors()[stored.index()].dtype && volume(tensor.shape) > 0 &&
        target.geometry_key(alias) == target.geometry_key(stored))
      same[alias.index()] = stored;
  }
  for (std::size_t index = 0; index < count; ++index)
    if (const auto stored = target.alias_of(TensorId(index))) same[index] = *stored;
  // Chains lead to their ends: layouts refuse to tie a tensor twice, so none is longer than this.
  for (std::size_t index = 0; index < count; ++index) same[index] = same[same[index].index()];
  return same;
}

JsonTexts alias_names(const Collection& collection, const std::vector<TensorId>& aliases) {
  JsonTexts names;
  for (std::size_t index = 0; index < aliases.size(); ++index)
    if (aliases[index] != TensorId(index))
      names.emplace_back(collection.tensors()[index].name, collection.tensors()[aliases[index].index()].name);
  return names;
}

}  // namespace tenplex
