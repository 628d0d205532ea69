// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The values were computed by the Python reference in docs/formats/digest.md.
#include "tenplex/ptc/digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tenplex/ptc/digest_lanes.h"

namespace tenplex {
namespace {

using Bytes = std::vector<std::byte>;

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Bytes counting_bytes() {
  Bytes bytes(6000);
  for (std::size_t index = 0; index < bytes.size(); ++index) bytes[index] = static_cast<std::byte>(index * 7 % 256);
  return bytes;
}

Bytes random_bytes(std::size_t size, std::uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

Digest whole_digest(DType dtype, const Dims& shape, ByteSpan bytes) {
  return digest_of_header(dtype, shape) + digest_of_run(dtype, 0, bytes);
}

Digest of_doubles(const std::vector<double>& values) {
  return whole_digest(DType::kFloat64, {static_cast<std::int64_t>(values.size())}, bytes_of(values));
}

struct Known {
  DType dtype;
  Dims shape;
  Bytes bytes;
  std::string digest;
};

std::vector<Known> known_digests() {
  const Bytes counting = counting_bytes();
  return {
      {DType::kFloat32, {}, bytes_of<float>({1.0F}), "ddac87bec0a940d0b0355a191a142140"},
      {DType::kFloat32, {2}, bytes_of<float>({1.0F, -2.5F}), "baeb25de50a360a40fae8df34920f2fa"},
      {DType::kFloat32, {2, 0, 3}, {}, "9afd5ccfe26002b3b9448d06fe46b8f4"},
      {DType::kBool, {4}, bytes_of<std::uint8_t>({0, 1, 1, 0}), "ecb3906c40ece64aa35881bfe142c263"},
      {DType::kFloat64, {1, 2}, bytes_of<double>({0.0, -0.0}), "89014bbfb222c6e4457fee8e581add34"},
      {DType::kUInt8, {60, 100}, counting, "f8752ca04134c85364d7da08b422a75b"},
      {DType::kBFloat16, {30, 100}, counting, "047f7ef6d411abe702d47de91fe0714b"},
      {DType::kInt32, {1500}, counting, "af5fd07f47d2ef46f18d86affc43de85"},
      {DType::kInt64, {750}, counting, "faf6f6e314dcee8f3e64109e8b3cbd5f"},
      {DType::kComplex32, {1500}, counting, "3593ef87f273bb84cea049d194756a33"},
      {DType::kComplex64, {750}, counting, "0fe1466c8c32966153326067ac50c654"},
      {DType::kComplex128, {375}, counting, "ebfd552f30662a72c42ba915ddcfd85b"},
      {DType::kFloat6E2M3FN, {8000}, counting, "35db2dd609049d3eb8a4dcef127ac2ce"},
      {DType::kFloat4E2M1FN, {12000}, counting, "59d4a06f7866c0760c88b014dcaee6bb"},
  };
}

/// Every instruction set of this processor.
std::vector<const internal::DigestPath*> available_paths() {
  std::vector<const internal::DigestPath*> paths = {&internal::digest_path_portable()};
  for (const auto* path : {internal::digest_path_avx2(), internal::digest_path_avx512()})
    if (path != nullptr) paths.push_back(path);
  return paths;
}

TEST(Digest, SaysWhichInstructionSetsAreNotTested) {
  if (internal::digest_path_avx2() == nullptr) std::cout << "not tested: this processor has no AVX2\n";
  if (internal::digest_path_avx512() == nullptr) std::cout << "not tested: this processor has no AVX-512\n";
  EXPECT_EQ(&internal::best_digest_path(), available_paths().back());
}

class DigestOnPath : public testing::TestWithParam<const internal::DigestPath*> {
 protected:
  static Digest run(DType dtype, std::int64_t first_element, ByteSpan bytes) {
    return internal::digest_of_run(*GetParam(), dtype, first_element, bytes);
  }
};

TEST_P(DigestOnPath, GivesTheWorkedValues) {
  for (const auto& [dtype, shape, bytes, digest] : known_digests())
    EXPECT_EQ(to_string(digest_of_header(dtype, shape) + run(dtype, 0, bytes)), digest) << to_string(dtype);
}

TEST_P(DigestOnPath, GivesTheWorkedValuesOfParts) {
  EXPECT_EQ(to_string(run(DType::kFloat32, 0, bytes_of<float>({1.0F}))), "6d30acf804e08bbf41a7990f0516dd33");
  EXPECT_EQ(to_string(run(DType::kFloat32, 1, bytes_of<float>({-2.5F}))), "5d870823b55a61cf72321317e9aeb335");
  EXPECT_EQ(to_string(run(DType::kInt32, 1'000'000'000'000 * 512 + 300, counting_bytes())),
            "52fbbc83d8e22cde2efe7dc31132f11e");
}

TEST_P(DigestOnPath, AddsUpOverRandomCuts) {
  std::mt19937 random(11);
  for (const DType dtype : {DType::kInt8, DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kComplex32,
                            DType::kComplex128, DType::kFloat6E3M2FN, DType::kFloat4E2M1FN}) {
    const Bytes bytes = random_bytes(48 * 1024, 12);
    const auto step = static_cast<std::size_t>(std::lcm(bit_width(dtype), 8));  // bits of the smallest whole part
    const std::size_t steps = bytes.size() * 8 / step;
    const Digest whole = run(dtype, 5 * 12, bytes);
    for (int round = 0; round < 20; ++round) {
      Digest sum;
      for (std::size_t begin = 0; begin < steps;) {
        const std::size_t limit = round % 2 == 0 ? 40 : steps;
        const std::size_t end = std::min<std::size_t>(steps, begin + 1 + random() % limit);
        const auto first = static_cast<std::int64_t>(begin * step) / bit_width(dtype);
        sum += run(dtype, 5 * 12 + first, ByteSpan(bytes).subspan(begin * step / 8, (end - begin) * step / 8));
        begin = end;
      }
      ASSERT_EQ(sum, whole) << to_string(dtype) << " round " << round;
    }
  }
}

TEST_P(DigestOnPath, ReadsPiecesOfAnyShapeAndStride) {
  // A [6, 5, 700] tensor whose elements are their own flat index, cut into boxes at random; each box lies in a local
  // array with its dimensions in another order, padding between them, or contiguously.
  const TensorInfo tensor{"t", DType::kInt32, {6, 5, 700}};
  std::vector<std::int32_t> values(6 * 5 * 700);
  std::iota(values.begin(), values.end(), 0);
  const Digest whole = run(DType::kInt32, 0, bytes_of(values));
  for (const Dims& pitch : {Dims{3500, 700, 1}, Dims{1, 6, 30}, Dims{4000, 800, 1}, Dims{8000, 1600, 2}, Dims{5, 1, 30},
                            Dims{700, 4200, 1}}) {
    for (const Dims& cut : {Dims{3, 2, 350}, Dims{6, 5, 700}, Dims{1, 5, 13}, Dims{6, 3, 1}, Dims{4, 1, 700}}) {
      Digest sum;
      std::vector<std::int32_t> local(60'000, -1);  // what is outside the box is padding
      for (std::int64_t i = 0; i < 6; i += cut[0])
        for (std::int64_t j = 0; j < 5; j += cut[1])
          for (std::int64_t k = 0; k < 700; k += cut[2]) {
            const Box box{{i, j, k}, {std::min(cut[0], 6 - i), std::min(cut[1], 5 - j), std::min(cut[2], 700 - k)}};
            for (std::int64_t a = 0; a < box.extent[0]; ++a)
              for (std::int64_t b = 0; b < box.extent[1]; ++b)
                for (std::int64_t c = 0; c < box.extent[2]; ++c)
                  local[static_cast<std::size_t>(17 + a * pitch[0] + b * pitch[1] + c * pitch[2])] =
                      static_cast<std::int32_t>((i + a) * 3500 + (j + b) * 700 + k + c);
            sum += internal::digest_of_piece(*GetParam(), tensor, {box, 17, pitch},
                                             reinterpret_cast<const std::byte*>(local.data()));
          }
      ASSERT_EQ(sum, whole) << to_string(pitch) << " cut " << to_string(cut);
    }
  }
}

TEST_P(DigestOnPath, ReadsTransposedViewsOfEveryElementSize) {
  constexpr std::int64_t kRows = 41;
  constexpr std::int64_t kColumns = 2100;
  for (const DType dtype : {DType::kInt8, DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kComplex128}) {
    const std::int64_t size = size_bytes(dtype);
    const Bytes row_major = random_bytes(static_cast<std::size_t>(kRows * kColumns * size), 13);
    Bytes transposed(row_major.size());
    for (std::int64_t row = 0; row < kRows; ++row)
      for (std::int64_t column = 0; column < kColumns; ++column)
        std::memcpy(transposed.data() + (column * kRows + row) * size,
                    row_major.data() + (row * kColumns + column) * size, static_cast<std::size_t>(size));
    const TensorInfo tensor{"t", dtype, {kRows, kColumns}};
    EXPECT_EQ(
        internal::digest_of_piece(*GetParam(), tensor, {Box::whole(tensor.shape), 0, {1, kRows}}, transposed.data()),
        run(dtype, 0, row_major))
        << to_string(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, DigestOnPath, testing::ValuesIn(available_paths()),
                         [](const auto& path) { return std::string(path.param->name); });

TEST(Digest, OfAnEmptyTensorIsItsHeader) {
  EXPECT_EQ(whole_digest(DType::kFloat32, {4, 0}, {}), digest_of_header(DType::kFloat32, {4, 0}));
  EXPECT_EQ(digest_of_piece({"t", DType::kFloat32, {4, 0}}, {{{0, 0}, {4, 0}}, 0, {1, 1}}, nullptr), Digest{});
}

TEST(Digest, DependsOnDTypeAndShape) {
  const Digest header = digest_of_header(DType::kFloat32, {2, 3});
  for (const auto& other : {digest_of_header(DType::kInt32, {2, 3}), digest_of_header(DType::kFloat32, {3, 2}),
                            digest_of_header(DType::kFloat32, {6}), digest_of_header(DType::kFloat32, {2, 3, 1})}) {
    EXPECT_NE(header.first, other.first);
    EXPECT_NE(header.second, other.second);
  }
}

/// Both halves must notice a change: each alone is a digest of 64 bits.
void expect_both_differ(const Digest& a, const Digest& b) {
  EXPECT_NE(a.first, b.first);
  EXPECT_NE(a.second, b.second);
}

std::vector<double> some_doubles(std::size_t count) {
  std::mt19937_64 random(21);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> values(count);
  for (auto& value : values) value = uniform(random);
  return values;
}

TEST(Digest, NoticesTwoSignFlipsInFloat64) {
  const auto values = some_doubles(2000);
  const Digest before = of_doubles(values);
  for (const auto& [a, b] : {std::pair{0UL, 1UL}, {0UL, 256UL}, {0UL, 512UL}, {255UL, 256UL}, {17UL, 1999UL}}) {
    auto changed = values;
    changed[a] = -changed[a];
    changed[b] = -changed[b];
    expect_both_differ(before, of_doubles(changed));
  }
}

TEST(Digest, NoticesXAndMinusXSwapped) {
  auto values = some_doubles(2000);
  for (const auto& [a, b] : {std::pair{0UL, 1UL}, {0UL, 256UL}, {511UL, 1023UL}, {3UL, 1999UL}}) {
    values[b] = -values[a];
    auto changed = values;
    std::swap(changed[a], changed[b]);
    expect_both_differ(of_doubles(values), of_doubles(changed));
  }
}

TEST(Digest, NoticesTwoElementsExchanged) {
  for (const DType dtype : {DType::kInt8, DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kComplex128}) {
    const auto size = static_cast<std::size_t>(size_bytes(dtype));
    const Bytes bytes = random_bytes(2048 * size, 22);
    const Digest before = digest_of_run(dtype, 0, bytes);
    for (const auto& [a, b] : {std::pair{0UL, 1UL}, {0UL, 512UL}, {100UL, 612UL}, {5UL, 2047UL}}) {
      Bytes changed = bytes;
      changed[a * size] ^= std::byte{1};
      std::swap_ranges(changed.begin() + static_cast<std::ptrdiff_t>(a * size),
                       changed.begin() + static_cast<std::ptrdiff_t>((a + 1) * size),
                       changed.begin() + static_cast<std::ptrdiff_t>(b * size));
      expect_both_differ(before, digest_of_run(dtype, 0, changed));
    }
  }
}

TEST(Digest, NoticesTwoBlocksExchanged) {
  const Bytes bytes = random_bytes(2 * 2048, 23);
  Bytes changed = bytes;
  std::rotate(changed.begin(), changed.begin() + 2048, changed.end());
  expect_both_differ(digest_of_run(DType::kInt32, 0, bytes), digest_of_run(DType::kInt32, 0, changed));
}

TEST(Digest, NoticesTheSignOfZero) {
  for (std::size_t at : {0UL, 7UL}) {
    std::vector<double> values(8, 0.0);
    const Digest before = of_doubles(values);
    values[at] = -0.0;
    expect_both_differ(before, of_doubles(values));
  }
  expect_both_differ(of_doubles({0.0, -0.0}), of_doubles({-0.0, 0.0}));
}

TEST(Digest, NoticesTheBitsOfNotANumber) {
  const std::vector<std::uint32_t> quiet = {0x7fc00000};
  for (const std::uint32_t other : {0x7fc00001U, 0xffc00000U, 0x7f800001U})
    expect_both_differ(digest_of_run(DType::kFloat32, 0, bytes_of(quiet)),
                       digest_of_run(DType::kFloat32, 0, bytes_of<std::uint32_t>({other})));
}

TEST(Digest, NoticesTrailingAndMissingZeros) {
  const Bytes zeros(4096);
  const Digest whole = digest_of_run(DType::kFloat32, 0, zeros);
  expect_both_differ(whole, digest_of_run(DType::kFloat32, 0, ByteSpan(zeros).first(4092)));
  expect_both_differ(whole, digest_of_run(DType::kFloat32, 1, zeros));
}

TEST(Digest, DoesNotCountPadding) {
  // Rows of three elements in a local array with rows of five.
  const TensorInfo tensor{"t", DType::kFloat32, {2, 3}};
  const Piece piece{Box::whole(tensor.shape), 1, {5, 1}};
  const Bytes one = bytes_of<float>({9, 1, 2, 3, 9, 9, 4, 5, 6, 9});
  const Bytes other = bytes_of<float>({8, 1, 2, 3, 7, 8, 4, 5, 6, 7});
  const Digest expected = digest_of_run(DType::kFloat32, 0, bytes_of<float>({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(digest_of_piece(tensor, piece, one.data()), expected);
  EXPECT_EQ(digest_of_piece(tensor, piece, other.data()), expected);
}

TEST(Digest, ReadsPackedCodesAtAnyStride) {
  // Four-bit codes 1..8 in two columns; the local array holds the transpose.
  const TensorInfo tensor{"t", DType::kFloat4E2M1FN, {2, 4}};
  const Bytes row_major = bytes_of<std::uint8_t>({0x21, 0x43, 0x65, 0x87});
  const Bytes transposed = bytes_of<std::uint8_t>({0x51, 0x62, 0x73, 0x84});
  const Digest expected = digest_of_run(tensor.dtype, 0, row_major);
  EXPECT_EQ(digest_of_piece(tensor, {Box::whole(tensor.shape), 0, {4, 1}}, row_major.data()), expected);
  EXPECT_EQ(digest_of_piece(tensor, {Box::whole(tensor.shape), 0, {1, 2}}, transposed.data()), expected);
}

TEST(Digest, OfAScalarPiece) {
  const Bytes local = bytes_of<float>({7, 1});
  EXPECT_EQ(digest_of_piece({"t", DType::kFloat32, {}}, {{{}, {}}, 1, {}}, local.data()),
            digest_of_run(DType::kFloat32, 0, bytes_of<float>({1})));
}

}  // namespace
}  // namespace tenplex
