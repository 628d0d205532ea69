// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenplex {
namespace {

using ::testing::HasSubstr;

TEST(ParseMeshSizes, ReadsAxesInOrder) {
  EXPECT_EQ(parse_mesh_sizes("tp=2,pp=16").value(), (MeshSizes{{"tp", 2}, {"pp", 16}}));
  EXPECT_TRUE(parse_mesh_sizes("").value().empty());
  EXPECT_EQ(to_string(MeshSizes{{"tp", 2}, {"pp", 16}}), "tp=2,pp=16");
}

TEST(ParseMeshSizes, RefusesWhatIsNotAxisEqualsSize) {
  for (const char* text : {"tp", "tp=", "=2", "tp=2,", ",tp=2", "tp=2,,pp=2", "tp=two", "tp=2x", "tp=0", "tp=-1",
                           "tp=2,tp=2", "tp =2", "tp=99999999999999999999", "tp=+2"})
    EXPECT_FALSE(parse_mesh_sizes(text)) << text;
  EXPECT_THAT(parse_mesh_sizes("tp=0").error().message(), HasSubstr("'tp': expected a size of at least 1, found 0"));
  EXPECT_EQ(parse_mesh_sizes("tp=1048577").error().code(), ErrorCode::kOutOfRange);
}

TEST(Mesh, CountsTheFirstAxisFastest) {
  const std::vector<std::string> axes = {"tp", "dp", "pp"};
  const Mesh mesh = Mesh::make("dense", axes, {{"pp", 2}, {"tp", 3}}).value();
  EXPECT_EQ(mesh.device_count(), 6);
  EXPECT_EQ(mesh.coordinates(DeviceId(5)), (std::vector<std::int64_t>{2, 0, 1}));
  EXPECT_EQ(mesh.device(std::vector<std::int64_t>{1, 0, 1}), DeviceId(4));
}

TEST(Mesh, CoordinatesAndDeviceAreInverse) {
  const std::vector<std::string> axes = {"a", "b", "c"};
  const Mesh mesh = Mesh::make("m", axes, {{"a", 2}, {"b", 3}, {"c", 4}}).value();
  for (std::int32_t device = 0; device < 24; ++device)
    EXPECT_EQ(mesh.device(mesh.coordinates(DeviceId(device))), DeviceId(device));
}

TEST(Mesh, IsLimitedToTwoToTheTwentyDevices) {
  const std::vector<std::string> axes = {"a", "b"};
  EXPECT_EQ(Mesh::make("m", axes, {{"a", 1024}, {"b", 1024}}).value().device_count(), 1 << 20);
  EXPECT_EQ(Mesh::make("m", axes, {{"a", 1024}, {"b", 1025}}).error().code(), ErrorCode::kOutOfRange);
}

const std::vector<MeshAxes> kMegatron = {{"dense", {"tp", "cp", "dp", "pp"}}, {"expert", {"etp", "ep", "edp", "pp"}}};

TEST(MakeMeshes, LaysTwoGridsOverTheSameDevices) {
  const auto meshes = make_meshes(kMegatron, {{"tp", 2}, {"dp", 4}, {"pp", 2}, {"ep", 8}}).value();
  EXPECT_EQ(meshes[0].coordinates(DeviceId(13)), (std::vector<std::int64_t>{1, 0, 2, 1}));
  EXPECT_EQ(meshes[1].coordinates(DeviceId(13)), (std::vector<std::int64_t>{0, 5, 0, 1}));
}

TEST(MakeMeshes, RefusesProductsThatDiffer) {
  EXPECT_EQ(make_meshes(kMegatron, {{"tp", 2}, {"ep", 4}}).error().message(),
            "meshes 'dense' [tp, cp, dp, pp] and 'expert' [etp, ep, edp, pp] must have the same number of devices, "
            "found 2 and 4");
}

TEST(MakeMeshes, NamesTheAxesThatThereAre) {
  EXPECT_EQ(make_meshes(kMegatron, {{"tpp", 2}}).error().message(),
            "unknown mesh axis 'tpp'; the layout's axes are: tp, cp, dp, pp, etp, ep, edp");
}

}  // namespace
}  // namespace tenplex
