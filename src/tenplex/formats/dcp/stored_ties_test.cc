// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/stored_ties.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenplex::dcp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Ties = std::vector<std::pair<TensorId, TensorId>>;

Chunk chunk_at(std::int32_t file, std::int64_t position, std::int64_t row, std::int64_t rows) {
  return {TensorId(0), DeviceId(0), file, position, Box{{row, 0}, {rows, 2}}};
}

// A folder where each tensor but "head" differs from "embed" in one thing. A chunk's data start 100 bytes behind its
// position, if nothing else is said.
class FakeReader final : public CheckpointReader {
 public:
  FakeReader() {
    const Dims shape = {4, 2};
    const Chunk first = chunk_at(0, 0, 0, 2);
    const Chunk second = chunk_at(1, 0, 2, 2);
    add({"embed", DType::kFloat32, shape}, {first, second});
    add({"head", DType::kFloat32, shape}, {first, second});
    add({"type", DType::kInt32, shape}, {first, second});
    add({"shape", DType::kFloat32, {2, 2}}, {first});
    add({"file", DType::kFloat32, shape}, {first, chunk_at(2, 0, 2, 2)});
    add({"position", DType::kFloat32, shape}, {first, chunk_at(1, 64, 2, 2)});
    add({"cut", DType::kFloat32, shape}, {chunk_at(0, 0, 0, 1), chunk_at(1, 0, 1, 3)});
    add({"count", DType::kFloat32, shape}, {chunk_at(0, 0, 0, 4)});
    add({"blob", DType::kFloat32, shape}, {first, second});
    places_.back() = 108;  // in a safetensors payload all tensors of a file have one position
    add({"broken", DType::kFloat32, shape}, {first, second});
    places_.back() = -1;
  }

  CheckpointInfo& mutable_info() { return info_; }

  const CheckpointInfo& info() const override { return info_; }
  Result<const ByteSource*> file(std::int32_t) const override { return unsupported("no file"); }
  Result<ChunkLocation> locate(std::size_t index) const override {
    if (places_[index] < 0) return corrupt("no item");
    return ChunkLocation{places_[index], row_major_strides(info_.chunks[index].box.extent), std::nullopt};
  }
  Result<std::string> read_extra_file(const ExtraFile&) const override { return unsupported("no file"); }

 private:
  void add(const TensorInfo& tensor, const std::vector<Chunk>& chunks) {
    for (Chunk chunk : chunks) {
      chunk.tensor = TensorId(info_.tensors.size());
      info_.chunks.add(chunk);
      places_.push_back(chunk.position + 100);
    }
    info_.tensors.push_back(tensor);
  }

  CheckpointInfo info_;
  std::vector<std::int64_t> places_;
};

TEST(StoredTies, HoldWhereBothNamesLeadToTheSameBytes) {
  const FakeReader reader;
  std::vector<std::string> problems;
  EXPECT_EQ(find_stored_ties(reader, {{"head", "embed"}}, &problems), (Ties{{TensorId(1), TensorId(0)}}));
  EXPECT_EQ(find_stored_ties(reader, {{"embed", "head"}}, &problems), (Ties{{TensorId(0), TensorId(1)}}));
  EXPECT_THAT(find_stored_ties(reader, {}, &problems), IsEmpty());
  EXPECT_THAT(problems, IsEmpty());
}

TEST(StoredTies, DoNotHoldWhereAnythingDiffers) {
  const FakeReader reader;
  for (const std::string name : {"type", "shape", "file", "position", "cut", "count", "blob", "broken"}) {
    std::vector<std::string> problems;
    EXPECT_THAT(find_stored_ties(reader, {{name, "embed"}}, &problems), IsEmpty()) << name;
    EXPECT_THAT(find_stored_ties(reader, {{"embed", name}}, &problems), IsEmpty()) << name;
    ASSERT_EQ(problems.size(), 2U) << name;
    EXPECT_THAT(problems[0], HasSubstr("'" + name + "' is not read as another name of 'embed': each has bytes of its"));
  }
}

TEST(StoredTies, OfNamesThatCannotBeAreNamedAndPassedOver) {
  struct Case {
    JsonTexts aliases;
    Ties expected;
    const char* problem;
  };
  const Ties tie = {{TensorId(1), TensorId(0)}};
  const Case cases[] = {
      {{{"none", "embed"}},
       {},
       "1 of 1 tied names do not hold, the first: 'none' is not read as another name of 'embe"},
      {{{"none", "embed"}}, {}, "there is no tensor 'none'"},
      {{{"head", "none"}}, {}, "there is no tensor 'none'"},
      {{{"", ""}}, {}, "'' is said to be another tensor itself"},
      {{{"head", "head"}}, {}, "'head' is said to be another tensor itself"},
      {{{"head", "embed"}, {"embed", "head"}}, {}, "2 of 2 tied names"},
      {{{"head", "embed"}, {"type", "head"}}, tie, "1 of 2 tied names do not hold, the first: 'type'"},
      {{{"cut", "none"}, {"head", "embed"}, {"type", "embed"}}, tie, "2 of 3 tied names do not hold, the first: 'cut'"},
  };
  for (const Case& one : cases) {
    std::vector<std::string> problems;
    EXPECT_EQ(find_stored_ties(FakeReader(), one.aliases, &problems), one.expected) << one.problem;
    EXPECT_THAT(problems, ElementsAre(HasSubstr(one.problem)));
  }
}

TEST(StoredTies, AreSaidByATreeWhereThereIsOne) {
  FakeReader reader;
  StateGraph& state = reader.mutable_info().state;
  state.root = state.add_dict({});
  std::vector<std::string> problems;
  EXPECT_THAT(find_stored_ties(reader, {{"head", "embed"}}, &problems), IsEmpty());
  EXPECT_THAT(problems, ElementsAre(HasSubstr("the state is a tree")));
}

}  // namespace
}  // namespace tenplex::dcp
