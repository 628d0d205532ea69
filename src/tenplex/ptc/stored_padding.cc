// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/stored_padding.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/ptc/layout_sizes.h"
#include "tenplex/ptc/rule_matcher.h"

namespace tenplex {
namespace {

class PaddingRules {
 public:
  static Result<PaddingRules> make(const Layout& layout, const std::optional<MeshSizes>& mesh) {
    TENPLEX_ASSIGN_OR_RETURN(auto meshes, layout.make_meshes(mesh.value_or(MeshSizes{})));
    return PaddingRules(layout, mesh, std::move(meshes));
  }

  /// The tensor's shape without padding.
  Result<Dims> real_shape(const TensorInfo& stored, const TensorMatch& match) const;

 private:
  PaddingRules(const Layout& layout, const std::optional<MeshSizes>& mesh, std::vector<Mesh> meshes)
      : layout_(layout), mesh_(mesh), meshes_(std::move(meshes)), sizes_(layout) {}

  bool depends_on_mesh(const PadRule& pad) const;
  /// What is wrong with the stored extent; empty: nothing.
  Result<std::string> problem_of(const PadRule& pad, const Mesh& mesh, std::int64_t data, std::int64_t stored) const;

  const Layout& layout_;
  const std::optional<MeshSizes>& mesh_;
  std::vector<Mesh> meshes_;  // axes of size 1 where mesh_ has none
  LayoutSizes sizes_;
};

bool PaddingRules::depends_on_mesh(const PadRule& pad) const {
  return std::any_of(pad.multiple_of.begin(), pad.multiple_of.end(),
                     [this](const Size& size) { return !size.name.empty() && !sizes_.find(size.name); });
}

Result<std::string> PaddingRules::problem_of(const PadRule& pad, const Mesh& mesh, std::int64_t data,
                                             std::int64_t stored) const {
  if (stored < data) return fmt::format("expected at least {} in dim {}, found {}", data, pad.dim, stored);
  if (mesh_ || !depends_on_mesh(pad)) {
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t padded, sizes_.padded_extent(pad, data, mesh));
    if (stored == padded) return std::string();
    const std::string with = mesh_ && depends_on_mesh(pad) ? fmt::format(" with {}", to_string(*mesh_)) : "";
    const std::string either = padded == data ? fmt::to_string(data) : fmt::format("{} or {}", data, padded);
    return fmt::format("expected {} in dim {}{}, found {}", either, pad.dim, with, stored);
  }
  TENPLEX_ASSIGN_OR_RETURN(const std::int64_t multiple, sizes_.product_of(pad.multiple_of, mesh));
  if (stored % multiple == 0) return std::string();
  return fmt::format("expected {} or a multiple of {} in dim {}, found {}", data, multiple, pad.dim, stored);
}

Result<Dims> PaddingRules::real_shape(const TensorInfo& stored, const TensorMatch& match) const {
  const auto& pad = match.rule->pad;
  if (!pad || !pad->data || !match.is_cut_by_rule()) return stored.shape;
  const std::string rule = describe_rule(layout_, *match.rule);
  const auto where = [&] {
    return fmt::format("tensor '{}' of shape {}, {}", stored.name, to_string(stored.shape), rule);
  };
  if (pad->dim >= stored.shape.rank())
    return invalid_argument(
        fmt::format("{}: pads dim {}, but the tensor has rank {}", where(), pad->dim, stored.shape.rank()));
  auto data = sizes_.value_of(*pad->data, nullptr);
  if (!data) return std::move(data).with_context(where()).error();
  if (*data == 0) return stored.shape;
  Dims real = stored.shape;
  real[pad->dim] = *data;
  if (real == stored.shape) return real;
  auto problem = problem_of(*pad, meshes_[match.rule->mesh], *data, stored.shape[pad->dim]);
  if (!problem) return std::move(problem).with_context(where()).error();
  if (problem->empty()) return real;
  return invalid_argument(
      fmt::format("tensor '{}' has shape {} in the checkpoint and {} without what {} calls padding: {}", stored.name,
                  to_string(stored.shape), to_string(real), rule, *problem));
}

}  // namespace

bool tells_padding(const Layout& layout) {
  const auto& rules = layout.rules().tensors;
  return std::any_of(rules.begin(), rules.end(), [](const TensorRule& rule) { return rule.pad && rule.pad->data; });
}

Result<std::vector<TensorInfo>> without_padding(const Layout& layout, const std::optional<MeshSizes>& mesh,
                                                std::vector<TensorInfo> stored) {
  TENPLEX_ASSIGN_OR_RETURN(const PaddingRules rules, PaddingRules::make(layout, mesh));
  const RuleMatcher matcher(layout, stored, false);
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<TensorMatch> matches, matcher.match_all());
  for (std::size_t index = 0; index < stored.size(); ++index) {
    TENPLEX_ASSIGN_OR_RETURN(stored[index].shape, rules.real_shape(stored[index], matches[index]));
  }
  return stored;
}

}  // namespace tenplex
