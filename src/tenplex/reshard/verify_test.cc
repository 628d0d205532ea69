// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenplex/plan/testing/random_collection.h"
#include "tenplex/reshard/digest.h"
#include "tenplex/reshard/element_text.h"
#include "tenplex/reshard/testing/raw_checkpoint.h"

namespace tenplex {
namespace {

using Kind = TensorDifference::Kind;

ListedTensor rows(const TensorInfo& info, int parts) {
  ListedTensor tensor{info, {}, 0};
  for (int part = 0; part < parts; ++part) {
    Box box = Box::whole(info.shape);
    box.offset[0] = info.shape[0] * part / parts;
    box.extent[0] = info.shape[0] * (part + 1) / parts - box.offset[0];
    tensor.shards.push_back({sub_tensor_of_box(box), {DeviceId(part)}});
  }
  return tensor;
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

class Verify : public ::testing::Test {
 public:
  std::unique_ptr<RawReader> put(const std::string& folder, const Collection& collection,
                                 const std::vector<std::string>& contents) {
    return put_raw_checkpoint(files_, files_, folder, collection, contents);
  }

  VerifyReport compare(const CheckpointReader& a, const CheckpointReader& b) {
    Progress progress;
    const auto report = verify(a, b, {.max_memory_bytes = 1 << 20}, executor_, progress);
    EXPECT_TRUE(report) << report.error().to_string();
    return report ? *report : VerifyReport();
  }

  MemoryFileSystem files_;
  Executor executor_{2};
};

TEST_F(Verify, EqualWhateverTheCut) {
  const TensorInfo info{"w", DType::kFloat64, {300, 900}};
  const std::string content = random_bytes(size_bytes(info), 5);
  const auto a = put("/a", ListedCollection(3, {rows(info, 3)}), {content});
  const auto b = put("/b", ListedCollection(7, {rows(info, 7)}), {content});
  const VerifyReport report = compare(*a, *b);
  EXPECT_TRUE(report.equal());
  EXPECT_EQ(report.tensors_compared, 1);
  EXPECT_EQ(report.elements_compared, 270000);
  EXPECT_EQ(report.bytes_read, 2 * size_bytes(info));
}

TEST_F(Verify, RefusesCheckpointsThatChangedMeanwhile) {
  const TensorInfo info{"w", DType::kFloat32, {4, 3}};
  const std::string content = random_bytes(size_bytes(info), 5);
  const auto a = put("/a", ListedCollection(2, {rows(info, 2)}), {content});
  const auto b = put("/b", ListedCollection(1, {rows(info, 1)}), {content});
  b->changed_ = true;
  Progress progress;
  const VerifyOptions options{.max_memory_bytes = 1 << 20};
  EXPECT_EQ(verify(*a, *b, options, executor_, progress).error().to_string(), "it changed");
  EXPECT_EQ(verify(*b, *a, options, executor_, progress).error().to_string(), "it changed");
  const DigestOptions digesting{.max_memory_bytes = 1 << 20};
  EXPECT_EQ(digest_tensors(*b, digesting, executor_, progress).error().to_string(), "it changed");
}

TEST_F(Verify, NamesTheFirstElementThatDiffers) {
  const TensorInfo info{"w", DType::kFloat32, {4, 3}};
  std::vector<float> values(12, 1.5F);
  const auto a = put("/a", ListedCollection(2, {rows(info, 2)}), {bytes_of(values)});
  values[11] = 2;
  values[7] = -0.25F;
  const auto b = put("/b", ListedCollection(1, {rows(info, 1)}), {bytes_of(values)});
  const VerifyReport report = compare(*a, *b);
  ASSERT_EQ(report.differences.size(), 1U);
  const TensorDifference& difference = report.differences[0];
  EXPECT_EQ(difference.kind, Kind::kValues);
  EXPECT_EQ(difference.differing_elements, 2);
  EXPECT_EQ(difference.index, (Dims{2, 1}));
  EXPECT_EQ(difference.first_value, "1.5");
  EXPECT_EQ(difference.second_value, "-0.25");
}

TEST_F(Verify, TellsSignsOfZeroAndPayloadsOfNanApart) {
  const TensorInfo info{"w", DType::kBFloat16, {2, 1}};
  const auto a = put("/a", ListedCollection(1, {rows(info, 1)}), {bytes_of<std::uint16_t>({0x0000, 0x7fc0})});
  const auto b = put("/b", ListedCollection(1, {rows(info, 1)}), {bytes_of<std::uint16_t>({0x8000, 0x7fc1})});
  const VerifyReport report = compare(*a, *b);
  ASSERT_EQ(report.differences.size(), 1U);
  EXPECT_EQ(report.differences[0].differing_elements, 2);
  EXPECT_EQ(report.differences[0].first_value, "0");
  EXPECT_EQ(report.differences[0].second_value, "-0");
}

TEST_F(Verify, CountsElementsSmallerThanAByte) {
  const TensorInfo info{"w", DType::kFloat4E2M1FN, {1, 8}};
  // Codes, low half first: 0 1 2 3 4 5 6 7 against 0 1 2 3 4 d 6 7: element 5 is 3 in one and −3 in the other.
  const auto a = put("/a", ListedCollection(1, {rows(info, 1)}), {"\x10\x32\x54\x76"});
  const auto b = put("/b", ListedCollection(1, {rows(info, 1)}), {"\x10\x32\xd4\x76"});
  const VerifyReport report = compare(*a, *b);
  ASSERT_EQ(report.differences.size(), 1U);
  EXPECT_EQ(report.differences[0].differing_elements, 1);
  EXPECT_EQ(report.differences[0].index, (Dims{0, 5}));
  EXPECT_EQ(report.differences[0].first_value, "3");
  EXPECT_EQ(report.differences[0].second_value, "-3");
}

TEST_F(Verify, ListsNamesShapesAndDtypesInOrder) {
  const auto one = [](const std::string& name, DType dtype, const Dims& shape) {
    return rows({name, dtype, shape}, 1);
  };
  const auto a = put("/a",
                     ListedCollection(1, {one("only a", DType::kInt8, {1}), one("shape", DType::kInt8, {2}),
                                          one("same", DType::kInt8, {1}), one("dtype", DType::kInt8, {1})}),
                     {"x", "xy", "s", "d"});
  const auto b = put("/b",
                     ListedCollection(1, {one("dtype", DType::kUInt8, {1}), one("shape", DType::kInt8, {1}),
                                          one("only b", DType::kInt8, {1}), one("same", DType::kInt8, {1})}),
                     {"d", "x", "y", "s"});
  const VerifyReport report = compare(*a, *b);
  std::vector<Kind> kinds;
  for (const TensorDifference& difference : report.differences) kinds.push_back(difference.kind);
  EXPECT_THAT(kinds, ::testing::ElementsAre(Kind::kOnlyInFirst, Kind::kShape, Kind::kDType, Kind::kOnlyInSecond));
  EXPECT_EQ(report.tensors_compared, 1);
}

TEST_F(Verify, RefusesANameThatIsThereTwice) {
  const TensorInfo info{"w", DType::kInt8, {1}};
  const auto a = put("/a", ListedCollection(1, {rows(info, 1), rows(info, 1)}), {"x", "x"});
  const auto b = put("/b", ListedCollection(1, {rows(info, 1)}), {"x"});
  Progress progress;
  EXPECT_EQ(verify(*a, *b, {}, executor_, progress).error().code(), ErrorCode::kCorrupt);
}

TEST_F(Verify, ComparesObjectsByName) {
  const TensorInfo info{"w", DType::kInt8, {1}};
  const auto put_with_step = [&](const std::string& folder, std::int64_t step) {
    auto reader = put(folder, ListedCollection(1, {rows(info, 1)}), {"x"});
    StateGraph& state = reader->info_.state;
    const NodeId key = state.add_string("step");
    const NodeId value = state.add_int(step);
    state.root = state.add_dict({key, value});
    return reader;
  };
  const auto a = put_with_step("/a", 7);
  const auto same = put_with_step("/b", 7);
  const auto other = put_with_step("/c", 8);
  EXPECT_TRUE(compare(*a, *same).equal());
  EXPECT_THAT(compare(*a, *other).object_differences, ::testing::ElementsAre("object 'step' differs"));
}

TEST_F(Verify, DigestsDoNotDependOnTheCut) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    RandomCollections random(seed);
    const std::vector<TensorInfo> tensors = random.tensors();
    std::vector<std::string> contents;
    std::vector<Digest> expected;
    for (const TensorInfo& tensor : tensors) {
      contents.push_back(random_bytes(size_bytes(tensor), seed));
      expected.push_back(digest_of_header(tensor.dtype, tensor.shape) +
                         digest_of_run(tensor.dtype, 0, as_bytes(contents.back())));
    }
    const auto reader = put("/d" + std::to_string(seed), random.collection(tensors, 3), contents);
    Progress progress;
    const auto digests = digest_tensors(*reader, {.max_memory_bytes = 1 << 20}, executor_, progress);
    ASSERT_TRUE(digests) << digests.error().to_string();
    EXPECT_EQ(*digests, expected);
  }
}

TEST_F(Verify, DigestsTensorsLargerThanTheMemory) {
  const TensorInfo info{"w", DType::kFloat32, {700, 1000}};
  const std::string content = random_bytes(size_bytes(info), 5);
  const auto reader = put("/a", ListedCollection(3, {rows(info, 3)}), {content});
  Progress progress;
  const auto digests = digest_tensors(*reader, {.max_memory_bytes = 1 << 20}, executor_, progress);
  ASSERT_TRUE(digests);
  EXPECT_EQ((*digests)[0], digest_of_header(info.dtype, info.shape) + digest_of_run(info.dtype, 0, as_bytes(content)));
}

std::string text_of(DType dtype, const std::string& bytes) { return element_text(dtype, as_bytes(bytes), 0); }

TEST(ElementText, ShowsEveryKindOfNumber) {
  EXPECT_EQ(text_of(DType::kBool, "\x01"), "true");
  EXPECT_EQ(text_of(DType::kInt8, "\xff"), "-1");
  EXPECT_EQ(text_of(DType::kUInt16, "\xff\xff"), "65535");
  EXPECT_EQ(text_of(DType::kFloat16, bytes_of<std::uint16_t>({0x3c00})), "1");
  EXPECT_EQ(text_of(DType::kBFloat16, bytes_of<std::uint16_t>({0x7fc1})), "nan (0x7fc1)");
  EXPECT_EQ(text_of(DType::kBFloat16, bytes_of<std::uint16_t>({0xff80})), "-inf");
  EXPECT_EQ(text_of(DType::kFloat8E4M3FN, "\x7e"), "448");
  EXPECT_EQ(text_of(DType::kFloat8E4M3FN, "\x7f"), "nan (0x7f)");
  EXPECT_EQ(text_of(DType::kFloat8E5M2, "\x7b"), "57344");
  EXPECT_EQ(text_of(DType::kFloat8E4M3FNUZ, "\x7f"), "240");
  EXPECT_EQ(text_of(DType::kFloat8E8M0FNU, "\x80"), "2");
  EXPECT_EQ(text_of(DType::kComplex64, bytes_of<float>({1, -2})), "(1, -2)");
  EXPECT_EQ(text_of(DType::kFloat32, bytes_of<float>({0.1F})), "0.1");
  EXPECT_EQ(text_of(DType::kInt64, bytes_of<std::int64_t>({INT64_MIN})), "-9223372036854775808");
}

}  // namespace
}  // namespace tenplex
