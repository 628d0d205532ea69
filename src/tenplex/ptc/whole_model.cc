// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/whole_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenplex {
namespace {

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// The words of a rule that the names of a side have: first those that may have any numbers, then those of the grid.
struct WordOrder {
  std::vector<std::size_t> words;  // indices into the rule's
  std::size_t partial = 0;         // how many may have any numbers
};

WordOrder order_of(const MapRule& rule, std::size_t side) {
  WordOrder order;
  for (const bool partial : {true, false}) {
    for (std::size_t word = 0; word < rule.words.size(); ++word)
      if (!has(rule.sides[side].stack, rule.words[word]) && has(rule.partial, rule.words[word]) == partial)
        order.words.push_back(word);
    if (partial) order.partial = order.words.size();
  }
  return order;
}

/// The tensors of rules that name the same tensor of the other side.
struct Family {
  const MapRule* rule;
  WordOrder order;
  std::vector<WordValues> found;  // in the order of `order`
};

/// What tensors of one family have in common.
std::string family_of(const MapRule& rule, std::size_t from) {
  std::string key = rule.sides[1 - from].names.front().text();
  for (const std::string& word : rule.words)
    key += fmt::format("\n{}{}{}", word, has(rule.sides[from].stack, word) ? " stacked" : "",
                       has(rule.partial, word) ? " partial" : "");
  return key;
}

class GridCheck {
 public:
  GridCheck(const NamingMap& map, const MapGroups& matched) : map_(map), from_(matched.from) {
    for (const MapGroup& group : matched.groups)
      if (!group.frame.is_slot()) add(group);
  }

  Result<void> check() {
    for (auto& [key, family] : families_) TENPLEX_TRY(check(&family));
    return {};
  }

 private:
  void add(const MapGroup& group) {
    const MapRule& rule = *group.rule;
    const auto [entry, is_new] = families_.try_emplace(family_of(rule, from_));
    Family& family = entry->second;
    if (is_new) family = {&rule, order_of(rule, from_), {}};
    for (const MapMember& member : group.members) {
      WordValues values;
      values.reserve(family.order.words.size());
      for (const std::size_t word : family.order.words) {
        values.push_back(member.values[word]);
        std::int64_t& count = counts_[rule.words[word]];
        count = std::max(count, member.values[word] + 1);
      }
      family.found.push_back(std::move(values));
    }
  }

  /// Walks the grid beside what is there.
  Result<void> check(Family* family) {
    std::vector<WordValues>& found = family->found;
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    WordValues next;
    bool open = false;  // is the grid of the partial words' numbers in `next` not complete?
    for (const WordValues& values : found) {
      if (!open) {
        next = values;
        std::fill(next.begin() + static_cast<std::ptrdiff_t>(family->order.partial), next.end(), 0);
      }
      if (values != next) return missing(*family, next);
      open = advance(*family, &next);
    }
    return open ? missing(*family, next) : Result<void>();
  }

  /// The next place of the grid; false behind the last one.
  bool advance(const Family& family, WordValues* values) const {
    for (std::size_t at = values->size(); at-- > family.order.partial;) {
      if (++(*values)[at] < counts_.find(family.rule->words[family.order.words[at]])->second) return true;
      (*values)[at] = 0;
    }
    return false;
  }

  Error missing(const Family& family, const WordValues& values) const {
    const auto name_of = [&](const WordValues& ordered) {
      WordValues all(family.rule->words.size(), kOpen);
      for (std::size_t at = 0; at < ordered.size(); ++at) all[family.order.words[at]] = ordered[at];
      return family.rule->sides[from_].names.front().fill(family.rule->words, all);
    };
    return invalid_argument(fmt::format("{}: tensor '{}' is missing, '{}' is there: the map is for whole models",
                                        map_.where(family.rule->line), name_of(values), name_of(family.found.front())));
  }

  const NamingMap& map_;
  const std::size_t from_;
  std::map<std::string, Family> families_;
  std::map<std::string_view, std::int64_t> counts_;  // of the numbers of every word
};

}  // namespace

Result<void> check_whole_model(const NamingMap& map, const MapGroups& matched) {
  return GridCheck(map, matched).check();
}

}  // namespace tenplex
