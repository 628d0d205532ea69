// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tenplex/plan/explain_html.h"
#include "tenplex/plan/planner.h"
#include "tenplex/plan/testing/listed_collection.h"

namespace tenplex {
namespace {

using testing::HasSubstr;
using testing::Not;

// One worker holds 64 bytes; half of them go to a second one.
class Explain : public testing::Test {
 protected:
  Explain() : plan_(*make_plan(input_)) {}
  ListedCollection source_{1, {cut_tensor("w", DType::kFloat32, {16}, 0, {{DeviceId(0)}})}};
  ListedCollection target_{2, {cut_tensor("w", DType::kFloat32, {16}, 0, {{DeviceId(0)}, {DeviceId(1)}})}};
  Topology topology_{{Worker{"<b>&\"fast\"", 1, 64, 64, ""}, Worker{"slow\xFF", 1, 16, 16, ""}}};
  PlanInput input_{&source_, &target_, &topology_, Placement::rank_order(1, 2)};
  Plan plan_;
};

TEST_F(Explain, CountsClassesBytesAndLinks) {
  const PlanReport report = make_report(plan_, input_);
  EXPECT_EQ(report.totals[2][1], (Totals{1, 32}));  // split, local
  EXPECT_EQ(report.totals[2][3], (Totals{1, 32}));  // split, remote
  EXPECT_EQ(report.in, (std::vector<std::int64_t>{0, 32}));
  EXPECT_EQ(report.out, (std::vector<std::int64_t>{32, 0}));
  EXPECT_DOUBLE_EQ(report.links.busiest_seconds, 2.0);
  EXPECT_EQ(report.links.busiest, WorkerId(1));
  EXPECT_FALSE(report.links.busiest_sends);
}

TEST_F(Explain, PrintsBothBounds) {
  const std::string text = explain_text(plan_, input_, nullptr);
  EXPECT_THAT(text, HasSubstr("bytes over the network: 32 B of 64 B, the least possible is 32 B (1.000 × the bound)"));
  EXPECT_THAT(text, HasSubstr("receives, 2 s; the least possible is 2 s (1.000 × the bound)"));
}

TEST_F(Explain, CallsTheSecondsOfThePlacementAnEstimate) {
  PlacementResult placement;
  placement.policy = PlacementPolicy::kRankOrder;
  placement.busiest_seconds = 3;
  placement.bound_seconds = 1.5;
  const std::string text = explain_text(plan_, input_, &placement);
  EXPECT_THAT(text, HasSubstr("(rank i on device i); estimate for the busiest link 3 s, lower bound 1.5 s\n"));
  EXPECT_THAT(text, HasSubstr(R"(busiest link: slow\xff receives, 2 s;)"));
  const auto json = nlohmann::json::parse(explain_json(plan_, input_, &placement));
  EXPECT_EQ(json["placement"]["busiest_link_seconds"], 3);
  EXPECT_EQ(json["busiest_link"]["seconds"], 2);
}

TEST_F(Explain, JsonHasExactNumbers) {
  const auto json = nlohmann::json::parse(explain_json(plan_, input_, nullptr));
  EXPECT_EQ(json["bytes_in"], 32);
  EXPECT_EQ(json["bytes_in_bound"], 32);
  EXPECT_EQ(json["classes"]["split"]["remote"]["bytes"], 32);
  EXPECT_EQ(json["workers"][1]["from"][0]["bytes"], 32);
  EXPECT_EQ(json["busiest_link"]["direction"], "in");
  EXPECT_EQ(json["hash"], to_string(plan_.hash()));
}

TEST_F(Explain, HtmlIsSelfContainedAndEscaped) {
  const std::string html = explain_html(plan_, input_, nullptr, "<script>");
  EXPECT_THAT(html, HasSubstr("&lt;b&gt;&amp;&quot;fast&quot;"));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("<b>&\"fast")));
  EXPECT_THAT(html, Not(HasSubstr("http")));
  EXPECT_THAT(html, Not(HasSubstr("\xFF")));
  EXPECT_THAT(html, HasSubstr("</html>"));
}

}  // namespace
}  // namespace tenplex
