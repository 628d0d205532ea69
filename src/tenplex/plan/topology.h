// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Topology: the roster. Which workers there are, how many devices each has, and how fast its link is.
//
//   slot     0  1  2  3 | 4  5  6  7 | …      slots are the physical devices, numbered worker by worker
//   worker       w0     |     w1     | …
//
// A link is what a worker can send and, independently, receive. Workers of one group (a rack, a zone) are near each
// other. The YAML form, as read by --topology:
//
//   devices_per_worker: 8           # default of every worker; 1 if left out
//   bandwidth: 25GB                 # bytes per second, both ways; 12.5GB if left out
//   workers:                        # or a number: that many workers named worker0, worker1, …
//     - name: node-a
//     - {name: node-b, devices: 4, in: 50GB, out: 25GB, group: rack-1}
//
// Value type. Threads: as any value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/base/hash.h"
#include "tenplex/base/ids.h"
#include "tenplex/base/result.h"

namespace tenplex {

struct Worker {
  std::string name;
  int devices = 1;
  std::int64_t in_bytes_per_second = 12'500'000'000;   ///< 100 Gbit/s
  std::int64_t out_bytes_per_second = 12'500'000'000;  ///< 100 Gbit/s
  std::string group;                                   ///< workers of equal, non-empty group are near

  friend bool operator==(const Worker&, const Worker&) = default;
};

class Topology {
 public:
  /// Requires: every worker has 0 or more devices, and bandwidths above 0.
  explicit Topology(std::vector<Worker> workers);
  /// `workers` alike, named worker0, worker1, …
  static Topology uniform(int workers, int devices_per_worker);
  /// Errors: invalid_argument with "FILE:LINE: …" for anything that is not as the file comment says, anchors and
  /// aliases among it; out_of_range for more than 16 MiB.
  static Result<Topology> parse(std::string_view yaml, const std::string& file_name);

  const std::vector<Worker>& workers() const { return workers_; }
  int worker_count() const { return static_cast<int>(workers_.size()); }
  const Worker& worker(WorkerId id) const { return workers_[id.index()]; }
  int slot_count() const { return static_cast<int>(worker_of_slot_.size()); }
  int first_slot(WorkerId id) const { return first_slot_[id.index()]; }
  /// Requires: 0 <= slot < slot_count().
  WorkerId worker_of_slot(int slot) const { return worker_of_slot_[static_cast<std::size_t>(slot)]; }
  /// Equal for two workers exactly if they are near each other; a worker without a group is near itself only.
  int group_of(WorkerId id) const { return group_[id.index()]; }

  /// Identifies the roster. Same on every machine.
  Hash128 hash() const;

  friend bool operator==(const Topology& a, const Topology& b) { return a.workers_ == b.workers_; }

 private:
  std::vector<Worker> workers_;
  std::vector<int> first_slot_;
  std::vector<WorkerId> worker_of_slot_;
  std::vector<int> group_;
};

}  // namespace tenplex
