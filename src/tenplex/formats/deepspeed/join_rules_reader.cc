// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "tenplex/formats/deepspeed/join_rules.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex::deepspeed {
namespace {

constexpr double kNewestVersion = 0.4;
constexpr std::size_t kMaxPatterns = 100'000;
constexpr std::int64_t kMaxWidth = std::int64_t{1} << 40;

std::optional<std::vector<NodeId>> sequence_of(const StateGraph& graph, NodeId node) {
  if (node < graph.size() && graph[node].kind == NodeKind::kTuple) return graph[node].children;
  const auto items = list_items(graph, node);
  if (!items) return std::nullopt;
  return std::vector<NodeId>(items->begin(), items->end());
}

}  // namespace

class JoinRules::Reader {
 public:
  Reader(const StateGraph& graph, NodeId info) : graph_(graph), info_(info) {}

  Result<JoinRules> run() {
    if (!is_dict(graph_, info_)) return corrupt("it is no dict");
    TENPLEX_TRY(read_version());
    TENPLEX_TRY(refuse_maps());
    TENPLEX_TRY(read_list("tp_replicated_parameter_patterns", &found_.replicated_));
    TENPLEX_TRY(read_list("parameter_to_average_patterns", &found_.averaged_));
    TENPLEX_TRY(read_list("parameter_with_row_parallelism_patterns", &found_.rows_));
    TENPLEX_TRY(read_list("vocabulary_parameter_patterns", &found_.vocabulary_));
    TENPLEX_TRY(read_list("parameter_with_2_sub_params_cat_dim_0", &found_.halves_));
    TENPLEX_TRY(read_unsupported());
    TENPLEX_TRY(read_sub_parameters());
    TENPLEX_TRY(read_widths());
    found_.original_vocabulary_ = integer_of(graph_, item("original_vocab_size"));
    return std::move(found_);
  }

 private:
  NodeId item(std::string_view key) const { return find_item(graph_, info_, key); }
  bool absent(NodeId node) const { return node == kNoNode || is_none(graph_, node); }

  Result<void> read_version() {
    const NodeId node = item("universal_checkpoint_version");
    if (absent(node)) return {};
    const Node& value = graph_[node];
    if (value.kind != NodeKind::kFloat && value.kind != NodeKind::kInt)
      return corrupt("'universal_checkpoint_version' is no number");
    found_.version_ = value.kind == NodeKind::kFloat ? value.real : static_cast<double>(value.integer);
    if (found_.version_ >= 0 && found_.version_ <= kNewestVersion) return {};
    return unsupported(
        fmt::format("'universal_checkpoint_version' is {}; up to {} is known", found_.version_, kNewestVersion));
  }

  Result<void> refuse_maps() const {
    const auto maps = mapping_items(graph_, find_item(graph_, item("affine_map"), "params"));
    if (!maps || maps->empty()) return {};
    return unsupported("'affine_map' says how parameters are cut (AutoTP), which is not read");
  }

  Result<void> add_pattern(NodeId node, Patterns* patterns) {
    const auto text = text_of(graph_, node);
    if (!text) return corrupt("a pattern is no text");
    if (++patterns_ > kMaxPatterns) return unsupported(fmt::format("there are more than {} patterns", kMaxPatterns));
    TENPLEX_ASSIGN_OR_RETURN(RegexPattern pattern, RegexPattern::parse(*text));
    // A list may have one twice, and DeepSpeed then refuses it: two match.
    patterns->push_back({std::string(*text), std::move(pattern), false});
    return {};
  }

  Result<void> read_list(std::string_view key, Patterns* patterns) {
    const NodeId node = item(key);
    if (absent(node)) return {};
    const auto items = sequence_of(graph_, node);
    if (!items) return corrupt(fmt::format("'{}' is no list", key));
    for (const NodeId entry : *items) {
      auto added = add_pattern(entry, patterns);
      if (!added) return std::move(added).error().with_context(fmt::format("'{}'", key));
    }
    return {};
  }

  Result<void> read_unsupported() {
    const auto items = mapping_items(graph_, item("autotp_unsupported_parameter_patterns"));
    for (std::size_t at = 0; items && at + 1 < items->size(); at += 2)
      TENPLEX_TRY(add_pattern((*items)[at], &found_.unsupported_));
    return {};
  }

  Result<void> read_sub_parameters() {
    const NodeId node = item("parameter_with_sub_params");
    if (absent(node)) return {};
    const auto items = sequence_of(graph_, node);
    if (!items) return corrupt("'parameter_with_sub_params' is no list");
    for (const NodeId entry : *items) {
      auto rule = sub_parameters_of(entry);
      if (!rule) return std::move(rule).error().with_context("'parameter_with_sub_params'");
      found_.sub_parameters_.push_back(std::move(*rule));
    }
    return {};
  }

  Result<SubParameters> sub_parameters_of(NodeId entry) {
    SubParameters rule;
    const auto patterns = sequence_of(graph_, find_item(graph_, entry, "patterns"));
    const auto shape = sequence_of(graph_, find_item(graph_, entry, "shape"));
    const auto dim = integer_of(graph_, find_item(graph_, entry, "partition_dim"));
    if (!patterns || !shape || !dim || shape->size() > static_cast<std::size_t>(kMaxRank) || *dim < 0 ||
        *dim >= static_cast<std::int64_t>(shape->size()))
      return corrupt("an entry has not 'patterns', 'shape' and a 'partition_dim' in it");
    for (const NodeId pattern : *patterns) TENPLEX_TRY(add_pattern(pattern, &rule.patterns));
    rule.dim = static_cast<int>(*dim);
    for (const NodeId size : *shape) {
      const auto number = integer_of(graph_, size);
      const auto sizes = number ? std::vector{*number} : numbers_of(size);
      if (sizes.empty() || (number && (*number < -1 || *number > kMaxWidth)))
        return corrupt("a size in 'shape' is none");
      rule.shape.push_back(sizes);
      rule.is_list.push_back(!number);
    }
    return rule;
  }

  /// Nothing if it is no list of numbers that are not negative.
  std::vector<std::int64_t> numbers_of(NodeId node) const {
    std::vector<std::int64_t> numbers;
    const auto items = sequence_of(graph_, node);
    for (const NodeId entry : items.value_or(std::vector<NodeId>())) {
      const auto number = integer_of(graph_, entry);
      if (!number || *number < 0 || *number > kMaxWidth || numbers.size() > kMaxPatterns) return {};
      numbers.push_back(*number);
    }
    return numbers;
  }

  Result<void> read_widths() {
    const auto items = mapping_items(graph_, item("sub_param_shard_widths"));
    for (std::size_t at = 0; items && at + 1 < items->size(); at += 2) {
      Widths& widths = found_.widths_.emplace_back();
      const auto pattern = text_of(graph_, (*items)[at]);
      const auto sections = sequence_of(graph_, (*items)[at + 1]);
      if (!pattern || !sections) return corrupt("'sub_param_shard_widths' is no dict of pattern and widths");
      widths.pattern = *pattern;
      for (const NodeId section : *sections) widths.of_ranks.push_back(numbers_of(section));
    }
    return {};
  }

  const StateGraph& graph_;
  NodeId info_;
  JoinRules found_;
  std::size_t patterns_ = 0;
};

Result<JoinRules> JoinRules::read(const StateGraph& graph, NodeId info) { return Reader(graph, info).run(); }

}  // namespace tenplex::deepspeed
