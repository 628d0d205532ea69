// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/rule_collection.h"

#include <fmt/format.h>

#include "tenplex/ptc/geometry_builder.h"
#include "tenplex/ptc/layout_sizes.h"
#include "tenplex/ptc/object_owners.h"
#include "tenplex/ptc/rule_matcher.h"

namespace tenplex {

Result<std::unique_ptr<RuleCollection>> RuleCollection::make(const Layout& layout, const MeshSizes& mesh,
                                                             TensorList tensors, std::vector<std::string> objects,
                                                             const NamedSizes& sizes) {
  std::unique_ptr<RuleCollection> collection(new RuleCollection(layout));
  TENPLEX_ASSIGN_OR_RETURN(collection->meshes_, collection->layout_.make_meshes(mesh));
  for (const TensorInfo& tensor : *tensors) TENPLEX_TRY(check_tensor(tensor));
  collection->tensors_ = std::move(tensors);
  const RuleMatcher matcher(collection->layout_, *collection->tensors_, false);
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<TensorMatch> matches, matcher.match_all());
  for (const TensorMatch& match : matches) collection->rule_lines_.push_back(match.rule->line);
  GeometryBuilder builder(collection->layout_, collection->meshes_, sizes);
  TENPLEX_ASSIGN_OR_RETURN(GeometryBuilder::Geometries geometries, builder.build(*collection->tensors_, matches));
  if (!geometries.real_shapes.empty()) {
    std::vector<TensorInfo> real = *collection->tensors_;
    for (const auto& [index, shape] : geometries.real_shapes) real[index].shape = shape;
    collection->tensors_ = std::make_shared<const std::vector<TensorInfo>>(std::move(real));
  }
  collection->layers_ = geometries.layers;
  collection->geometries_ = std::move(geometries.geometries);
  collection->geometry_of_tensor_ = std::move(geometries.geometry_of_tensor);
  collection->names_ = NameIndex(*collection->tensors_);
  TENPLEX_TRY(collection->resolve_ties());
  TENPLEX_TRY(collection->place_objects(std::move(objects), sizes));
  collection->compute_hash(sizes);
  return collection;
}

std::int64_t RuleCollection::shard_count(TensorId tensor) const {
  return alias_of(tensor) ? 0 : geometry(tensor).shard_count();
}

void RuleCollection::shard(TensorId tensor, std::int64_t index, SubTensor* shard) const {
  TENPLEX_CHECK(index >= 0 && index < shard_count(tensor));
  geometry(tensor).shard(index, shard);
}

void RuleCollection::holders(TensorId tensor, std::int64_t index, std::vector<DeviceId>* devices) const {
  TENPLEX_CHECK(index >= 0 && index < shard_count(tensor));
  geometry(tensor).holders(index, devices);
}

void RuleCollection::shards_of_device(TensorId tensor, DeviceId device, std::vector<std::int64_t>* shards) const {
  shards->clear();
  if (alias_of(tensor)) return;
  const std::int64_t index = geometry(tensor).shard_of_device(device);
  if (index >= 0) shards->push_back(index);
}

std::uint64_t RuleCollection::geometry_key(TensorId tensor) const {
  // Aliases, which have no shards, are all alike.
  return alias_of(tensor) ? geometries_.size() : static_cast<std::uint64_t>(geometry_of_tensor_[tensor.index()]);
}

std::optional<TensorId> RuleCollection::alias_of(TensorId tensor) const {
  if (alias_of_.empty()) return std::nullopt;
  const auto found = alias_of_.find(tensor.value());
  if (found == alias_of_.end()) return std::nullopt;
  return TensorId(found->second);
}

Result<void> RuleCollection::resolve_ties() {
  for (const TieRule& tie : layout_.rules().ties) {
    const auto alias = find(tie.alias);
    const auto to = find(tie.to);
    if (!alias || !to) continue;
    const TensorInfo& one = tensors()[alias->index()];
    const TensorInfo& other = tensors()[to->index()];
    if (one.dtype != other.dtype || one.shape != other.shape)
      return invalid_argument(fmt::format("{}: tensor '{}' ({} {}) cannot be tied to '{}' ({} {})",
                                          layout_.where(tie.line), one.name, to_string(one.dtype), to_string(one.shape),
                                          other.name, to_string(other.dtype), to_string(other.shape)));
    alias_of_.emplace(alias->value(), to->value());
  }
  return {};
}

Result<void> RuleCollection::place_objects(std::vector<std::string> names, const NamedSizes& given) {
  ObjectOwners owners(layout_, meshes_, LayoutSizes(layout_, given), layers_);
  objects_.reserve(names.size());
  for (std::string& name : names) {
    TENPLEX_ASSIGN_OR_RETURN(const DeviceId owner, owners.owner_of(name));
    objects_.push_back({std::move(name), owner});
  }
  return {};
}

void RuleCollection::compute_hash(const NamedSizes& sizes) {
  Hasher hasher;
  hasher.add("rule collection");
  hasher.add(layout_.text());
  for (const Mesh& mesh : meshes_)
    for (const Mesh::Axis& axis : mesh.axes()) hasher.add(axis.size);
  hasher.add(static_cast<std::int64_t>(sizes.size()));
  for (const auto& [name, value] : sizes) {
    hasher.add(name);
    hasher.add(value);
  }
  hasher.add(static_cast<std::int64_t>(tensors_->size()));
  for (const TensorInfo& tensor : *tensors_) {
    hasher.add(tensor.name);
    hasher.add(static_cast<std::int64_t>(tensor.dtype));
    hasher.add(tensor.shape.rank());
    for (const std::int64_t length : tensor.shape) hasher.add(length);
  }
  for (const ObjectInfo& object : objects_) {
    hasher.add(object.name);
    hasher.add(object.owner.value());
  }
  hash_ = hasher.finish();
}

}  // namespace tenplex
