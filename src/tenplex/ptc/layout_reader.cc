// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/layout_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "tenplex/ptc/slot_names.h"

namespace tenplex {
namespace {

constexpr std::size_t kMaxMeshes = 16;
constexpr std::size_t kMaxAxes = 16;

constexpr std::array<std::string_view, 12> kSections = {"family", "meshes",     "axes",   "sizes", "values",  "tensors",
                                                        "slots",  "slot_names", "stages", "tied",  "objects", "zero"};

constexpr std::array<std::string_view, 3> kParameterPrefixes = {"", "model.", "module."};

}  // namespace

Result<LayoutRules> LayoutReader::read(std::string_view text) {
  TENPLEX_ASSIGN_OR_RETURN(const YamlNode root, yaml_.parse(text));
  TENPLEX_TRY(yaml_.check_keys(root, "a layout", kSections));
  if (const YamlNode* family = root.find("family")) {
    TENPLEX_ASSIGN_OR_RETURN(rules_.family, yaml_.text(*family, "'family'"));
  }
  const YamlNode* meshes = root.find("meshes");
  if (meshes == nullptr) return yaml_.error(root, "expected a key 'meshes'");
  TENPLEX_TRY(read_meshes(*meshes));
  if (const YamlNode* node = root.find("axes")) TENPLEX_TRY(read_axes(*node));
  TENPLEX_TRY(read_sizes(root.find("sizes"), root.find("values")));
  if (const YamlNode* node = root.find("zero")) {
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t zero, yaml_.integer(*node, "'zero'", 0, 3));
    rules_.zero = static_cast<int>(zero);
    TENPLEX_TRY(check_zero(*node));
  }
  if (const YamlNode* node = root.find("stages")) TENPLEX_TRY(read_stages(*node));
  const YamlNode* tensors = root.find("tensors");
  if (tensors == nullptr) return yaml_.error(root, "expected a key 'tensors'");
  TENPLEX_TRY(read_tensors(*tensors));
  if (const YamlNode* node = root.find("slots")) TENPLEX_TRY(read_slots(*node));
  for (const std::string_view pattern : kSlotPatterns) {
    TENPLEX_ASSIGN_OR_RETURN(NamePattern parsed, NamePattern::parse(pattern));
    rules_.slot_names.patterns.push_back(std::move(parsed));
  }
  rules_.slot_names.prefixes.assign(kParameterPrefixes.begin(), kParameterPrefixes.end());
  if (const YamlNode* node = root.find("slot_names")) TENPLEX_TRY(read_slot_names(*node));
  if (const YamlNode* node = root.find("tied")) TENPLEX_TRY(read_ties(*node));
  if (const YamlNode* node = root.find("objects")) TENPLEX_TRY(read_objects(*node));
  return std::move(rules_);
}

Result<void> LayoutReader::read_meshes(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kMap || node.entries.empty() || node.entries.size() > kMaxMeshes)
    return yaml_.error(node, fmt::format("'meshes' must name 1 to {} meshes, each a list of axes", kMaxMeshes));
  for (const YamlNode::Entry& entry : node.entries) {
    MeshAxes mesh{entry.key, {}};
    TENPLEX_ASSIGN_OR_RETURN(mesh.axes, read_words(entry.value, fmt::format("mesh '{}'", entry.key)));
    if (mesh.axes.size() > kMaxAxes)
      return yaml_.error(entry.line, fmt::format("mesh '{}' has more than {} axes", entry.key, kMaxAxes));
    for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis)
      if (std::find(mesh.axes.begin(), mesh.axes.begin() + static_cast<std::ptrdiff_t>(axis), mesh.axes[axis]) !=
          mesh.axes.begin() + static_cast<std::ptrdiff_t>(axis))
        return yaml_.error(entry.line, fmt::format("mesh '{}' names axis '{}' twice", entry.key, mesh.axes[axis]));
    rules_.meshes.push_back(std::move(mesh));
  }
  return {};
}

Result<void> LayoutReader::read_axes(const YamlNode& node) {
  const auto known = [&](std::string_view axis) {
    return std::any_of(rules_.meshes.begin(), rules_.meshes.end(), [&](const MeshAxes& mesh) {
      return std::find(mesh.axes.begin(), mesh.axes.end(), axis) != mesh.axes.end();
    });
  };
  if (node.kind != YamlNode::Kind::kMap || node.entries.size() > kMaxAxes * kMaxMeshes)
    return yaml_.error(node, "'axes' must be a map of axes and the axes whose size they have, or 'rest'");
  for (const YamlNode::Entry& entry : node.entries) {
    TENPLEX_ASSIGN_OR_RETURN(std::string like, yaml_.word(entry.value, fmt::format("axis '{}'", entry.key)));
    for (const std::string_view axis : {std::string_view(entry.key), std::string_view(like)})
      if (!known(axis) && axis != "rest") return yaml_.error(entry.line, fmt::format("no mesh has an axis '{}'", axis));
    if (like == "rest") like.clear();
    rules_.axes.push_back({entry.key, std::move(like), entry.line});
  }
  return {};
}

/// Values that the layout's text gives count more than the defaults of its sizes.
Result<void> LayoutReader::read_sizes(const YamlNode* sizes, const YamlNode* values) {
  if (sizes != nullptr) {
    TENPLEX_ASSIGN_OR_RETURN(rules_.size_rules, read_size_rules(yaml_, *sizes, 0));
  }
  if (values != nullptr) {
    if (values->kind != YamlNode::Kind::kMap)
      return yaml_.error(*values, "'values' must be a map of sizes and numbers");
    for (const YamlNode::Entry& entry : values->entries) {
      TENPLEX_ASSIGN_OR_RETURN(
          const std::int64_t value,
          yaml_.integer(entry.value, fmt::format("value '{}'", entry.key), 0, std::int64_t{1} << 62));
      if (std::none_of(rules_.size_rules.begin(), rules_.size_rules.end(),
                       [&](const SizeRule& rule) { return rule.name == entry.key; }))
        return yaml_.error(entry.line, fmt::format("'{}' is not under 'sizes'", entry.key));
      rules_.values.emplace_back(entry.key, value);
    }
  }
  const auto nowhere = [](std::string_view) { return std::optional<std::int64_t>(); };
  const auto line = [](int number) { return fmt::format("line {}", number); };
  TENPLEX_ASSIGN_OR_RETURN(rules_.sizes, resolve_sizes(rules_.size_rules, rules_.values, nowhere, 0, line));
  return {};
}

/// A mesh without the axis that ZeRO cuts by can hold none of its tensors.
Result<void> LayoutReader::check_zero(const YamlNode& node) const {
  if (rules_.zero == 0) return {};
  for (const MeshAxes& mesh : rules_.meshes)
    if (std::none_of(mesh.axes.begin(), mesh.axes.end(),
                     [](const std::string& axis) { return axis == "dp" || axis == "edp"; }))
      return yaml_.error(node, fmt::format("'zero' needs an axis dp or edp in every mesh, '{}' has: {}", mesh.name,
                                           fmt::join(mesh.axes, ", ")));
  return {};
}

Result<void> LayoutReader::read_tensors(const YamlNode& node) {
  TENPLEX_TRY(yaml_.check_sequence(node, "'tensors'"));
  if (node.items.size() > kMaxRules) return yaml_.error(node, fmt::format("more than {} rules", kMaxRules));
  for (const YamlNode& item : node.items) {
    TENPLEX_ASSIGN_OR_RETURN(TensorRule rule, read_rule(item));
    rules_.tensors.push_back(std::move(rule));
  }
  return {};
}

Result<void> LayoutReader::read_stages(const YamlNode& node) {
  constexpr std::array<std::string_view, 8> kKeys = {"axis",  "layers", "virtual", "split",
                                                     "first", "last",   "widths",  "table"};
  TENPLEX_TRY(yaml_.check_keys(node, "'stages'", kKeys));
  StageTable& stages = rules_.stages;
  stages.line = node.line;
  if (const YamlNode* axis = node.find("axis")) {
    TENPLEX_ASSIGN_OR_RETURN(stages.axis, yaml_.word(*axis, "'axis'"));
  }
  const bool known = std::any_of(rules_.meshes.begin(), rules_.meshes.end(), [&](const MeshAxes& mesh) {
    return std::find(mesh.axes.begin(), mesh.axes.end(), stages.axis) != mesh.axes.end();
  });
  if (!known) return yaml_.error(node, fmt::format("no mesh has the stage axis '{}'", stages.axis));
  if (const YamlNode* layers = node.find("layers")) {
    TENPLEX_ASSIGN_OR_RETURN(stages.layers, read_size(*layers, "'layers'"));
  }
  if (const YamlNode* chunks = node.find("virtual")) {
    TENPLEX_ASSIGN_OR_RETURN(stages.virtual_stages, read_size(*chunks, "'virtual'"));
  }
  if (const YamlNode* first = node.find("first")) {
    TENPLEX_ASSIGN_OR_RETURN(stages.first, read_size(*first, "'first'"));
  }
  if (const YamlNode* last = node.find("last")) {
    TENPLEX_ASSIGN_OR_RETURN(stages.last, read_size(*last, "'last'"));
  }
  SliceRule split;
  split.split = Split::Kind::kBalanced;
  TENPLEX_TRY(read_split(node, &split));
  if ((stages.first || stages.last) && (node.find("widths") != nullptr || node.find("table") != nullptr))
    return yaml_.error(node, "'first' and 'last' cannot be combined with 'widths' or 'table'");
  stages.split = split.split;
  stages.widths = split.widths;
  const YamlNode* table = node.find("table");
  if (table == nullptr) return {};
  TENPLEX_TRY(yaml_.check_sequence(*table, "'table'"));
  if (node.find("widths") != nullptr || node.find("split") != nullptr || node.find("virtual") != nullptr)
    return yaml_.error(*table, "'table' cannot be combined with 'widths', 'split' or 'virtual'");
  for (const YamlNode& item : table->items) {
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t stage, yaml_.integer(item, "a stage", 0, kMaxDevices));
    stages.table.push_back(stage);
  }
  if (stages.table.empty()) return yaml_.error(*table, "'table' is empty");
  return {};
}

Result<void> LayoutReader::read_slots(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kMap || node.entries.size() > kMaxRules)
    return yaml_.error(node, "'slots' must be a map of slot names and rules");
  for (const YamlNode::Entry& entry : node.entries) {
    TENPLEX_ASSIGN_OR_RETURN(SlotRule rule, read_slot(entry));
    rules_.slots.push_back(std::move(rule));
  }
  return {};
}

Result<SlotRule> LayoutReader::read_slot(const YamlNode::Entry& entry) {
  SlotRule rule;
  rule.slot = entry.key;
  rule.line = entry.line;
  const YamlNode& node = entry.value;
  if (node.kind == YamlNode::Kind::kMap) {
    constexpr std::array<std::string_view, 2> kKeys = {"base", "slice"};
    TENPLEX_TRY(yaml_.check_keys(node, "a slot rule", kKeys));
    if (const YamlNode* base = node.find("base")) {
      if (base->text != "parameter" && base->text != "whole")
        return yaml_.error(*base, fmt::format("'base' must be parameter or whole, found '{}'", base->text));
      rule.base = base->text == "whole" ? SlotRule::Base::kWhole : SlotRule::Base::kParameter;
    }
    if (const YamlNode* slices = node.find("slice")) {
      TENPLEX_ASSIGN_OR_RETURN(rule.slices, read_slices(*slices));
    }
    for (const SliceRule& slice : rule.slices)
      if (slice.kind == SliceRule::Kind::kPlace || !slice.bucket.empty())
        return yaml_.error(slice.line, "a slot rule can hold dim slices and flat slices without a bucket");
    return rule;
  }
  TENPLEX_ASSIGN_OR_RETURN(const std::string word, yaml_.word(node, fmt::format("slot '{}'", entry.key)));
  if (word == "zero1") {
    rule.zero1 = true;
  } else if (word == "replicated") {
    rule.base = SlotRule::Base::kWhole;
  } else if (word != "parameter") {
    return yaml_.error(
        node, fmt::format("slot '{}': expected parameter, zero1, replicated or a map, found '{}'", entry.key, word));
  }
  return rule;
}

Result<void> LayoutReader::read_slot_names(const YamlNode& node) {
  constexpr std::array<std::string_view, 2> kKeys = {"patterns", "prefixes"};
  TENPLEX_TRY(yaml_.check_keys(node, "'slot_names'", kKeys));
  if (const YamlNode* patterns = node.find("patterns")) {
    TENPLEX_ASSIGN_OR_RETURN(rules_.slot_names.patterns, read_patterns(*patterns));
    for (const NamePattern& pattern : rules_.slot_names.patterns)
      if (!pattern.has_capture("param") || !pattern.has_capture("slot"))
        return yaml_.error(*patterns, fmt::format("pattern '{}' needs {{param}} and {{slot}}", pattern.text()));
  }
  if (const YamlNode* prefixes = node.find("prefixes")) {
    TENPLEX_TRY(yaml_.check_sequence(*prefixes, "'prefixes'"));
    rules_.slot_names.prefixes.clear();
    for (const YamlNode& item : prefixes->items) {
      if (item.kind != YamlNode::Kind::kScalar) return yaml_.error(item, "a prefix must be a text");
      rules_.slot_names.prefixes.push_back(item.text);
    }
  }
  if (rules_.slot_names.patterns.size() > 64 || rules_.slot_names.prefixes.size() > 64)
    return yaml_.error(node, "more than 64 patterns or prefixes");
  return {};
}

Result<void> LayoutReader::read_ties(const YamlNode& node) {
  constexpr std::array<std::string_view, 2> kKeys = {"alias", "to"};
  TENPLEX_TRY(yaml_.check_sequence(node, "'tied'"));
  if (node.items.size() > kMaxRules) return yaml_.error(node, fmt::format("more than {} ties", kMaxRules));
  for (const YamlNode& item : node.items) {
    TENPLEX_TRY(yaml_.check_keys(item, "a tie", kKeys));
    const YamlNode* alias = item.find("alias");
    const YamlNode* to = item.find("to");
    if (alias == nullptr || to == nullptr) return yaml_.error(item, "a tie needs 'alias' and 'to'");
    TieRule rule;
    rule.line = item.line;
    TENPLEX_ASSIGN_OR_RETURN(rule.alias, yaml_.text(*alias, "'alias'"));
    TENPLEX_ASSIGN_OR_RETURN(rule.to, yaml_.text(*to, "'to'"));
    rules_.ties.push_back(std::move(rule));
  }
  for (const TieRule& rule : rules_.ties)
    for (const TieRule& other : rules_.ties)
      if (rule.to == other.alias || (&rule != &other && rule.alias == other.alias))
        return yaml_.error(rule.line, fmt::format("'{}' is tied more than once", other.alias));
  return {};
}

Result<void> LayoutReader::read_objects(const YamlNode& node) {
  TENPLEX_TRY(yaml_.check_sequence(node, "'objects'"));
  if (node.items.size() > kMaxRules) return yaml_.error(node, fmt::format("more than {} rules", kMaxRules));
  for (const YamlNode& item : node.items) {
    TENPLEX_ASSIGN_OR_RETURN(ObjectRule rule, read_object(item));
    rules_.objects.push_back(std::move(rule));
  }
  return {};
}

Result<ObjectRule> LayoutReader::read_object(const YamlNode& node) {
  constexpr std::array<std::string_view, 3> kKeys = {"match", "owner", "mesh"};
  TENPLEX_TRY(yaml_.check_keys(node, "an object rule", kKeys));
  const YamlNode* match = node.find("match");
  const YamlNode* owner = node.find("owner");
  if (match == nullptr || owner == nullptr) return yaml_.error(node, "an object rule needs 'match' and 'owner'");
  TENPLEX_ASSIGN_OR_RETURN(NamePattern pattern, read_pattern(*match));
  ObjectRule rule{std::move(pattern), {}, 0, {}, 0, node.line};
  if (const YamlNode* mesh = node.find("mesh")) {
    TENPLEX_ASSIGN_OR_RETURN(rule.mesh, read_mesh_name(*mesh));
  }
  TENPLEX_TRY(read_owner(*owner, &rule));
  return rule;
}

Result<void> LayoutReader::read_owner(const YamlNode& node, ObjectRule* rule) {
  if (YamlReader::is_integer(node)) {
    TENPLEX_ASSIGN_OR_RETURN(rule->device, yaml_.integer(node, "'owner'", 0, kMaxDevices - 1));
    return {};
  }
  if (node.kind != YamlNode::Kind::kMap) {
    TENPLEX_ASSIGN_OR_RETURN(rule->capture, yaml_.word(node, "'owner'"));
    if (!rule->match.has_capture(rule->capture) || rule->capture == "any")
      return yaml_.error(node, fmt::format("'owner' must be a device number, a number that the pattern captures, or a "
                                           "map of axes and indices, found '{}'",
                                           rule->capture));
    return {};
  }
  const std::vector<std::string>& axes = rules_.meshes[rule->mesh].axes;
  for (const YamlNode::Entry& entry : node.entries) {
    if (std::find(axes.begin(), axes.end(), entry.key) == axes.end())
      return yaml_.error(entry.line, fmt::format("mesh '{}' has no axis '{}'; its axes are: {}",
                                                 rules_.meshes[rule->mesh].name, entry.key, fmt::join(axes, ", ")));
    TENPLEX_ASSIGN_OR_RETURN(auto coordinate, read_coordinate(entry, *rule));
    rule->coordinates.push_back(std::move(coordinate));
  }
  return {};
}

Result<ObjectRule::Coordinate> LayoutReader::read_coordinate(const YamlNode::Entry& entry, const ObjectRule& rule) {
  constexpr std::array<std::string_view, 2> kKeys = {"over", "of"};
  ObjectRule::Coordinate coordinate;
  coordinate.axis = entry.key;
  const YamlNode& value = entry.value;
  const auto captured = [&](const YamlNode& node, std::string* word) -> Result<void> {
    TENPLEX_ASSIGN_OR_RETURN(*word, yaml_.word(node, "an index"));
    if (rule.match.has_capture(*word) && *word != "any") return {};
    return yaml_.error(
        node, fmt::format("expected an index, first, last or a number that the pattern captures, found '{}'", *word));
  };
  if (value.kind == YamlNode::Kind::kMap) {
    TENPLEX_TRY(yaml_.check_keys(value, "an index", kKeys));
    if (value.find("over") == nullptr || value.find("of") == nullptr)
      return yaml_.error(value, "an index needs 'over' and 'of'");
    TENPLEX_TRY(captured(*value.find("over"), &coordinate.word));
    TENPLEX_TRY(captured(*value.find("of"), &coordinate.of));
    return coordinate;
  }
  if (value.text == "last") {
    coordinate.last = true;
  } else if (YamlReader::is_integer(value)) {
    TENPLEX_ASSIGN_OR_RETURN(coordinate.index, yaml_.integer(value, "an index", 0, kMaxDevices - 1));
  } else if (value.text != "first") {
    TENPLEX_TRY(captured(value, &coordinate.word));
    coordinate.layer = coordinate.word == "layer" && entry.key == rules_.stages.axis;
  }
  return coordinate;
}

Result<Layout> parse_layout(std::string_view yaml, std::string_view name) {
  Layout layout;
  layout.name_ = name;
  layout.text_ = yaml;
  TENPLEX_ASSIGN_OR_RETURN(layout.rules_, LayoutReader(name).read(yaml));
  return layout;
}

}  // namespace tenplex
