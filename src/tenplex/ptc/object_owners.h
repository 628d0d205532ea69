// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ObjectOwners: which device keeps each thing of a checkpoint that is no tensor, as the section `objects:` of a layout
// says. Borrows its inputs. Threads: one per call of RuleCollection::make().
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>

#include "tenplex/base/ids.h"
#include "tenplex/base/result.h"
#include "tenplex/ptc/layer_stages.h"
#include "tenplex/ptc/layout.h"
#include "tenplex/ptc/layout_sizes.h"
#include "tenplex/ptc/mesh.h"

namespace tenplex {

class ObjectOwners {
 public:
  /// `layers` is how many the tensors have.
  ObjectOwners(const Layout& layout, std::span<const Mesh> meshes, LayoutSizes sizes, std::int64_t layers)
      : layout_(layout), meshes_(meshes), sizes_(std::move(sizes)), layers_(layers) {}

  /// The owner that the first matching rule gives, else device 0. Errors: invalid_argument, naming the object and the
  /// rule's line, for an index beyond its axis.
  Result<DeviceId> owner_of(std::string_view object);

 private:
  Result<DeviceId> device_of(const ObjectRule& rule, const NamePattern::Captures& captures);
  Result<std::int64_t> index_along(const ObjectRule::Coordinate& coordinate, const Mesh::Axis& axis,
                                   const NamePattern::Captures& captures);

  const Layout& layout_;
  std::span<const Mesh> meshes_;
  const LayoutSizes sizes_;
  const std::int64_t layers_;
  std::map<std::int64_t, LayerStages> stages_;  // by their number
};

}  // namespace tenplex
