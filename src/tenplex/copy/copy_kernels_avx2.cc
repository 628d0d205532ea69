// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/copy/copy_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "tenplex/copy/short_rows.h"

#define TENPLEX_TARGET __attribute__((target("avx2")))

namespace tenplex::internal {
namespace {

TENPLEX_TARGET inline __m256i load(const std::byte* address) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(address));
}
TENPLEX_TARGET inline void store(std::byte* address, __m256i value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(address), value);
}
TENPLEX_TARGET inline void stream(std::byte* address, __m256i value) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(address), value);
}

// ---- rows ----

void copy_row(std::byte* target, const std::byte* source, std::int64_t bytes) {
  std::memcpy(target, source, static_cast<std::size_t>(bytes));
}

void copy_rows(const RowRun& run) {
  for (std::int64_t row = 0; row < run.rows; ++row) {
    const std::byte* source = run.source + row * run.source_step;
    if (row + 1 < run.rows) _mm_prefetch(reinterpret_cast<const char*>(source + run.source_step), _MM_HINT_T0);
    copy_row(run.target + row * run.target_step, source, run.row_bytes);
  }
}

constexpr std::int64_t kLineBytes = 64;

/// Bytes to the next cache line.
std::int64_t bytes_to_line(const std::byte* address) {
  return static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(address) % kLineBytes);
}

/// Whole cache lines past the caches. Requires: target at the start of a line, bytes % 64 == 0.
TENPLEX_TARGET inline void stream_lines(std::byte* target, const std::byte* source, std::int64_t bytes) {
  for (std::int64_t at = 0; at < bytes; at += kLineBytes) {
    const __m256i first = load(source + at);
    const __m256i second = load(source + at + 32);
    stream(target + at, first);
    stream(target + at + 32, second);
  }
}

TENPLEX_TARGET inline void prefetch_row(const std::byte* source, std::int64_t bytes) {
  for (std::int64_t at = 0; at < bytes; at += kLineBytes)
    _mm_prefetch(reinterpret_cast<const char*>(source + at), _MM_HINT_T0);
}

/// The hardware prefetcher follows a row but not the step to the next one. Measured: short rows want all their lines
/// asked for, some rows ahead; of longer ones only the first line of the next row.
constexpr std::int64_t kPrefetchBytes = 2048;
constexpr std::int64_t kMaxPrefetchedRowBytes = 511;

TENPLEX_TARGET void stream_rows(const RowRun& run) {
  const bool is_short = run.row_bytes <= kMaxPrefetchedRowBytes;
  const std::int64_t ahead = is_short ? kPrefetchBytes / run.row_bytes : 1;
  const std::int64_t prefetched = is_short ? run.row_bytes : 1;
  for (std::int64_t row = 0; row < run.rows; ++row) {
    std::byte* target = run.target + row * run.target_step;
    const std::byte* source = run.source + row * run.source_step;
    if (row + ahead < run.rows) prefetch_row(source + ahead * run.source_step, prefetched);
    const std::int64_t head = std::min(bytes_to_line(target), run.row_bytes);
    const std::int64_t lines = (run.row_bytes - head) / kLineBytes * kLineBytes;
    copy_row(target, source, head);
    stream_lines(target + head, source + head, lines);
    copy_row(target + head + lines, source + head + lines, run.row_bytes - head - lines);
  }
  _mm_sfence();
}

// ---- transposition ----

template <std::int64_t kBytes>
void transpose_edge(const Tile& tile, std::int64_t first_row, std::int64_t first_column) {
  for (std::int64_t row = 0; row < tile.rows; ++row)
    for (std::int64_t column = row < first_row ? first_column : 0; column < tile.columns; ++column)
      std::memcpy(tile.target + column * tile.target_step + row * kBytes,
                  tile.source + row * tile.source_step + column * kBytes, kBytes);
}

/// Calls block(target, source) for every whole block of kBlock × kBlock elements, then does the rest by element.
template <std::int64_t kBytes, std::int64_t kBlock, typename Block>
TENPLEX_TARGET inline void transpose_by_blocks(const Tile& tile, Block block) {
  const std::int64_t rows = tile.rows / kBlock * kBlock;
  const std::int64_t columns = tile.columns / kBlock * kBlock;
  for (std::int64_t row = 0; row < rows; row += kBlock)
    for (std::int64_t column = 0; column < columns; column += kBlock)
      block(tile.target + column * tile.target_step + row * kBytes,
            tile.source + row * tile.source_step + column * kBytes, tile.target_step, tile.source_step);
  if (rows != tile.rows || columns != tile.columns) transpose_edge<kBytes>(tile, rows, columns);
}

inline __m128i load128(const std::byte* address) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(address)); }
inline void store128(std::byte* address, __m128i value) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(address), value);
}

struct Block16x16Of1 {
  TENPLEX_TARGET void operator()(std::byte* target, const std::byte* source, std::int64_t target_step,
                                 std::int64_t source_step) const {
    __m128i a[16];
    __m128i b[16];
    for (std::int64_t i = 0; i < 16; ++i) a[i] = load128(source + i * source_step);
    // Four rounds of perfect shuffles of rows i and i + 8 transpose the 16 × 16 bytes.
    for (std::int64_t i = 0; i < 8; ++i) {
      b[2 * i] = _mm_unpacklo_epi8(a[i], a[i + 8]);
      b[2 * i + 1] = _mm_unpackhi_epi8(a[i], a[i + 8]);
    }
    for (std::int64_t i = 0; i < 8; ++i) {
      a[2 * i] = _mm_unpacklo_epi8(b[i], b[i + 8]);
      a[2 * i + 1] = _mm_unpackhi_epi8(b[i], b[i + 8]);
    }
    for (std::int64_t i = 0; i < 8; ++i) {
      b[2 * i] = _mm_unpacklo_epi8(a[i], a[i + 8]);
      b[2 * i + 1] = _mm_unpackhi_epi8(a[i], a[i + 8]);
    }
    for (std::int64_t i = 0; i < 8; ++i) {
      store128(target + 2 * i * target_step, _mm_unpacklo_epi8(b[i], b[i + 8]));
      store128(target + (2 * i + 1) * target_step, _mm_unpackhi_epi8(b[i], b[i + 8]));
    }
  }
};

struct Block8x8Of2 {
  TENPLEX_TARGET void operator()(std::byte* target, const std::byte* source, std::int64_t target_step,
                                 std::int64_t source_step) const {
    __m128i a[8];
    __m128i b[8];
    for (std::int64_t i = 0; i < 8; ++i) a[i] = load128(source + i * source_step);
    for (std::int64_t i = 0; i < 4; ++i) {
      b[2 * i] = _mm_unpacklo_epi16(a[i], a[i + 4]);
      b[2 * i + 1] = _mm_unpackhi_epi16(a[i], a[i + 4]);
    }
    for (std::int64_t i = 0; i < 4; ++i) {
      a[2 * i] = _mm_unpacklo_epi16(b[i], b[i + 4]);
      a[2 * i + 1] = _mm_unpackhi_epi16(b[i], b[i + 4]);
    }
    for (std::int64_t i = 0; i < 4; ++i) {
      store128(target + 2 * i * target_step, _mm_unpacklo_epi16(a[i], a[i + 4]));
      store128(target + (2 * i + 1) * target_step, _mm_unpackhi_epi16(a[i], a[i + 4]));
    }
  }
};

struct Block8x8Of4 {
  TENPLEX_TARGET void operator()(std::byte* target, const std::byte* source, std::int64_t target_step,
                                 std::int64_t source_step) const {
    __m256i a[8];
    __m256i b[8];
    // Rows i and i + 4 in the halves of one register: the exchange of halves costs no shuffle.
    for (std::int64_t i = 0; i < 4; ++i) {
      a[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(load128(source + i * source_step)),
                                     load128(source + (i + 4) * source_step), 1);
      a[i + 4] = _mm256_inserti128_si256(_mm256_castsi128_si256(load128(source + i * source_step + 16)),
                                         load128(source + (i + 4) * source_step + 16), 1);
    }
    for (int half = 0; half < 8; half += 4) {
      b[half] = _mm256_unpacklo_epi32(a[half], a[half + 1]);
      b[half + 1] = _mm256_unpackhi_epi32(a[half], a[half + 1]);
      b[half + 2] = _mm256_unpacklo_epi32(a[half + 2], a[half + 3]);
      b[half + 3] = _mm256_unpackhi_epi32(a[half + 2], a[half + 3]);
    }
    for (int half = 0; half < 8; half += 4) {
      std::byte* const out = target + half * target_step;
      store(out, _mm256_unpacklo_epi64(b[half], b[half + 2]));
      store(out + target_step, _mm256_unpackhi_epi64(b[half], b[half + 2]));
      store(out + 2 * target_step, _mm256_unpacklo_epi64(b[half + 1], b[half + 3]));
      store(out + 3 * target_step, _mm256_unpackhi_epi64(b[half + 1], b[half + 3]));
    }
  }
};

struct Block4x4Of8 {
  TENPLEX_TARGET void operator()(std::byte* target, const std::byte* source, std::int64_t target_step,
                                 std::int64_t source_step) const {
    __m256i a[4];
    for (std::int64_t i = 0; i < 2; ++i) {
      a[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(load128(source + i * source_step)),
                                     load128(source + (i + 2) * source_step), 1);
      a[i + 2] = _mm256_inserti128_si256(_mm256_castsi128_si256(load128(source + i * source_step + 16)),
                                         load128(source + (i + 2) * source_step + 16), 1);
    }
    store(target, _mm256_unpacklo_epi64(a[0], a[1]));
    store(target + target_step, _mm256_unpackhi_epi64(a[0], a[1]));
    store(target + 2 * target_step, _mm256_unpacklo_epi64(a[2], a[3]));
    store(target + 3 * target_step, _mm256_unpackhi_epi64(a[2], a[3]));
  }
};

TENPLEX_TARGET void transpose_1_byte(const Tile& tile) { transpose_by_blocks<1, 16>(tile, Block16x16Of1()); }
TENPLEX_TARGET void transpose_2_bytes(const Tile& tile) { transpose_by_blocks<2, 8>(tile, Block8x8Of2()); }
TENPLEX_TARGET void transpose_4_bytes(const Tile& tile) { transpose_by_blocks<4, 8>(tile, Block8x8Of4()); }
TENPLEX_TARGET void transpose_8_bytes(const Tile& tile) { transpose_by_blocks<8, 4>(tile, Block4x4Of8()); }
void transpose_16_bytes(const Tile& tile) { transpose_edge<16>(tile, 0, 0); }

constexpr CopyKernels kKernels = {"avx2",
                                  copy_rows,
                                  stream_rows,
                                  transpose_1_byte,
                                  transpose_2_bytes,
                                  transpose_4_bytes,
                                  transpose_8_bytes,
                                  transpose_16_bytes};

}  // namespace

const CopyKernels* copy_kernels_avx2() { return __builtin_cpu_supports("avx2") ? &kKernels : nullptr; }

}  // namespace tenplex::internal

#else

namespace tenplex::internal {
const CopyKernels* copy_kernels_avx2() { return nullptr; }
}  // namespace tenplex::internal

#endif
