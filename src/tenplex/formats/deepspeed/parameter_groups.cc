// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/parameter_groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/formats/deepspeed/expert_names.h"
#include "tenplex/formats/deepspeed/layer_names.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex::deepspeed {

Result<std::vector<std::pair<std::string, Dims>>> read_shapes(const StateGraph& graph, NodeId dict) {
  std::vector<std::pair<std::string, Dims>> shapes;
  const auto items = mapping_items(graph, dict);
  if (!items) return corrupt("the shapes of parameters are no dict");
  shapes.reserve(items->size() / 2);
  for (std::size_t at = 0; at + 1 < items->size(); at += 2) {
    const auto name = text_of(graph, (*items)[at]);
    const auto shape = dims_of(graph, (*items)[at + 1]);
    if (!name || !shape) return corrupt(fmt::format("the shape of parameter '{}' is none", name.value_or("?")));
    if (auto checked = check_tensor({std::string(*name), DType::kFloat32, *shape}); !checked)
      return std::move(checked).error();
    shapes.emplace_back(*name, *shape);
  }
  return shapes;
}

Result<ParameterGroups> ParameterGroups::read(const StateGraph& graph, NodeId param_shapes) {
  ParameterGroups groups;
  if (param_shapes == kNoNode || is_none(graph, param_shapes)) return groups;
  const auto items = list_items(graph, param_shapes);
  if (!items) return corrupt("'param_shapes' is no list");
  for (const NodeId group : *items) {
    auto shapes = read_shapes(graph, group).with_context("'param_shapes'");
    if (!shapes) return std::move(shapes).error();
    for (auto& [name, shape] : *shapes) {
      if (!groups.index_.emplace(name, groups.parameters_.size()).second)
        return corrupt(fmt::format("'param_shapes' has parameter '{}' twice", name));
      Parameter& parameter = groups.parameters_.emplace_back();
      parameter.name = std::move(name);
      parameter.shape = shape;
      parameter.group = groups.group_count();
    }
    groups.first_.push_back(groups.parameters_.size());
  }
  return groups;
}

Result<ParameterGroups> ParameterGroups::join(const std::vector<ParameterGroups>& ranks, JoinRules* rules) {
  ParameterGroups joined = ranks[0];
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const auto same = [](const Parameter& a, const Parameter& b) { return a.name == b.name && a.group == b.group; };
    if (ranks[rank].first_ != joined.first_ ||
        !std::equal(joined.parameters_.begin(), joined.parameters_.end(), ranks[rank].parameters_.begin(), same))
      return corrupt(
          fmt::format("'param_shapes' of tensor parallel rank {} has other parameters than that of rank 0, or another "
                      "order",
                      rank));
  }
  for (std::size_t index = 0; index < joined.parameters_.size(); ++index) {
    Parameter& parameter = joined.parameters_[index];
    std::vector<Dims> local;
    local.reserve(ranks.size());
    for (const ParameterGroups& rank : ranks) local.push_back(rank.parameters_[index].shape);
    auto whole = rules->join(parameter.name, local, JoinRules::Subject::kParameter)
                     .with_context(fmt::format("parameter '{}'", parameter.name));
    if (!whole) return std::move(whole).error();
    parameter.shape = whole->shape;
    parameter.parts = std::move(whole->parts);
    parameter.notes = std::move(whole->notes);
  }
  return joined;
}

Result<ParameterGroups> ParameterGroups::stack(const std::vector<ParameterGroups>& stages) {
  if (stages.size() == 1) return stages[0];
  ParameterGroups whole;
  for (std::size_t stage = 1; stage < stages.size(); ++stage)
    if (stages[stage].group_count() != stages[0].group_count())
      return corrupt(fmt::format("'param_shapes' of stage {} of the pipeline has {} groups, and that of stage 0 has {}",
                                 stage, stages[stage].group_count(), stages[0].group_count()));
  for (std::size_t group = 0; group < stages[0].group_count(); ++group) {
    for (const ParameterGroups& stage : stages)
      for (std::size_t index = stage.first_of(group); index < stage.first_of(group + 1); ++index) {
        const Parameter& parameter = stage.parameters_[index];
        const auto [known, added] = whole.index_.emplace(parameter.name, whole.parameters_.size());
        if (added) {
          whole.parameters_.push_back(parameter);
          continue;
        }
        const Parameter& first = whole.parameters_[known->second];
        const auto name = parse_layer_name(parameter.name);
        if (!name || !name->tied())
          return corrupt(
              fmt::format("parameter '{}' is in 'param_shapes' of two stages of the pipeline, and it is of no "
                          "tied module",
                          parameter.name));
        if (first.group != group || first.shape != parameter.shape || first.parts != parameter.parts)
          return corrupt(
              fmt::format("parameter '{}' of a tied module has shape {} in group {} on one stage of the "
                          "pipeline, and {} in group {} on another",
                          parameter.name, to_string(first.shape), first.group, to_string(parameter.shape), group));
      }
    whole.first_.push_back(whole.parameters_.size());
  }
  return whole;
}

Result<ParameterGroups> ParameterGroups::spread(ParameterGroups local,
                                                const std::map<std::string, std::int64_t>& experts_of) {
  ParameterGroups whole;
  for (const Parameter& parameter : local.parameters_) {
    const auto name = parse_expert_name(parameter.name);
    if (!name) continue;
    std::int64_t& count = whole.per_rank_[std::string(name->layer)];
    count = std::max(count, name->expert + 1);
  }
  if (whole.per_rank_.empty()) return local;
  for (std::size_t group = 0; group < local.group_count(); ++group) {
    std::size_t expert_ranks = 1;
    for (std::size_t rank = 0; rank < expert_ranks; ++rank)
      for (std::size_t index = local.first_of(group); index < local.first_of(group + 1); ++index) {
        Parameter parameter = local.parameters_[index];
        const auto name = parse_expert_name(parameter.name);
        if (name.has_value() != parse_expert_name(local.parameters_[local.first_of(group)].name).has_value())
          return corrupt(fmt::format("'param_shapes': '{}' is in a group of experts and others", parameter.name));
        if (name) {
          const std::int64_t here = whole.per_rank_.find(name->layer)->second;
          const auto found = experts_of.find(std::string(name->layer));
          const std::int64_t all = found == experts_of.end() ? 0 : found->second;
          if (all % here != 0 || all == 0 ||
              (expert_ranks > 1 && all / here != static_cast<std::int64_t>(expert_ranks)))
            return corrupt(fmt::format("'{}' is of {} experts on each rank, and there are files of {}", parameter.name,
                                       here, all));
          expert_ranks = static_cast<std::size_t>(all / here);
          parameter.name = name->with(name->expert + here * static_cast<std::int64_t>(rank));
          parameter.is_expert = true;
          parameter.expert_rank = rank;
        }
        if (!whole.index_.emplace(parameter.name, whole.parameters_.size()).second)
          return corrupt(fmt::format("'param_shapes' has parameter '{}' twice", parameter.name));
        whole.parameters_.push_back(std::move(parameter));
      }
    whole.first_.push_back(whole.parameters_.size());
  }
  return whole;
}

std::int64_t ParameterGroups::experts_per_rank(std::string_view layer) const {
  const auto found = per_rank_.find(layer);
  return found == per_rank_.end() ? 0 : found->second;
}

Parameter* ParameterGroups::find(std::string_view name) {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &parameters_[found->second];
}

const Parameter* ParameterGroups::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &parameters_[found->second];
}

}  // namespace tenplex::deepspeed
