// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "tenplex/base/bytes.h"
#include "tenplex/base/counted.h"
#include "tenplex/base/printable.h"

namespace tenplex {
namespace {

using Json = nlohmann::ordered_json;

/// Names come from files; JSON needs valid UTF-8.
constexpr auto kReplaceBadText = Json::error_handler_t::replace;

double ratio(std::int64_t bytes, std::int64_t bound) {
  return bound > 0 ? static_cast<double>(bytes) / static_cast<double>(bound) : 1;
}

/// Whether there is a bound to compare with.
std::string ratio_text(double value, bool has_bound) {
  return has_bound ? fmt::format("{:.3f} × the bound", value) : std::string("the bound is 0");
}

std::vector<std::size_t> by_load(const PlanReport& report, const Topology& topology) {
  std::vector<std::size_t> order(report.in.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto busy = [&](std::size_t index) {
    const Worker& worker = topology.worker(WorkerId(index));
    return std::max(static_cast<double>(report.in[index]) / static_cast<double>(worker.in_bytes_per_second),
                    static_cast<double>(report.out[index]) / static_cast<double>(worker.out_bytes_per_second));
  };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return std::pair(-busy(a), a) < std::pair(-busy(b), b); });
  return order;
}

std::string classes_text(const PlanReport& report) {
  std::string text =
      fmt::format("  {:<7}{:>12}{:>12}{:>12}{:>12}{:>12}\n", "class", "copies", "alias", "local", "relay", "remote");
  for (std::size_t row = 0; row < report.totals.size(); ++row) {
    std::int64_t copies = 0;
    text += fmt::format("  {:<7}", to_string(static_cast<CopyClass>(row)));
    for (const Totals& totals : report.totals[row]) copies += totals.copies;
    text += fmt::format("{:>12}", copies);
    for (const Totals& totals : report.totals[row]) text += fmt::format("{:>12}", format_bytes(totals.bytes));
    text += "\n";
  }
  return text;
}

std::string links_text(const PlanReport& report, const Topology& topology) {
  constexpr std::size_t kMostLines = 16;
  std::string text = fmt::format("  {:<20}{:>12}{:>12}{:>12}\n", "worker", "in", "least in", "out");
  const auto order = by_load(report, topology);
  for (std::size_t index = 0; index < std::min(order.size(), kMostLines); ++index) {
    const std::size_t worker = order[index];
    text += fmt::format("  {:<20}{:>12}{:>12}{:>12}\n", printable_name(topology.workers()[worker].name),
                        format_bytes(report.in[worker]), format_bytes(report.in_bound[worker]),
                        format_bytes(report.out[worker]));
  }
  if (order.size() > kMostLines) text += fmt::format("  … and {} less busy workers\n", order.size() - kMostLines);
  return text;
}

// The placement is chosen by an estimate, in which every box is divided among its holders in proportion to their links.
std::string placement_text(const PlacementResult& placement) {
  std::string how = "rank i on device i";
  if (placement.policy == PlacementPolicy::kKeep)
    how = !placement.exhaustive ? std::string("heuristic, too many assignments to compare them all")
          : placement.keeps_groups
              ? fmt::format("best of the {} that keep tensor-parallel groups together",
                            counted(placement.assignments, "distinct assignment"))
              : fmt::format("best of all {}", counted(placement.assignments, "distinct assignment"));
  return fmt::format("placement: {} ({}); estimate for the busiest link {}, lower bound {}\n",
                     to_string(placement.policy), how, format_seconds(placement.busiest_seconds),
                     format_seconds(placement.bound_seconds));
}

Json placement_json(const PlacementResult& placement) {
  Json json;
  json["policy"] = to_string(placement.policy);
  json["exhaustive"] = placement.exhaustive;
  json["assignments"] = placement.assignments;
  json["keeps_groups"] = placement.keeps_groups;
  json["busiest_link_seconds"] = placement.busiest_seconds;
  json["bound_seconds"] = placement.bound_seconds;
  if (placement.bound_seconds > 0) json["ratio"] = placement.ratio();
  json["source_slots"] = placement.placement.source_slots;
  json["target_slots"] = placement.placement.target_slots;
  return json;
}

Json classes_json(const PlanReport& report) {
  Json json;
  for (std::size_t row = 0; row < report.totals.size(); ++row)
    for (std::size_t route = 0; route < report.totals[row].size(); ++route) {
      const Totals& totals = report.totals[row][route];
      if (totals.copies == 0) continue;
      json[std::string(to_string(static_cast<CopyClass>(row)))][std::string(to_string(static_cast<Route>(route)))] = {
          {"copies", totals.copies}, {"bytes", totals.bytes}};
    }
  return json.is_null() ? Json::object() : json;
}

Json workers_json(const Plan& plan, const PlanReport& report, const Topology& topology) {
  Json json = Json::array();
  for (std::size_t index = 0; index < plan.parts.size(); ++index) {
    Json from = Json::array();
    for (const auto& [worker, bytes] : plan.parts[index].bytes_from)
      from.push_back({{"name", topology.worker(worker).name}, {"bytes", bytes}});
    json.push_back({{"name", topology.workers()[index].name},
                    {"bytes_in", report.in[index]},
                    {"bytes_in_bound", report.in_bound[index]},
                    {"bytes_out", report.out[index]},
                    {"from", std::move(from)}});
  }
  return json;
}

}  // namespace

std::string what_text(const Plan& plan, const PlanInput& input) {
  return fmt::format("{}, {} → {} on {}", counted(input.target->tensors().size(), "tensor"),
                     counted(input.source->device_count(), "device"), counted(input.target->device_count(), "device"),
                     counted(plan.parts.size(), "worker"));
}

std::string format_seconds(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3g} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} µs", seconds * 1e6);
}

PlanReport make_report(const Plan& plan, const PlanInput& input) {
  PlanReport report;
  for (const WorkerPart& part : plan.parts) {
    for (std::size_t row = 0; row < part.totals.size(); ++row)
      for (std::size_t route = 0; route < part.totals[row].size(); ++route) {
        report.totals[row][route] += part.totals[row][route];
        report.state_bytes += part.totals[row][route].bytes;
      }
    report.in.push_back(part.bytes_in);
    report.in_bound.push_back(part.bytes_in_bound);
    report.bytes_in += part.bytes_in;
    report.bytes_in_bound += part.bytes_in_bound;
    report.objects += part.objects.size();
  }
  report.out = bytes_out(plan);
  report.links = link_bounds(plan, input);
  report.hash = plan.hash();
  return report;
}

std::string explain_text(const Plan& plan, const PlanInput& input, const PlacementResult* placement) {
  const PlanReport report = make_report(plan, input);
  const bool moves = report.links.busiest_seconds > 0;
  std::string text = fmt::format("plan {}: {}\n", to_string(report.hash), what_text(plan, input));
  if (plan.header.baseline != Baseline::kNone) text += fmt::format("baseline: {}\n", to_string(plan.header.baseline));
  text +=
      fmt::format("bytes over the network: {} of {}, the least possible is {} ({})\n", format_bytes(report.bytes_in),
                  format_bytes(report.state_bytes), format_bytes(report.bytes_in_bound),
                  ratio_text(ratio(report.bytes_in, report.bytes_in_bound), report.bytes_in_bound > 0));
  if (moves)
    text += fmt::format("busiest link: {} {}, {}; the least possible is {} ({})\n",
                        printable_name(input.topology->worker(report.links.busiest).name),
                        report.links.busiest_sends ? "sends" : "receives", format_seconds(report.links.busiest_seconds),
                        format_seconds(report.links.bound_seconds),
                        ratio_text(report.links.ratio(), report.links.bound_seconds > 0));
  if (placement != nullptr) text += placement_text(*placement);
  if (report.objects > 0) text += fmt::format("objects: {}\n", report.objects);
  text += "\n";
  text += classes_text(report);
  if (!moves) return text;
  text += "\n";
  text += links_text(report, *input.topology);
  return text;
}

std::string explain_json(const Plan& plan, const PlanInput& input, const PlacementResult* placement) {
  const PlanReport report = make_report(plan, input);
  Json json;
  json["hash"] = to_string(report.hash);
  json["source_hash"] = to_string(plan.header.source);
  json["target_hash"] = to_string(plan.header.target);
  json["roster_hash"] = to_string(plan.header.roster);
  json["baseline"] = to_string(plan.header.baseline);
  json["tensors"] = input.target->tensors().size();
  json["objects"] = report.objects;
  json["source_devices"] = input.source->device_count();
  json["target_devices"] = input.target->device_count();
  json["bytes_of_target"] = report.state_bytes;
  json["bytes_in"] = report.bytes_in;
  json["bytes_in_bound"] = report.bytes_in_bound;
  if (report.bytes_in_bound > 0) json["bytes_in_ratio"] = ratio(report.bytes_in, report.bytes_in_bound);
  Json link;
  link["seconds"] = report.links.busiest_seconds;
  link["bound_seconds"] = report.links.bound_seconds;
  if (report.links.bound_seconds > 0) link["ratio"] = report.links.ratio();
  if (report.links.busiest_seconds > 0) {
    link["worker"] = input.topology->worker(report.links.busiest).name;
    link["direction"] = report.links.busiest_sends ? "out" : "in";
  }
  json["busiest_link"] = std::move(link);
  if (placement != nullptr) json["placement"] = placement_json(*placement);
  json["classes"] = classes_json(report);
  json["workers"] = workers_json(plan, report, *input.topology);
  return json.dump(2, ' ', false, kReplaceBadText) + "\n";
}

}  // namespace tenplex
