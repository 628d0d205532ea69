// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/copy/strided_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tenplex/copy/copy_kernels.h"

namespace tenplex {
namespace {

using Bytes = std::vector<std::byte>;

std::vector<const internal::CopyKernels*> copy_kernels() {
  std::vector<const internal::CopyKernels*> kernels = {&internal::copy_kernels_portable()};
  if (const auto* avx2 = internal::copy_kernels_avx2()) kernels.push_back(avx2);
  return kernels;
}

TEST(StridedCopy, SaysWhichInstructionSetsAreNotTested) {
  if (internal::copy_kernels_avx2() == nullptr) std::cout << "not tested: this processor has no AVX2\n";
  EXPECT_EQ(&internal::best_copy_kernels(), copy_kernels().back());
}

/// The definition, element by element.
void naive_copy(std::byte* target, const std::byte* source, const CopyShape& shape) {
  Dims index = Dims::filled(shape.extent.rank(), 0);
  if (std::find(shape.extent.begin(), shape.extent.end(), 0) != shape.extent.end()) return;
  while (true) {
    std::int64_t to = 0;
    std::int64_t from = 0;
    for (int dim = 0; dim < index.rank(); ++dim) {
      to += index[dim] * shape.target_strides[dim];
      from += index[dim] * shape.source_strides[dim];
    }
    std::memcpy(target + to, source + from, static_cast<std::size_t>(shape.element_bytes));
    int dim = index.rank() - 1;
    for (; dim >= 0 && ++index[dim] == shape.extent[dim]; --dim) index[dim] = 0;
    if (dim < 0) return;
  }
}

/// Where a copy of `shape` begins and ends, relative to its first element.
struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

Span span_of(const CopyShape& shape, const Dims& strides) {
  Span span{0, shape.element_bytes};
  for (int dim = 0; dim < strides.rank(); ++dim) {
    const std::int64_t reach = std::max<std::int64_t>(0, shape.extent[dim] - 1) * strides[dim];
    (reach < 0 ? span.begin : span.end) += reach;
  }
  return span;
}

class StridedCopyOn : public testing::TestWithParam<const internal::CopyKernels*> {
 protected:
  /// Copies between buffers that begin `misalignment` bytes after a cache line and compares every byte of the target,
  /// those between the elements too, with what the definition does.
  static void expect_exact(const CopyShape& shape, std::int64_t target_misalignment = 0,
                           std::int64_t source_misalignment = 0) {
    const Span target_span = span_of(shape, shape.target_strides);
    const Span source_span = span_of(shape, shape.source_strides);
    constexpr std::int64_t kMargin = 128;
    Bytes source(static_cast<std::size_t>(source_span.end - source_span.begin + source_misalignment));
    for (std::size_t at = 0; at < source.size(); ++at) source[at] = static_cast<std::byte>(at * 131 + (at >> 8) * 7);
    Bytes expected(static_cast<std::size_t>(target_span.end - target_span.begin + target_misalignment + 2 * kMargin),
                   std::byte{0xEE});
    Bytes found = expected;
    const std::int64_t to = kMargin + target_misalignment - target_span.begin;
    const std::int64_t from = source_misalignment - source_span.begin;
    naive_copy(expected.data() + to, source.data() + from, shape);
    internal::strided_copy(*GetParam(), found.data() + to, source.data() + from, shape);
    const auto differs = std::mismatch(expected.begin(), expected.end(), found.begin()).first;
    ASSERT_EQ(differs, expected.end()) << "byte " << differs - expected.begin() - to << " of extent "
                                       << to_string(shape.extent) << " target " << to_string(shape.target_strides)
                                       << " source " << to_string(shape.source_strides) << " element "
                                       << shape.element_bytes;
  }
};

TEST_P(StridedCopyOn, CopiesAScalar) {
  for (const std::int64_t element : {1, 2, 3, 8, 16}) expect_exact({{}, {}, {}, element});
}

TEST_P(StridedCopyOn, CopiesNothingOfAnEmptyBox) {
  expect_exact({{0}, {4}, {4}, 4});
  expect_exact({{3, 0, 2}, {8, 8, 4}, {8, 8, 4}, 4});
}

TEST_P(StridedCopyOn, CopiesRowsOfEveryLength) {
  for (std::int64_t length = 1; length < 300; ++length) {
    expect_exact({{5, length}, {length, 1}, {400, 1}, 1}, length % 5, length % 3);  // gather
    expect_exact({{5, length}, {400, 1}, {length, 1}, 1}, length % 7, length % 2);  // scatter
  }
}

TEST_P(StridedCopyOn, CopiesLongRowsAtEveryAlignment) {
  for (std::int64_t shift = 0; shift < 64; shift += 7)
    expect_exact({{7, 5000}, {5123, 1}, {6001, 1}, 1}, shift, 63 - shift);
}

TEST_P(StridedCopyOn, StreamsLargeCopies) {
  // 9 MiB: more than the size from which copies go past the caches.
  expect_exact({{2304, 4096}, {4096, 1}, {4200, 1}, 1}, 0, 0);
  expect_exact({{9216, 1001}, {1024, 1}, {1001, 1}, 1}, 5, 3);
  expect_exact({{1537, 1536}, {1536 * 4, 4}, {4, 1537 * 4}, 4}, 4, 8);
}

TEST_P(StridedCopyOn, TransposesEveryElementSize) {
  for (const std::int64_t element : {1, 2, 3, 4, 6, 8, 12, 16, 24})
    for (const auto& [rows, columns] :
         {std::pair{1L, 1L}, {3L, 5L}, {16L, 16L}, {64L, 64L}, {65L, 63L}, {300L, 129L}, {17L, 260L}})
      expect_exact({{rows, columns}, {columns * element, element}, {element, rows * element}, element}, element % 7, 0);
}

TEST_P(StridedCopyOn, TransposesWithPaddingAndBatches) {
  expect_exact({{3, 40, 70}, {40 * 80 * 4, 80 * 4, 4}, {70 * 48 * 4, 4, 48 * 4}, 4});
  expect_exact({{40, 3, 70}, {4, 40 * 4, 120 * 4}, {70 * 3 * 4, 70 * 4, 4}, 4});
  expect_exact({{40, 70}, {160 * 4, 8}, {8, 90 * 4}, 4});  // gaps between the elements of both sides
}

TEST_P(StridedCopyOn, RepeatsSourcesOfStrideZeroAndReversesNegativeOnes) {
  expect_exact({{6, 5}, {20, 4}, {0, 4}, 4});
  expect_exact({{6, 5}, {20, 4}, {4, 0}, 4});
  expect_exact({{6, 50}, {200, 4}, {200, -4}, 4});
  expect_exact({{6, 50}, {-200, -4}, {-200, -4}, 4});
}

TEST_P(StridedCopyOn, AgreesWithTheDefinitionOnRandomShapes) {
  std::mt19937 random(31);
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(limit));
  };
  constexpr std::int64_t kElements[] = {1, 2, 4, 8, 16, 3, 5, 12, 20, 40};
  for (int round = 0; round < 1500; ++round) {
    CopyShape shape;
    shape.element_bytes = kElements[below(10)];
    const int rank = static_cast<int>(below(7));
    std::int64_t volume = 1;
    for (int dim = 0; dim < rank; ++dim) {
      const std::int64_t extent = below(20) == 0 ? 0 : 1 + below(below(3) == 0 ? 40 : 5);
      shape.extent.push_back(volume * extent > 20'000 ? 1 : extent);
      volume *= std::max<std::int64_t>(1, shape.extent[dim]);
    }
    const auto strides = [&] {  // a permutation of the dimensions, sometimes with gaps
      std::vector<int> order(static_cast<std::size_t>(rank));
      std::iota(order.begin(), order.end(), 0);
      if (below(3) != 0) std::shuffle(order.begin(), order.end(), random);
      Dims result = Dims::filled(rank, 0);
      std::int64_t step = shape.element_bytes;
      for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
        if (below(6) == 0) step += below(50);
        result[*dim] = below(12) == 0 ? -step : step;
        step *= std::max<std::int64_t>(1, shape.extent[*dim]);
      }
      return result;
    };
    shape.target_strides = strides();
    shape.source_strides = strides();
    expect_exact(shape, below(64), below(64));
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, StridedCopyOn, testing::ValuesIn(copy_kernels()),
                         [](const auto& kernels) { return std::string(kernels.param->name); });

}  // namespace
}  // namespace tenplex
