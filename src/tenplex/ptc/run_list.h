// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// RunList: one dimension of a local array, as runs of consecutive indices of the tensor, in local order.
//
//   local    0 1 2 3 4 5 6 7      runs {begin 4, length 3}, {begin 12, length 3}, {padding, length 2}
//   tensor   4 5 6 12 13 14 – –
//
// Every cut of a dimension (even or not, of segments, of interleaved blocks, of a padded dimension, after another cut)
// selects ranges of such a list. Neighbours that continue each other are one run.
//
// Value type. Threads: as any value.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tenplex {

class RunList {
 public:
  static constexpr std::int64_t kPadding = -1;

  struct Run {
    std::int64_t local = 0;   ///< first local index
    std::int64_t begin = 0;   ///< first index in the tensor, or kPadding
    std::int64_t length = 0;  ///< > 0

    friend bool operator==(const Run&, const Run&) = default;
  };

  /// The whole dimension: `data` indices, then padding up to `padded`. Requires: 0 <= data <= padded.
  static RunList whole(std::int64_t data, std::int64_t padded);

  /// Local extent, padding included.
  std::int64_t extent() const { return extent_; }
  std::span<const Run> runs() const { return runs_; }

  /// Adds indices at the end. Requires: length >= 0.
  void append(std::int64_t begin, std::int64_t length);
  /// Adds the local range [begin, begin + length) of `source`. Requires: it lies inside.
  /// Cost: O(log runs + runs touched).
  void append_range(const RunList& source, std::int64_t begin, std::int64_t length);

  /// Calls visit(run) with the part of every run that lies in [begin, begin + length), padding too.
  template <typename Visit>
  void for_range(std::int64_t begin, std::int64_t length, Visit visit) const;

  friend bool operator==(const RunList&, const RunList&) = default;

 private:
  std::size_t first_run_at(std::int64_t local) const;

  std::vector<Run> runs_;
  std::int64_t extent_ = 0;
};

template <typename Visit>
void RunList::for_range(std::int64_t begin, std::int64_t length, Visit visit) const {
  const std::int64_t end = begin + length;
  for (std::size_t index = first_run_at(begin); index < runs_.size() && runs_[index].local < end; ++index) {
    Run run = runs_[index];
    const std::int64_t skip = begin > run.local ? begin - run.local : 0;
    const std::int64_t stop = run.local + run.length < end ? run.local + run.length : end;
    run.local += skip;
    if (run.begin != kPadding) run.begin += skip;
    run.length = stop - run.local;
    if (run.length > 0) visit(run);
  }
}

}  // namespace tenplex
