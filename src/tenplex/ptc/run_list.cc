// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/run_list.h"

#include <algorithm>

namespace tenplex {

RunList RunList::whole(std::int64_t data, std::int64_t padded) {
  RunList list;
  list.append(0, data);
  list.append(kPadding, padded - data);
  return list;
}

void RunList::append(std::int64_t begin, std::int64_t length) {
  if (length == 0) return;
  if (!runs_.empty()) {
    Run& last = runs_.back();
    const bool both_padding = begin == kPadding && last.begin == kPadding;
    const bool continues = begin != kPadding && last.begin != kPadding && last.begin + last.length == begin;
    if (both_padding || continues) {
      last.length += length;
      extent_ += length;
      return;
    }
  }
  runs_.push_back({extent_, begin, length});
  extent_ += length;
}

void RunList::append_range(const RunList& source, std::int64_t begin, std::int64_t length) {
  source.for_range(begin, length, [this](const Run& run) { append(run.begin, run.length); });
}

std::size_t RunList::first_run_at(std::int64_t local) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), local,
                                      [](std::int64_t index, const Run& run) { return index < run.local; });
  return after == runs_.begin() ? 0 : static_cast<std::size_t>(after - runs_.begin()) - 1;
}

}  // namespace tenplex
