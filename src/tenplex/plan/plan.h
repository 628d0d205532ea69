// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Plan: the copies that turn one collection into another, worker by worker. Text: docs/plans.md.
//
//   Plan ── WorkerPart per worker ── PartGroup per group of tensors ── packed copies, valid for every tensor of the
//   group
//
// Tensors that are cut and held alike in both collections (and have one dtype) form a group, and a part stores the
// copies of a group once. for_each_copy() unpacks them; ExplicitPlan is the unpacked form that can be edited and sent.
//
// Values. Threads: const calls are safe together.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/base/hash.h"
#include "tenplex/base/ids.h"
#include "tenplex/base/result.h"
#include "tenplex/plan/packed_copies.h"
#include "tenplex/plan/placement.h"
#include "tenplex/plan/topology.h"
#include "tenplex/ptc/collection.h"

namespace tenplex {

/// What is planned for.
enum class Baseline : std::uint8_t {
  kNone,     ///< move what has to move, from everywhere
  kCentral,  ///< all state is collected by one worker, which then sends every worker what it needs
  kFull,     ///< every byte that a device needs moves, as when whole devices are migrated
};
std::string_view to_string(Baseline baseline);

/// Two holders of one source shard whose contents differ.
struct ReplicaDisagreement {
  TensorId tensor;  ///< of the source
  std::int64_t shard = 0;
  DeviceId first;
  DeviceId second;
};

/// Everything that a plan depends on. Borrows the collections and the topology.
struct PlanInput {
  const Collection* source = nullptr;
  const Collection* target = nullptr;
  const Topology* topology = nullptr;
  Placement placement;
  Baseline baseline = Baseline::kNone;
  WorkerId central{0};               ///< kCentral: the worker that collects
  bool allow_unused_source = false;  ///< true: source tensors and objects that the target lacks are dropped
  std::int64_t slice_bytes = std::int64_t{1} << 20;     ///< slices of this many on average are worth it
  std::vector<ReplicaDisagreement> disagreements = {};  ///< any entry makes the planner refuse
};

/// An opaque object on its way to its owner.
struct ObjectCopy {
  std::int32_t source_object = 0;
  std::int32_t target_object = 0;
  Holder source;
  Holder target;
  Route route = Route::kAlias;

  friend bool operator==(const ObjectCopy&, const ObjectCopy&) = default;
};

struct PlanHeader {
  Hash128 source;  ///< Collection::hash()
  Hash128 target;
  Hash128 roster;  ///< roster_hash()
  Baseline baseline = Baseline::kNone;
  WorkerId central{0};

  friend bool operator==(const PlanHeader&, const PlanHeader&) = default;
};

/// Source and target tensors that are cut and held alike, and have one dtype and shape.
struct TensorGroup {
  std::vector<std::pair<TensorId, TensorId>> tensors;  ///< (source, target), ascending by target

  friend bool operator==(const TensorGroup&, const TensorGroup&) = default;
};

/// The copies into one worker for the tensors of one group.
struct PartGroup {
  std::int32_t group = 0;
  PackedCopies copies;

  friend bool operator==(const PartGroup&, const PartGroup&) = default;
};

struct Totals {
  std::int64_t copies = 0;
  std::int64_t bytes = 0;

  Totals& operator+=(const Totals& other);
  friend bool operator==(const Totals&, const Totals&) = default;
};

struct WorkerPart {
  WorkerId worker;
  std::vector<PartGroup> groups;                                          ///< ascending
  std::vector<ObjectCopy> objects;                                        ///< whose target is on this worker
  std::array<std::array<Totals, kRouteCount>, kCopyClassCount> totals{};  ///< [class][route], all tensors
  std::vector<std::pair<WorkerId, std::int64_t>> bytes_from;  ///< over the network, ascending by sender, none zero
  std::int64_t bytes_in = 0;                                  ///< sum of bytes_from
  std::int64_t bytes_in_bound = 0;                            ///< |needed \ held|, computed apart from the copies

  friend bool operator==(const WorkerPart&, const WorkerPart&) = default;
};

/// The canonical bytes of a part: equal on every machine for equal input.
std::string encode(const WorkerPart& part);

/// The editable form.
struct ExplicitPlan {
  PlanHeader header;
  std::vector<std::vector<Copy>> copies;  ///< per worker
  std::vector<ObjectCopy> objects;        ///< ascending by target object
  std::vector<std::int64_t> bytes_in;     ///< per worker
  std::vector<std::int64_t> bytes_in_bound;
};

struct Plan {
  PlanHeader header;
  std::vector<TensorGroup> groups;
  std::vector<WorkerPart> parts;  ///< per worker

  /// Calls `visit` for every copy into a worker, in order of group, tensor, copy. The Copy is reused between calls.
  void for_each_copy(WorkerId worker, const std::function<void(const Copy&)>& visit) const;
  ExplicitPlan to_explicit() const;
  /// Identifies the plan with all its copies.
  Hash128 hash() const;
};

/// Errors: invalid_argument if the plan was made for other collections, another topology or another placement; the
/// message says which.
Result<void> check_fresh(const PlanHeader& header, const PlanInput& input);

}  // namespace tenplex
