// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/planned_paths.h"

#include <gtest/gtest.h>

#include "tenplex/formats/pickle/pickle_reader.h"
#include "tenplex/formats/pickle/pickle_writer.h"

namespace tenplex::dcp {
namespace {

// {"a.0": ("a", 0), "b": ("b",), "c": 5, 7: ("d",)} with a path that is none and a key that is no text.
PickleDocument planner_data() {
  PickleWriter out(4);
  out.empty_dict();
  const auto path = [&](std::string_view name, auto&& steps) {
    out.text_once(name);
    out.mark();
    steps();
    out.tuple();
    out.set_item();
  };
  path("a.0", [&] {
    out.text_once("a");
    out.integer(0);
  });
  path("b", [&] { out.text_once("b"); });
  out.text_once("c");
  out.integer(5);
  out.set_item();
  out.integer(7);
  out.mark();
  out.text_once("d");
  out.tuple();
  out.set_item();
  out.stop();
  const std::string bytes = out.take();
  auto document = read_pickle(as_bytes(bytes), {});
  EXPECT_TRUE(document) << document.error().to_string();
  return std::move(*document);
}

TEST(PlannedPaths, AreThoseOfTheDict) {
  const PickleDocument document = planner_data();
  PlannedPaths paths;
  paths.load(document, document.root());
  ASSERT_EQ(paths.size(), 4U);
  std::vector<PathStep> steps;
  ASSERT_TRUE(paths.read(0, document, &steps));
  EXPECT_EQ(steps, (std::vector<PathStep>{{false, 0, "a"}, {true, 0, ""}}));
  EXPECT_EQ(document.text(paths.name(0)), "a.0");
  EXPECT_FALSE(paths.is_own_name(0));
  EXPECT_TRUE(paths.is_own_name(1));
  EXPECT_EQ(paths.read(2, document, &steps).error().code(), ErrorCode::kCorrupt);
  EXPECT_NE(document.kind(paths.name(3)), NodeKind::kString);
}

TEST(PlannedPaths, AreNoneInWhatIsNoDict) {
  const PickleDocument document = planner_data();
  PlannedPaths paths;
  paths.load(document, kNoNode);
  EXPECT_EQ(paths.size(), 0U);
}

}  // namespace
}  // namespace tenplex::dcp
