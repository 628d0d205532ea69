// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// LayoutReader: turns the YAML tree of a layout into LayoutRules. Internal to parse_layout().
//
// layout_reader.cc reads the sections of a file, layout_rule_reader.cc what a tensor rule consists of.
// Threads: one reader per call.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/ptc/layout.h"
#include "tenplex/ptc/yaml_document.h"

namespace tenplex {

class LayoutReader {
 public:
  explicit LayoutReader(std::string_view name) : yaml_("layout '" + std::string(name) + "'") {}

  Result<LayoutRules> read(std::string_view text);

 private:
  // Sections.
  Result<void> read_meshes(const YamlNode& node);
  Result<void> read_axes(const YamlNode& node);
  Result<void> read_sizes(const YamlNode* sizes, const YamlNode* values);
  Result<void> check_zero(const YamlNode& node) const;
  Result<void> read_tensors(const YamlNode& node);
  Result<void> read_stages(const YamlNode& node);
  Result<void> read_slots(const YamlNode& node);
  Result<void> read_slot_names(const YamlNode& node);
  Result<void> read_ties(const YamlNode& node);
  Result<void> read_objects(const YamlNode& node);
  Result<SlotRule> read_slot(const YamlNode::Entry& entry);
  Result<ObjectRule> read_object(const YamlNode& node);
  Result<void> read_owner(const YamlNode& node, ObjectRule* rule);
  Result<ObjectRule::Coordinate> read_coordinate(const YamlNode::Entry& entry, const ObjectRule& rule);

  // A tensor rule and its parts.
  Result<TensorRule> read_rule(const YamlNode& node);
  Result<std::vector<NamePattern>> read_patterns(const YamlNode& node);
  Result<std::vector<StageRule>> read_stage(const YamlNode& node, const TensorRule& rule);
  Result<StageRule> read_one_stage(const YamlNode& node, const TensorRule& rule);
  Result<PadRule> read_pad(const YamlNode& node);
  Result<std::vector<SliceRule>> read_slices(const YamlNode& node);
  Result<SliceRule> read_slice(const YamlNode& node);
  Result<void> read_dim_slice(const YamlNode& node, SliceRule* slice);
  Result<void> read_segments(const YamlNode& node, const YamlNode& segments, SliceRule* slice);
  Result<void> read_flat_slice(const YamlNode& node, SliceRule* slice);
  Result<void> read_place_slice(const YamlNode& node, SliceRule* slice);
  Result<void> read_split(const YamlNode& node, SliceRule* slice);
  Result<void> check_rule(const TensorRule& rule);
  Result<void> check_captures(const TensorRule& rule, const SliceRule& slice);

  // Values.
  Result<Size> read_size(const YamlNode& node, std::string_view what);
  Result<std::vector<Size>> read_sizes_list(const YamlNode& node, std::string_view what);
  Result<void> check_factor(const YamlNode& node, const Size& size, std::string_view what) const;
  Result<std::vector<Size>> read_factors(const YamlNode& node, std::string_view what);
  Result<std::vector<std::string>> read_words(const YamlNode& node, std::string_view what);
  Result<NamePattern> read_pattern(const YamlNode& node);
  Result<std::size_t> read_mesh_name(const YamlNode& node);

  YamlReader yaml_;
  LayoutRules rules_;
};

}  // namespace tenplex
