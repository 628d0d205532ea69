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

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

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

TEST_F(Explain, SaysWhichPlacementsWereCompared) {
  PlacementResult placement;
  placement.policy = PlacementPolicy::kKeep;
  placement.exhaustive = true;
  placement.assignments = 1;
  EXPECT_THAT(explain_text(plan_, input_, &placement), HasSubstr("(best of all 1 distinct assignment);"));
  placement.keeps_groups = true;
  placement.assignments = 3;
  EXPECT_THAT(explain_text(plan_, input_, &placement),
              HasSubstr("(best of the 3 distinct assignments that keep tensor-parallel groups together);"));
  EXPECT_EQ(nlohmann::json::parse(explain_json(plan_, input_, &placement))["placement"]["keeps_groups"], true);
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

TEST_F(Explain, HtmlShowsWhoSendsWhatToWhom) {
  const std::string html = explain_html(plan_, input_, nullptr, "t");
  EXPECT_THAT(html, HasSubstr("Rows send, columns receive. The darkest cell is 32 B."));
  // Cells of 68: the one in row 0 and column 1 holds all there is, the other three are empty.
  EXPECT_THAT(html, HasSubstr("<rect x=\"248.0\" y=\"20.0\" width=\"67.0\" height=\"67.0\" fill=\"hsl(212,60%,36%)\">"
                              "<title>&lt;b&gt;&amp;&quot;fast&quot; → slow\uFFFD: 32 B</title></rect>"
                              "<text x=\"282.0\" y=\"58.0\" text-anchor=\"middle\" style=\"fill:#fff\">32 B</text>"));
  EXPECT_EQ(count_of(html, "height=\"67.0\" fill=\"#f1f3f6\"></rect>"), 3);
}

TEST_F(Explain, HtmlListsTheBusiestLinksFirst) {
  const std::string html = explain_html(plan_, input_, nullptr, "t");
  EXPECT_THAT(html, HasSubstr("2 of 2 links that carry something."));
  EXPECT_THAT(html, HasSubstr("link busy for less than 2 s."));
  // 32 bytes at 16 a second, then the same at 64: a quarter of the bar.
  EXPECT_THAT(
      html, HasSubstr("<tr><td>slow\uFFFD</td><td>receives</td><td>32 B</td><td>16 B/s</td><td>2 s</td><td>"
                      "<svg width=\"220\" height=\"12\"><rect width=\"220\" height=\"12\" fill=\"#4677b8\"/></svg></td>"
                      "</tr>\n<tr><td>&lt;b&gt;&amp;&quot;fast&quot;</td><td>sends</td><td>32 B</td><td>64 B/s</td>"
                      "<td>500 ms</td><td><svg width=\"220\" height=\"12\"><rect width=\"55\""));
}

TEST_F(Explain, HtmlDrawsWhatDevicesHold) {
  const std::string html = explain_html(plan_, input_, nullptr, "t");
  EXPECT_THAT(html, HasSubstr("One strip per device."));
  // 96 steps a strip, held whole or not at all: before all of them on the first device, after half of them on each.
  EXPECT_EQ(count_of(html, ",62%,45%)\"/>"), 96 + 48 + 48);
  EXPECT_EQ(count_of(html, ",62%,"), 96 + 48 + 48);
  const std::size_t second = html.find("<g><title>slow\uFFFD:0</title>");
  ASSERT_NE(second, std::string::npos);
  const std::string row = html.substr(second, html.find("</g>", second) - second);
  EXPECT_EQ(count_of(row, ",62%,45%)\"/>"), 48);
  // Step 48 of 440 / 96 each, 640 from the left; its hue is 48 · 300 / 96.
  EXPECT_THAT(row, HasSubstr("<rect x=\"640\" y=\"48\" width=\"440\" height=\"22\" fill=\"#eef1f4\"/>"
                             "<rect x=\"860.0\" y=\"48\" width=\"4.9\" height=\"22\" fill=\"hsl(150,62%,45%)\"/>"));
}

}  // namespace
}  // namespace tenplex
