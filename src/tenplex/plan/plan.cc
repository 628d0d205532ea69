// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenplex {
namespace {

void append(std::int64_t value, std::string* bytes) { bytes->append(as_text(std::as_bytes(std::span(&value, 1)))); }

void append(const Holder& holder, std::string* bytes) {
  append(holder.worker.value(), bytes);
  append(holder.device.value(), bytes);
}

void append_objects(const WorkerPart& part, std::string* bytes) {
  append(static_cast<std::int64_t>(part.objects.size()), bytes);
  for (const ObjectCopy& object : part.objects) {
    append(object.source_object, bytes);
    append(object.target_object, bytes);
    append(object.source, bytes);
    append(object.target, bytes);
    append(static_cast<std::int64_t>(object.route), bytes);
  }
}

void append_numbers(const WorkerPart& part, std::string* bytes) {
  for (const auto& routes : part.totals)
    for (const Totals& totals : routes) {
      append(totals.copies, bytes);
      append(totals.bytes, bytes);
    }
  append(static_cast<std::int64_t>(part.bytes_from.size()), bytes);
  for (const auto& [worker, size] : part.bytes_from) {
    append(worker.value(), bytes);
    append(size, bytes);
  }
  append(part.bytes_in, bytes);
  append(part.bytes_in_bound, bytes);
}

Error stale(std::string_view what, const Hash128& made_for, const Hash128& found) {
  return invalid_argument(fmt::format("stale plan: it was made for {} {}, but this one is {}", what,
                                      to_string(made_for), to_string(found)));
}

}  // namespace

std::string_view to_string(Baseline baseline) {
  switch (baseline) {
    case Baseline::kNone:
      return "none";
    case Baseline::kCentral:
      return "central";
    case Baseline::kFull:
      return "full";
  }
  return "unknown";
}

Totals& Totals::operator+=(const Totals& other) {
  copies += other.copies;
  bytes += other.bytes;
  return *this;
}

std::string encode(const WorkerPart& part) {
  std::string bytes;
  append(part.worker.value(), &bytes);
  append(static_cast<std::int64_t>(part.groups.size()), &bytes);
  for (const PartGroup& group : part.groups) {
    append(group.group, &bytes);
    group.copies.append_to(&bytes);
  }
  append_objects(part, &bytes);
  append_numbers(part, &bytes);
  return bytes;
}

void Plan::for_each_copy(WorkerId worker, const std::function<void(const Copy&)>& visit) const {
  Copy copy;
  for (const PartGroup& part : parts[worker.index()].groups) {
    const auto& tensors = groups[static_cast<std::size_t>(part.group)].tensors;
    for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
      copy.source_tensor = tensors[tensor].first;
      copy.target_tensor = tensors[tensor].second;
      for (std::size_t index = 0; index < part.copies.size(); ++index) {
        part.copies.get(index, tensor, &copy);
        visit(copy);
      }
    }
  }
}

ExplicitPlan Plan::to_explicit() const {
  ExplicitPlan plan;
  plan.header = header;
  for (const WorkerPart& part : parts) {
    auto& copies = plan.copies.emplace_back();
    for_each_copy(part.worker, [&copies](const Copy& copy) { copies.push_back(copy); });
    plan.objects.insert(plan.objects.end(), part.objects.begin(), part.objects.end());
    plan.bytes_in.push_back(part.bytes_in);
    plan.bytes_in_bound.push_back(part.bytes_in_bound);
  }
  std::sort(plan.objects.begin(), plan.objects.end(),
            [](const ObjectCopy& a, const ObjectCopy& b) { return a.target_object < b.target_object; });
  return plan;
}

Hash128 Plan::hash() const {
  Hasher hasher;
  for (const Hash128& hash : {header.source, header.target, header.roster}) {
    hasher.add(static_cast<std::int64_t>(hash.high));
    hasher.add(static_cast<std::int64_t>(hash.low));
  }
  hasher.add(static_cast<std::int64_t>(header.baseline));
  hasher.add(header.central.value());
  for (const TensorGroup& group : groups) {
    hasher.add(static_cast<std::int64_t>(group.tensors.size()));
    for (const auto& [source, target] : group.tensors) {
      hasher.add(source.value());
      hasher.add(target.value());
    }
  }
  for (const WorkerPart& part : parts) {
    for (const PartGroup& group : part.groups) {
      hasher.add(group.group);
      group.copies.add_to(&hasher);
    }
    std::string rest;
    append_objects(part, &rest);
    append_numbers(part, &rest);
    hasher.add(rest);
  }
  return hasher.finish();
}

Result<void> check_fresh(const PlanHeader& header, const PlanInput& input) {
  const Hash128 source = input.source->hash();
  if (header.source != source) return stale("source collection", header.source, source);
  const Hash128 target = input.target->hash();
  if (header.target != target) return stale("target collection", header.target, target);
  const Hash128 roster = roster_hash(*input.topology, input.placement);
  if (header.roster != roster) return stale("roster", header.roster, roster);
  return {};
}

}  // namespace tenplex
