// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// GeometryBuilder: from matched rules, mesh sizes and shapes to geometries.
//
//   prepare()  per tensor: real shape, cuts with numbers for names, where it lives        → Placement
//   buckets    tensors of one bucket get their offsets, in order
//   build()    equal placements share one Geometry
//
// Borrows its inputs. Threads: one per call.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/ptc/geometry.h"
#include "tenplex/ptc/layer_stages.h"
#include "tenplex/ptc/layout.h"
#include "tenplex/ptc/layout_sizes.h"
#include "tenplex/ptc/name_index.h"
#include "tenplex/ptc/rule_matcher.h"

namespace tenplex {

class GeometryBuilder {
 public:
  struct Geometries {
    std::vector<Geometry> geometries;
    std::vector<std::int32_t> geometry_of_tensor;
    /// Of tensors whose given shape has padding in it: index and shape without it.
    std::vector<std::pair<std::size_t, Dims>> real_shapes;
    std::int64_t layers = 0;  ///< that the tensors have
  };

  GeometryBuilder(const Layout& layout, std::span<const Mesh> meshes, const NamedSizes& sizes)
      : layout_(layout), meshes_(meshes), sizes_(layout, sizes) {}

  /// Called once. Errors: invalid_argument, out_of_range; they name the tensor, its shape, the mesh, and the rule with
  /// its line.
  Result<Geometries> build(std::span<const TensorInfo> tensors, std::span<const TensorMatch> matches);

 private:
  /// What decides a tensor's geometry.
  struct Placement {
    std::size_t mesh = 0;
    Dims shape;  // without padding
    std::optional<PaddedDim> padding;
    std::vector<Cut> cuts;
    std::vector<std::vector<std::size_t>> cut_axes;
    std::vector<FixedAxis> fixed;
    std::string bucket;  // full name; empty = none
    std::int64_t bucket_align = 1;
    std::int64_t bucket_multiple = 1;
  };

  struct InBucket {
    std::size_t tensor;
    Placement placement;
  };

  Result<void> count_captures(std::span<const TensorMatch> matches);
  Result<Placement> prepare(const TensorInfo& tensor, const TensorMatch& match);
  Result<void> apply_padding(const PadRule& pad, const Mesh& mesh, Placement* placement) const;
  Result<void> add_slice(const SliceRule& slice, const TensorMatch& match, const TensorInfo& tensor,
                         Placement* placement);
  Result<void> add_zero(const TensorMatch& match, bool padded, Placement* placement) const;
  Result<void> place(const SliceRule& slice, const TensorMatch& match, Placement* placement) const;
  Result<void> add_stages(const TensorMatch& match, Placement* placement);
  Result<void> count_layers(std::span<const TensorMatch> matches);
  Result<const LayerStages*> stages_of(std::int64_t stages);
  Result<void> cut_by_stages(const Placement& placement, DimCut* cut);
  Result<std::vector<std::int64_t>> segments_like(const SliceRule& slice, const TensorMatch& match,
                                                  const TensorInfo& tensor) const;
  std::optional<TensorId> find_like(const NamePattern& name, const TensorMatch& match, const TensorInfo& tensor,
                                    std::string* wanted) const;
  Result<void> check_axes(const Placement& placement) const;
  Result<void> fill_buckets(std::span<const TensorInfo> tensors, std::span<const TensorMatch> matches,
                            std::span<InBucket> bucketed) const;
  Result<void> add(std::size_t tensor, Placement placement, Geometries* result);
  std::string bucket_name(const SliceRule& slice, const TensorMatch& match, const Placement& placement) const;

  std::string describe(const TensorInfo& tensor, const TensorMatch& match) const;

  const Layout& layout_;
  std::span<const Mesh> meshes_;
  const LayoutSizes sizes_;
  std::span<const TensorInfo> tensors_;                              // while build() runs
  NameIndex names_;                                                  // of tensors_
  std::map<std::string, std::int64_t, std::less<>> capture_counts_;  // highest number seen, plus one
  std::int64_t layer_count_ = 0;                                     // of numbers in names and of stacked dims
  std::map<std::int64_t, LayerStages> stages_;                       // by their number
  std::map<std::vector<std::int64_t>, std::int32_t> known_;          // geometries, by what decides them
};

}  // namespace tenplex
