// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/map_agreements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string>
#include <vector>

#include "tenplex/base/checked.h"
#include "tenplex/ptc/map_index.h"
#include "tenplex/ptc/name_index.h"

namespace tenplex {
namespace {

std::optional<std::int64_t> extent_of(const TensorInfo& tensor, int dim) {
  if (dim >= tensor.shape.rank()) return std::nullopt;
  return tensor.shape[dim];
}

/// The text behind the last word: what all names of the pattern end with.
std::string ending_of(const NamePattern& pattern) {
  const std::string& text = pattern.text();
  const std::size_t brace = text.rfind('}');
  return brace == std::string::npos ? text : text.substr(brace + 1);
}

/// One agreement and the tensors that it is held against.
class Agreement {
 public:
  Agreement(const NamingMap& map, const MapAgreement& rule, const NamedSizes& sizes)
      : map_(map), rule_(rule), sizes_(sizes), words_(rule.names[0].words()), ending_(ending_of(rule.names[0])) {
    times_ = rule.times.name.empty() ? rule.times.value : find_size(sizes, rule.times.name);
  }

  /// Without a value of its size an agreement says nothing.
  bool counts() const { return times_.has_value(); }

  Result<void> check(const TensorInfo& tensor, const MapIndex& names, std::span<const TensorInfo> tensors,
                     const NameIndex& index) const {
    if (tensor.name.find(ending_) == std::string::npos) return {};
    const auto place = names.find(tensor.name, rule_.side);
    if (!place) return {};
    const SlotFrame& frame = place->frame;
    const std::string parameter =
        tensor.name.substr(frame.before.size(), tensor.name.size() - frame.before.size() - frame.after.size());
    const auto captures = rule_.names[0].match(parameter);
    if (!captures) return {};
    WordValues values;
    for (const std::string& word : words_) values.push_back(captured_number(*captures, word).value_or(kOpen));
    const auto other = index.find(frame.around(rule_.names[1].fill(words_, values)));
    if (!other || tensor.shape.empty()) return {};  // slots can be one number
    return compare(tensor, tensors[other->index()]);
  }

 private:
  Result<void> compare(const TensorInfo& first, const TensorInfo& second) const {
    const auto one = extent_of(first, rule_.dims[0]);
    const auto two = extent_of(second, rule_.dims[1]);
    if (one && two && checked_mul(*two, *times_) == one) return {};
    std::vector<std::string> known;
    for (const auto& [name, value] : sizes_) known.push_back(fmt::format("{} {}", name, value));
    return invalid_argument(
        fmt::format("{}: dimension {} of '{}' of shape {} must be as long as dimension {} of '{}' of shape {}{}{}",
                    map_.where(rule_.line), rule_.dims[0], first.name, to_string(first.shape), rule_.dims[1],
                    second.name, to_string(second.shape), times_ == 1 ? "" : fmt::format(" times {}", *times_),
                    known.empty() ? "" : fmt::format(" ({})", fmt::join(known, ", "))));
  }

  const NamingMap& map_;
  const MapAgreement& rule_;
  const NamedSizes& sizes_;
  const std::vector<std::string> words_;
  const std::string ending_;
  std::optional<std::int64_t> times_;
};

}  // namespace

Result<void> check_agreements(const NamingMap& map, std::size_t side, std::span<const TensorInfo> tensors,
                              const NamedSizes& sizes) {
  if (map.rules().agreements.empty()) return {};
  const MapIndex names(map.rules());
  const NameIndex index(tensors);
  for (const MapAgreement& rule : map.rules().agreements) {
    const Agreement agreement(map, rule, sizes);
    if (rule.side != side || !agreement.counts()) continue;
    for (const TensorInfo& tensor : tensors) TENPLEX_TRY(agreement.check(tensor, names, tensors, index));
  }
  return {};
}

}  // namespace tenplex
