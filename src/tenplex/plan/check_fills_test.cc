// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/check_fills.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenplex/plan/testing/listed_collection.h"

namespace tenplex {
namespace {

using ::testing::HasSubstr;

// A [4, 2] tensor in two row halves, to be put together in a target of two pieces: columns 0 and 1.
class CheckFills : public ::testing::Test {
 protected:
  CheckFills()
      : source_(1, {ListedTensor{{"w", DType::kFloat32, {4, 2}},
                                 {{sub_tensor_of_box({{0, 0}, {2, 2}}), {DeviceId(0)}},
                                  {sub_tensor_of_box({{2, 0}, {2, 2}}), {DeviceId(0)}}},
                                 0}}),
        target_{{8}, {Piece{Box{{0, 0}, {4, 1}}, 0, {1, 1}}, Piece{Box{{0, 1}, {4, 1}}, 4, {1, 1}}}} {
    fills_ = {
        {0, {Box{{0, 0}, {2, 1}}, 0, {2, 1}}, {Box{{0, 0}, {2, 1}}, 0, {1, 1}}},
        {1, {Box{{2, 0}, {2, 1}}, 0, {2, 1}}, {Box{{2, 0}, {2, 1}}, 2, {1, 1}}},
        {0, {Box{{0, 1}, {2, 1}}, 1, {2, 1}}, {Box{{0, 1}, {2, 1}}, 4, {1, 1}}},
        {1, {Box{{2, 1}, {2, 1}}, 1, {2, 1}}, {Box{{2, 1}, {2, 1}}, 6, {1, 1}}},
    };
  }

  std::string error() const {
    const auto result = check_fills(source_, TensorId(0), target_, fills_);
    return result ? "" : result.error().to_string();
  }

  ListedCollection source_;
  SubTensor target_;
  std::vector<Fill> fills_;
};

TEST_F(CheckFills, AcceptsEachElementOnceInAnyOrder) {
  EXPECT_EQ(error(), "");
  std::swap(fills_[0], fills_[3]);
  EXPECT_EQ(error(), "");
}

TEST_F(CheckFills, AcceptsWhatThePlannerComputes) {
  std::vector<Fill> planned;
  ASSERT_TRUE(SourceIndex(source_, TensorId(0)).fill(target_, &planned).has_value());
  fills_ = planned;
  EXPECT_EQ(error(), "");
}

TEST_F(CheckFills, RefusesAGap) {
  fills_.pop_back();
  EXPECT_THAT(error(), HasSubstr("6 of the sub-tensor's 8 elements are filled"));
}

TEST_F(CheckFills, RefusesADoubleFillOfTheRightTotal) {
  fills_[3] = fills_[0];
  EXPECT_THAT(error(), HasSubstr("box [0:2, 0:1]: filled twice"));
}

TEST_F(CheckFills, RefusesASourceThatHoldsOtherElements) {
  fills_[1].source_shard = 0;
  EXPECT_THAT(error(), HasSubstr("the source address is not the box's"));
}

TEST_F(CheckFills, RefusesASourceShardThatDoesNotExist) {
  fills_[1].source_shard = 2;
  EXPECT_THAT(error(), HasSubstr("the source shard does not exist"));
  fills_[1].source_shard = -1;
  EXPECT_THAT(error(), HasSubstr("the source shard does not exist"));
}

TEST_F(CheckFills, RefusesWrongAddresses) {
  const std::vector<Fill> right = fills_;
  fills_[0].source.local_offset = 1;
  EXPECT_THAT(error(), HasSubstr("the source address is not the box's"));
  fills_ = right;
  fills_[0].source.local_strides = {1, 1};
  EXPECT_THAT(error(), HasSubstr("the source address is not the box's"));
  fills_ = right;
  fills_[2].target.local_offset = 0;
  EXPECT_THAT(error(), HasSubstr("the target address is not the box's"));
}

TEST_F(CheckFills, RefusesBoxesThatDiffer) {
  fills_[0].source.box = Box{{0, 1}, {2, 1}};
  EXPECT_THAT(error(), HasSubstr("source and target boxes differ"));
}

TEST_F(CheckFills, RefusesABoxOutsideTheTarget) {
  fills_[1].source.box = fills_[1].target.box = Box{{3, 0}, {2, 1}};
  EXPECT_THAT(error(), HasSubstr("the target address is not the box's"));
}

TEST_F(CheckFills, RefusesAnEmptyFill) {
  fills_.push_back({0, {Box{{0, 0}, {0, 1}}, 0, {2, 1}}, {Box{{0, 0}, {0, 1}}, 0, {1, 1}}});
  EXPECT_THAT(error(), HasSubstr("the box is empty"));
}

}  // namespace
}  // namespace tenplex
