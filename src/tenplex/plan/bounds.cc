// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/bounds.h"

#include <algorithm>

#include "tenplex/plan/overlap.h"

namespace tenplex {
namespace {

/// Elements of `box` in none of `holes`.
std::int64_t elements_outside(const Box& box, const std::vector<Box>& holes) {
  std::vector<Box> rest{box};
  for (const Box& hole : holes) {
    std::vector<Box> next;
    for (const Box& part : rest)
      for (const Box& left : subtract(part, hole)) next.push_back(left);
    rest = std::move(next);
    if (rest.empty()) return 0;
  }
  std::int64_t elements = 0;
  for (const Box& part : rest) elements += volume(part);
  return elements;
}

bool any_overlap(const BoxIndex& index) {
  for (std::uint32_t number = 0; number < index.size(); ++number)
    if (index.is_shadowed(number)) return true;
  return false;
}

/// The workers whose devices hold an element of what is planned: no other can send.
std::vector<bool> possible_senders(const Plan& plan, const PlanInput& input) {
  std::vector<bool> sends(plan.parts.size());
  SubTensor shard;
  std::vector<DeviceId> holders;
  for (const TensorGroup& group : plan.groups) {
    const TensorId tensor = group.tensors.front().first;  // the others are cut and held alike
    const std::int64_t shards = input.source->shard_count(tensor);
    for (std::int64_t index = 0; index < shards; ++index) {
      input.source->shard(tensor, index, &shard);
      const auto is_empty = [](const Piece& piece) { return piece.box.empty(); };
      if (std::all_of(shard.pieces.begin(), shard.pieces.end(), is_empty)) continue;
      input.source->holders(tensor, index, &holders);
      for (const DeviceId device : holders)
        sends[input.topology->worker_of_slot(input.placement.source_slots[device.index()]).index()] = true;
    }
  }
  return sends;
}

}  // namespace

std::int64_t missing_elements(std::span<const Box> needed, std::span<const Box> held) {
  if (needed.empty()) return 0;
  BoxIndex held_index(needed[0].rank());
  for (const Box& box : held) held_index.add(box);
  held_index.build();
  BoxIndex needed_index(needed[0].rank());
  for (const Box& box : needed) needed_index.add(box);
  needed_index.build();
  const bool held_overlap = any_overlap(held_index);
  std::vector<std::uint32_t> hits;
  std::int64_t missing = 0;
  for (std::size_t number = 0; number < needed.size(); ++number) {
    held_index.find(needed[number], &hits);
    const bool repeated = needed_index.is_shadowed(static_cast<std::uint32_t>(number));
    if (!held_overlap && !repeated) {
      missing += volume(needed[number]);
      for (const std::uint32_t hit : hits) missing -= volume(*intersect(held[hit], needed[number]));
      continue;
    }
    std::vector<Box> holes;
    holes.reserve(hits.size());
    for (const std::uint32_t hit : hits) holes.push_back(held[hit]);
    needed_index.find(needed[number], &hits);
    for (const std::uint32_t hit : hits)
      if (hit < number) holes.push_back(needed[hit]);
    missing += elements_outside(needed[number], holes);
  }
  return missing;
}

std::vector<std::int64_t> bytes_out(const Plan& plan) {
  std::vector<std::int64_t> out(plan.parts.size());
  for (const WorkerPart& part : plan.parts)
    for (const auto& [worker, bytes] : part.bytes_from) out[worker.index()] += bytes;
  return out;
}

LinkBounds link_bounds(const Plan& plan, const PlanInput& input) {
  LinkBounds bounds;
  const auto out = bytes_out(plan);
  const std::vector<bool> sends = possible_senders(plan, input);
  double send_bandwidth = 0;
  double least_bytes = 0;
  for (std::size_t index = 0; index < plan.parts.size(); ++index) {
    const Worker& worker = input.topology->worker(WorkerId(index));
    const double in_seconds =
        static_cast<double>(plan.parts[index].bytes_in) / static_cast<double>(worker.in_bytes_per_second);
    const double out_seconds = static_cast<double>(out[index]) / static_cast<double>(worker.out_bytes_per_second);
    if (std::max(in_seconds, out_seconds) > bounds.busiest_seconds) {
      bounds.busiest_seconds = std::max(in_seconds, out_seconds);
      bounds.busiest = WorkerId(index);
      bounds.busiest_sends = out_seconds > in_seconds;
    }
    const auto least = static_cast<double>(plan.parts[index].bytes_in_bound);
    bounds.bound_seconds = std::max(bounds.bound_seconds, least / static_cast<double>(worker.in_bytes_per_second));
    least_bytes += least;
    if (sends[index]) send_bandwidth += static_cast<double>(worker.out_bytes_per_second);
  }
  if (send_bandwidth > 0) bounds.bound_seconds = std::max(bounds.bound_seconds, least_bytes / send_bandwidth);
  return bounds;
}

}  // namespace tenplex
