// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/other_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenplex/io/testing/memory_file_system.h"

namespace tenplex {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

CheckpointInfo holding(std::string format, std::vector<std::string> names) {
  CheckpointInfo info;
  info.format = std::move(format);
  info.files = std::move(names);
  return info;
}

TEST(OtherFiles, FindsWhatNoPartOfADcpFolderIs) {
  MemoryFileSystem files;
  for (const char* name : {".metadata", "__0_0.distcp", "__7_0.distcp", "tenplex.json", "config.json"})
    files.put_file(std::string("/c/") + name, "x");
  CheckpointInfo info = holding("dcp", {"__0_0.distcp"});
  info.extra_files.push_back({"config.json", 1});
  EXPECT_THAT(other_files(files, "/c", info).value(), IsEmpty());
  files.put_file("/c/thesis.tex", "x");
  files.put_file("/c/sub/deep/notes", "x");
  files.put_file("/c/.git/config", "x");
  files.put_link("/c/link", "thesis.tex");
  EXPECT_THAT(other_files(files, "/c", info).value(),
              ElementsAre(".git/config", "link", "sub/deep/notes", "thesis.tex"));
}

TEST(OtherFiles, KnowsTheFilesOfAModelByTheirNames) {
  MemoryFileSystem files;
  for (const char* name : {"model.safetensors", "config.json", "generation_config.json", "tokenizer.model",
                           "merges.txt", "modeling_x.py", "README.md", ".gitattributes"})
    files.put_file(std::string("/m/") + name, "x");
  CheckpointInfo info = holding("hf", {"model.safetensors"});
  EXPECT_THAT(other_files(files, "/m", info).value(), IsEmpty());
  for (const char* name :
       {"main.py", "old.safetensors", "sub/config.json", "modeling_x/a.py", "sub/a_config.json", "thesis.tex"}) {
    files.put_file(std::string("/m/") + name, "x");
    info.extra_files.push_back({name, 1});
  }
  EXPECT_THAT(other_files(files, "/m", info).value(),
              ElementsAre("main.py", "modeling_x/a.py", "old.safetensors", "sub/a_config.json", "sub/config.json",
                          "thesis.tex"));
}

TEST(OtherFiles, KnowsTheFilesBesideAManifest) {
  MemoryFileSystem files;
  for (const char* name : {"tenplex.json", "device-0.safetensors", "objects/object-00000.pkl", "objects/mine.txt"})
    files.put_file(std::string("/d/") + name, "x");
  EXPECT_THAT(other_files(files, "/d", holding("safetensors", {"device-0.safetensors"})).value(),
              ElementsAre("objects/mine.txt"));
}

}  // namespace
}  // namespace tenplex
