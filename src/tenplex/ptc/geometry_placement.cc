// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts of GeometryBuilder that say where a tensor lives: stages, expert groups, buckets.
#include <fmt/format.h>

#include <algorithm>

#include "tenplex/base/checked.h"
#include "tenplex/ptc/geometry_builder.h"

namespace tenplex {

Result<void> GeometryBuilder::count_captures(std::span<const TensorMatch> matches) {
  for (const TensorMatch& match : matches)
    for (const NamePattern::Capture& capture : match.captures) {
      if (capture.number < 0) continue;
      const auto found = capture_counts_.find(capture.word);
      if (found == capture_counts_.end()) {
        capture_counts_.emplace(std::string(capture.word), capture.number + 1);
      } else {
        found->second = std::max(found->second, capture.number + 1);
      }
    }
  return {};
}

Result<void> GeometryBuilder::place(const SliceRule& slice, const TensorMatch& match, Placement* placement) const {
  const Mesh& mesh = meshes_[placement->mesh];
  const auto number = captured_number(match.captures, slice.over);
  TENPLEX_CHECK(number.has_value());
  std::int64_t count = capture_counts_.find(slice.over)->second;
  if (slice.count) {
    TENPLEX_ASSIGN_OR_RETURN(count, sizes_.value_of(*slice.count, nullptr));
  }
  if (*number >= count)
    return invalid_argument(fmt::format("'{}' is {}, but there are {}", slice.over, *number, count));
  std::int64_t parts = 1;
  for (const std::string& name : slice.by) parts *= mesh.axes()[*mesh.find(name)].size;
  Split split{slice.split, {}};
  TENPLEX_ASSIGN_OR_RETURN(split.widths, sizes_.values_of(slice.widths));
  TENPLEX_TRY(
      check_split(split, count, parts).with_context(fmt::format("placing {} by '{}'", slice.over, slice.by[0])));
  std::int64_t part = part_of(split, count, parts, *number);
  for (const std::string& name : slice.by) {
    const std::size_t axis = *mesh.find(name);
    placement->fixed.push_back({axis, {part % mesh.axes()[axis].size}});
    part /= mesh.axes()[axis].size;
  }
  return {};
}

Result<void> GeometryBuilder::add_stages(const TensorMatch& match, Placement* placement) const {
  const TensorRule& rule = *match.rule;
  if (rule.stages.empty()) return {};
  const Mesh& mesh = meshes_[rule.mesh];
  const std::size_t axis = *mesh.find(layout_.rules().stages.axis);
  const std::int64_t stages = mesh.axes()[axis].size;
  FixedAxis fixed{axis, {}};
  for (const StageRule& stage : rule.stages) {
    std::int64_t coordinate = stage.kind == StageRule::Kind::kLast ? stages - 1 : stage.number;
    if (stage.kind == StageRule::Kind::kLayer) {
      TENPLEX_ASSIGN_OR_RETURN(coordinate, stage_of_layer(*captured_number(match.captures, "layer"), stages));
    }
    if (coordinate >= stages)
      return invalid_argument(fmt::format("stage {} of {} ('{}')", coordinate, stages, mesh.axes()[axis].name));
    fixed.coordinates.push_back(coordinate);
  }
  std::sort(fixed.coordinates.begin(), fixed.coordinates.end());
  fixed.coordinates.erase(std::unique(fixed.coordinates.begin(), fixed.coordinates.end()), fixed.coordinates.end());
  placement->fixed.push_back(std::move(fixed));
  return {};
}

Result<std::int64_t> GeometryBuilder::stage_of_layer(std::int64_t layer, std::int64_t stages) const {
  const StageTable& table = layout_.rules().stages;
  const auto in_table = [&] { return table.line == 0 ? std::string("stages") : layout_.where(table.line); };
  std::int64_t layers = capture_counts_.find("layer")->second;
  if (table.layers) {
    TENPLEX_ASSIGN_OR_RETURN(layers, sizes_.value_of(*table.layers, nullptr));
  }
  if (layer >= layers)
    return invalid_argument(fmt::format("{}: layer {}, but there are {}", in_table(), layer, layers));
  if (!table.table.empty()) {
    if (static_cast<std::size_t>(layer) >= table.table.size())
      return invalid_argument(
          fmt::format("{}: the table has {} layers, found layer {}", in_table(), table.table.size(), layer));
    return table.table[static_cast<std::size_t>(layer)];
  }
  TENPLEX_ASSIGN_OR_RETURN(const std::int64_t virtual_stages, sizes_.value_of(table.virtual_stages, nullptr));
  const auto chunks = checked_mul(stages, virtual_stages);
  if (!chunks || *chunks < 1 || *chunks > kMaxDevices)
    return invalid_argument(fmt::format("{}: {} virtual stages", in_table(), virtual_stages));
  Split split{table.split, {}};
  TENPLEX_ASSIGN_OR_RETURN(split.widths, sizes_.values_of(table.widths));
  TENPLEX_TRY(check_split(split, layers, *chunks)
                  .with_context(fmt::format("{}: {} layers over {} stages", in_table(), layers, *chunks)));
  return part_of(split, layers, *chunks, layer) % stages;
}

std::string GeometryBuilder::bucket_name(const SliceRule& slice, const TensorMatch& match,
                                         const Placement& placement) const {
  std::string name = slice.bucket;
  for (const NamePattern::Capture& capture : match.captures) {
    const std::string word = fmt::format("{{{}}}", capture.word);
    for (std::size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + capture.text.size()))
      name.replace(at, word.size(), capture.text);
  }
  // A bucket holds tensors that live on the same devices, of one slot.
  name += fmt::format("\n{}\n{}", match.slot_name, placement.mesh);
  for (const FixedAxis& fixed : placement.fixed) {
    name += fmt::format("\n{}:", fixed.axis);
    for (const std::int64_t coordinate : fixed.coordinates) name += fmt::format(" {}", coordinate);
  }
  return name;
}

/// Gives every tensor of a bucket its offset, then all of them the bucket's size.
Result<void> GeometryBuilder::fill_buckets(std::span<const TensorInfo> tensors, std::span<const TensorMatch> matches,
                                           std::span<InBucket> bucketed) const {
  std::map<std::string, std::int64_t> sizes;
  std::map<std::string, std::int64_t> multiples;
  const auto flat_of = [](Placement& placement) {
    const auto is_flat = [](const Cut& cut) { return std::holds_alternative<FlatCut>(cut); };
    return std::find_if(placement.cuts.begin(), placement.cuts.end(), is_flat);
  };
  for (auto& [index, placement] : bucketed) {
    const auto flat = flat_of(placement);
    auto before = Slicing::make(placement.shape, placement.padding, {placement.cuts.begin(), flat});
    if (!before) return std::move(before).with_context(describe(tensors[index], matches[index])).error();
    const auto volume = before->uniform_local_volume();
    if (!volume)
      return invalid_argument("a tensor in a bucket must be cut evenly by the slices before")
          .with_context(describe(tensors[index], matches[index]));
    std::int64_t& size = sizes[placement.bucket];
    multiples[placement.bucket] = std::max(multiples[placement.bucket], placement.bucket_multiple);
    const auto offset = checked_mul(ceil_div(size, placement.bucket_align), placement.bucket_align);
    const auto end = offset ? checked_add(*offset, *volume) : std::nullopt;
    if (!end)
      return out_of_range("the bucket has more than 2^63 elements")
          .with_context(describe(tensors[index], matches[index]));
    std::get_if<FlatCut>(&*flat)->bucket_offset = *offset;
    size = *end;
  }
  for (auto& [index, placement] : bucketed) {
    const std::int64_t multiple = multiples[placement.bucket];
    const auto padded = checked_mul(ceil_div(sizes[placement.bucket], multiple), multiple);
    if (!padded)
      return out_of_range("the padded bucket has more than 2^63 elements")
          .with_context(describe(tensors[index], matches[index]));
    std::get_if<FlatCut>(&*flat_of(placement))->bucket_size = *padded;
  }
  return {};
}

}  // namespace tenplex
