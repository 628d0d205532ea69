// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/name_index.h"

#include <gtest/gtest.h>

namespace tenplex {
namespace {

std::vector<TensorInfo> named(const std::vector<std::string>& names) {
  std::vector<TensorInfo> tensors;
  for (const std::string& name : names) tensors.push_back({name, DType::kFloat32, Dims{2}});
  return tensors;
}

TEST(NameIndex, FindsEveryName) {
  const auto tensors = named({"a", "", "layers.0.weight"});
  const NameIndex index(tensors);
  EXPECT_EQ(index.find("a"), TensorId(0));
  EXPECT_EQ(index.find(""), TensorId(1));
  EXPECT_EQ(index.find("layers.0.weight"), TensorId(2));
  EXPECT_EQ(index.find("layers.0"), std::nullopt);
  EXPECT_EQ(index.repeated(), std::nullopt);
  EXPECT_EQ(NameIndex().find("a"), std::nullopt);
}

TEST(NameIndex, TellsTheFirstRepetition) {
  const auto tensors = named({"a", "b", "b", "a"});
  const NameIndex index(tensors);
  EXPECT_EQ(index.repeated(), TensorId(2));
  EXPECT_EQ(index.find("b"), TensorId(1));
}

TEST(NameIndex, FindsOneOfMany) {
  std::vector<std::string> names;
  for (int i = 0; i < 10'000; ++i) names.push_back("layers." + std::to_string(i));
  const auto tensors = named(names);
  const NameIndex index(tensors);
  for (std::size_t i = 0; i < names.size(); ++i) ASSERT_EQ(index.find(names[i]), TensorId(i));
}

}  // namespace
}  // namespace tenplex
