// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/manifest/side_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace tenplex {
namespace {

Result<void> read_aliases(JsonReader& json, SideData* side) {
  TENPLEX_TRY(json.begin_object());
  for (;;) {
    std::string_view name;
    TENPLEX_ASSIGN_OR_RETURN(const bool more, json.next_member(&name));
    if (!more) return {};
    TENPLEX_ASSIGN_OR_RETURN(const std::string_view stored, json.string());
    side->aliases.emplace_back(name, stored);
  }
}

Result<void> read_extra_files(JsonReader& json, SideData* side) {
  TENPLEX_TRY(json.begin_array());
  for (;;) {
    TENPLEX_ASSIGN_OR_RETURN(bool more, json.next_element());
    if (!more) return {};
    ExtraFile file;
    TENPLEX_TRY(json.begin_array());
    TENPLEX_ASSIGN_OR_RETURN(more, json.next_element());
    if (!more) return json.fail("an extra file without a path");
    TENPLEX_ASSIGN_OR_RETURN(file.path, json.string());
    TENPLEX_ASSIGN_OR_RETURN(more, json.next_element());
    if (!more) return json.fail("an extra file without a size");
    TENPLEX_ASSIGN_OR_RETURN(file.size_bytes, json.integer());
    TENPLEX_ASSIGN_OR_RETURN(more, json.next_element());
    if (more || file.size_bytes < 0) return json.fail("an extra file is a path and a size");
    if (auto path = checked_join(".", file.path); !path) return json.fail(path.error().message());
    side->extra_files.push_back(std::move(file));
  }
}

}  // namespace

void append_side_members(JsonWriter& json, const SideData& side) {
  if (!side.aliases.empty()) {
    json.key("aliases");
    json.begin_object();
    for (const auto& [name, stored] : side.aliases) {
      json.key(name);
      json.value(stored);
    }
    json.end_object();
  }
  if (!side.extra_files.empty()) {
    json.key("extra_files");
    json.begin_array();
    for (const ExtraFile& file : side.extra_files) {
      json.begin_array();
      json.value(file.path);
      json.value(file.size_bytes);
      json.end_array();
    }
    json.end_array();
  }
  if (!side.state_json.empty()) {
    json.key("state");
    json.raw(side.state_json);
  }
}

Result<bool> read_side_member(JsonReader& json, std::string_view key, SideData* side) {
  if (key == "aliases") {
    TENPLEX_TRY(read_aliases(json, side));
  } else if (key == "extra_files") {
    TENPLEX_TRY(read_extra_files(json, side));
  } else if (key == "state") {
    TENPLEX_ASSIGN_OR_RETURN(side->state_json, json.skip());
  } else {
    return false;
  }
  return true;
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
  std::vector<const TensorView*> views;
  const StateGraph& graph = source.state;
  for (NodeId id = 0; graph.root != kNoNode && id < graph.size(); ++id)
    if (graph[id].kind == NodeKind::kTensor && graph.view(id).tensor.index() < count) views.push_back(&graph.view(id));
  const auto key = [&](const TensorView& view) {
    const TensorInfo& tensor = source.tensors[view.tensor.index()];
    return std::tuple(view.storage, view.offset, tensor.dtype, tensor.shape, view.strides,
                      target.tensors()[view.tensor.index()].dtype, target.geometry_key(view.tensor));
  };
  std::sort(views.begin(), views.end(), [&](const TensorView* a, const TensorView* b) {
    const auto key_a = key(*a);
    const auto key_b = key(*b);
    return key_a < key_b || (!(key_b < key_a) && a->tensor < b->tensor);
  });
  for (std::size_t index = 1; index < views.size(); ++index) {
    const TensorView& before = *views[index - 1];
    const TensorView& view = *views[index];
    if (key(before) == key(view) && volume(source.tensors[view.tensor.index()].shape) > 0)
      same[view.tensor.index()] = same[before.tensor.index()];
  }
  for (std::size_t index = 0; index < count; ++index)
    if (const auto stored = target.alias_of(TensorId(index))) same[index] = *stored;
  // Chains lead to their ends: layouts refuse to tie a tensor twice, so none is longer than this.
  for (std::size_t index = 0; index < count; ++index) same[index] = same[same[index].index()];
  return same;
}

}  // namespace tenplex
