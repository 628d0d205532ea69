// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// map_tensors(): a naming map and the tensors of a model become a TensorMap to the names of the other side.
//
// Pure. Threads: safe together.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/ptc/naming_map.h"
#include "tenplex/ptc/tensor_map.h"

namespace tenplex {

/// The sizes of the map that have a value: the one in `given`, else that of config.json, else the default. Errors:
/// invalid_argument for a value below 1 and for a name in `given` that the map does not have.
Result<NamedSizes> map_sizes(const NamingMap& map, const NamedSizes& given, const ConfigNumber& config);

struct MapResult {
  TensorMap map;
  std::size_t from = 0;  ///< the side whose names the tensors have
};

/// `sizes` are those of map_sizes(). Targets come in the order of the first tensor that they are made from. Errors:
/// invalid_argument, naming the tensors, their shapes and the rule, if the tensors do not fit the map: see
/// docs/maps.md, "Errors"; out_of_range for shapes, pieces or numbers of tensors beyond the limits; unsupported if an
/// element type that does not fill bytes would be cut inside of one.
/// Tensors for which `kept` is true (empty: none is) stay as they are, behind all others.
Result<MapResult> map_tensors(const NamingMap& map, std::span<const TensorInfo> tensors, const NamedSizes& sizes,
                              const std::vector<bool>& kept = {});

}  // namespace tenplex
