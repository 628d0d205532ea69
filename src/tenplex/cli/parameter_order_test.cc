// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/parameter_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenplex/io/testing/memory_file_system.h"

namespace tenplex::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const std::string& text) {
  MemoryFileSystem files;
  files.put_file("/order", text);
  const auto names = read_parameter_order(files, "/order");
  return names ? "" : names.error().message();
}

TEST(ParameterOrder, OneNamePerLine) {
  MemoryFileSystem files;
  files.put_file("/order",
                 "\xef\xbb\xbf# of GPTModel\nmodule.module.a.weight\r\n\n  b.weight  # not trained before\nc.weight");
  EXPECT_THAT(read_parameter_order(files, "/order").value(), ElementsAre("a.weight", "b.weight", "c.weight"));
}

TEST(ParameterOrder, NamesThatAreThereTwiceAreRefused) {
  EXPECT_THAT(refusal("a\nb\nmodule.a\n"), HasSubstr("line 3: 'a' is there twice"));
  EXPECT_THAT(refusal("# nothing\n"), HasSubstr("has no names"));
  EXPECT_THAT(refusal("a\n\xff"), HasSubstr("not UTF-8"));
}

}  // namespace
}  // namespace tenplex::cli
