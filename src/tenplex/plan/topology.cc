// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/topology.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "tenplex/base/check.h"

namespace tenplex {

Topology::Topology(std::vector<Worker> workers) : workers_(std::move(workers)) {
  std::map<std::string, int> groups;
  for (std::size_t index = 0; index < workers_.size(); ++index) {
    const Worker& worker = workers_[index];
    TENPLEX_CHECK(worker.devices >= 0 && worker.in_bytes_per_second > 0 && worker.out_bytes_per_second > 0);
    first_slot_.push_back(slot_count());
    worker_of_slot_.insert(worker_of_slot_.end(), static_cast<std::size_t>(worker.devices), WorkerId(index));
    const auto own = static_cast<int>(index);
    group_.push_back(worker.group.empty() ? own : groups.emplace(worker.group, own).first->second);
  }
}

Topology Topology::uniform(int workers, int devices_per_worker) {
  std::vector<Worker> list(static_cast<std::size_t>(workers));
  for (std::size_t index = 0; index < list.size(); ++index) {
    list[index].name = fmt::format("worker{}", index);
    list[index].devices = devices_per_worker;
  }
  return Topology(std::move(list));
}

Hash128 Topology::hash() const {
  Hasher hasher;
  hasher.add(worker_count());
  for (const Worker& worker : workers_) {
    hasher.add(worker.name);
    hasher.add(worker.devices);
    hasher.add(worker.in_bytes_per_second);
    hasher.add(worker.out_bytes_per_second);
    hasher.add(worker.group);
  }
  return hasher.finish();
}

}  // namespace tenplex
