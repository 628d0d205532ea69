// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/joined_reader.h"

#include <gtest/gtest.h>

#include "tenplex/base/crc32.h"
#include "tenplex/formats/torch/torch_item.h"
#include "tenplex/io/testing/memory_file_system.h"

namespace tenplex {
namespace {

// A file of torch.save(tensor) with the elements first, first + 1, ….
std::string tensor_file(const Dims& shape, float first) {
  std::vector<float> elements;
  for (std::int64_t index = 0; index < volume(shape); ++index) elements.push_back(first + static_cast<float>(index));
  const ByteSpan bytes = std::as_bytes(std::span(elements));
  ZipLayout item = tensor_item(DType::kFloat32, shape);
  const std::uint32_t crc = crc32(0, bytes);
  std::string file = item.literal(0, {});
  file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return file + item.literal(2, {{crc}});
}

class JoinedReader : public testing::Test {
 protected:
  JoinedReader() {
    files_.put_file("/c/a.pt", tensor_file({7}, 0));
    files_.put_file("/c/b.pt", tensor_file({6}, 7));
    files_.put_file("/c/m.pt", tensor_file({4, 3}, 100));
  }

  // Element by element, each chunk in its place.
  std::vector<float> read(const CheckpointReader& reader, TensorId tensor) {
    const Dims& shape = reader.info().tensors[tensor.index()].shape;
    std::vector<float> elements(static_cast<std::size_t>(volume(shape)), -1);
    const Dims to = row_major_strides(shape);
    for (std::size_t index = 0; index < reader.info().chunks.size(); ++index) {
      const Chunk chunk = reader.info().chunks[index];
      if (chunk.tensor != tensor) continue;
      const ChunkLocation location = reader.locate(index).value();
      for (std::int64_t k = 0; k < volume(chunk.box); ++k) {
        std::int64_t rest = k;
        std::int64_t from = 0;
        std::int64_t at = 0;
        for (int dim = chunk.box.rank(); dim-- > 0;) {
          const std::int64_t step = rest % chunk.box.extent[dim];
          rest /= chunk.box.extent[dim];
          from += step * location.strides[dim];
          at += (chunk.box.offset[dim] + step) * to[dim];
        }
        const ByteSource& file = *reader.file(chunk.file).value();
        std::span<float> one(&elements[static_cast<std::size_t>(at)], 1);
        EXPECT_TRUE(file.read_at(location.offset_bytes + 4 * from, std::as_writable_bytes(one)).has_value());
      }
    }
    return elements;
  }

  MemoryFileSystem files_;
};

TEST_F(JoinedReader, PutsRunsOfFlatTensorsTogether) {
  CheckpointJoiner joiner(files_, "/c", {});
  const auto a = joiner.open("a.pt").value();
  const auto b = joiner.open("b.pt").value();
  const auto tensor = joiner.add_tensor("w", DType::kFloat32, {4, 3}).value();
  ASSERT_TRUE(joiner.add_run(tensor, DeviceId(0), {a, TensorId(0), 2, 0, 5}).has_value());
  ASSERT_TRUE(joiner.add_run(tensor, DeviceId(1), {b, TensorId(0), 0, 5, 11}).has_value());
  ASSERT_TRUE(joiner.add_run(tensor, DeviceId(1), {a, TensorId(0), 0, 11, 12}).has_value());
  StateGraph& state = joiner.state();
  const NodeId leaf = joiner.tensor_node(tensor);
  const NodeId root = state.add_dict({state.add_string("w"), leaf});
  const auto reader = joiner.finish(root, {}).value();
  EXPECT_EQ(reader->info().tensors[0].name, "w");
  EXPECT_EQ(read(*reader, TensorId(0)), (std::vector<float>{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0}));
}

TEST_F(JoinedReader, PutsBoxesTogether) {
  CheckpointJoiner joiner(files_, "/c", {});
  const auto m = joiner.open("m.pt").value();
  const auto tensor = joiner.add_tensor("w", DType::kFloat32, {4, 3}).value();
  ASSERT_TRUE(joiner.add_box(tensor, DeviceId(0), m, TensorId(0), {{2, 0}, {2, 3}}, {0, 0}).has_value());
  ASSERT_TRUE(joiner.add_box(tensor, DeviceId(0), m, TensorId(0), {{0, 0}, {2, 3}}, {2, 0}).has_value());
  const NodeId leaf = joiner.tensor_node(tensor);
  const NodeId root = joiner.state().add_dict({joiner.state().add_string("w"), leaf});
  const auto reader = joiner.finish(root, {}).value();
  EXPECT_EQ(read(*reader, TensorId(0)),
            (std::vector<float>{106, 107, 108, 109, 110, 111, 100, 101, 102, 103, 104, 105}));
}

TEST_F(JoinedReader, RefusesPlacesOutsideOfTheStoredTensor) {
  CheckpointJoiner joiner(files_, "/c", {});
  const auto a = joiner.open("a.pt").value();
  const auto m = joiner.open("m.pt").value();
  const auto tensor = joiner.add_tensor("w", DType::kFloat32, {4, 3}).value();
  EXPECT_FALSE(joiner.add_run(tensor, DeviceId(0), {a, TensorId(0), 3, 0, 5}).has_value());
  EXPECT_FALSE(joiner.add_run(tensor, DeviceId(0), {a, TensorId(0), -1, 0, 5}).has_value());
  EXPECT_FALSE(joiner.add_run(tensor, DeviceId(0), {a, TensorId(0), 0, 8, 13}).has_value());
  EXPECT_FALSE(joiner.add_run(tensor, DeviceId(0), {m, TensorId(0), 0, 0, 5}).has_value()) << "two dimensions";
  EXPECT_FALSE(joiner.add_box(tensor, DeviceId(0), m, TensorId(0), {{0, 0}, {2, 3}}, {3, 0}).has_value());
  EXPECT_FALSE(joiner.add_box(tensor, DeviceId(0), a, TensorId(0), {{0, 0}, {2, 3}}, {0, 0}).has_value());
}

TEST_F(JoinedReader, RefusesOtherTypes) {
  CheckpointJoiner joiner(files_, "/c", {});
  const auto a = joiner.open("a.pt").value();
  const auto tensor = joiner.add_tensor("w", DType::kInt32, {7}).value();
  EXPECT_FALSE(joiner.add_run(tensor, DeviceId(0), {a, TensorId(0), 0, 0, 7}).has_value());
}

TEST_F(JoinedReader, RefusesATensorThatNothingStores) {
  CheckpointJoiner joiner(files_, "/c", {});
  const auto tensor = joiner.add_tensor("w", DType::kFloat32, {7}).value();
  const NodeId leaf = joiner.tensor_node(tensor);
  const NodeId root = joiner.state().add_dict({joiner.state().add_string("w"), leaf});
  EXPECT_FALSE(joiner.finish(root, {}).has_value());
}

TEST_F(JoinedReader, KeepsTheTreeOfAFile) {
  CheckpointJoiner joiner(files_, "/c", {});
  const auto m = joiner.open("m.pt").value();
  const StateGraph& stored = joiner.stored(m).state;
  const NodeId copied = joiner.copy_state(m, stored, stored.root, DeviceId(0));
  const NodeId root = joiner.state().add_dict({joiner.state().add_string("x"), copied});
  const auto reader = joiner.finish(root, {}).value();
  EXPECT_EQ(reader->info().tensors[0], (TensorInfo{"x", DType::kFloat32, {4, 3}}));
  EXPECT_EQ(read(*reader, TensorId(0))[11], 111);
}

}  // namespace
}  // namespace tenplex
