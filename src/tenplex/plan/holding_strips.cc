// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/holding_strips.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenplex {
namespace {

/// Which row every slot belongs to.
struct Rows {
  std::vector<std::size_t> of_slot;
  std::vector<std::string> labels;
  std::string unit;
};

Rows make_rows(const Topology& topology, std::size_t most_rows) {
  Rows rows;
  const auto workers = static_cast<std::size_t>(topology.worker_count());
  const auto slots = static_cast<std::size_t>(topology.slot_count());
  const std::size_t workers_per_row = (workers + most_rows - 1) / most_rows;
  if (slots <= most_rows) {
    rows.unit = "device";
  } else {
    rows.unit = workers_per_row == 1 ? "worker" : fmt::format("{} workers", workers_per_row);
  }
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const WorkerId worker = topology.worker_of_slot(static_cast<int>(slot));
    const std::string& name = topology.worker(worker).name;
    const std::size_t row = slots <= most_rows ? slot : worker.index() / workers_per_row;
    while (rows.labels.size() <= row) rows.labels.push_back(name);
    if (slots <= most_rows)
      rows.labels[row] = fmt::format("{}:{}", name, static_cast<int>(slot) - topology.first_slot(worker));
    rows.of_slot.push_back(row);
  }
  if (slots > most_rows && workers_per_row > 1)
    for (std::size_t row = 0; row < rows.labels.size(); ++row)
      rows.labels[row] = fmt::format("{} … {}", topology.workers()[row * workers_per_row].name,
                                     topology.workers()[std::min((row + 1) * workers_per_row, workers) - 1].name);
  return rows;
}

/// Adds `amount` evenly over [begin, end) of the state, measured in steps.
void spread(double begin, double end, double amount, std::vector<double>* shares) {
  const double length = std::max(end - begin, 1e-12);
  const auto last = std::min(static_cast<std::size_t>(std::max(end, 0.0)), shares->size() - 1);
  for (auto step = static_cast<std::size_t>(std::max(begin, 0.0)); step <= last; ++step) {
    const double common = std::min(end, static_cast<double>(step + 1)) - std::max(begin, static_cast<double>(step));
    if (common > 0) (*shares)[step] += amount * common / length;
  }
}

std::vector<Strip> strips_of(const Collection& collection, const std::vector<int>& slots, const Rows& rows,
                             std::size_t steps) {
  std::vector<Strip> strips;
  strips.reserve(rows.labels.size());
  for (const std::string& label : rows.labels) strips.push_back({label, std::vector<double>(steps)});
  double total = 0;
  for (const TensorInfo& info : collection.tensors()) total += static_cast<double>(size_bytes(info));
  if (total == 0) return strips;
  const double scale = static_cast<double>(steps) / total;
  double begin = 0;
  SubTensor shard;
  std::vector<DeviceId> holders;
  std::vector<std::size_t> holding_rows;
  for (std::size_t tensor = 0; tensor < collection.tensors().size(); ++tensor) {
    const TensorInfo& info = collection.tensors()[tensor];
    const double length = static_cast<double>(size_bytes(info)) * scale;
    for (std::int64_t number = 0; number < collection.shard_count(TensorId(tensor)); ++number) {
      collection.shard(TensorId(tensor), number, &shard);
      collection.holders(TensorId(tensor), number, &holders);
      holding_rows.clear();
      for (const DeviceId rank : holders) {
        const std::size_t row = rows.of_slot[static_cast<std::size_t>(slots[rank.index()])];
        if (std::find(holding_rows.begin(), holding_rows.end(), row) == holding_rows.end()) holding_rows.push_back(row);
      }
      for (const Piece& piece : shard.pieces) {
        if (piece.box.empty()) continue;
        const double all = info.shape.empty() ? 1 : static_cast<double>(info.shape[0]);
        const double first = info.shape.empty() ? 0 : static_cast<double>(piece.box.offset[0]) / all;
        const double last = info.shape.empty() ? 1 : static_cast<double>(piece.box.end(0)) / all;
        const double share = static_cast<double>(volume(piece.box)) / static_cast<double>(volume(info.shape));
        for (const std::size_t row : holding_rows)
          spread(begin + first * length, begin + last * length, share * length, &strips[row].shares);
      }
    }
    begin += length;
  }
  for (Strip& strip : strips)
    for (double& share : strip.shares) share = std::min(share, 1.0);
  return strips;
}

}  // namespace

Strips holding_strips(const PlanInput& input, std::size_t most_rows, std::size_t steps) {
  const Rows rows = make_rows(*input.topology, most_rows);
  return {strips_of(*input.source, input.placement.source_slots, rows, steps),
          strips_of(*input.target, input.placement.target_slots, rows, steps), rows.unit};
}

}  // namespace tenplex
