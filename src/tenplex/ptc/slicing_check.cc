// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Slicing::check(): does every cut fit every array that it can meet? A dimension that was cut unevenly has few distinct
// local extents, so it is enough to follow those.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "tenplex/base/checked.h"
#include "tenplex/ptc/mesh.h"
#include "tenplex/ptc/slicing.h"

namespace tenplex {
namespace {

constexpr std::size_t kMaxExtents = 4096;

/// What the local arrays can look like along one dimension.
struct DimFacts {
  std::vector<std::int64_t> extents;  // distinct local extents
  std::int64_t max_runs = 1;
};

Result<std::int64_t> sum_of_ratios(const DimCut& cut) {
  std::int64_t sum = 0;
  for (const std::int64_t ratio : cut.segments) {
    const auto next = checked_add(sum, ratio);
    if (ratio < 0 || !next) return invalid_argument(fmt::format("segment {} is not a size", ratio));
    sum = *next;
  }
  if (sum == 0) return invalid_argument("the segments are all empty");
  return sum;
}

/// Extents of the segments of an array of this extent.
Result<std::vector<std::int64_t>> segment_extents(const DimCut& cut, std::int64_t extent) {
  if (cut.segments.empty()) return std::vector<std::int64_t>{extent};
  TENPLEX_ASSIGN_OR_RETURN(const std::int64_t sum, sum_of_ratios(cut));
  if (extent % sum != 0)
    return invalid_argument(fmt::format("segments [{}] add up to {}, which does not divide the local extent {}",
                                        fmt::join(cut.segments, ", "), sum, extent));
  std::vector<std::int64_t> extents;
  extents.reserve(cut.segments.size());
  for (const std::int64_t ratio : cut.segments) extents.push_back(extent / sum * ratio);
  return extents;
}

Result<void> check_form(const DimCut& cut, int rank) {
  if (cut.dim < 0 || cut.dim >= rank)
    return invalid_argument(fmt::format("slices dim {}, but the tensor has rank {}", cut.dim, rank));
  if (cut.segments.size() > 1024)
    return out_of_range(fmt::format("{} segments, at most 1024 are possible", cut.segments.size()));
  if (cut.split.widths.size() > kMaxExtents)
    return out_of_range(fmt::format("{} widths, at most {} are possible", cut.split.widths.size(), kMaxExtents));
  if (!cut.segments.empty() && cut.split.kind == Split::Kind::kWidths)
    return invalid_argument("segments and widths cannot be combined");
  if (cut.interleave < 0 || cut.local_interleave < 0) return invalid_argument("an interleave block is negative");
  if (cut.interleave == 0 && cut.local_interleave == 0) return {};
  if (cut.segments.empty() ||
      std::adjacent_find(cut.segments.begin(), cut.segments.end(), std::not_equal_to<>()) != cut.segments.end())
    return invalid_argument("interleaved segments must be equal");
  return {};
}

/// Parts whose lengths are all that occur.
void add_typical_parts(const Split& split, std::int64_t extent, std::int64_t parts,
                       std::vector<std::int64_t>* typical) {
  typical->insert(typical->end(), {0, parts - 1});
  if (split.kind == Split::Kind::kWidths) {
    for (std::int64_t part = 0; part < parts; ++part) typical->push_back(part);
  } else if (split.kind == Split::Kind::kBalanced) {
    typical->push_back(extent % parts);
  } else if (extent > 0) {
    const std::int64_t last = part_of(split, extent, parts, extent - 1);
    typical->insert(typical->end(), {last, std::min(last + 1, parts - 1)});
  }
}

/// The same for a cut that lists the part of every index.
Result<std::vector<std::int64_t>> listed_extents(const DimCut& cut, std::int64_t extent) {
  if (static_cast<std::int64_t>(cut.table.size()) != extent)
    return invalid_argument(fmt::format("the table has {} indices, found {}", cut.table.size(), extent));
  if (cut.parts > kMaxDevices) return out_of_range(fmt::format("{} parts", cut.parts));
  std::vector<std::int64_t> extents(static_cast<std::size_t>(cut.parts), 0);
  for (const std::int64_t part : cut.table) {
    if (part < 0 || part >= cut.parts) return invalid_argument(fmt::format("part {} of {}", part, cut.parts));
    ++extents[static_cast<std::size_t>(part)];
  }
  return extents;
}

/// Extents that parts of an array of this extent can have; the cut must fit.
Result<std::vector<std::int64_t>> part_extents(const DimCut& cut, std::int64_t extent) {
  if (!cut.table.empty()) return listed_extents(cut, extent);
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<std::int64_t> segments, segment_extents(cut, extent));
  std::vector<std::int64_t> typical;
  for (const std::int64_t segment : segments) {
    TENPLEX_TRY(check_split(cut.split, segment, cut.parts));
    add_typical_parts(cut.split, segment, cut.parts, &typical);
  }
  std::sort(typical.begin(), typical.end());
  typical.erase(std::unique(typical.begin(), typical.end()), typical.end());
  std::vector<std::int64_t> extents;
  for (const std::int64_t part : typical) {
    std::int64_t sum = 0;
    for (const std::int64_t segment : segments) sum += part_range(cut.split, segment, cut.parts, part).length;
    extents.push_back(sum);
  }
  return extents;
}

/// An upper bound for the runs that this cut adds to an array of at most this extent.
Result<std::int64_t> added_runs(const DimCut& cut, std::int64_t extent) {
  if (!cut.table.empty()) return static_cast<std::int64_t>(cut.table.size());
  if (cut.segments.empty()) return 0;
  auto added = static_cast<std::int64_t>(cut.segments.size());
  for (const std::int64_t block : {cut.interleave, cut.local_interleave})
    if (block > 0) added += ceil_div(extent, block) + static_cast<std::int64_t>(cut.segments.size());
  if (added > Slicing::kMaxPieces) return out_of_range(fmt::format("an interleave of {} blocks is too fine", added));
  return added;
}

Result<void> follow_dim(const DimCut& cut, DimFacts* facts) {
  std::vector<std::int64_t> extents;
  for (const std::int64_t extent : facts->extents) {
    TENPLEX_ASSIGN_OR_RETURN(const std::vector<std::int64_t> parts, part_extents(cut, extent));
    extents.insert(extents.end(), parts.begin(), parts.end());
    if (extents.size() > kMaxExtents * 4)
      return out_of_range(fmt::format("dim {} has too many different local extents", cut.dim));
  }
  TENPLEX_ASSIGN_OR_RETURN(const std::int64_t added,
                           added_runs(cut, *std::max_element(facts->extents.begin(), facts->extents.end())));
  facts->max_runs += added;
  std::sort(extents.begin(), extents.end());
  extents.erase(std::unique(extents.begin(), extents.end()), extents.end());
  facts->extents = std::move(extents);
  return {};
}

/// What is known about the local arrays after the cuts so far.
class LocalFacts {
 public:
  LocalFacts(const Dims& shape, const Dims& padded_shape) : rank_(shape.rank()) {
    for (int dim = 0; dim < rank_; ++dim) at(dim) = {{padded_shape[dim]}, padded_shape[dim] == shape[dim] ? 1 : 2};
  }

  Result<void> follow(const DimCut& cut);
  Result<void> follow(const FlatCut& cut);
  /// Elements of the local array if all parts have the same number.
  std::optional<std::int64_t> uniform_volume() const;
  /// Errors if one part may have too many pieces.
  Result<void> check_pieces() const;

 private:
  DimFacts& at(int dim) { return dims_[static_cast<std::size_t>(dim)]; }
  const DimFacts& at(int dim) const { return dims_[static_cast<std::size_t>(dim)]; }

  int rank_;
  std::array<DimFacts, kMaxRank> dims_;
  bool is_flat_ = false;
  std::optional<std::int64_t> flat_volume_;
};

Result<void> LocalFacts::follow(const DimCut& cut) {
  if (is_flat_) return invalid_argument("slices a dim after a flat slice, which leaves none");
  TENPLEX_TRY(check_form(cut, rank_));
  return follow_dim(cut, &at(cut.dim));
}

Result<void> LocalFacts::follow(const FlatCut& cut) {
  const std::optional<std::int64_t> before = uniform_volume();
  if (cut.split.kind == Split::Kind::kWidths) return invalid_argument("a flat slice has no widths");
  if (cut.bucket_size >= 0) {
    if (cut.padded) return invalid_argument("'padded' is for flat slices without a bucket");
    if (is_flat_) return invalid_argument("a bucket must be the first flat slice");
    if (!before) return invalid_argument("a tensor in a bucket must be cut evenly by the slices before");
    const auto end = checked_add(cut.bucket_offset, *before);
    if (cut.bucket_offset < 0 || !end || *end > cut.bucket_size)
      return invalid_argument("the tensor does not lie inside its bucket");
    TENPLEX_TRY(check_split(cut.split, cut.bucket_size, cut.parts));
  } else if (cut.split.kind == Split::Kind::kEven) {
    if (!before) return invalid_argument("an even flat slice needs even slices before it");
    TENPLEX_TRY(check_split(cut.split, *before, cut.parts));
  }
  is_flat_ = true;
  flat_volume_.reset();
  if (before && cut.bucket_size < 0 && (cut.padded || is_even(cut.split, *before, cut.parts)))
    flat_volume_ = ceil_div(*before, cut.parts);
  return {};
}

std::optional<std::int64_t> LocalFacts::uniform_volume() const {
  if (is_flat_) return flat_volume_;
  Dims local;
  for (int dim = 0; dim < rank_; ++dim) {
    if (at(dim).extents.size() != 1) return std::nullopt;
    local.push_back(at(dim).extents.front());
  }
  return volume(local);
}

Result<void> LocalFacts::check_pieces() const {
  std::int64_t pieces = is_flat_ ? std::max(1, 2 * rank_ - 1) : 1;
  for (int dim = 0; dim < rank_; ++dim) {
    const auto product = checked_mul(pieces, at(dim).max_runs);
    if (!product || *product > Slicing::kMaxPieces)
      return out_of_range(fmt::format("a part may consist of more than {} pieces", Slicing::kMaxPieces));
    pieces = *product;
  }
  return {};
}

}  // namespace

Result<void> Slicing::check() {
  if (!checked_volume(padded_shape_))
    return out_of_range("the padded shape " + to_string(padded_shape_) + " is too large");
  boxes_only_ = padded_shape_ == shape_;
  LocalFacts facts(shape_, padded_shape_);
  std::int64_t parts = 1;
  for (const Cut& cut : cuts_) {
    const std::int64_t count = std::visit([](const auto& any) { return any.parts; }, cut);
    if (count < 1) return invalid_argument(fmt::format("expected at least one part, found {}", count));
    const auto product = checked_mul(parts, count);
    if (!product) return out_of_range("too many parts");
    parts = *product;
    TENPLEX_TRY(std::visit([&](const auto& any) { return facts.follow(any); }, cut));
    const auto* dim_cut = std::get_if<DimCut>(&cut);
    boxes_only_ = boxes_only_ && dim_cut != nullptr && dim_cut->segments.empty() && dim_cut->table.empty();
  }
  uniform_volume_ = facts.uniform_volume();
  return facts.check_pieces();
}

}  // namespace tenplex
