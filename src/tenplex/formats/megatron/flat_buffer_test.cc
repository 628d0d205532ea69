// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/flat_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace tenplex::megatron {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::array<std::int64_t, 3> kModel = {100, 64, 7};

std::vector<BufferPlace> in_buckets(std::span<const std::int64_t> elements, std::vector<std::int64_t> buckets) {
  return places_in_buckets(elements, buckets).value();
}

std::string refusal(std::span<const std::int64_t> elements, std::vector<std::int64_t> buckets) {
  const auto places = places_in_buckets(elements, buckets);
  return places ? "" : places.error().message();
}

TEST(FlatBuffer, ABufferHasOneTypeOfOneVirtualStage) {
  const std::array<BufferKind, 5> kinds = {{{0, DType::kBFloat16},
                                            {0, DType::kFloat32},
                                            {0, DType::kBFloat16},
                                            {1, DType::kBFloat16},
                                            {0, DType::kFloat32}}};
  EXPECT_THAT(split_into_buffers(kinds), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 4), ElementsAre(3)));
}

TEST(FlatBuffer, TheLastParameterComesFirst) {
  EXPECT_THAT(in_buckets(kModel, {228}), ElementsAre(BufferPlace{0, 128}, BufferPlace{0, 64}, BufferPlace{0, 0}));
}

TEST(FlatBuffer, BucketsBeginAnew) {
  EXPECT_THAT(in_buckets(kModel, {128, 100}), ElementsAre(BufferPlace{1, 0}, BufferPlace{0, 64}, BufferPlace{0, 0}));
  EXPECT_THAT(in_buckets(kModel, {7, 64, 100}), ElementsAre(BufferPlace{2, 0}, BufferPlace{1, 0}, BufferPlace{0, 0}));
}

TEST(FlatBuffer, ABucketMayEndWithTheGapBeforeAnother) {
  EXPECT_THAT(in_buckets(kModel, {64, 64, 100}), ElementsAre(BufferPlace{2, 0}, BufferPlace{1, 0}, BufferPlace{0, 0}));
}

TEST(FlatBuffer, ParametersThatDoNotFillTheBucketsAreRefused) {
  EXPECT_THAT(refusal(kModel, {227}), HasSubstr("bucket 0: a parameter of 100 elements begins at 128 of its 227"));
  EXPECT_THAT(refusal(kModel, {300}), HasSubstr("bucket 0: it has 300 elements, and the rank's parameters end at 228"));
  EXPECT_THAT(refusal(kModel, {128}), HasSubstr("bucket 0: it is full, and the rank has 1 parameter more"));
  EXPECT_THAT(refusal(kModel, {128, 100, 5}), HasSubstr("bucket 2: it has 5 elements"));
  const std::array<std::int64_t, 2> huge = {std::numeric_limits<std::int64_t>::max() / 2,
                                            std::numeric_limits<std::int64_t>::max() / 2};
  EXPECT_THAT(refusal(huge, {5}), HasSubstr("too large"));
}

TEST(FlatBuffer, InATotalTheRuleCounts) {
  EXPECT_THAT(places_in_total(kModel, 228, {}).value(), ElementsAre(128, 64, 0));
  EXPECT_THAT(places_in_total(kModel, 171, {{}, 1}).value(), ElementsAre(71, 7, 0));
  EXPECT_THAT(places_in_total(kModel, 171, {2, {}}).value(), ElementsAre(71, 7, 0));
}

TEST(FlatBuffer, InATotalAnotherBucketSizeIsFound) {
  // c alone, then b, then a: 7 + 64 + 100.
  EXPECT_THAT(places_in_total(kModel, 171, {}).value(), ElementsAre(71, 7, 0));
  EXPECT_THAT(places_in_total(kModel, 170, {}).error().message(), HasSubstr("it has 170 elements, and the rank's"));
}

TEST(FlatBuffer, SharedEmbeddingsHaveABucketOfTheirOwn) {
  // c and b up to 128, then the shared parameter a; where b is shared, c's bucket ends at 64.
  EXPECT_THAT(places_in_total(kModel, 228, {0, {}}).value(), ElementsAre(128, 64, 0));
  EXPECT_THAT(places_in_total(kModel, 228, {1, {}}).value(), ElementsAre(128, 64, 0));
}

TEST(FlatBuffer, SeveralBucketSizesThatFitAreRefused) {
  // Buckets of 65 elements: 0, 64 │ 65, 129. Buckets of 129: 0, 64, 128 │ 129.
  const std::array<std::int64_t, 4> model = {1, 1, 1, 1};
  EXPECT_THAT(places_in_total(model, 130, {}).error().message(), HasSubstr("buckets of more than one size"));
  EXPECT_THAT(places_in_total(model, 130, {{}, 100}).value(), ElementsAre(129, 128, 64, 0));
}

}  // namespace
}  // namespace tenplex::megatron
