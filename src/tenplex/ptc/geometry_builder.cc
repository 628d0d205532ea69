// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/geometry_builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tenplex {
namespace {

void append(const std::vector<std::int64_t>& values, std::vector<std::int64_t>* key) {
  key->push_back(static_cast<std::int64_t>(values.size()));
  key->insert(key->end(), values.begin(), values.end());
}

void append(const Cut& cut, std::vector<std::int64_t>* key) {
  if (const auto* dim = std::get_if<DimCut>(&cut)) {
    key->insert(key->end(), {0, dim->dim, dim->parts, static_cast<std::int64_t>(dim->split.kind), dim->interleave,
                             dim->local_interleave});
    append(dim->split.widths, key);
    append(dim->segments, key);
    append(dim->table, key);
  } else {
    const FlatCut& flat = *std::get_if<FlatCut>(&cut);
    key->insert(key->end(), {1, flat.parts, static_cast<std::int64_t>(flat.split.kind), flat.padded ? 1 : 0,
                             flat.bucket_offset, flat.bucket_size});
  }
}

bool is_zero1(const TensorMatch& match) { return match.slot != nullptr && match.slot->zero1; }

std::string mesh_text(const Mesh& mesh) {
  std::string text;
  for (const Mesh::Axis& axis : mesh.axes())
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", axis.name, axis.size);
  return text;
}

}  // namespace

std::string GeometryBuilder::describe(const TensorInfo& tensor, const TensorMatch& match) const {
  return fmt::format("tensor '{}' of shape {} on mesh '{}' ({}), {}", tensor.name, to_string(tensor.shape),
                     meshes_[match.rule->mesh].name(), mesh_text(meshes_[match.rule->mesh]),
                     describe_rule(layout_, *match.rule));
}

Result<GeometryBuilder::Geometries> GeometryBuilder::build(std::span<const TensorInfo> tensors,
                                                           std::span<const TensorMatch> matches) {
  tensors_ = tensors;
  names_ = NameIndex(tensors);
  TENPLEX_TRY(count_captures(matches));
  TENPLEX_TRY(count_layers(matches));
  Geometries result;
  result.layers = layer_count_;
  result.geometry_of_tensor.resize(tensors.size());
  std::vector<InBucket> bucketed;  // where one lies depends on the others
  const auto described = [&](std::size_t index, auto failed) {
    return std::move(failed).with_context(describe(tensors[index], matches[index])).error();
  };
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    auto placement = prepare(tensors[index], matches[index]);
    if (!placement) return described(index, std::move(placement));
    if (placement->shape != tensors[index].shape) result.real_shapes.emplace_back(index, placement->shape);
    if (!placement->bucket.empty()) {
      bucketed.push_back({index, std::move(*placement)});
    } else if (auto added = add(index, std::move(*placement), &result); !added) {
      return described(index, std::move(added));
    }
  }
  TENPLEX_TRY(fill_buckets(tensors, matches, bucketed));
  for (InBucket& in_bucket : bucketed)
    if (auto added = add(in_bucket.tensor, std::move(in_bucket.placement), &result); !added)
      return described(in_bucket.tensor, std::move(added));
  return result;
}

Result<void> GeometryBuilder::add(std::size_t tensor, Placement placement, Geometries* result) {
  std::vector<std::int64_t> key{static_cast<std::int64_t>(placement.mesh)};
  append(std::vector<std::int64_t>(placement.shape.begin(), placement.shape.end()), &key);
  key.push_back(placement.padding ? placement.padding->dim : -1);
  key.push_back(placement.padding ? placement.padding->padded : -1);
  for (const Cut& cut : placement.cuts) append(cut, &key);
  for (const auto& axes : placement.cut_axes) {
    key.push_back(-2);
    for (const std::size_t axis : axes) key.push_back(static_cast<std::int64_t>(axis));
  }
  for (const FixedAxis& fixed : placement.fixed) {
    key.push_back(static_cast<std::int64_t>(fixed.axis));
    append(fixed.coordinates, &key);
  }
  const auto [found, is_new] = known_.emplace(std::move(key), static_cast<std::int32_t>(result->geometries.size()));
  result->geometry_of_tensor[tensor] = found->second;
  if (!is_new) return {};
  TENPLEX_ASSIGN_OR_RETURN(Slicing slicing,
                           Slicing::make(placement.shape, placement.padding, std::move(placement.cuts)));
  result->geometries.emplace_back(meshes_[placement.mesh], std::move(slicing), std::move(placement.cut_axes),
                                  std::move(placement.fixed));
  return {};
}

Result<GeometryBuilder::Placement> GeometryBuilder::prepare(const TensorInfo& tensor, const TensorMatch& match) {
  TENPLEX_TRY(check_tensor(tensor));
  const TensorRule& rule = *match.rule;
  Placement placement;
  placement.mesh = rule.mesh;
  placement.shape = tensor.shape;
  TENPLEX_TRY(add_stages(match, &placement));
  const bool as_parameter = match.is_cut_by_rule();
  if (rule.pad && as_parameter) TENPLEX_TRY(apply_padding(*rule.pad, meshes_[rule.mesh], &placement));
  for (const SliceRule& slice : rule.slices)
    if (as_parameter || slice.kind == SliceRule::Kind::kPlace) TENPLEX_TRY(add_slice(slice, match, tensor, &placement));
  if (match.is_slot && !match.is_whole && match.slot != nullptr) {
    if (match.slot->zero1 && layout_.rules().zero != 3) TENPLEX_TRY(add_zero(match, false, &placement));
    for (const SliceRule& slice : match.slot->slices)
      TENPLEX_TRY(add_slice(slice, match, tensor, &placement).with_context(layout_.where(match.slot->line)));
  }
  const bool cut_again = layout_.rules().zero == 3 || (layout_.rules().zero > 0 && match.is_slot && !is_zero1(match));
  if (cut_again && rule.zero && as_parameter && !tensor.shape.empty())
    TENPLEX_TRY(add_zero(match, layout_.rules().zero == 3, &placement));
  TENPLEX_TRY(check_axes(placement));
  return placement;
}

Result<void> GeometryBuilder::apply_padding(const PadRule& pad, const Mesh& mesh, Placement* placement) const {
  Dims& shape = placement->shape;
  if (pad.dim >= shape.rank())
    return invalid_argument(fmt::format("pads dim {}, but the tensor has rank {}", pad.dim, shape.rank()));
  std::int64_t data = shape[pad.dim];
  if (pad.data) {
    TENPLEX_ASSIGN_OR_RETURN(data, sizes_.value_of(*pad.data, nullptr));
    if (data == 0) data = shape[pad.dim];
    if (data > shape[pad.dim])
      return invalid_argument(
          fmt::format("expected at least {} indices of data in dim {}, found {}", data, pad.dim, shape[pad.dim]));
  }
  TENPLEX_ASSIGN_OR_RETURN(const std::int64_t padded, sizes_.padded_extent(pad, data, mesh));
  shape[pad.dim] = data;
  placement->padding = PaddedDim{pad.dim, padded};
  return {};
}

Result<void> GeometryBuilder::add_slice(const SliceRule& slice, const TensorMatch& match, const TensorInfo& tensor,
                                        Placement* placement) {
  if (slice.kind == SliceRule::Kind::kPlace) return place(slice, match, placement);
  const Mesh& mesh = meshes_[placement->mesh];
  std::vector<std::size_t> axes;
  std::int64_t parts = 1;
  for (const std::string& name : slice.by) {
    const auto axis = mesh.find(name);
    if (!axis) return invalid_argument(fmt::format("mesh '{}' has no axis '{}'", mesh.name(), name));
    axes.push_back(*axis);
    parts *= mesh.axes()[*axis].size;
  }
  placement->cut_axes.push_back(std::move(axes));
  Split split{slice.split, {}};
  TENPLEX_ASSIGN_OR_RETURN(split.widths, sizes_.values_of(slice.widths));
  if (slice.kind == SliceRule::Kind::kFlat) {
    if (!slice.bucket.empty()) {
      placement->bucket = bucket_name(slice, match, *placement);
      TENPLEX_ASSIGN_OR_RETURN(placement->bucket_align, sizes_.value_of(slice.align, nullptr));
      TENPLEX_ASSIGN_OR_RETURN(placement->bucket_multiple, sizes_.product_of(slice.multiple_of, mesh));
      if (placement->bucket_align < 1) return invalid_argument("'align' must be at least 1");
    }
    placement->cuts.emplace_back(FlatCut{parts, std::move(split), slice.padded, 0, -1});
    return {};
  }
  DimCut cut;
  cut.dim = slice.dim;
  cut.parts = parts;
  cut.split = std::move(split);
  if (slice.by_stages) {
    TENPLEX_TRY(cut_by_stages(*placement, &cut));
    placement->cuts.emplace_back(std::move(cut));
    return {};
  }
  TENPLEX_ASSIGN_OR_RETURN(cut.segments, sizes_.values_of(slice.segments));
  if (slice.segments_like) {
    TENPLEX_ASSIGN_OR_RETURN(cut.segments, segments_like(slice, match, tensor));
  }
  if (slice.interleave) {
    TENPLEX_ASSIGN_OR_RETURN(cut.interleave, sizes_.value_of(*slice.interleave, nullptr));
    cut.local_interleave = cut.interleave;
  }
  if (slice.local_interleave) {
    TENPLEX_ASSIGN_OR_RETURN(cut.local_interleave, sizes_.value_of(*slice.local_interleave, nullptr));
  }
  if (slice.segments_like && cut.segments.size() == 1) cut.segments.clear();  // nothing to interleave
  if (cut.segments.empty()) cut.interleave = cut.local_interleave = 0;
  placement->cuts.emplace_back(std::move(cut));
  return {};
}

Result<void> GeometryBuilder::add_zero(const TensorMatch& match, bool padded, Placement* placement) const {
  const Mesh& mesh = meshes_[placement->mesh];
  const auto dp = mesh.find("dp");
  const auto axis = dp ? dp : mesh.find("edp");
  if (!axis) {
    const bool own = match.slot != nullptr && match.slot->zero1;
    return invalid_argument(fmt::format("{}: {} needs an axis dp or edp in mesh '{}'",
                                        own ? layout_.where(match.slot->line) : "zero",
                                        own ? "zero1" : fmt::format("zero: {}", layout_.rules().zero), mesh.name()));
  }
  placement->cut_axes.push_back({*axis});
  placement->cuts.emplace_back(FlatCut{mesh.axes()[*axis].size, {}, padded, 0, -1});
  return {};
}

Result<void> GeometryBuilder::check_axes(const Placement& placement) const {
  std::vector<std::size_t> used;
  used.reserve(placement.fixed.size());
  for (const FixedAxis& fixed : placement.fixed) used.push_back(fixed.axis);
  for (const auto& axes : placement.cut_axes) used.insert(used.end(), axes.begin(), axes.end());
  std::sort(used.begin(), used.end());
  const auto twice = std::adjacent_find(used.begin(), used.end());
  if (twice == used.end()) return {};
  return invalid_argument(fmt::format("axis '{}' is used twice", meshes_[placement.mesh].axes()[*twice].name));
}

}  // namespace tenplex
