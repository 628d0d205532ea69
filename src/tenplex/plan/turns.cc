// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/turns.h"

#include <algorithm>
#include <numeric>

#include "tenplex/base/check.h"

namespace tenplex {

// A round is divided into round_ ticks. Turn k of a holder of weight w ends at k / w of the round, that is, in the tick
// that ends at ceil(k · round_ / w).

void Turns::set_bandwidths(std::span<const std::int64_t> bytes_per_second) {
  constexpr std::int64_t kLongestRound = std::int64_t{1} << 31;  // its square fits
  TENPLEX_CHECK(!bytes_per_second.empty());
  std::int64_t divisor = bytes_per_second[0];
  std::int64_t largest = 0;
  for (const std::int64_t bandwidth : bytes_per_second) {
    divisor = std::gcd(divisor, bandwidth);
    largest = std::max(largest, bandwidth);
  }
  int shift = 0;
  while (((largest / divisor) >> shift) > kLongestRound / static_cast<std::int64_t>(bytes_per_second.size())) ++shift;
  weights_.clear();
  for (const std::int64_t bandwidth : bytes_per_second) weights_.push_back((bandwidth / divisor) >> shift);
  round_ = std::accumulate(weights_.begin(), weights_.end(), std::int64_t{0});
  alike_ = largest == divisor;
}

/// Turns of the first round that end by the end of a tick.
std::int64_t Turns::turns_by(std::int64_t tick) const {
  std::int64_t turns = 0;
  for (const std::int64_t weight : weights_) turns += weight * tick / round_;
  return turns;
}

/// The tick of the first round in which a turn ends; sets ended_ for it.
std::int64_t Turns::find_tick(std::int64_t turn, std::size_t first) {
  std::int64_t low = turn + 1;  // turns_by(tick) <= tick
  std::int64_t high = std::min(round_, turn + static_cast<std::int64_t>(weights_.size()));
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (turns_by(middle) > turn) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  ended_.clear();
  for (std::size_t step = 0; step < weights_.size(); ++step) {
    const std::size_t holder = (first + step) % weights_.size();
    const std::int64_t ordinal = weights_[holder] * low / round_;
    if (ordinal > weights_[holder] * (low - 1) / round_) ended_.push_back({ordinal, holder});
  }
  const auto position = [&](std::size_t holder) { return (holder + weights_.size() - first) % weights_.size(); };
  std::sort(ended_.begin(), ended_.end(), [&](const Turn& a, const Turn& b) {
    const std::int64_t a_end = a.ordinal * weights_[b.holder];
    const std::int64_t b_end = b.ordinal * weights_[a.holder];
    return a_end != b_end ? a_end < b_end : position(a.holder) < position(b.holder);
  });
  return low;
}

std::size_t Turns::holder_at(std::int64_t turn) {
  const std::int64_t in_round = turn % round_;
  if (alike_) return static_cast<std::size_t>(in_round);
  const std::int64_t tick = find_tick(in_round, 0);
  return ended_[static_cast<std::size_t>(in_round - turns_by(tick - 1))].holder;
}

std::vector<std::int64_t> Turns::count(std::int64_t turns, std::size_t first) {
  std::vector<std::int64_t> counts(weights_);
  for (std::int64_t& count : counts) count *= turns / round_;
  const std::int64_t rest = turns % round_;
  if (rest == 0) return counts;
  const std::int64_t tick = find_tick(rest - 1, first);
  for (std::size_t holder = 0; holder < counts.size(); ++holder)
    counts[holder] += weights_[holder] * (tick - 1) / round_;
  const auto in_tick = static_cast<std::size_t>(rest - turns_by(tick - 1));
  for (std::size_t index = 0; index < in_tick; ++index) ++counts[ended_[index].holder];
  return counts;
}

}  // namespace tenplex
