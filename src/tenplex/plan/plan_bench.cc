// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The planner's numbers, one a line: name, value, unit, limit. Exit 1 if a limit is exceeded. Seconds are processor
// time; short ones are the best of several repetitions in one run. `--quick` leaves out the largest case.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <string_view>

#include "tenplex/plan/bounds.h"
#include "tenplex/plan/check.h"
#include "tenplex/plan/fill.h"
#include "tenplex/plan/overlap.h"
#include "tenplex/plan/placement_search.h"
#include "tenplex/plan/planner.h"
#include "tenplex/plan/testing/gpt_collection.h"
#include "tenplex/plan/testing/listed_collection.h"

namespace tenplex {
namespace {

bool failed = false;

enum class Better : std::uint8_t { kLower, kHigher };

void report(std::string_view name, double value, std::string_view unit, double limit, Better better) {
  const bool good = limit <= 0 || (better == Better::kLower ? value <= limit : value >= limit);
  failed = failed || !good;
  const std::string bound = limit <= 0 ? "-" : fmt::format("{}{:g}", better == Better::kLower ? "<=" : ">=", limit);
  fmt::print("{} {:.4g} {} {}{}\n", name, value, unit, bound, good ? "" : " EXCEEDED");
  std::fflush(stdout);
}

/// Of this process. The planner runs on one thread, so that on an idle machine this is the time that passes.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double seconds_of(int repetitions, const std::function<void()>& body) {
  double best = 1e300;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const double start = processor_seconds();
    body();
    best = std::min(best, processor_seconds() - start);
  }
  return best;
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

template <typename T>
T expect(Result<T> result) {
  if (result.has_value()) return std::move(result).value();
  fmt::print(stderr, "plan_bench: {}\n", result.error().to_string());
  std::exit(1);
}

void expect(const Result<void>& result) {
  if (result.has_value()) return;
  fmt::print(stderr, "plan_bench: {}\n", result.error().to_string());
  std::exit(1);
}

/// `parts` slabs of a tensor along `dim`, each `length` long, the first one `shift` longer and the last one shorter.
ListedCollection slabs(const Dims& shape, int dim, std::int64_t parts, std::int64_t shift) {
  ListedTensor tensor{{"w", DType::kFloat32, shape}, {}, 0};
  const std::int64_t length = shape[dim] / parts;
  for (std::int64_t part = 0; part < parts; ++part) {
    Box box = Box::whole(shape);
    box.offset[dim] = part * length + (part == 0 ? 0 : shift);
    box.extent[dim] = length + (part == 0 ? shift : 0) - (part == parts - 1 ? shift : 0);
    tensor.shards.push_back({sub_tensor_of_box(box), {DeviceId(0)}});
  }
  return ListedCollection(1, {std::move(tensor)});
}

std::int64_t fill_all(const Collection& source, const Collection& target) {
  const SourceIndex index(source, TensorId(0));
  std::vector<Fill> fills;
  SubTensor shard;
  std::int64_t count = 0;
  for (std::int64_t number = 0; number < target.shard_count(TensorId(0)); ++number) {
    target.shard(TensorId(0), number, &shard);
    expect(index.fill(shard, &fills));
    count += static_cast<std::int64_t>(fills.size());
  }
  return count;
}

void bench_overlaps() {
  const ListedCollection tens = slabs({600'000, 16}, 0, 10'000, 0);
  const ListedCollection shifted = slabs({600'000, 16}, 0, 10'000, 30);
  report("overlap_1d_10000x10000", seconds_of(5, [&] { fill_all(tens, shifted); }), "s", 0.2, Better::kLower);
  const ListedCollection rows = slabs({3000, 3000}, 0, 3000, 0);
  const ListedCollection columns = slabs({3000, 3000}, 1, 3000, 0);
  std::int64_t count = 0;
  const double seconds = seconds_of(5, [&] { count = fill_all(rows, columns); });
  report("overlap_crossing_fills", static_cast<double>(count) / seconds / 1e6, "M/s", 10, Better::kHigher);
}

/// The default placement, for tensor-parallel groups of 8.
void bench_placement(std::string_view name, int workers, const GptCollection& source, const GptCollection& target) {
  const Topology topology = Topology::uniform(workers, 8);
  PlacementRequest request;
  request.source = &source;
  request.target = &target;
  request.topology = &topology;
  request.source_slots = Placement::rank_order(source.device_count(), target.device_count()).source_slots;
  request.tp_groups = consecutive_groups(target.device_count(), 8);
  PlacementResult placed;
  report(fmt::format("{}_placement", name), seconds_of(1, [&] { placed = expect(place(request)); }), "s", 0,
         Better::kLower);
  report(fmt::format("{}_placement_busiest_link", name), placed.ratio(), "of_the_bound", 0, Better::kLower);
}

void bench_gpt(std::string_view name, int workers, const GptCollection& source, const GptCollection& target,
               double limit_seconds) {
  const Topology topology = Topology::uniform(workers, 8);
  const PlanInput input{&source, &target, &topology,
                        Placement::rank_order(source.device_count(), target.device_count())};
  const double one = seconds_of(5, [&] { expect(plan_for_worker(input, WorkerId(topology.worker_count() / 3))); });
  report(fmt::format("{}_one_worker", name), one * 1e3, "ms", limit_seconds <= 2 ? 10 : 0, Better::kLower);
  Plan plan;
  const double planned = seconds_of(1, [&] { plan = expect(make_plan(input)); });
  const double proven = seconds_of(1, [&] { expect(check(plan, input)); });
  report(fmt::format("{}_plan", name), planned, "s", 0, Better::kLower);
  report(fmt::format("{}_proof", name), proven, "s", 0, Better::kLower);
  report(fmt::format("{}_plan_and_proof", name), planned + proven, "s", limit_seconds, Better::kLower);
  report(fmt::format("{}_hash", name), seconds_of(1, [&] { plan.hash(); }), "s", 0, Better::kLower);
  std::int64_t copies = 0;
  std::int64_t packed = 0;
  std::size_t memory = 0;
  std::int64_t bytes = 0;
  for (const WorkerPart& part : plan.parts) {
    bytes += part.bytes_in;
    for (const auto& routes : part.totals)
      for (const Totals& totals : routes) copies += totals.copies;
    for (const PartGroup& group : part.groups) {
      packed += static_cast<std::int64_t>(group.copies.size());
      memory += group.copies.memory_bytes();
    }
  }
  report(fmt::format("{}_copies", name), static_cast<double>(copies), "copies", 0, Better::kLower);
  report(fmt::format("{}_packed_copies", name), static_cast<double>(packed), "copies", 0, Better::kLower);
  report(fmt::format("{}_plan_memory", name), static_cast<double>(memory) / 1048576, "MiB", 0, Better::kLower);
  report(fmt::format("{}_moved", name), static_cast<double>(bytes) / static_cast<double>(source.total_bytes()),
         "of_the_state", 0, Better::kLower);
  report(fmt::format("{}_busiest_link", name), link_bounds(plan, input).ratio(), "of_the_bound", 0, Better::kLower);
  bench_placement(name, workers, source, target);
  report(fmt::format("{}_peak_memory", name), peak_mib(), "MiB", limit_seconds <= 2 ? 1024 : 0, Better::kLower);
}

}  // namespace
}  // namespace tenplex

int main(int argc, char** argv) {
  using namespace tenplex;
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  const GptShape shape;
  bench_gpt("gpt_1t_3072", 384, GptCollection(shape, 8, 64, 6), GptCollection(shape, 8, 32, 12), 2);
  if (!quick) bench_gpt("gpt_1t_16384", 2048, GptCollection(shape, 8, 64, 32), GptCollection(shape, 8, 32, 64), 10);
  bench_overlaps();
  return failed ? 1 : 0;
}
