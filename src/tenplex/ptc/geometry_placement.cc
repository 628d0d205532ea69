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

Result<void> GeometryBuilder::add_stages(const TensorMatch& match, Placement* placement) {
  const TensorRule& rule = *match.rule;
  if (rule.stages.empty()) return {};
  const Mesh& mesh = meshes_[rule.mesh];
  const std::size_t axis = *mesh.find(layout_.rules().stages.axis);
  const std::int64_t stages = mesh.axes()[axis].size;
  FixedAxis fixed{axis, {}};
  for (const StageRule& stage : rule.stages) {
    std::int64_t coordinate = stage.kind == StageRule::Kind::kLast ? stages - 1 : stage.number;
    if (stage.kind == StageRule::Kind::kLayer) {
      const std::int64_t layer = *captured_number(match.captures, "layer");
      TENPLEX_ASSIGN_OR_RETURN(const LayerStages* table, stages_of(stages));
      if (layer >= table->layers())
        return invalid_argument(
            fmt::format("{}: layer {}, but there are {}", where_stages(layout_), layer, table->layers()));
      coordinate = (*table)[layer];
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

Result<void> GeometryBuilder::count_layers(std::span<const TensorMatch> matches) {
  const auto numbered = capture_counts_.find("layer");
  if (numbered != capture_counts_.end()) layer_count_ = numbered->second;
  for (std::size_t index = 0; index < matches.size(); ++index) {
    if (!matches[index].is_cut_by_rule()) continue;
    for (const SliceRule& slice : matches[index].rule->slices)
      if (slice.by_stages && slice.dim < tensors_[index].shape.rank())
        layer_count_ = std::max(layer_count_, tensors_[index].shape[slice.dim]);
  }
  return {};
}

Result<const LayerStages*> GeometryBuilder::stages_of(std::int64_t stages) {
  const auto known = stages_.find(stages);
  if (known != stages_.end()) return &known->second;
  TENPLEX_ASSIGN_OR_RETURN(LayerStages made, LayerStages::make(layout_, sizes_, layer_count_, stages));
  return &stages_.emplace(stages, std::move(made)).first->second;
}

/// Stages with layers that follow each other are a cut of widths: their parts are boxes.
Result<void> GeometryBuilder::cut_by_stages(const Placement& placement, DimCut* cut) {
  if (cut->dim >= placement.shape.rank())
    return invalid_argument(fmt::format("slices dim {}, but the tensor has rank {}", cut->dim, placement.shape.rank()));
  const std::int64_t extent = placement.shape[cut->dim];
  TENPLEX_ASSIGN_OR_RETURN(const LayerStages* stages, stages_of(cut->parts));
  if (stages->layers() != extent)
    return invalid_argument(fmt::format("dim {} numbers layers: expected {} ({}), found {}", cut->dim, stages->layers(),
                                        where_stages(layout_), extent));
  if (!std::is_sorted(stages->all().begin(), stages->all().end())) {
    cut->table = stages->all();
    return {};
  }
  cut->split = {Split::Kind::kWidths, std::vector<std::int64_t>(static_cast<std::size_t>(cut->parts), 0)};
  for (const std::int64_t stage : stages->all()) ++cut->split.widths[static_cast<std::size_t>(stage)];
  return {};
}

std::optional<TensorId> GeometryBuilder::find_like(const NamePattern& name, const TensorMatch& match,
                                                   const TensorInfo& tensor, std::string* wanted) const {
  std::vector<std::string> words;
  std::vector<std::int64_t> numbers;
  for (const NamePattern::Capture& capture : match.captures) {
    if (capture.number < 0) continue;
    words.emplace_back(capture.word);
    numbers.push_back(capture.number);
  }
  *wanted = name.fill(words, numbers);
  if (const auto found = names_.find(*wanted); found || !match.is_slot) return found;
  // A slot without parameters: the same slot of the other parameter.
  const std::size_t at = tensor.name.find(match.parameter_name);
  if (at == std::string::npos) return std::nullopt;
  for (const std::string& prefix : layout_.rules().slot_names.prefixes) {
    if (!wanted->starts_with(prefix)) continue;
    std::string slot = tensor.name;
    slot.replace(at, match.parameter_name.size(), wanted->substr(prefix.size()));
    if (const auto found = names_.find(slot)) return found;
  }
  return std::nullopt;
}

Result<std::vector<std::int64_t>> GeometryBuilder::segments_like(const SliceRule& slice, const TensorMatch& match,
                                                                 const TensorInfo& tensor) const {
  const SegmentsLike& like = *slice.segments_like;
  std::string wanted;
  const auto found = find_like(like.name, match, tensor, &wanted);
  if (!found)
    return invalid_argument(
        fmt::format("its segments are told by dim {} of tensor '{}', which is not there", like.dim, wanted));
  const TensorInfo& other = tensors_[found->index()];
  if (slice.dim >= tensor.shape.rank() || like.dim >= other.shape.rank())
    return invalid_argument(fmt::format("its segments in dim {} are told by dim {} of tensor '{}' of shape {}",
                                        slice.dim, like.dim, other.name, to_string(other.shape)));
  const std::int64_t extent = tensor.shape[slice.dim];
  const std::int64_t unit = other.shape[like.dim];
  constexpr std::int64_t kMaxSegments = 16;
  if (unit < 1 || extent % unit != 0 || extent / unit < 1 || extent / unit > kMaxSegments)
    return invalid_argument(fmt::format(
        "dim {} must be 1 to {} times dim {} of tensor '{}' of shape {}: expected a multiple of {}, found {}",
        slice.dim, kMaxSegments, like.dim, other.name, to_string(other.shape), unit, extent));
  return std::vector<std::int64_t>(static_cast<std::size_t>(extent / unit), 1);
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
