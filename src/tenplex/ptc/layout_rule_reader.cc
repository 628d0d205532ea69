// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "tenplex/ptc/dims.h"
#include "tenplex/ptc/layout_reader.h"

namespace tenplex {
namespace {

constexpr std::size_t kMaxSlices = 16;
constexpr std::size_t kMaxPatterns = 1024;
constexpr std::size_t kMaxSizes = 4096;

}  // namespace

Result<TensorRule> LayoutReader::read_rule(const YamlNode& node) {
  constexpr std::array<std::string_view, 8> kKeys = {"match", "rank", "without", "zero",
                                                     "mesh",  "pad",  "slice",   "stage"};
  TENPLEX_TRY(yaml_.check_keys(node, "a rule", kKeys));
  TensorRule rule;
  rule.line = node.line;
  const YamlNode* match = node.find("match");
  if (match == nullptr) return yaml_.error(node, "a rule needs 'match'");
  TENPLEX_ASSIGN_OR_RETURN(rule.match, read_patterns(*match));
  if (const YamlNode* rank = node.find("rank")) {
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t value, yaml_.integer(*rank, "'rank'", 0, kMaxRank));
    rule.rank = static_cast<int>(value);
  }
  if (const YamlNode* zero = node.find("zero")) {
    TENPLEX_ASSIGN_OR_RETURN(rule.zero, yaml_.boolean(*zero, "'zero'"));
  }
  if (const YamlNode* without = node.find("without")) {
    TENPLEX_ASSIGN_OR_RETURN(rule.without, yaml_.text(*without, "'without'"));
  }
  if (const YamlNode* mesh = node.find("mesh")) {
    TENPLEX_ASSIGN_OR_RETURN(rule.mesh, read_mesh_name(*mesh));
  }
  if (const YamlNode* pad = node.find("pad")) {
    TENPLEX_ASSIGN_OR_RETURN(rule.pad, read_pad(*pad));
  }
  if (const YamlNode* slices = node.find("slice")) {
    TENPLEX_ASSIGN_OR_RETURN(rule.slices, read_slices(*slices));
  }
  if (const YamlNode* stage = node.find("stage")) {
    TENPLEX_ASSIGN_OR_RETURN(rule.stages, read_stage(*stage, rule));
  }
  TENPLEX_TRY(check_rule(rule));
  return rule;
}

Result<std::vector<NamePattern>> LayoutReader::read_patterns(const YamlNode& node) {
  std::vector<NamePattern> patterns;
  if (node.kind != YamlNode::Kind::kSequence) {
    TENPLEX_ASSIGN_OR_RETURN(NamePattern pattern, read_pattern(node));
    patterns.push_back(std::move(pattern));
    return patterns;
  }
  if (node.items.empty() || node.items.size() > kMaxPatterns)
    return yaml_.error(node, fmt::format("expected 1 to {} patterns", kMaxPatterns));
  for (const YamlNode& item : node.items) {
    TENPLEX_ASSIGN_OR_RETURN(NamePattern pattern, read_pattern(item));
    patterns.push_back(std::move(pattern));
  }
  return patterns;
}

Result<NamePattern> LayoutReader::read_pattern(const YamlNode& node) {
  TENPLEX_ASSIGN_OR_RETURN(const std::string text, yaml_.text(node, "a pattern"));
  auto pattern = NamePattern::parse(text);
  if (!pattern) return yaml_.error(node, pattern.error().message());
  return pattern;
}

Result<std::size_t> LayoutReader::read_mesh_name(const YamlNode& node) {
  std::vector<std::string_view> names;
  for (std::size_t index = 0; index < rules_.meshes.size(); ++index) {
    if (rules_.meshes[index].name == node.text) return index;
    names.push_back(rules_.meshes[index].name);
  }
  return yaml_.error(node,
                     fmt::format("unknown mesh '{}'; the layout's meshes are: {}", node.text, fmt::join(names, ", ")));
}

Result<std::vector<StageRule>> LayoutReader::read_stage(const YamlNode& node, const TensorRule& rule) {
  std::vector<StageRule> stages;
  if (node.kind == YamlNode::Kind::kScalar && node.text == "all") return stages;
  const std::vector<std::string>& axes = rules_.meshes[rule.mesh].axes;
  if (std::find(axes.begin(), axes.end(), rules_.stages.axis) == axes.end())
    return yaml_.error(node, fmt::format("'stage' needs the axis '{}' in mesh '{}'", rules_.stages.axis,
                                         rules_.meshes[rule.mesh].name));
  if (node.kind != YamlNode::Kind::kSequence) {
    TENPLEX_ASSIGN_OR_RETURN(const StageRule stage, read_one_stage(node, rule));
    stages.push_back(stage);
    return stages;
  }
  if (node.items.empty() || node.items.size() > kMaxPatterns)
    return yaml_.error(node, "'stage' is an empty or too long list");
  for (const YamlNode& item : node.items) {
    TENPLEX_ASSIGN_OR_RETURN(const StageRule stage, read_one_stage(item, rule));
    stages.push_back(stage);
  }
  return stages;
}

Result<StageRule> LayoutReader::read_one_stage(const YamlNode& node, const TensorRule& rule) {
  if (YamlReader::is_integer(node)) {
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t number, yaml_.integer(node, "'stage'", 0, kMaxDevices - 1));
    return StageRule{StageRule::Kind::kNumber, number};
  }
  if (node.text == "first") return StageRule{StageRule::Kind::kFirst, 0};
  if (node.text == "last") return StageRule{StageRule::Kind::kLast, 0};
  if (node.text != "layer")
    return yaml_.error(
        node, fmt::format("'stage' must be first, last, layer, all, a number or a list, found '{}'", node.text));
  for (const NamePattern& pattern : rule.match)
    if (!pattern.has_capture("layer"))
      return yaml_.error(node, fmt::format("'stage: layer' needs {{layer}} in the pattern '{}'", pattern.text()));
  return StageRule{StageRule::Kind::kLayer, 0};
}

Result<PadRule> LayoutReader::read_pad(const YamlNode& node) {
  constexpr std::array<std::string_view, 3> kKeys = {"dim", "data", "multiple_of"};
  TENPLEX_TRY(yaml_.check_keys(node, "'pad'", kKeys));
  PadRule pad;
  pad.line = node.line;
  const YamlNode* dim = node.find("dim");
  const YamlNode* multiple = node.find("multiple_of");
  if (dim == nullptr || multiple == nullptr) return yaml_.error(node, "'pad' needs 'dim' and 'multiple_of'");
  TENPLEX_ASSIGN_OR_RETURN(const std::int64_t value, yaml_.integer(*dim, "'dim'", 0, kMaxRank - 1));
  pad.dim = static_cast<int>(value);
  TENPLEX_ASSIGN_OR_RETURN(pad.multiple_of, read_factors(*multiple, "'multiple_of'"));
  if (const YamlNode* data = node.find("data")) {
    TENPLEX_ASSIGN_OR_RETURN(pad.data, read_size(*data, "'data'"));
  }
  return pad;
}

Result<std::vector<SliceRule>> LayoutReader::read_slices(const YamlNode& node) {
  TENPLEX_TRY(yaml_.check_sequence(node, "'slice'"));
  if (node.items.size() > kMaxSlices) return yaml_.error(node, fmt::format("more than {} slices", kMaxSlices));
  std::vector<SliceRule> slices;
  for (const YamlNode& item : node.items) {
    TENPLEX_ASSIGN_OR_RETURN(SliceRule slice, read_slice(item));
    slices.push_back(std::move(slice));
  }
  return slices;
}

Result<SliceRule> LayoutReader::read_slice(const YamlNode& node) {
  SliceRule slice;
  slice.line = node.line;
  const bool is_map = node.kind == YamlNode::Kind::kMap;
  if (is_map && node.find("over") != nullptr) {
    TENPLEX_TRY(read_place_slice(node, &slice));
  } else if (is_map && node.find("flat") != nullptr) {
    TENPLEX_TRY(read_flat_slice(node, &slice));
  } else {
    TENPLEX_TRY(read_dim_slice(node, &slice));
  }
  const YamlNode* by = node.find("by");
  if (by == nullptr) return yaml_.error(node, "a slice needs 'by'");
  TENPLEX_ASSIGN_OR_RETURN(slice.by, read_words(*by, "'by'"));
  return slice;
}

Result<void> LayoutReader::read_split(const YamlNode& node, SliceRule* slice) {
  if (const YamlNode* split = node.find("split")) {
    const auto kind = parse_split(split->text);
    if (!kind)
      return yaml_.error(*split, fmt::format("'split' must be chunk, balanced or even, found '{}'", split->text));
    slice->split = *kind;
  }
  if (const YamlNode* widths = node.find("widths")) {
    if (node.find("split") != nullptr) return yaml_.error(*widths, "'split' and 'widths' cannot be combined");
    TENPLEX_ASSIGN_OR_RETURN(slice->widths, read_sizes_list(*widths, "'widths'"));
    slice->split = Split::Kind::kWidths;
  }
  return {};
}

Result<void> LayoutReader::read_dim_slice(const YamlNode& node, SliceRule* slice) {
  constexpr std::array<std::string_view, 7> kKeys = {"dim",      "by",         "split",           "widths",
                                                     "segments", "interleave", "local_interleave"};
  TENPLEX_TRY(yaml_.check_keys(node, "a slice", kKeys));
  const YamlNode* dim = node.find("dim");
  if (dim == nullptr) return yaml_.error(node, "a slice needs 'dim', 'flat' or 'over'");
  TENPLEX_ASSIGN_OR_RETURN(const std::int64_t value, yaml_.integer(*dim, "'dim'", 0, kMaxRank - 1));
  slice->dim = static_cast<int>(value);
  const YamlNode* split = node.find("split");
  if (split != nullptr && split->text == "stages") {
    slice->by_stages = true;
    for (const std::string_view key : {"widths", "segments"})
      if (node.find(key) != nullptr)
        return yaml_.error(node, fmt::format("'split: stages' and '{}' cannot be combined", key));
  } else {
    TENPLEX_TRY(read_split(node, slice));
  }
  if (const YamlNode* segments = node.find("segments")) TENPLEX_TRY(read_segments(node, *segments, slice));
  const YamlNode* interleave = node.find("interleave");
  const YamlNode* local = node.find("local_interleave");
  if ((interleave != nullptr || local != nullptr) && slice->segments.empty() && !slice->segments_like)
    return yaml_.error(node, "'interleave' and 'local_interleave' need 'segments'");
  if (interleave != nullptr) {
    TENPLEX_ASSIGN_OR_RETURN(slice->interleave, read_size(*interleave, "'interleave'"));
  }
  if (local != nullptr) {
    TENPLEX_ASSIGN_OR_RETURN(slice->local_interleave, read_size(*local, "'local_interleave'"));
  }
  return {};
}

Result<void> LayoutReader::read_segments(const YamlNode& node, const YamlNode& segments, SliceRule* slice) {
  if (node.find("widths") != nullptr) return yaml_.error(segments, "'segments' and 'widths' cannot be combined");
  if (segments.kind != YamlNode::Kind::kMap) {
    TENPLEX_ASSIGN_OR_RETURN(slice->segments, read_sizes_list(segments, "'segments'"));
    return {};
  }
  constexpr std::array<std::string_view, 2> kKeys = {"like", "dim"};
  TENPLEX_TRY(yaml_.check_keys(segments, "'segments'", kKeys));
  const YamlNode* like = segments.find("like");
  const YamlNode* dim = segments.find("dim");
  if (like == nullptr || dim == nullptr) return yaml_.error(segments, "'segments' needs 'like' and 'dim'");
  TENPLEX_ASSIGN_OR_RETURN(NamePattern name, read_pattern(*like));
  if (!name.captures_only_numbers())
    return yaml_.error(*like,
                       fmt::format("name '{}' may hold numbers like {{layer}}, no text of any kind", name.text()));
  TENPLEX_ASSIGN_OR_RETURN(const std::int64_t value, yaml_.integer(*dim, "'dim'", 0, kMaxRank - 1));
  slice->segments_like = SegmentsLike{std::move(name), static_cast<int>(value)};
  return {};
}

Result<void> LayoutReader::read_flat_slice(const YamlNode& node, SliceRule* slice) {
  constexpr std::array<std::string_view, 7> kKeys = {"flat", "by", "split", "padded", "bucket", "multiple_of", "align"};
  TENPLEX_TRY(yaml_.check_keys(node, "a flat slice", kKeys));
  slice->kind = SliceRule::Kind::kFlat;
  TENPLEX_ASSIGN_OR_RETURN(const bool flat, yaml_.boolean(*node.find("flat"), "'flat'"));
  if (!flat) return yaml_.error(node, "'flat' must be true");
  TENPLEX_TRY(read_split(node, slice));
  if (const YamlNode* padded = node.find("padded")) {
    TENPLEX_ASSIGN_OR_RETURN(slice->padded, yaml_.boolean(*padded, "'padded'"));
  }
  const YamlNode* bucket = node.find("bucket");
  const YamlNode* multiple = node.find("multiple_of");
  const YamlNode* align = node.find("align");
  if (bucket != nullptr) {
    TENPLEX_ASSIGN_OR_RETURN(slice->bucket, yaml_.text(*bucket, "'bucket'"));
  }
  if (bucket == nullptr && (multiple != nullptr || align != nullptr))
    return yaml_.error(node, "'multiple_of' and 'align' need 'bucket'");
  if (bucket != nullptr && slice->padded) return yaml_.error(node, "'padded' and 'bucket' cannot be combined");
  if (multiple != nullptr) {
    TENPLEX_ASSIGN_OR_RETURN(slice->multiple_of, read_factors(*multiple, "'multiple_of'"));
  }
  if (align != nullptr) {
    TENPLEX_ASSIGN_OR_RETURN(slice->align, read_size(*align, "'align'"));
    TENPLEX_TRY(check_factor(*align, slice->align, "'align'"));
  }
  return {};
}

Result<void> LayoutReader::read_place_slice(const YamlNode& node, SliceRule* slice) {
  constexpr std::array<std::string_view, 5> kKeys = {"over", "by", "split", "widths", "count"};
  TENPLEX_TRY(yaml_.check_keys(node, "a slice over a capture", kKeys));
  slice->kind = SliceRule::Kind::kPlace;
  TENPLEX_ASSIGN_OR_RETURN(slice->over, yaml_.word(*node.find("over"), "'over'"));
  TENPLEX_TRY(read_split(node, slice));
  if (const YamlNode* count = node.find("count")) {
    TENPLEX_ASSIGN_OR_RETURN(slice->count, read_size(*count, "'count'"));
  }
  return {};
}

/// Axes exist and are named once; flat slices come last; captures that are used are there.
Result<void> LayoutReader::check_rule(const TensorRule& rule) {
  const MeshAxes& mesh = rules_.meshes[rule.mesh];
  std::vector<std::string> used;
  if (!rule.stages.empty()) used.push_back(rules_.stages.axis);
  bool flat = false;
  for (const SliceRule& slice : rule.slices) {
    for (const std::string& axis : slice.by) {
      if (std::find(mesh.axes.begin(), mesh.axes.end(), axis) == mesh.axes.end())
        return yaml_.error(slice.line, fmt::format("mesh '{}' has no axis '{}'; its axes are: {}", mesh.name, axis,
                                                   fmt::join(mesh.axes, ", ")));
      if (std::find(used.begin(), used.end(), axis) != used.end())
        return yaml_.error(slice.line, fmt::format("axis '{}' is used twice in one rule", axis));
      used.push_back(axis);
    }
    if (flat && slice.kind == SliceRule::Kind::kDim)
      return yaml_.error(slice.line, "a flat slice leaves one flat range; slices of a dim must come before it");
    flat = flat || slice.kind == SliceRule::Kind::kFlat;
    if (slice.by_stages && (slice.by.size() != 1 || slice.by.front() != rules_.stages.axis))
      return yaml_.error(slice.line, fmt::format("'split: stages' is for the stage axis '{}'", rules_.stages.axis));
    TENPLEX_TRY(check_captures(rule, slice));
  }
  return {};
}

Result<void> LayoutReader::check_captures(const TensorRule& rule, const SliceRule& slice) {
  std::vector<std::string> needed;
  if (slice.kind == SliceRule::Kind::kPlace) needed.push_back(slice.over);
  if (slice.segments_like) needed = slice.segments_like->name.words();
  std::size_t open = slice.bucket.find('{');
  while (open != std::string::npos) {
    const std::size_t close = slice.bucket.find('}', open);
    if (close == std::string::npos) return yaml_.error(slice.line, "'bucket': '{' is not closed");
    needed.push_back(slice.bucket.substr(open + 1, close - open - 1));
    open = slice.bucket.find('{', close);
  }
  for (const std::string& word : needed)
    for (const NamePattern& pattern : rule.match)
      if (word == "any" || word == "param" || word == "slot" || !pattern.has_capture(word))
        return yaml_.error(slice.line, fmt::format("the pattern '{}' captures no number {{{}}}", pattern.text(), word));
  return {};
}

Result<Size> LayoutReader::read_size(const YamlNode& node, std::string_view what) {
  if (YamlReader::is_integer(node)) {
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t value, yaml_.integer(node, what, 0, std::int64_t{1} << 62));
    return Size{value, {}};
  }
  TENPLEX_ASSIGN_OR_RETURN(std::string name, yaml_.word(node, what));
  return Size{0, std::move(name)};
}

Result<std::vector<Size>> LayoutReader::read_sizes_list(const YamlNode& node, std::string_view what) {
  std::vector<Size> sizes;
  if (node.kind != YamlNode::Kind::kSequence) {
    TENPLEX_ASSIGN_OR_RETURN(Size size, read_size(node, what));
    sizes.push_back(std::move(size));
    return sizes;
  }
  if (node.items.empty()) return yaml_.error(node, fmt::format("{} is empty", what));
  if (node.items.size() > kMaxSizes)
    return yaml_.error(node, fmt::format("{} has more than {} entries", what, kMaxSizes));
  for (const YamlNode& item : node.items) {
    TENPLEX_ASSIGN_OR_RETURN(Size size, read_size(item, what));
    sizes.push_back(std::move(size));
  }
  return sizes;
}

/// At least 1, where the layout itself says what it is.
Result<void> LayoutReader::check_factor(const YamlNode& node, const Size& size, std::string_view what) const {
  std::int64_t value = size.value;
  if (!size.name.empty()) {
    const auto known = std::find_if(rules_.sizes.begin(), rules_.sizes.end(),
                                    [&size](const auto& entry) { return entry.first == size.name; });
    if (known == rules_.sizes.end()) return {};
    value = known->second;
  }
  if (value >= 1) return {};
  return yaml_.error(node, fmt::format("{} must be at least 1, found {}", what, value));
}

Result<std::vector<Size>> LayoutReader::read_factors(const YamlNode& node, std::string_view what) {
  TENPLEX_ASSIGN_OR_RETURN(std::vector<Size> factors, read_sizes_list(node, what));
  for (const Size& factor : factors) TENPLEX_TRY(check_factor(node, factor, what));
  return factors;
}

Result<std::vector<std::string>> LayoutReader::read_words(const YamlNode& node, std::string_view what) {
  std::vector<std::string> words;
  if (node.kind != YamlNode::Kind::kSequence) {
    TENPLEX_ASSIGN_OR_RETURN(std::string word, yaml_.word(node, what));
    words.push_back(std::move(word));
    return words;
  }
  if (node.items.empty()) return yaml_.error(node, fmt::format("{} is empty", what));
  for (const YamlNode& item : node.items) {
    TENPLEX_ASSIGN_OR_RETURN(std::string word, yaml_.word(item, what));
    words.push_back(std::move(word));
  }
  return words;
}

}  // namespace tenplex
