// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// How the parts of a parameter on tensor parallel ranks make the whole one, as `universal_checkpoint_info` in the
// model's files says it: lists of regular expressions over parameter names.
//
//   tp_replicated, to_average     every rank has all of it, and the same
//   with_row_parallelism          side by side along dimension 1
//   2_sub_params_cat_dim_0        [a₀ b₀] [a₁ b₁] ─► [a₀ a₁ b₀ b₁]
//   with_sub_params               the same for more sub-parameters, of widths per rank, along any dimension
//   none of them                  one after the other along dimension 0
//   vocabulary                    then only the first `original_vocab_size` rows: the rest is padding
//
// They are applied in the order in which DeepSpeed's ds_to_universal applies them. Value types. Threads: join() and
// check_used() one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/deepspeed/regex_pattern.h"
#include "tenplex/formats/joined_reader.h"
#include "tenplex/formats/state/state_graph.h"

namespace tenplex::deepspeed {

/// What a universal checkpoint's files say of a parameter, so that it can be cut again.
struct CutNotes {
  std::int64_t cat_dim = 0;
  bool halves = false;  ///< param_n_sub_params is 2
  /// Of each dimension one number (-1: what is left), or the widths of sub-parameters; empty: there are none.
  std::vector<std::vector<std::int64_t>> sub_param_shape;
  std::vector<bool> is_list;  ///< of each dimension
  int sub_param_dim = 0;
  std::vector<std::string> sub_param_patterns;
  bool vocabulary = false;
};

struct JoinedShape {
  Dims shape;
  std::vector<LocalPart> parts;  ///< by tensor parallel rank
  CutNotes notes;
};

class JoinRules {
 public:
  enum class Subject : std::uint8_t { kParameter, kBuffer };  ///< a buffer that no pattern matches is replicated

  /// For a checkpoint without tensor parallelism.
  JoinRules() = default;

  /// `info` is the dict. Errors: unsupported, naming the entry, for a newer version, for maps and patterns that are not
  /// understood; corrupt for another structure.
  static Result<JoinRules> read(const StateGraph& graph, NodeId info);

  /// `local` are the shapes by tensor parallel rank, at least one. Errors: corrupt, saying what does not fit, where the
  /// shapes are not those of the rule, or where two patterns of one list match.
  Result<JoinedShape> join(std::string_view name, std::span<const Dims> local, Subject subject);

  /// Errors: corrupt, naming a pattern that has matched nothing that was joined.
  Result<void> check_used() const;

 private:
  struct Pattern {
    std::string text;
    RegexPattern pattern;
    bool used = false;
  };
  using Patterns = std::vector<Pattern>;
  struct SubParameters {
    Patterns patterns;
    std::vector<std::vector<std::int64_t>> shape;  // several: the widths of sub-parameters
    std::vector<bool> is_list;
    int dim = 0;
  };
  struct Widths {
    std::string pattern;
    std::vector<std::vector<std::int64_t>> of_ranks;  // per sub-parameter
  };
  class Reader;

  static Result<bool> match(Patterns* patterns, std::string_view name);
  SubParameters* match_sub_parameters(std::string_view name, std::string* pattern);
  static Result<JoinedShape> replicate(std::span<const Dims> local);
  static Result<JoinedShape> concatenate(std::span<const Dims> local, int dim);
  static Result<JoinedShape> join_halves(std::span<const Dims> local);
  Result<JoinedShape> join_sub_parameters(const SubParameters& rule, const std::string& pattern,
                                          std::span<const Dims> local) const;
  Result<void> strip_padding(JoinedShape* joined) const;

  double version_ = 0;
  Patterns replicated_;
  Patterns averaged_;
  Patterns rows_;
  Patterns vocabulary_;
  Patterns halves_;
  Patterns unsupported_;
  std::vector<SubParameters> sub_parameters_;
  std::vector<Widths> widths_;
  std::optional<std::int64_t> original_vocabulary_;
};

}  // namespace tenplex::deepspeed
