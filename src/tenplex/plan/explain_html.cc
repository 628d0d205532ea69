// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/explain_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "tenplex/base/bytes.h"
#include "tenplex/base/counted.h"
#include "tenplex/plan/holding_strips.h"

namespace tenplex {
namespace {

constexpr std::size_t kMostRows = 64;
constexpr std::size_t kSteps = 96;
constexpr std::size_t kMostLinks = 12;

constexpr std::string_view kStyle = R"(
:root{--ink:#1c2430;--soft:#5b6675;--line:#d9dee5;--paper:#fff;--tint:#f5f7f9}
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:1120px;margin:2rem auto;padding:0 1.5rem}
h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.1rem;margin:2rem 0 .5rem}
p{margin:.25rem 0 .75rem;color:var(--soft);max-width:75ch}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.3rem .75rem;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}th{font-weight:600;color:var(--soft)}
.cards{display:flex;flex-wrap:wrap;gap:.75rem;margin:1rem 0}
.card{background:var(--tint);border:1px solid var(--line);border-radius:.5rem;padding:.6rem 1rem;min-width:11rem}
.card b{display:block;font-size:1.25rem}.card span{color:var(--soft);font-size:.85rem}
svg text{font:11px system-ui,sans-serif;fill:var(--ink)}svg .soft{fill:var(--soft)}
svg{max-width:100%;height:auto}.zero{color:#a9b2bd}
footer{margin:2.5rem 0 1rem;color:var(--soft);font-size:.85rem;word-break:break-all}
)";

/// Text for HTML; bytes that are no UTF-8 and control characters become U+FFFD.
std::string escape(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = byte < 0x80                   ? 1
                               : byte >= 0xC2 && byte < 0xE0 ? 2
                               : byte >= 0xE0 && byte < 0xF0 ? 3
                               : byte >= 0xF0 && byte < 0xF5 ? 4
                                                             : 0;
    bool good = length > 0 && at + length <= text.size() && byte != 0x7F && (byte >= 0x20 || byte == '\t');
    for (std::size_t next = 1; good && next < length; ++next)
      good = (static_cast<unsigned char>(text[at + next]) & 0xC0) == 0x80;
    if (!good) {
      out += "\xEF\xBF\xBD";
      ++at;
      continue;
    }
    switch (text[at]) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += text.substr(at, length);
    }
    at += length;
  }
  return out;
}

std::string shortened(const std::string& name, std::size_t most) {
  if (name.size() <= most) return escape(name);
  std::size_t end = most - 1;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;  // whole characters
  return escape(name.substr(0, end)) + "…";
}

std::string card(std::string_view value, std::string_view what) {
  return fmt::format("<div class=\"card\"><b>{}</b><span>{}</span></div>\n", value, what);
}

std::string cards(const PlanReport& report, const PlanInput& input, const PlacementResult* placement) {
  std::string html = "<div class=\"cards\">\n";
  html += card(format_bytes(report.bytes_in), "over the network");
  html += card(format_bytes(report.bytes_in_bound), "is the least possible");
  if (report.links.busiest_seconds > 0) {
    html += card(format_seconds(report.links.busiest_seconds),
                 fmt::format("busiest link: {} {}", shortened(input.topology->worker(report.links.busiest).name, 24),
                             report.links.busiest_sends ? "sends" : "receives"));
    html += card(format_seconds(report.links.bound_seconds), "is the least possible");
  }
  if (placement != nullptr) {
    std::string how = "rank i on device i";
    if (placement->policy == PlacementPolicy::kKeep)
      how = placement->exhaustive ? fmt::format("best of {}{}", counted(placement->assignments, "assignment"),
                                                placement->keeps_groups ? " that keep tp groups together" : "")
                                  : "heuristic";
    html += card(to_string(placement->policy), "placement: " + how);
  }
  if (report.objects > 0) html += card(fmt::format("{}", report.objects), "objects");
  return html + "</div>\n";
}

std::string classes(const PlanReport& report) {
  std::string html =
      "<h2>What happens to the state</h2>\n<p>keep: stays on its device. move: an identical part comes from another "
      "device. split: taken out of one larger part. merge: put together from several.</p>\n"
      "<table><tr><th>class</th><th>copies</th><th>in place</th><th>same worker</th><th>from a neighbour's pull</th>"
      "<th>network</th></tr>\n";
  for (std::size_t row = 0; row < report.totals.size(); ++row) {
    std::int64_t copies = 0;
    for (const Totals& totals : report.totals[row]) copies += totals.copies;
    html += fmt::format("<tr><td>{}</td><td>{}</td>", to_string(static_cast<CopyClass>(row)), copies);
    for (const Totals& totals : report.totals[row])
      html += fmt::format("<td{}>{}</td>", totals.bytes == 0 ? " class=\"zero\"" : "", format_bytes(totals.bytes));
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

/// Hue by place in the state, depth by the share held.
std::string strip_colour(std::size_t step, double share) {
  return fmt::format("hsl({},62%,{:.0f}%)", step * 300 / kSteps, 90 - 45 * std::sqrt(share));
}

std::string strip_svg(const Strip& strip, double x, double y, double width, double height) {
  std::string svg =
      fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#eef1f4\"/>", x, y, width, height);
  const double step_width = width / static_cast<double>(kSteps);
  for (std::size_t step = 0; step < strip.shares.size(); ++step) {
    if (strip.shares[step] < 0.002) continue;
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"/>",
                       x + static_cast<double>(step) * step_width, y, step_width + 0.3, height,
                       strip_colour(step, strip.shares[step]));
  }
  return svg;
}

std::string devices(const PlanInput& input) {
  const Strips strips = holding_strips(input, kMostRows, kSteps);
  const std::size_t rows = strips.before.size();
  const double row_height = rows <= 16 ? 26 : 14;
  const double height = static_cast<double>(rows) * row_height + 24;
  std::string html = fmt::format(
      "<h2>Devices before and after</h2>\n<p>One strip per {}. From left to right the whole state in the order of its "
      "tensors: the colour says which part, and the deeper it is, the more of that part is held. Grey: nothing.</p>\n"
      "<svg viewBox=\"0 0 1080 {:.0f}\" width=\"1080\" role=\"img\" aria-label=\"what devices hold before and "
      "after\">\n"
      "<text class=\"soft\" x=\"180\" y=\"14\">before</text><text class=\"soft\" x=\"640\" y=\"14\">after</text>\n",
      strips.unit, height);
  for (std::size_t row = 0; row < rows; ++row) {
    const double y = 22 + static_cast<double>(row) * row_height;
    html +=
        fmt::format("<g><title>{}</title><text x=\"172\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
                    escape(strips.before[row].label), y + row_height / 2 + 2, shortened(strips.before[row].label, 26));
    html += strip_svg(strips.before[row], 180, y, 440, row_height - 4);
    html += strip_svg(strips.after[row], 640, y, 440, row_height - 4) + "</g>\n";
  }
  return html + "</svg>\n";
}

struct Matrix {
  std::size_t size = 0;
  std::size_t workers_per_cell = 1;
  std::vector<double> bytes;  // [from][to]
};

Matrix traffic_matrix(const Plan& plan) {
  Matrix matrix;
  const std::size_t workers = plan.parts.size();
  matrix.workers_per_cell = (workers + kMostRows - 1) / kMostRows;
  matrix.size = (workers + matrix.workers_per_cell - 1) / matrix.workers_per_cell;
  matrix.bytes.resize(matrix.size * matrix.size);
  for (const WorkerPart& part : plan.parts)
    for (const auto& [sender, bytes] : part.bytes_from)
      matrix.bytes[sender.index() / matrix.workers_per_cell * matrix.size +
                   part.worker.index() / matrix.workers_per_cell] += static_cast<double>(bytes);
  return matrix;
}

std::string cell_name(const Topology& topology, const Matrix& matrix, std::size_t cell) {
  const std::size_t first = cell * matrix.workers_per_cell;
  const std::size_t last =
      std::min(first + matrix.workers_per_cell, static_cast<std::size_t>(topology.worker_count())) - 1;
  const std::string& name = topology.workers()[first].name;
  return first == last ? name : fmt::format("{} … {}", name, topology.workers()[last].name);
}

std::string traffic(const Plan& plan, const Topology& topology) {
  const Matrix matrix = traffic_matrix(plan);
  const double most = matrix.bytes.empty() ? 0 : *std::max_element(matrix.bytes.begin(), matrix.bytes.end());
  if (most == 0) return "<h2>Traffic</h2>\n<p>Nothing goes over the network.</p>\n";
  const double cell = matrix.size <= 8 ? 68 : matrix.size <= 16 ? 34 : 640.0 / static_cast<double>(matrix.size);
  const double side = cell * static_cast<double>(matrix.size);
  const std::size_t label_step = cell >= 13 ? 1 : static_cast<std::size_t>(std::ceil(13 / cell));
  std::string html = fmt::format(
      "<h2>Traffic</h2>\n<p>Rows send, columns receive{}. The darkest cell is {}.</p>\n"
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" role=\"img\" aria-label=\"bytes from worker to worker\">\n",
      matrix.workers_per_cell == 1 ? std::string() : fmt::format("; {} workers per cell", matrix.workers_per_cell),
      format_bytes(static_cast<std::int64_t>(most)), std::max(side, 220.0) + 190, side + 24,
      std::max(side, 220.0) + 190);
  for (std::size_t from = 0; from < matrix.size; ++from) {
    const double y = 20 + cell * static_cast<double>(from);
    if (from % label_step == 0)
      html += fmt::format("<text x=\"172\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", y + cell / 2 + 4,
                          shortened(cell_name(topology, matrix, from), 26));
    for (std::size_t to = 0; to < matrix.size; ++to) {
      const double bytes = matrix.bytes[from * matrix.size + to];
      const double x = 180 + cell * static_cast<double>(to);
      const std::string fill =
          bytes == 0 ? "#f1f3f6" : fmt::format("hsl(212,60%,{:.0f}%)", 88 - 52 * std::sqrt(bytes / most));
      html += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\">", x, y,
                          cell - std::min(1.0, cell * 0.1), cell - std::min(1.0, cell * 0.1), fill);
      if (bytes > 0)
        html += fmt::format("<title>{} → {}: {}</title>", escape(cell_name(topology, matrix, from)),
                            escape(cell_name(topology, matrix, to)), format_bytes(static_cast<std::int64_t>(bytes)));
      html += "</rect>";
      if (bytes > 0 && cell >= 50)
        html += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\"{}>{}</text>", x + cell / 2,
                            y + cell / 2 + 4, bytes > most / 4 ? " style=\"fill:#fff\"" : "",
                            format_bytes(static_cast<std::int64_t>(bytes)));
    }
    html += "\n";
  }
  html += fmt::format("<text class=\"soft\" x=\"180\" y=\"14\">receivers, in the same order</text></svg>\n");
  return html;
}

std::string link_row(const Worker& worker, bool sends, std::int64_t bytes, double most) {
  const double bandwidth = static_cast<double>(sends ? worker.out_bytes_per_second : worker.in_bytes_per_second);
  const double busy = static_cast<double>(bytes) / bandwidth;
  return fmt::format(
      "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}/s</td><td>{}</td><td><svg width=\"220\" height=\"12\"><rect "
      "width=\"{:.0f}\" height=\"12\" fill=\"#4677b8\"/></svg></td></tr>\n",
      escape(worker.name), sends ? "sends" : "receives", format_bytes(bytes),
      format_bytes(static_cast<std::int64_t>(bandwidth)), format_seconds(busy), 220 * busy / most);
}

std::string links(const PlanReport& report, const Topology& topology) {
  struct Link {
    double seconds;
    std::size_t worker;
    bool sends;
  };
  std::vector<Link> list;
  for (std::size_t index = 0; index < report.in.size(); ++index) {
    const Worker& worker = topology.workers()[index];
    if (report.in[index] > 0)
      list.push_back(
          {static_cast<double>(report.in[index]) / static_cast<double>(worker.in_bytes_per_second), index, false});
    if (report.out[index] > 0)
      list.push_back(
          {static_cast<double>(report.out[index]) / static_cast<double>(worker.out_bytes_per_second), index, true});
  }
  if (list.empty()) return "";
  std::sort(list.begin(), list.end(), [](const Link& a, const Link& b) {
    return std::tuple(-a.seconds, a.worker, a.sends) < std::tuple(-b.seconds, b.worker, b.sends);
  });
  std::string html = fmt::format(
      "<h2>Busiest links</h2>\n<p>{} of {} links that carry something. No plan for this placement keeps its busiest "
      "link "
      "busy for less than "
      "{}.</p>\n<table><tr><th>worker</th><th></th><th>bytes</th><th>link</th><th>time</th><th></th></tr>\n",
      std::min(list.size(), kMostLinks), list.size(), format_seconds(report.links.bound_seconds));
  for (std::size_t index = 0; index < std::min(list.size(), kMostLinks); ++index) {
    const Link& link = list[index];
    html += link_row(topology.workers()[link.worker], link.sends,
                     link.sends ? report.out[link.worker] : report.in[link.worker], list[0].seconds);
  }
  return html + "</table>\n";
}

}  // namespace

std::string explain_html(const Plan& plan, const PlanInput& input, const PlacementResult* placement,
                         const std::string& title) {
  const PlanReport report = make_report(plan, input);
  std::string html = fmt::format(
      "{}<meta name=\"viewport\" "
      "content=\"width=device-width\"><title>{}</title><style>{}</style></head><body>\n<h1>{}</h1>\n"
      "<p>{}{}</p>\n",
      kPlanPageStart, escape(title), kStyle, escape(title), what_text(plan, input),
      plan.header.baseline == Baseline::kNone ? std::string()
                                              : fmt::format("; baseline {}", to_string(plan.header.baseline)));
  html += cards(report, input, placement) + devices(input) + traffic(plan, *input.topology) +
          links(report, *input.topology) + classes(report);
  html += fmt::format("<footer>plan {} · source {} · target {} · roster {}</footer>\n</body></html>\n",
                      to_string(report.hash), to_string(plan.header.source), to_string(plan.header.target),
                      to_string(plan.header.roster));
  return html;
}

}  // namespace tenplex
