// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/alias_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tenplex/reshard/scan.h"
#include "tenplex/reshard/scan_run.h"

namespace tenplex {
namespace {

struct Alias {
  TensorId alias;
  TensorId stored;
};

struct AliasScan {
  Scan alias;
  Scan stored;
};

// True if the target holds the tensor in shards. An object that holds it as a whole has it beside what it is stored as.
bool has_shards(const OutputLayout& layout, TensorId tensor) {
  const auto arrays = layout.arrays_of(tensor);
  return std::any_of(arrays.begin(), arrays.end(),
                     [](const OutputArray& array) { return array.kind != OutputArray::Kind::kWhole; });
}

// Chunk by chunk in the same place.
bool is_stored_once(const RoundContext& context, const Alias& pair) {
  const CheckpointInfo& info = context.reader.info();
  const std::int64_t shards = context.source.shard_count(pair.alias);
  if (shards != context.source.shard_count(pair.stored) ||
      info.tensors[pair.alias.index()].dtype != info.tensors[pair.stored.index()].dtype) {
    return false;
  }
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    const auto copies = context.source.copies(pair.alias, shard);
    const auto others = context.source.copies(pair.stored, shard);
    if (copies.size() != others.size()) return false;
    for (std::size_t i = 0; i < copies.size(); ++i)
      if (!in_same_place(context.reader, copies[i], others[i])) return false;
  }
  return true;
}

Result<AliasScan> plan_scans(const RoundContext& context, const Alias& pair) {
  const std::int64_t most = context.slots.window_bytes() / 2;
  const WindowLimits limits{std::min(kScanWindowBytes, most), most};
  const DType dtype = context.target.tensors()[pair.stored.index()].dtype;
  TENPLEX_ASSIGN_OR_RETURN(Scan alias, Scan::plan(context.reader, context.source, pair.alias, dtype, limits));
  TENPLEX_ASSIGN_OR_RETURN(Scan stored, Scan::plan(context.reader, context.source, pair.stored, dtype, limits));
  return AliasScan{std::move(alias), std::move(stored)};
}

Result<void> compare_window(const RoundContext& context, const Alias& pair, const AliasScan& scans,
                            std::int64_t window) {
  const Slots::Lease slot(context.slots);
  // Each has windows of its own; boxes of the one serve for both.
  const Box box = scans.alias.window(window);
  std::byte* a = slot->window.data();
  std::byte* b = a + slot->window.size() / 2;
  TENPLEX_TRY(scans.alias.read(box, a, context.chunks, *slot));
  TENPLEX_TRY(scans.stored.read(box, b, context.chunks, *slot));
  const auto bytes = static_cast<std::size_t>(volume(box) * scans.alias.read_plan().unit.target_bytes);
  if (std::memcmp(a, b, bytes) == 0) return {};
  const auto& tensors = context.reader.info().tensors;
  return corrupt(fmt::format("tensors '{}' and '{}' are said to be one and hold different values",
                             tensors[pair.stored.index()].name, tensors[pair.alias.index()].name));
}

}  // namespace

Result<void> check_aliases(const RoundContext& context, const OutputPlan& plan) {
  std::vector<Alias> apart;
  for (std::size_t t = 0; t < plan.stored_as.size(); ++t) {
    const Alias pair{TensorId(t), plan.stored_as[t]};
    if (pair.stored == pair.alias || has_shards(context.layout, pair.alias)) continue;
    if (!is_stored_once(context, pair)) apart.push_back(pair);
  }
  return for_each_window(
      context.executor, context.progress, apart.size(),
      [&](std::size_t i) {
        return 2 + context.source.shard_count(apart[i].alias) + context.source.shard_count(apart[i].stored);
      },
      [&](std::size_t i) { return plan_scans(context, apart[i]); },
      [](const AliasScan& scans) { return scans.alias.window_count(); },
      [&](std::size_t i, const AliasScan& scans, std::int64_t window) {
        return compare_window(context, apart[i], scans, window);
      });
}

}  // namespace tenplex
