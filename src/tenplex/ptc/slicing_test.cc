// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/slicing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenplex {
namespace {

using ::testing::HasSubstr;

DimCut cut_dim(int dim, std::int64_t parts, std::vector<std::int64_t> segments = {}, std::int64_t interleave = 0) {
  return {dim, parts, {}, std::move(segments), interleave, interleave};
}

std::string part(const Slicing& slicing, std::vector<std::int64_t> parts) {
  SubTensor shard;
  slicing.sub_tensor(parts, &shard);
  return to_string(shard);
}

Slicing make_slicing(const Dims& shape, std::vector<Cut> cuts, std::optional<PaddedDim> padding = {}) {
  auto slicing = Slicing::make(shape, padding, std::move(cuts));
  EXPECT_TRUE(slicing) << (slicing ? "" : slicing.error().to_string());
  return std::move(slicing).value();
}

std::string slicing_refusal(const Dims& shape, std::vector<Cut> cuts, std::optional<PaddedDim> padding = {}) {
  const auto slicing = Slicing::make(shape, padding, std::move(cuts));
  return slicing ? "accepted" : slicing.error().message();
}

TEST(Slicing, WithoutCutsIsTheWholeTensor) {
  EXPECT_EQ(part(make_slicing({2, 3}, {}), {}), "[2, 3] | [0:2, 0:3] at 0 step [3, 1]");
  EXPECT_EQ(part(make_slicing({}, {}), {}), "[] | [] at 0 step []");
}

TEST(Slicing, CutsRowsEvenly) {
  const Slicing slicing = make_slicing({8, 4}, {cut_dim(0, 4)});
  EXPECT_EQ(slicing.part_count(), 4);
  EXPECT_EQ(part(slicing, {1}), "[2, 4] | [2:4, 0:4] at 0 step [4, 1]");
}

TEST(Slicing, LeavesEmptyShardsWhereThereAreMorePartsThanRows) {
  const Slicing slicing = make_slicing({6, 4}, {cut_dim(0, 4)});
  EXPECT_EQ(part(slicing, {2}), "[2, 4] | [4:6, 0:4] at 0 step [4, 1]");
  EXPECT_EQ(part(slicing, {3}), "[0, 4]");
}

TEST(Slicing, CutsSeveralDimensions) {
  EXPECT_EQ(part(make_slicing({4, 6}, {cut_dim(0, 2), cut_dim(1, 3)}), {1, 2}), "[2, 2] | [2:4, 4:6] at 0 step [2, 1]");
}

TEST(Slicing, CutsOneDimensionTwiceInEitherOrder) {
  // 12 rows: 2 parts of 6, each again in 4 (2, 2, 2, 0); the other way round 4 parts of 3, each in 2 (2, 1).
  const Slicing tp_then_fsdp = make_slicing({12}, {cut_dim(0, 2), cut_dim(0, 4)});
  EXPECT_EQ(part(tp_then_fsdp, {1, 1}), "[2] | [8:10] at 0 step [1]");
  EXPECT_EQ(part(tp_then_fsdp, {1, 3}), "[0]");
  const Slicing fsdp_then_tp = make_slicing({12}, {cut_dim(0, 4), cut_dim(0, 2)});
  EXPECT_EQ(part(fsdp_then_tp, {1, 1}), "[1] | [5:6] at 0 step [1]");
}

TEST(Slicing, CutsGateAndUpSeparately) {
  // Rows 0..15, of which 0..7 are the gate and 8..15 the up projection.
  const Slicing tp4 = make_slicing({16, 2}, {cut_dim(0, 4, {1, 1})});
  EXPECT_EQ(part(tp4, {1}), "[4, 2] | [2:4, 0:2] at 0 step [2, 1] | [10:12, 0:2] at 4 step [2, 1]");
  // FSDP over 2 of the local [gate; up] of 4 rows: the first half is gate only.
  const Slicing tp4_fsdp2 = make_slicing({16, 2}, {cut_dim(0, 4, {1, 1}), cut_dim(0, 2)});
  EXPECT_EQ(part(tp4_fsdp2, {1, 0}), "[2, 2] | [2:4, 0:2] at 0 step [2, 1]");
  EXPECT_EQ(part(tp4_fsdp2, {1, 1}), "[2, 2] | [10:12, 0:2] at 0 step [2, 1]");
  // One part in all: the two segments are neighbours again and one piece.
  EXPECT_EQ(part(make_slicing({16, 2}, {cut_dim(0, 1, {1, 1})}), {0}), "[16, 2] | [0:16, 0:2] at 0 step [2, 1]");
}

TEST(Slicing, CutsPackedQueriesKeysAndValuesByRatio) {
  // 24 rows as Q|K|V = 4:1:1, that is 16, 4 and 4 rows, over 2.
  EXPECT_EQ(part(make_slicing({24}, {cut_dim(0, 2, {4, 1, 1})}), {1}),
            "[12] | [8:16] at 0 step [1] | [18:20] at 8 step [1] | [22:24] at 10 step [1]");
  // The same given as widths.
  EXPECT_EQ(part(make_slicing({24}, {cut_dim(0, 2, {16, 4, 4})}), {0}),
            "[12] | [0:8] at 0 step [1] | [16:18] at 8 step [1] | [20:22] at 10 step [1]");
}

TEST(Slicing, CutsUnevenSegmentsEachByItself) {
  // Segments of 3 rows over 2: 2 + 2 rows, then 1 + 1.
  const Slicing slicing = make_slicing({6}, {cut_dim(0, 2, {1, 1})});
  EXPECT_EQ(part(slicing, {0}), "[4] | [0:2] at 0 step [1] | [3:5] at 2 step [1]");
  EXPECT_EQ(part(slicing, {1}), "[2] | [2:3] at 0 step [1] | [5:6] at 1 step [1]");
}

TEST(Slicing, CutsInterleavedBlocksEachByItself) {
  // 16 rows as w w|v v|w w|v v|w w|v v|w w|v v. Part 1 of 2 has the last 4 rows of w and of v, alternating as before:
  // rows 8..15, which are one run.
  EXPECT_EQ(part(make_slicing({16}, {cut_dim(0, 2, {1, 1}, 2)}), {1}), "[8] | [8:16] at 0 step [1]");
  // Over 4 of 12 rows in blocks of 2: w has 0 1 4 5 8 9, v has 2 3 6 7 10 11; chunks of 2 rows each, and an empty part.
  const Slicing slicing = make_slicing({12}, {cut_dim(0, 4, {1, 1}, 2)});
  EXPECT_EQ(part(slicing, {1}), "[4] | [4:8] at 0 step [1]");
  EXPECT_EQ(part(slicing, {3}), "[0]");
}

TEST(Slicing, CutsInterleavedBlocksThatThePartsDoNotFill) {
  // Blocks of 4, over 2: w has rows 0..3 8..10, v has 4..7 11..13 (last blocks are 3 rows). Chunks of 4 and 3.
  const Slicing slicing = make_slicing({14}, {cut_dim(0, 2, {1, 1}, 4)});
  EXPECT_EQ(part(slicing, {0}), "[8] | [0:8] at 0 step [1]");
  EXPECT_EQ(part(slicing, {1}), "[6] | [8:14] at 0 step [1]");
  // Blocks of 2 over 4 of 8 + 8 rows… of which each part has 2; with blocks of 4 a part has half a block of each.
  EXPECT_EQ(part(make_slicing({16}, {cut_dim(0, 4, {1, 1}, 4)}), {1}),
            "[4] | [2:4] at 0 step [1] | [6:8] at 2 step [1]");
}

TEST(Slicing, InterleavesLocallyWhatIsConcatenatedGlobally) {
  // The tensor is [w; v] of 8 rows each; the device keeps blocks of 2: w0 w1 v0 v1 w2 w3 v2 v3.
  DimCut cut = cut_dim(0, 2, {1, 1});
  cut.local_interleave = 2;
  EXPECT_EQ(part(make_slicing({16}, {cut}), {1}),
            "[8] | [4:6] at 0 step [1] | [12:14] at 2 step [1] | [6:8] at 4 step [1] | [14:16] at 6 step [1]");
}

TEST(Slicing, KeepsPaddingInTheLocalArrayAndOutOfThePieces) {
  // 13 real rows padded to 16, over 2, 4 and 3 (the last to 24).
  EXPECT_EQ(part(make_slicing({13, 2}, {cut_dim(0, 2)}, PaddedDim{0, 16}), {1}),
            "[8, 2] | [8:13, 0:2] at 0 step [2, 1]");
  EXPECT_EQ(part(make_slicing({13, 2}, {cut_dim(0, 4)}, PaddedDim{0, 16}), {3}),
            "[4, 2] | [12:13, 0:2] at 0 step [2, 1]");
  EXPECT_EQ(part(make_slicing({13, 2}, {cut_dim(0, 3)}, PaddedDim{0, 24}), {2}), "[8, 2]");
  // A padded column: rows of the local array are 4 long, of which 3 are data.
  EXPECT_EQ(part(make_slicing({2, 3}, {}, PaddedDim{1, 4}), {}), "[2, 4] | [0:2, 0:3] at 0 step [4, 1]");
}

TEST(Slicing, CutsAFlatTensorIntoRanges) {
  // [3, 4] over 5: ranges of 3 elements, the last empty of one: 3 3 3 3 0.
  const Slicing slicing = make_slicing({3, 4}, {FlatCut{5, {}, false, 0, -1}});
  EXPECT_EQ(part(slicing, {0}), "[3] | [0:1, 0:3] at 0 step [4, 1]");
  EXPECT_EQ(part(slicing, {1}), "[3] | [0:1, 3:4] at 0 step [4, 1] | [1:2, 0:2] at 1 step [4, 1]");
  EXPECT_EQ(part(slicing, {4}), "[0]");
}

TEST(Slicing, PadsFlatRangesToEqualLengths) {
  // ZeRO-3: ceil(7 / 3) = 3 elements per part; the last has one and two of padding.
  const Slicing slicing = make_slicing({7}, {FlatCut{3, {}, true, 0, -1}});
  EXPECT_EQ(part(slicing, {1}), "[3] | [3:6] at 0 step [1]");
  EXPECT_EQ(part(slicing, {2}), "[3] | [6:7] at 0 step [1]");
  EXPECT_EQ(slicing.uniform_local_volume(), 3);
}

TEST(Slicing, CutsWhatTensorParallelismLeftIntoFlatRanges) {
  // Columns 2..3 of [3, 4], flattened: 6 elements; the second half is row 1's last and row 2.
  EXPECT_EQ(part(make_slicing({3, 4}, {cut_dim(1, 2), FlatCut{2, {}, false, 0, -1}}), {1, 1}),
            "[3] | [1:2, 3:4] at 0 step [2, 1] | [2:3, 2:4] at 1 step [2, 1]");
}

TEST(Slicing, CutsSegmentsIntoFlatRanges) {
  // Gate row 1 and up row 3 of [4, 2] are the local [2, 2]; elements 1..2 of it lie in both.
  EXPECT_EQ(part(make_slicing({4, 2}, {cut_dim(0, 2, {1, 1}), FlatCut{3, {Split::Kind::kBalanced, {}}, false, 0, -1}}),
                 {1, 1}),
            "[1] | [3:4, 0:1] at 0 step [2, 1]");
}

TEST(Slicing, CutsABucketOfSeveralTensors) {
  // a [5] and b [2, 3] follow each other: 11 elements, padded to 12, over 3: 4 each.
  const Slicing a = make_slicing({5}, {FlatCut{3, {}, false, 0, 12}});
  EXPECT_EQ(part(a, {0}), "[4] | [0:4] at 0 step [1]");
  EXPECT_EQ(part(a, {1}), "[1] | [4:5] at 0 step [1]");
  EXPECT_EQ(part(a, {2}), "[0]");
  const Slicing b = make_slicing({2, 3}, {FlatCut{3, {}, false, 5, 12}});
  EXPECT_EQ(part(b, {0}), "[0]");
  EXPECT_EQ(part(b, {1}), "[3] | [0:1, 0:3] at 0 step [3, 1]");
  EXPECT_EQ(part(b, {2}), "[3] | [1:2, 0:3] at 0 step [3, 1]");
}

TEST(Slicing, CutsAFlatRangeAgain) {
  // 10 elements over 2, then over 2: 3 and 2 of each half.
  const Slicing slicing = make_slicing({2, 5}, {FlatCut{2, {}, false, 0, -1}, FlatCut{2, {}, false, 0, -1}});
  EXPECT_EQ(part(slicing, {1, 1}), "[2] | [1:2, 3:5] at 0 step [5, 1]");
}

TEST(Slicing, CutsAScalarFlat) {
  const Slicing slicing = make_slicing({}, {FlatCut{2, {}, false, 0, -1}});
  EXPECT_EQ(part(slicing, {0}), "[1] | [] at 0 step []");
  EXPECT_EQ(part(slicing, {1}), "[0]");
}

TEST(Slicing, FollowsGivenWidths) {
  DimCut cut = cut_dim(0, 3);
  cut.split = {Split::Kind::kWidths, {1, 0, 5}};
  EXPECT_EQ(part(make_slicing({6}, {cut}), {2}), "[5] | [1:6] at 0 step [1]");
}

TEST(Slicing, RefusesCutsThatDoNotFit) {
  EXPECT_EQ(slicing_refusal({8}, {cut_dim(1, 2)}), "slices dim 1, but the tensor has rank 1");
  EXPECT_EQ(slicing_refusal({9}, {cut_dim(0, 2, {1, 1})}),
            "segments [1, 1] add up to 2, which does not divide the local extent 9");
  EXPECT_EQ(slicing_refusal({8}, {cut_dim(0, 2, {0, 0})}), "the segments are all empty");
  EXPECT_EQ(slicing_refusal({8}, {cut_dim(0, 2, {1, 2}, 2)}), "interleaved segments must be equal");
  EXPECT_EQ(slicing_refusal({8}, {FlatCut{2, {}, false, 0, -1}, cut_dim(0, 2)}),
            "slices a dim after a flat slice, which leaves none");
  EXPECT_EQ(slicing_refusal({8}, {FlatCut{2, {}, false, 5, 12}}), "the tensor does not lie inside its bucket");
  EXPECT_EQ(slicing_refusal({7}, {cut_dim(0, 2), FlatCut{2, {}, false, 0, 8}}),
            "a tensor in a bucket must be cut evenly by the slices before");
  EXPECT_EQ(slicing_refusal({4}, {}, PaddedDim{0, 3}), "the padded extent is smaller than the data");
  EXPECT_EQ(slicing_refusal({4}, {}, PaddedDim{1, 8}), "pads dim 1 of a tensor of rank 1");
}

TEST(Slicing, FindsASecondCutThatFitsOnlySomeParts) {
  // 7 rows over 2 are 4 and 3; segments 1:1 fit the first only.
  EXPECT_THAT(slicing_refusal({7}, {cut_dim(0, 2), cut_dim(0, 2, {1, 1})}), HasSubstr("the local extent 3"));
  DimCut even = cut_dim(0, 2);
  even.split.kind = Split::Kind::kEven;
  EXPECT_EQ(slicing_refusal({12}, {cut_dim(0, 4), even}), "3 does not divide evenly into 2 parts");
  EXPECT_EQ(slicing_refusal({6}, {cut_dim(0, 4), even}), "accepted");  // 2, 2, 2, 0
}

TEST(Slicing, RefusesPartsOfTooManyPieces) {
  EXPECT_THAT(slicing_refusal({std::int64_t{1} << 40}, {cut_dim(0, 2, {1, 1}, 1)}), HasSubstr("too fine"));
  EXPECT_THAT(slicing_refusal({4096, 4096}, {cut_dim(0, 2, {1, 1}, 1), cut_dim(1, 2, {1, 1}, 1)}),
              HasSubstr("more than 1048576 pieces"));
}

}  // namespace
}  // namespace tenplex
