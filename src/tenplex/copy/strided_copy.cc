// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/copy/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tenplex/base/check.h"
#include "tenplex/copy/copy_kernels.h"
#include "tenplex/copy/loop_nest.h"
#include "tenplex/copy/short_rows.h"

namespace tenplex {
namespace internal {
namespace {

/// Copies of at least this size go past the caches: measured, smaller ones are faster through them.
constexpr std::int64_t kStreamBytes = std::int64_t{8} << 20;

constexpr std::int64_t kLineBytes = 64;
constexpr std::int64_t kStageBytes = std::int64_t{16} << 10;
constexpr std::int64_t kMaxStagedRowBytes = kStageBytes / kLineBytes;

std::int64_t address_bits(const std::byte* address) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(address));
}

/// Units of more than this are rows of their own when the two sides disagree about the innermost loop.
constexpr std::int64_t kTransposeUnitBytes = 16;

/// A tile's part of one target row.
constexpr std::int64_t kTileRowBytes = 256;
constexpr std::int64_t kMaxTileColumns = 64;

TileFunction transpose_function(const CopyKernels& kernels, std::int64_t unit_bytes) {
  switch (unit_bytes) {
    case 1:
      return kernels.transpose_1_byte;
    case 2:
      return kernels.transpose_2_bytes;
    case 4:
      return kernels.transpose_4_bytes;
    case 8:
      return kernels.transpose_8_bytes;
    case 16:
      return kernels.transpose_16_bytes;
    default:
      return nullptr;
  }
}

class Copier {
 public:
  Copier(const CopyKernels& kernels, const LoopNest& nest)
      : kernels_(kernels), nest_(nest), streams_(nest.total_bytes() >= kStreamBytes) {}

  void run(std::byte* target, const std::byte* source) {
    if (nest_.loop_count == 0)
      return copy_rows({target, source, 1, nest_.unit_bytes, nest_.unit_bytes, nest_.unit_bytes});
    inner_ = take_loop(nest_.loop_count - 1);
    const int crossing = crossing_loop();
    if (crossing >= 0) {
      across_ = take_loop(crossing);
      for_each_outer(0, target, source, [this](std::byte* to, const std::byte* from) { copy_plane(to, from); });
      return;
    }
    for_each_outer(0, target, source, [this](std::byte* to, const std::byte* from) {
      copy_rows({to, from, inner_.turns, nest_.unit_bytes, inner_.target_step, inner_.source_step});
    });
  }

 private:
  Loop take_loop(int at) {
    const auto first = nest_.loops.begin();
    const Loop loop = nest_.loops[static_cast<std::size_t>(at)];
    std::copy(first + at + 1, first + nest_.loop_count, first + at);
    --nest_.loop_count;
    return loop;
  }

  /// The loop with the smallest steps in the source, if small units make it worth while to walk both together; else −1.
  int crossing_loop() const {
    if (nest_.unit_bytes > kTransposeUnitBytes) return -1;
    int best = -1;
    std::int64_t step = std::abs(inner_.source_step);
    for (int at = 0; at < nest_.loop_count; ++at) {
      const std::int64_t candidate = std::abs(nest_.loops[static_cast<std::size_t>(at)].source_step);
      if (candidate == 0 || candidate >= step) continue;
      best = at;
      step = candidate;
    }
    return best;
  }

  template <typename Body>
  void for_each_outer(int depth, std::byte* target, const std::byte* source, const Body& body) {
    if (depth == nest_.loop_count) return body(target, source);
    const Loop& loop = nest_.loops[static_cast<std::size_t>(depth)];
    for (std::int64_t turn = 0; turn < loop.turns; ++turn)
      for_each_outer(depth + 1, target + turn * loop.target_step, source + turn * loop.source_step, body);
  }

  void copy_rows(const RowRun& run) const {
    if (!streams_) return copy_cached_rows(run);
    const bool whole_lines = (run.row_bytes | run.target_step | address_bits(run.target)) % kLineBytes == 0;
    if (!whole_lines && run.row_bytes <= kMaxStagedRowBytes && run.target_step == run.row_bytes) return stage_rows(run);
    if (run.row_bytes < kLineBytes) return copy_short_rows(run);
    kernels_.stream_rows(run);
  }

  void copy_cached_rows(const RowRun& run) const {
    if (run.row_bytes <= kShortRowBytes) return copy_short_rows(run);
    kernels_.copy_rows(run);
  }

  /// Gathers rows that end inside cache lines in a buffer first, so that whole lines leave it.
  void stage_rows(const RowRun& run) const {
    alignas(kLineBytes) std::array<std::byte, kStageBytes> buffer;
    const std::int64_t at_once = kStageBytes / run.row_bytes / kLineBytes * kLineBytes;
    for (std::int64_t row = 0; row < run.rows; row += at_once) {
      const std::int64_t rows = std::min(at_once, run.rows - row);
      copy_cached_rows(
          {buffer.data(), run.source + row * run.source_step, rows, run.row_bytes, run.row_bytes, run.source_step});
      const std::int64_t bytes = rows * run.row_bytes;
      kernels_.stream_rows({run.target + row * run.row_bytes, buffer.data(), 1, bytes, bytes, bytes});
    }
  }

  /// inner_ × across_, in tiles that fit in the first-level cache.
  void copy_plane(std::byte* target, const std::byte* source) const {
    const std::int64_t unit = nest_.unit_bytes;
    const TileFunction transpose = transpose_function(kernels_, unit);
    const bool contiguous = inner_.target_step == unit && across_.source_step == unit && transpose != nullptr;
    const std::int64_t tile_inner = std::max<std::int64_t>(1, kTileRowBytes / unit);
    const std::int64_t tile_across = std::min(kMaxTileColumns, tile_inner);
    for (std::int64_t i = 0; i < inner_.turns; i += tile_inner)
      for (std::int64_t j = 0; j < across_.turns; j += tile_across) {
        std::byte* const to = target + i * inner_.target_step + j * across_.target_step;
        const std::byte* const from = source + i * inner_.source_step + j * across_.source_step;
        const std::int64_t inner = std::min(tile_inner, inner_.turns - i);
        const std::int64_t across = std::min(tile_across, across_.turns - j);
        if (j + tile_across < across_.turns) prefetch_tile(from + tile_across * across_.source_step, inner);
        if (contiguous)
          transpose_tile(transpose, to, from, inner, across);
        else
          copy_tile(to, from, inner, across);
      }
  }

  /// Through a buffer, so that the rows of the tile, which may all lie in the same few cache sets, are written once.
  void transpose_tile(TileFunction transpose, std::byte* target, const std::byte* source, std::int64_t inner,
                      std::int64_t across) const {
    alignas(64) std::array<std::byte, kTileRowBytes * kMaxTileColumns> buffer;
    transpose({buffer.data(), source, inner, across, kTileRowBytes, inner_.source_step});
    copy_rows({target, buffer.data(), across, inner * nest_.unit_bytes, across_.target_step, kTileRowBytes});
  }

  /// The hardware does not see that the next tile continues every row of this one.
  void prefetch_tile(const std::byte* source, std::int64_t inner) const {
    for (std::int64_t row = 0; row < inner; ++row)
      for (std::int64_t at = 0; at < kTileRowBytes; at += kLineBytes)
        __builtin_prefetch(source + row * inner_.source_step + at);
  }

  void copy_tile(std::byte* target, const std::byte* source, std::int64_t inner, std::int64_t across) const {
    for (std::int64_t j = 0; j < across; ++j)
      copy_short_rows({target + j * across_.target_step, source + j * across_.source_step, inner, nest_.unit_bytes,
                       inner_.target_step, inner_.source_step});
  }

  const CopyKernels& kernels_;
  LoopNest nest_;
  const bool streams_;
  Loop inner_;
  Loop across_;
};

}  // namespace

const CopyKernels& best_copy_kernels() {
  static const CopyKernels& best = copy_kernels_avx2() != nullptr ? *copy_kernels_avx2() : copy_kernels_portable();
  return best;
}

void strided_copy(const CopyKernels& kernels, std::byte* target, const std::byte* source, const CopyShape& shape) {
  TENPLEX_CHECK(shape.element_bytes > 0);
  const LoopNest nest = simplify(shape);
  if (nest.unit_bytes != 0) Copier(kernels, nest).run(target, source);
}

}  // namespace internal

void strided_copy(std::byte* target, const std::byte* source, const CopyShape& shape) {
  internal::strided_copy(internal::best_copy_kernels(), target, source, shape);
}

}  // namespace tenplex
