// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Uses the installed library as its users do: a layout, two cuts of one tensor, the plan between them, its proof.
#include <tenplex/plan/check.h>
#include <tenplex/plan/planner.h>
#include <tenplex/ptc/layout.h>
#include <tenplex/ptc/rule_collection.h>

#include <cstdio>

namespace {

tenplex::Result<std::int64_t> bytes_to_move() {
  using namespace tenplex;
  TENPLEX_ASSIGN_OR_RETURN(const Layout layout, parse_layout("family: rows\nmeshes: {all: [tp]}\ntensors:\n"
                                                             "  - match: '*'\n    slice: [{dim: 0, by: tp}]\n",
                                                             "rows"));
  const std::vector<TensorInfo> tensors = {{"w", DType::kFloat32, {12, 4}}};
  TENPLEX_ASSIGN_OR_RETURN(const auto source, RuleCollection::make(layout, {{"tp", 2}}, tensors, {}));
  TENPLEX_ASSIGN_OR_RETURN(const auto target, RuleCollection::make(layout, {{"tp", 3}}, tensors, {}));
  const Topology topology = Topology::uniform(3, 1);
  PlanInput input;
  input.source = source.get();
  input.target = target.get();
  input.topology = &topology;
  input.placement = Placement::rank_order(2, 3);
  TENPLEX_ASSIGN_OR_RETURN(const Plan plan, make_plan(input));
  TENPLEX_TRY(check(plan, input));
  std::int64_t bytes = 0;
  for (const WorkerPart& part : plan.parts) bytes += part.bytes_in;
  return bytes;
}

}  // namespace

int main() {
  const auto bytes = bytes_to_move();
  if (!bytes) {
    std::fprintf(stderr, "%s\n", bytes.error().to_string().c_str());
    return 1;
  }
  // Rows 0-3, 4-7, 8-11 from 0-5, 6-11: worker 1 lacks rows 4 and 5, worker 2 lacks 8 to 11; 16 bytes a row.
  std::printf("consumer: %lld bytes to move\n", static_cast<long long>(*bytes));
  return *bytes == 96 ? 0 : 1;
}
