// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/join_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tenplex/base/checked.h"

namespace tenplex::deepspeed {
namespace {

constexpr double kFirstWithWidths = 0.4;

/// Of every sub-parameter, how many indexes along `dim` each rank has. Requires: the sums fit the local shapes.
Result<JoinedShape> join_sections(std::span<const Dims> local, int dim,
                                  const std::vector<std::vector<std::int64_t>>& widths) {
  JoinedShape joined;
  joined.shape = local[0];
  joined.shape[dim] = 0;
  for (const Dims& shape : local) {
    joined.parts.push_back({shape, {}});
    Dims other = shape;
    other[dim] = 0;
    if (other != joined.shape)
      return corrupt(fmt::format("the parts of shapes {} and {} do not fit each other along dimension {}",
                                 to_string(local[0]), to_string(shape), dim));
  }
  std::vector<std::int64_t> at(local.size(), 0);
  std::int64_t whole = 0;
  for (const std::vector<std::int64_t>& section : widths) {
    for (std::size_t rank = 0; rank < local.size(); ++rank) {
      if (section[rank] < 0 || section[rank] > local[rank][dim] - at[rank])
        return corrupt(fmt::format("the widths of sub-parameters add up to more than shape {} of tensor rank {} has",
                                   to_string(local[rank]), rank));
      Box box = Box::whole(local[rank]);
      box.offset[dim] = at[rank];
      box.extent[dim] = section[rank];
      Dims start = Dims::filled(local[rank].rank(), 0);
      start[dim] = whole;
      if (!box.empty()) joined.parts[rank].pieces.push_back({box, start});
      at[rank] += section[rank];
      const auto sum = checked_add(whole, section[rank]);
      if (!sum) return corrupt("the whole parameter is too large");
      whole = *sum;
    }
  }
  for (std::size_t rank = 0; rank < local.size(); ++rank)
    if (at[rank] != local[rank][dim])
      return corrupt(fmt::format("the widths of sub-parameters on tensor rank {} add up to {}, and its shape is {}",
                                 rank, at[rank], to_string(local[rank])));
  joined.shape[dim] = whole;
  if (auto checked = check_tensor({"", DType::kFloat32, joined.shape}); !checked) return std::move(checked).error();
  return joined;
}

}  // namespace

Result<bool> JoinRules::match(Patterns* patterns, std::string_view name) {
  Pattern* found = nullptr;
  for (Pattern& pattern : *patterns) {
    if (!pattern.pattern.matches(name)) continue;
    if (found != nullptr)
      return corrupt(fmt::format("patterns '{}' and '{}' of one list match it", found->text, pattern.text));
    found = &pattern;
  }
  if (found != nullptr) found->used = true;
  return found != nullptr;
}

JoinRules::SubParameters* JoinRules::match_sub_parameters(std::string_view name, std::string* text) {
  for (SubParameters& rule : sub_parameters_)
    for (Pattern& pattern : rule.patterns)
      if (pattern.pattern.matches(name)) {
        pattern.used = true;
        *text = pattern.text;
        return &rule;
      }
  return nullptr;
}

Result<JoinedShape> JoinRules::replicate(std::span<const Dims> local) {
  JoinedShape joined;
  joined.shape = local[0];
  for (const Dims& shape : local) {
    if (shape != local[0])
      return corrupt(fmt::format("every tensor rank should have all of it, and the shapes are {} and {}",
                                 to_string(local[0]), to_string(shape)));
    joined.parts.push_back({shape, {{Box::whole(shape), Dims::filled(shape.rank(), 0)}}});
  }
  return joined;
}

Result<JoinedShape> JoinRules::concatenate(std::span<const Dims> local, int dim) {
  std::vector<std::int64_t> widths;
  for (const Dims& shape : local) {
    if (shape.rank() <= dim)
      return corrupt(
          fmt::format("its parts are joined along dimension {}, and one has the shape {}", dim, to_string(shape)));
    widths.push_back(shape[dim]);
  }
  TENPLEX_ASSIGN_OR_RETURN(JoinedShape joined, join_sections(local, dim, {widths}));
  joined.notes.cat_dim = dim;
  return joined;
}

Result<JoinedShape> JoinRules::join_halves(std::span<const Dims> local) {
  std::vector<std::int64_t> widths;
  for (const Dims& shape : local) {
    if (shape.empty() || shape[0] % 2 != 0)
      return corrupt(fmt::format("a part of shape {} has no two equal halves", to_string(shape)));
    widths.push_back(shape[0] / 2);
  }
  TENPLEX_ASSIGN_OR_RETURN(JoinedShape joined, join_sections(local, 0, {widths, widths}));
  joined.notes.halves = true;
  return joined;
}

Result<JoinedShape> JoinRules::join_sub_parameters(const SubParameters& rule, const std::string& pattern,
                                                   std::span<const Dims> local) const {
  const auto dim = static_cast<std::size_t>(rule.dim);
  for (const Dims& shape : local)
    if (shape.rank() != static_cast<int>(rule.shape.size()))
      return corrupt(fmt::format("'parameter_with_sub_params' has {} dimensions, a part has the shape {}",
                                 rule.shape.size(), to_string(shape)));
  const auto ranks = static_cast<std::int64_t>(local.size());
  std::vector<std::int64_t> sizes = rule.shape[dim];
  std::vector<std::vector<std::int64_t>> widths;
  if (version_ >= kFirstWithWidths) {
    const auto found =
        std::find_if(widths_.begin(), widths_.end(), [&](const Widths& entry) { return entry.pattern == pattern; });
    if (!rule.is_list[dim] || found == widths_.end())
      return corrupt(fmt::format("'sub_param_shard_widths' says nothing of pattern '{}'", pattern));
    widths = found->of_ranks;
  } else {
    if (!rule.is_list[dim]) {
      std::int64_t whole = 0;
      for (const Dims& shape : local) whole += shape[rule.dim];
      if (sizes[0] <= 0 || whole % sizes[0] != 0)
        return corrupt(fmt::format("{} sub-parameters do not make {} along dimension {}", sizes[0], whole, dim));
      sizes.assign(static_cast<std::size_t>(std::min<std::int64_t>(sizes[0], whole)), whole / sizes[0]);
    }
    for (const std::int64_t size : sizes) {
      if (size % ranks != 0)
        return corrupt(
            fmt::format("sub-parameter of width {} on {} tensor ranks: there are no widths per rank", size, ranks));
      widths.emplace_back(local.size(), size / ranks);
    }
  }
  if (widths.size() != sizes.size())
    return corrupt(fmt::format("'sub_param_shard_widths' has {} sub-parameters, 'parameter_with_sub_params' {}",
                               widths.size(), sizes.size()));
  for (std::size_t sub = 0; sub < sizes.size(); ++sub) {
    std::int64_t sum = 0;
    for (const std::int64_t width : widths[sub])
      if (width < 0 || __builtin_add_overflow(sum, width, &sum)) return corrupt("a width of a sub-parameter is none");
    if (widths[sub].size() != local.size() || sum != sizes[sub])
      return corrupt(fmt::format("{} widths of a sub-parameter add up to {}, expected {} of {} in all",
                                 widths[sub].size(), sum, local.size(), sizes[sub]));
  }
  TENPLEX_ASSIGN_OR_RETURN(JoinedShape joined, join_sections(local, rule.dim, widths));
  for (int other = 0; other < joined.shape.rank(); ++other) {
    const auto& said = rule.shape[static_cast<std::size_t>(other)];
    const std::int64_t size = std::accumulate(said.begin(), said.end(), std::int64_t{0});
    if (other != rule.dim && size >= 0 && size != joined.shape[other])
      return corrupt(fmt::format("'parameter_with_sub_params' says {} for dimension {}, and its shape is {}", size,
                                 other, to_string(joined.shape)));
  }
  joined.notes.sub_param_shape = rule.shape;
  joined.notes.sub_param_shape[dim] = sizes;
  joined.notes.is_list = rule.is_list;
  joined.notes.is_list[dim] = true;
  joined.notes.sub_param_dim = rule.dim;
  for (const Pattern& entry : rule.patterns) joined.notes.sub_param_patterns.push_back(entry.text);
  return joined;
}

Result<void> JoinRules::strip_padding(JoinedShape* joined) const {
  if (joined->shape.rank() != 2)
    return corrupt(fmt::format("a vocabulary has two dimensions, found {}", to_string(joined->shape)));
  if (!original_vocabulary_ || *original_vocabulary_ < 0 || *original_vocabulary_ > joined->shape[0])
    return corrupt(fmt::format("'original_vocab_size' is no number of rows of shape {}", to_string(joined->shape)));
  joined->shape[0] = *original_vocabulary_;
  joined->notes.vocabulary = true;
  for (LocalPart& part : joined->parts) {
    for (LocalPiece& piece : part.pieces)
      piece.local.extent[0] =
          std::clamp<std::int64_t>(*original_vocabulary_ - piece.start[0], 0, piece.local.extent[0]);
    std::erase_if(part.pieces, [](const LocalPiece& piece) { return piece.local.empty(); });
  }
  return {};
}

Result<JoinedShape> JoinRules::join(std::string_view name, std::span<const Dims> local, Subject subject) {
  if (local.size() == 1) return replicate(local);
  if (std::any_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) >= 128; }))
    return unsupported("patterns are not held against a name that is not ASCII");
  TENPLEX_ASSIGN_OR_RETURN(const bool unsupported_cut, match(&unsupported_, name));
  if (unsupported_cut) return unsupported("'autotp_unsupported_parameter_patterns' has it: it cannot be joined");
  std::string pattern;
  SubParameters* const sub_parameters = match_sub_parameters(name, &pattern);
  const auto pick = [&]() -> Result<JoinedShape> {
    TENPLEX_ASSIGN_OR_RETURN(const bool replicated, match(&replicated_, name));
    if (replicated) return replicate(local);
    TENPLEX_ASSIGN_OR_RETURN(const bool averaged, match(&averaged_, name));
    if (averaged) return replicate(local);
    TENPLEX_ASSIGN_OR_RETURN(const bool halves, match(&halves_, name));
    if (halves) return join_halves(local);
    if (sub_parameters != nullptr) return join_sub_parameters(*sub_parameters, pattern, local);
    TENPLEX_ASSIGN_OR_RETURN(const bool rows, match(&rows_, name));
    if (rows) return concatenate(local, 1);
    if (subject == Subject::kBuffer) return replicate(local);
    return concatenate(local, 0);
  };
  TENPLEX_ASSIGN_OR_RETURN(JoinedShape joined, pick());
  TENPLEX_ASSIGN_OR_RETURN(const bool vocabulary, match(&vocabulary_, name));
  if (vocabulary) TENPLEX_TRY(strip_padding(&joined));
  return joined;
}

Result<void> JoinRules::check_used() const {
  const auto check = [](const Patterns& patterns) -> Result<void> {
    for (const Pattern& pattern : patterns)
      if (!pattern.used)
        return corrupt(fmt::format(
            "pattern '{}' in 'universal_checkpoint_info' matches no parameter: it is not that of this model",
            pattern.text));
    return {};
  };
  for (const Patterns* patterns : {&replicated_, &averaged_, &rows_, &vocabulary_, &halves_})
    TENPLEX_TRY(check(*patterns));
  for (const SubParameters& rule : sub_parameters_) TENPLEX_TRY(check(rule.patterns));
  return {};
}

}  // namespace tenplex::deepspeed
