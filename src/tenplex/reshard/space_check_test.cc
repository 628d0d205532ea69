// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/space_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "tenplex/io/testing/memory_file_system.h"

namespace tenplex {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kDisk = 1;
constexpr std::uint64_t kOtherDisk = 2;

Segment data(std::int64_t size_bytes) { return {Segment::Kind::kShard, {}, 0, 0, size_bytes}; }

/// 60 bytes of data in two files, a manifest of 5, and an object of 7.
OutputPlan folder_plan() {
  OutputPlan plan;
  plan.files.push_back({"rank0", {data(10), data(20)}});
  plan.files.push_back({"rank1", {data(30)}});
  plan.files.push_back({"a.pkl", {data(7)}, true});
  plan.manifest = OutputFile{"manifest", {data(5)}};
  return plan;
}

class Disks {
 public:
  Disks() {
    files_.put_folder("/out");
    files_.put_folder("/other");
  }
  std::string check(const OutputPlan& plan, const std::string& objects) {
    const auto checked = check_space(files_, plan, "/out/target", objects);
    if (checked) return "fits";
    EXPECT_EQ(checked.error().code(), ErrorCode::kResourceExhausted);
    return checked.error().to_string();
  }
  MemoryFileSystem files_;
};

TEST(CheckSpace, CountsEveryByteOfDataManifestAndObjects) {
  for (const auto& [free, fits] : {std::pair{71, false}, std::pair{72, true}}) {
    Disks disks;
    disks.files_.put_free_space("/out", {kDisk, free, {}});
    EXPECT_EQ(disks.check(folder_plan(), "/out/objects") == "fits", fits) << free;
  }
}

TEST(CheckSpace, SaysHowMuchIsNeededAndFreeAndWhere) {
  Disks disks;
  disks.files_.put_free_space("/out", {kDisk, 71, {}});
  EXPECT_EQ(disks.check(folder_plan(), "/out/objects"),
            "not enough space in '/out': the target needs 72 bytes (72 B), 71 bytes (71 B) are free");
}

TEST(CheckSpace, CountsFiles) {
  for (const auto& [free, fits] : {std::pair{3, false}, std::pair{4, true}}) {
    Disks disks;
    disks.files_.put_free_space("/out", {kDisk, {}, free});
    const std::string found = disks.check(folder_plan(), "/out/objects");
    EXPECT_EQ(found,
              fits ? "fits" : "not enough space in '/out': the target needs 4 more files, the file system takes 3");
  }
}

TEST(CheckSpace, NeedsNoFurtherFileForATargetThatIsOne) {
  Disks disks;
  disks.files_.put_free_space("/out", {kDisk, 10, 0});
  OutputPlan plan;
  plan.single_file = true;
  plan.files.push_back({"", {data(10)}});
  EXPECT_EQ(disks.check(plan, ""), "fits");
}

TEST(CheckSpace, LooksAtTheDiskOfTheObjectsOnItsOwn) {
  Disks disks;
  disks.files_.put_free_space("/out", {kDisk, 65, {}});
  disks.files_.put_free_space("/other", {kOtherDisk, 7, {}});
  EXPECT_EQ(disks.check(folder_plan(), "/other/objects"), "fits");
  disks.files_.put_free_space("/other", {kOtherDisk, 6, {}});
  EXPECT_THAT(disks.check(folder_plan(), "/other/objects"), HasSubstr("'/other': the target needs 7 bytes"));
}

TEST(CheckSpace, DoesNotCountObjectsThatAreThere) {
  Disks disks;
  disks.files_.put_free_space("/out", {kDisk, 65, 3});
  disks.files_.put_file("/out/objects/a.pkl", "1234567");
  EXPECT_EQ(disks.check(folder_plan(), "/out/objects"), "fits");
}

TEST(CheckSpace, DoesNotOverflow) {
  Disks disks;
  disks.files_.put_free_space("/out", {kDisk, INT64_MAX - 1, {}});
  OutputPlan plan;
  plan.files.push_back({"rank0", {data(INT64_MAX - 5), data(INT64_MAX - 5)}});
  EXPECT_THAT(disks.check(plan, ""), HasSubstr("the target needs 9223372036854775807 bytes"));
}

TEST(CheckSpace, PassesWhereTheFileSystemDoesNotSay) {
  Disks disks;
  OutputPlan plan;
  plan.files.push_back({"rank0", {data(INT64_MAX)}});
  EXPECT_EQ(disks.check(plan, ""), "fits");
}

}  // namespace
}  // namespace tenplex
