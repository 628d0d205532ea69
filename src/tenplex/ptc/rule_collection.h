// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// RuleCollection: a collection given by a layout, mesh sizes and shapes. Everything is answered by arithmetic; devices
// and shards are never listed.
//
//   layout (rules) + {tp: 2, pp: 4} + tensors ──► per tensor: a shared Geometry (slicing, axes, stage)
//
// Padding that a layout declares is no part of a tensor: tensors() has the real extents, local shapes the padded ones.
// Of two tied tensors that are both given, the alias stays in tensors() but has no shards; alias_of() names the other.
//
// Cost: O(tensors) memory. Resource, immutable. Threads: all calls are safe together.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tenplex/ptc/collection.h"
#include "tenplex/ptc/geometry.h"
#include "tenplex/ptc/layout.h"
#include "tenplex/ptc/name_index.h"

namespace tenplex {

class RuleCollection final : public Collection {
 public:
  /// `objects` are names; each gets the owner that the layout's first matching rule gives, else device 0.
  /// Errors: invalid_argument or out_of_range, naming the tensor, its shape, the mesh, and the rule with its line.
  static Result<std::unique_ptr<RuleCollection>> make(const Layout& layout, const MeshSizes& mesh, TensorList tensors,
                                                      std::vector<std::string> objects = {},
                                                      const NamedSizes& sizes = {});
  static Result<std::unique_ptr<RuleCollection>> make(const Layout& layout, const MeshSizes& mesh,
                                                      std::vector<TensorInfo> tensors,
                                                      std::vector<std::string> objects = {},
                                                      const NamedSizes& sizes = {}) {
    return make(layout, mesh, std::make_shared<const std::vector<TensorInfo>>(std::move(tensors)), std::move(objects),
                sizes);
  }

  int device_count() const override { return static_cast<int>(meshes_.front().device_count()); }
  std::span<const TensorInfo> tensors() const override { return *tensors_; }
  std::span<const ObjectInfo> objects() const override { return objects_; }
  std::int64_t shard_count(TensorId tensor) const override;
  void shard(TensorId tensor, std::int64_t index, SubTensor* shard) const override;
  void holders(TensorId tensor, std::int64_t index, std::vector<DeviceId>* devices) const override;
  void shards_of_device(TensorId tensor, DeviceId device, std::vector<std::int64_t>* shards) const override;
  std::uint64_t geometry_key(TensorId tensor) const override;
  Hash128 hash() const override { return hash_; }
  std::optional<TensorId> find(std::string_view name) const override { return names_.find(name); }

  const Layout& layout() const { return layout_; }
  std::span<const Mesh> meshes() const { return meshes_; }
  std::optional<TensorId> alias_of(TensorId tensor) const override;
  /// Line in the layout of the rule that decides about the tensor.
  int rule_line(TensorId tensor) const { return rule_lines_[tensor.index()]; }

 private:
  explicit RuleCollection(const Layout& layout) : layout_(layout) {}
  const Geometry& geometry(TensorId tensor) const {
    return geometries_[static_cast<std::size_t>(geometry_of_tensor_[tensor.index()])];
  }
  Result<void> resolve_ties();
  Result<void> place_objects(std::vector<std::string> names, const NamedSizes& given);
  void compute_hash(const NamedSizes& sizes);

  Layout layout_;
  std::vector<Mesh> meshes_;
  TensorList tensors_;
  std::vector<ObjectInfo> objects_;
  std::vector<Geometry> geometries_;
  std::vector<std::int32_t> geometry_of_tensor_;
  std::vector<int> rule_lines_;
  std::int64_t layers_ = 0;  // that the tensors have
  NameIndex names_;
  std::unordered_map<std::int32_t, std::int32_t> alias_of_;
  Hash128 hash_;
};

}  // namespace tenplex
