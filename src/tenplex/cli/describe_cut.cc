// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/describe_cut.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenplex::cli {
namespace {

bool comes_before(const Box& a, const Box& b) {
  return a.offset == b.offset ? a.extent < b.extent : a.offset < b.offset;
}

std::int64_t distinct_offsets(std::span<const Box> boxes, int dim) {
  std::vector<std::int64_t> offsets;
  offsets.reserve(boxes.size());
  for (const Box& box : boxes) offsets.push_back(box.offset[dim]);
  std::sort(offsets.begin(), offsets.end());
  return std::unique(offsets.begin(), offsets.end()) - offsets.begin();
}

}  // namespace

Cut cut_of(std::span<const Box> boxes) {
  Cut cut;
  if (boxes.empty()) return cut;
  std::vector<Box> sorted(boxes.begin(), boxes.end());
  std::sort(sorted.begin(), sorted.end(), comes_before);
  std::int64_t copies = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    copies = i > 0 && sorted[i] == sorted[i - 1] ? copies + 1 : 1;
    cut.copies = std::max(cut.copies, copies);
  }
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  cut.boxes = static_cast<std::int64_t>(sorted.size());
  std::int64_t product = 1;
  for (int dim = 0; dim < sorted.front().rank(); ++dim) {
    cut.parts.push_back(distinct_offsets(sorted, dim));
    if (product <= cut.boxes) product *= cut.parts.back();
  }
  cut.grid = product == cut.boxes;
  if (!cut.grid) cut.parts.clear();
  return cut;
}

std::string cut_text(const Cut& cut) {
  std::string text;
  if (cut.boxes == 0) return "empty";
  if (!cut.grid) text = fmt::format("{} boxes", cut.boxes);
  for (std::size_t dim = 0; dim < cut.parts.size(); ++dim)
    if (cut.parts[dim] > 1) text += fmt::format("{}dim {} in {}", text.empty() ? "" : ", ", dim, cut.parts[dim]);
  if (text.empty()) text = "whole";
  if (cut.copies > 1) text += fmt::format(", {} copies", cut.copies);
  return text;
}

}  // namespace tenplex::cli
