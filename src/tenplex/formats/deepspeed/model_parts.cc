// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/model_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/formats/state/lookup.h"

namespace tenplex::deepspeed {

Result<ModelParts> ModelParts::read(const ModelFiles* files, const std::map<std::string, std::int64_t>& experts_of) {
  ModelParts parts(files);
  parts.read_buffers();
  TENPLEX_TRY(parts.read_rules());
  TENPLEX_TRY(parts.read_replicated());
  TENPLEX_TRY(parts.read_groups(experts_of));
  return parts;
}

void ModelParts::read_buffers() {
  for (std::size_t rank = 0; rank < files_->rank_count(); rank += files_->mesh().tensor_ranks) {
    const StateGraph& file = files_->graph(rank, 0);
    const auto names = list_items(file, find_item(file, file.root, "buffer_names"));
    for (std::size_t at = 0; names && at < names->size(); ++at)
      buffers_.emplace(text_of(file, (*names)[at]).value_or(""));
  }
}

Result<void> ModelParts::read_rules() {
  if (files_->mesh().tensor_ranks == 1) return {};
  const StateGraph& file = files_->first().state;
  const NodeId info = files_->item("universal_checkpoint_info");
  if (info == kNoNode || is_none(file, info))
    return unsupported(
               "there is no 'universal_checkpoint_info', without which it is not known how the parts of parameters on "
               "tensor parallel ranks are put together: save with it in client_state")
        .with_context(files_->quoted(0, 0));
  auto rules = JoinRules::read(file, info).with_context("'universal_checkpoint_info'");
  if (!rules) return std::move(rules).error().with_context(files_->quoted(0, 0));
  rules_ = std::move(*rules);
  return {};
}

Result<void> ModelParts::read_replicated() {
  if (!files_->is_pipeline()) return {};
  constexpr std::string_view kList = "pipeline_replicated_parameter_patterns";
  const StateGraph& file = files_->first().state;
  const auto items = list_items(file, find_item(file, files_->item("universal_checkpoint_info"), kList));
  for (std::size_t at = 0; items && at < items->size(); ++at) {
    const auto text = text_of(file, (*items)[at]);
    if (!text) return corrupt(fmt::format("{}: '{}' has an entry that is no text", files_->quoted(0, 0), kList));
    auto pattern = RegexPattern::parse(*text).with_context(fmt::format("'{}'", kList));
    if (!pattern) return std::move(pattern).error().with_context(files_->quoted(0, 0));
    of_first_stage_.push_back(std::move(*pattern));
  }
  return {};
}

bool ModelParts::is_of_first_stage(std::string_view name) const {
  // Patterns are held against ASCII only.
  if (std::any_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) >= 128; })) return false;
  return std::any_of(of_first_stage_.begin(), of_first_stage_.end(),
                     [name](const RegexPattern& pattern) { return pattern.matches(name); });
}

void ModelParts::mark_spares() {
  std::set<std::string_view> known;
  for (ParameterGroups& stage : of_stages_)
    for (Parameter& parameter : stage.parameters())
      parameter.is_spare = !known.insert(parameter.name).second && is_of_first_stage(parameter.name);
}

Result<void> ModelParts::read_groups(const std::map<std::string, std::int64_t>& experts_of) {
  const std::size_t tensor_ranks = files_->mesh().tensor_ranks;
  for (std::size_t stage = 0; stage < files_->mesh().stages; ++stage) {
    std::vector<ParameterGroups> groups;
    groups.reserve(tensor_ranks);
    for (std::size_t rank = stage * tensor_ranks; rank < (stage + 1) * tensor_ranks; ++rank) {
      const StateGraph& file = files_->graph(rank, 0);
      auto read = ParameterGroups::read(file, find_item(file, file.root, "param_shapes"));
      if (read && !experts_of.empty()) read = ParameterGroups::spread(std::move(*read), experts_of);
      if (!read) return std::move(read).error().with_context(files_->quoted(rank, 0));
      groups.push_back(std::move(*read));
    }
    TENPLEX_ASSIGN_OR_RETURN(of_stages_.emplace_back(), ParameterGroups::join(groups, &rules_));
  }
  mark_spares();
  TENPLEX_ASSIGN_OR_RETURN(groups_, ParameterGroups::stack(of_stages_));
  return {};
}

Result<JoinedShape> ModelParts::join(const std::string& name, const std::vector<Dims>& local) {
  const bool buffer = buffers_.contains(name) || local[0].rank() == 0;
  return rules_.join(name, local, buffer ? JoinRules::Subject::kBuffer : JoinRules::Subject::kParameter)
      .with_context(fmt::format("tensor '{}'", name));
}

Result<void> ModelParts::check_used() const {
  if (files_->mesh().tensor_ranks == 1) return {};
  return rules_.check_used();
}

}  // namespace tenplex::deepspeed
