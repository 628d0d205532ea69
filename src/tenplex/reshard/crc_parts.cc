// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/crc_parts.h"

#include <algorithm>

#include "tenplex/base/crc32.h"

namespace tenplex {

void CrcParts::add(std::int64_t begin, std::int64_t end, std::uint32_t crc) {
  auto next = std::upper_bound(parts_.begin(), parts_.end(), begin,
                               [](std::int64_t position, const Part& part) { return position < part.begin; });
  if (next != parts_.end() && next->begin < end) return;
  const bool has_previous = next != parts_.begin();
  if (has_previous && std::prev(next)->end > begin) return;
  Part part{begin, end, crc};
  if (next != parts_.end() && next->begin == end) {
    part = {begin, next->end, crc32_combine(crc, next->crc, next->end - next->begin)};
    next = parts_.erase(next);
  }
  if (has_previous && std::prev(next)->end == begin) {
    Part& previous = *std::prev(next);
    previous.crc = crc32_combine(previous.crc, part.crc, part.end - part.begin);
    previous.end = part.end;
    return;
  }
  parts_.insert(next, part);
}

std::vector<std::pair<std::int64_t, std::int64_t>> CrcParts::gaps(std::int64_t begin, std::int64_t end) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const Part& part : parts_) {
    if (part.end <= begin) continue;
    if (part.begin >= end) break;
    if (part.begin > begin) ranges.emplace_back(begin, part.begin);
    begin = std::max(begin, part.end);
  }
  if (begin < end) ranges.emplace_back(begin, end);
  return ranges;
}

bool CrcParts::covers(std::int64_t size) const {
  if (size == 0) return true;
  return parts_.size() == 1 && parts_.front().begin == 0 && parts_.front().end == size;
}

}  // namespace tenplex
