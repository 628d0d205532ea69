// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/tensor_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tenplex/plan/box_sweep.h"
#include "tenplex/plan/check_fills.h"

namespace tenplex {
namespace {

std::int64_t elements_of(const SubTensor& shard) {
  std::int64_t elements = 0;
  for (const Piece& piece : shard.pieces) elements += volume(piece.box);
  return elements;
}

bool first_box_less(const SubTensor& a, const SubTensor& b) {
  if (a.pieces.empty() || b.pieces.empty()) return a.pieces.empty() && !b.pieces.empty();
  const Box& first = a.pieces[0].box;
  const Box& second = b.pieces[0].box;
  return first.offset == second.offset ? first.extent < second.extent : first.offset < second.offset;
}

std::int64_t common_elements(const SubTensor& a, const SubTensor& b) {
  std::int64_t elements = 0;
  for (const Piece& first : a.pieces)
    for (const Piece& second : b.pieces)
      if (const auto common = intersect(first.box, second.box)) elements += volume(*common);
  return elements;
}

bool holds(const std::vector<DeviceId>& holders, DeviceId device) {
  return std::binary_search(holders.begin(), holders.end(), device);
}

bool is_index(std::int64_t index, std::size_t size) { return index >= 0 && static_cast<std::size_t>(index) < size; }

auto sub_tensor_key(const Copy& copy) { return std::pair(copy.target_device, copy.target_shard); }

}  // namespace

WorkerId TensorChecker::source_worker(DeviceId rank) const {
  return input_.topology->worker_of_slot(input_.placement.source_slots[rank.index()]);
}

WorkerId TensorChecker::target_worker(DeviceId rank) const {
  return input_.topology->worker_of_slot(input_.placement.target_slots[rank.index()]);
}

Error TensorChecker::wrong(const Copy& copy, const std::string& what) const {
  return invalid_argument(fmt::format("plan: tensor '{}' shard {} on device {}, box {}: {}",
                                      input_.target->tensors()[target_.index()].name, copy.target_shard,
                                      copy.target_device.value(), to_string(copy.target.box), what));
}

void TensorChecker::read(const Collection& collection, TensorId tensor, Cut* cut) const {
  const auto count = static_cast<std::size_t>(collection.shard_count(tensor));
  cut->shards.resize(count);
  cut->holders.resize(count);
  cut->elements.resize(count);
  std::vector<SweptBox> boxes;
  for (std::size_t shard = 0; shard < count; ++shard) {
    collection.shard(tensor, static_cast<std::int64_t>(shard), &cut->shards[shard]);
    collection.holders(tensor, static_cast<std::int64_t>(shard), &cut->holders[shard]);
    cut->elements[shard] = elements_of(cut->shards[shard]);
    for (const Piece& piece : cut->shards[shard].pieces)
      if (!piece.box.empty()) boxes.push_back({&piece.box, false});
  }
  cut->overlapping = find_overlap(boxes).has_value();
  cut->sorted.resize(count);
  std::iota(cut->sorted.begin(), cut->sorted.end(), std::size_t{0});
  std::sort(cut->sorted.begin(), cut->sorted.end(), [cut](std::size_t a, std::size_t b) {
    if (first_box_less(cut->shards[a], cut->shards[b])) return true;
    return !first_box_less(cut->shards[b], cut->shards[a]) && a < b;
  });
}

Result<void> TensorChecker::load(TensorId source, TensorId target) {
  const auto sources = input_.source->tensors();
  const auto targets = input_.target->tensors();
  if (!is_index(target.value(), targets.size()))
    return invalid_argument(fmt::format("plan: target tensor {} does not exist", target.value()));
  const TensorInfo& to = targets[target.index()];
  if (!is_index(source.value(), sources.size()))
    return invalid_argument(fmt::format("plan: tensor '{}': source tensor {} does not exist", to.name, source.value()));
  if (sources[source.index()] != to)
    return invalid_argument(fmt::format("plan: tensor '{}': source tensor '{}' differs in name, dtype or shape",
                                        to.name, sources[source.index()].name));
  source_ = source;
  target_ = target;
  read(*input_.source, source, &from_);
  read(*input_.target, target, &to_);
  split_.assign(to_.shards.size(), -1);
  return {};
}

bool TensorChecker::is_same(const Cut& cut, const Collection& collection, TensorId tensor) {
  const auto count = static_cast<std::int64_t>(cut.shards.size());
  if (collection.shard_count(tensor) != count) return false;
  SubTensor shard;
  std::vector<DeviceId> holders;
  for (std::int64_t number = 0; number < count; ++number) {
    const auto index = static_cast<std::size_t>(number);
    collection.shard(tensor, number, &shard);
    if (!(shard == cut.shards[index])) return false;
    collection.holders(tensor, number, &holders);
    if (holders != cut.holders[index]) return false;
  }
  return true;
}

bool TensorChecker::is_cut_alike(TensorId source, TensorId target) const {
  return is_same(from_, *input_.source, source) && is_same(to_, *input_.target, target);
}

Result<void> TensorChecker::check_target_holder(const Copy& copy) const {
  if (!is_index(copy.target_device.value(), input_.placement.target_slots.size()))
    return wrong(copy, "the target device does not exist");
  if (!is_index(copy.target_shard, to_.shards.size())) return wrong(copy, "the target shard does not exist");
  if (!holds(to_.holders[static_cast<std::size_t>(copy.target_shard)], copy.target_device))
    return wrong(copy, "the target device does not hold the target shard");
  if (copy.target_worker != target_worker(copy.target_device))
    return wrong(copy, fmt::format("target worker is {}, but the device is on worker {}", copy.target_worker.value(),
                                   target_worker(copy.target_device).value()));
  return {};
}

Result<void> TensorChecker::check_source_holder(const Copy& copy) const {
  const bool relay = copy.route == Route::kRelay;
  const Cut& cut = relay ? to_ : from_;
  const auto& slots = relay ? input_.placement.target_slots : input_.placement.source_slots;
  if (!is_index(copy.source_device.value(), slots.size())) return wrong(copy, "the source device does not exist");
  if (!is_index(copy.source_shard, cut.shards.size())) return wrong(copy, "the source shard does not exist");
  if (!holds(cut.holders[static_cast<std::size_t>(copy.source_shard)], copy.source_device))
    return wrong(copy, fmt::format("source device {} does not hold source shard {}", copy.source_device.value(),
                                   copy.source_shard));
  const WorkerId worker = relay ? target_worker(copy.source_device) : source_worker(copy.source_device);
  if (copy.source_worker != worker)
    return wrong(copy, fmt::format("source worker is {}, but the device is on worker {}", copy.source_worker.value(),
                                   worker.value()));
  return {};
}

Result<void> TensorChecker::check_boxes(const Copy& copy) {
  const TensorInfo& info = input_.target->tensors()[target_.index()];
  const Box& box = copy.target.box;
  if (copy.source.box != box) return wrong(copy, "source and target boxes differ");
  if (box.rank() != info.shape.rank() || box.offset.rank() != box.rank())
    return wrong(copy, "the box has a wrong rank");
  for (const std::int64_t length : box.extent)
    if (length <= 0) return wrong(copy, "the box is empty");
  if (!addresses(to_.shards[static_cast<std::size_t>(copy.target_shard)], copy.target, &target_hint_))
    return wrong(copy, "the target address is not the box's in the target shard");
  const Cut& cut = copy.route == Route::kRelay ? to_ : from_;
  if (!addresses(cut.shards[static_cast<std::size_t>(copy.source_shard)], copy.source, &source_hint_))
    return wrong(copy, "the source address is not the box's in the source shard");
  const auto bytes = packed_bytes(info.dtype, volume(box));
  if (!bytes || copy.bytes != *bytes)
    return wrong(copy, fmt::format("it has {} bytes, but the plan says {}", bytes.value_or(-1), copy.bytes));
  return {};
}

Result<void> TensorChecker::check_route(const Copy& copy) const {
  const bool same_worker = copy.source_worker == copy.target_worker;
  const bool full = input_.baseline == Baseline::kFull;
  switch (copy.route) {
    case Route::kAlias:
      if (full || input_.baseline == Baseline::kCentral) return wrong(copy, "an alias in a baseline that moves");
      if (input_.placement.source_slots[copy.source_device.index()] !=
          input_.placement.target_slots[copy.target_device.index()])
        return wrong(copy, "an alias of another device");
      return {};
    case Route::kLocal:
    case Route::kRelay:
      if (!same_worker) return wrong(copy, "a local copy from another worker");
      if (full) return wrong(copy, "a local copy in a baseline that moves every byte");
      return {};
    case Route::kRemote:
      if (same_worker && input_.baseline == Baseline::kNone) return wrong(copy, "a remote copy from the same worker");
      return {};
  }
  return wrong(copy, "an unknown route");
}

std::int64_t TensorChecker::find_twin(const SubTensor& shard) const {
  auto candidate =
      std::lower_bound(from_.sorted.begin(), from_.sorted.end(), shard,
                       [this](std::size_t a, const SubTensor& b) { return first_box_less(from_.shards[a], b); });
  for (; candidate != from_.sorted.end() && !first_box_less(shard, from_.shards[*candidate]); ++candidate)
    if (from_.shards[*candidate] == shard) return static_cast<std::int64_t>(*candidate);
  return -1;
}

bool TensorChecker::one_source_has(std::size_t target_shard) const {
  for (const SubTensor& shard : from_.shards)
    if (common_elements(shard, to_.shards[target_shard]) == to_.elements[target_shard]) return true;
  return false;
}

Result<void> TensorChecker::check_class(const Copy* const* begin, const Copy* const* end) {
  const Copy& first = **begin;
  const auto shard = static_cast<std::size_t>(first.target_shard);
  const std::int64_t twin = find_twin(to_.shards[shard]);
  CopyClass expected = CopyClass::kMerge;
  if (twin >= 0) {
    const int slot = input_.placement.target_slots[first.target_device.index()];
    const auto& holders = from_.holders[static_cast<std::size_t>(twin)];
    const bool here = std::any_of(holders.begin(), holders.end(),
                                  [&](DeviceId rank) { return input_.placement.source_slots[rank.index()] == slot; });
    expected = here && input_.baseline == Baseline::kNone ? CopyClass::kKeep : CopyClass::kMove;
  } else {
    if (split_[shard] < 0) {
      const bool alike = std::all_of(begin, end, [&](const Copy* copy) {
        return copy->route != Route::kRelay && copy->source_shard == first.source_shard;
      });
      const bool relayed = std::any_of(begin, end, [](const Copy* copy) { return copy->route == Route::kRelay; });
      const bool certain = alike || (!relayed && !from_.overlapping);
      split_[shard] = (certain ? alike : one_source_has(shard)) ? 1 : 0;
    }
    if (split_[shard] == 1) expected = CopyClass::kSplit;
  }
  for (const Copy* const* copy = begin; copy != end; ++copy) {
    if ((*copy)->copy_class != expected)
      return wrong(**copy,
                   fmt::format("class is {}, expected {}", to_string((*copy)->copy_class), to_string(expected)));
    if (((*copy)->route == Route::kAlias) != (expected == CopyClass::kKeep))
      return wrong(**copy, "only what a device keeps is an alias");
    if (expected == CopyClass::kKeep && (*copy)->source_shard != twin)
      return wrong(**copy, fmt::format("source shard is {}, but the identical one is {}", (*copy)->source_shard, twin));
  }
  return {};
}

// All copies into one sub-tensor: each element once, and the class.
Result<void> TensorChecker::check_sub_tensor(const Copy* const* begin, const Copy* const* end) {
  std::int64_t elements = 0;
  std::vector<SweptBox> boxes;
  for (const Copy* const* copy = begin; copy != end; ++copy) {
    elements += volume((*copy)->target.box);
    boxes.push_back({&(*copy)->target.box, false});
  }
  if (const auto pair = find_overlap(boxes))
    return wrong(**(begin + pair->second),
                 fmt::format("filled twice, also by box {}", to_string(*boxes[pair->first].box)));
  const std::int64_t expected = to_.elements[static_cast<std::size_t>((*begin)->target_shard)];
  if (elements != expected)
    return wrong(**begin, fmt::format("{} of the sub-tensor's {} elements are filled", elements, expected));
  return check_class(begin, end);
}

// `copies` are ascending by (device, shard); every holding that has elements must be among them.
Result<void> TensorChecker::check_all_filled(const std::vector<const Copy*>& copies) const {
  std::size_t filled = 0;
  for (std::size_t index = 0; index < copies.size(); ++index)
    if (index == 0 || sub_tensor_key(*copies[index - 1]) != sub_tensor_key(*copies[index])) ++filled;
  std::size_t expected = 0;
  for (std::size_t shard = 0; shard < to_.shards.size(); ++shard)
    if (to_.elements[shard] > 0) expected += to_.holders[shard].size();
  if (filled == expected) return {};
  for (std::size_t shard = 0; shard < to_.shards.size(); ++shard)
    for (const DeviceId device : to_.holders[shard]) {
      const auto key = std::pair(device, static_cast<std::int64_t>(shard));
      const auto found = std::lower_bound(copies.begin(), copies.end(), key,
                                          [](const Copy* a, const auto& b) { return sub_tensor_key(*a) < b; });
      if (to_.elements[shard] > 0 && (found == copies.end() || sub_tensor_key(**found) != key))
        return invalid_argument(fmt::format("plan: tensor '{}' shard {} on device {} is not filled",
                                            input_.target->tensors()[target_.index()].name, shard, device.value()));
    }
  return internal_error("plan: more sub-tensors are filled than there are");
}

// What one worker pulls: no element twice, none that it holds. `copies` are ascending by target worker.
Result<void> TensorChecker::check_pulls(const std::vector<const Copy*>& copies) const {
  std::vector<SweptBox> boxes;
  std::vector<const Copy*> pulls;
  for (auto first = copies.begin(); first != copies.end();) {
    const WorkerId worker = (*first)->target_worker;
    boxes.clear();
    pulls.clear();
    for (; first != copies.end() && (*first)->target_worker == worker; ++first)
      if ((*first)->route == Route::kRemote) {
        pulls.push_back(*first);
        boxes.push_back({&(*first)->target.box, false});
      }
    if (pulls.empty()) continue;
    for (std::size_t shard = 0; shard < from_.shards.size(); ++shard) {
      const bool held = input_.baseline == Baseline::kNone &&
                        std::any_of(from_.holders[shard].begin(), from_.holders[shard].end(),
                                    [&](DeviceId rank) { return source_worker(rank) == worker; });
      for (const Piece& piece : from_.shards[shard].pieces)
        if (held && !piece.box.empty()) boxes.push_back({&piece.box, true});
    }
    if (const auto pair = find_overlap(boxes)) {
      const auto [low, high] = std::minmax(pair->first, pair->second);
      return wrong(*pulls[low], high < pulls.size() ? fmt::format("worker {} pulls it twice", worker.value())
                                                    : fmt::format("worker {} pulls what it holds", worker.value()));
    }
  }
  return {};
}

// A relay reads what remote copies wrote into its source. `copies` are ascending by (device, shard).
Result<void> TensorChecker::check_relays(const std::vector<const Copy*>& copies) const {
  for (const Copy* copy : copies) {
    if (copy->route != Route::kRelay) continue;
    const auto key = std::pair(copy->source_device, copy->source_shard);
    auto writer = std::lower_bound(copies.begin(), copies.end(), key,
                                   [](const Copy* a, const auto& b) { return sub_tensor_key(*a) < b; });
    std::int64_t elements = 0;
    for (; writer != copies.end() && sub_tensor_key(**writer) == key; ++writer)
      if ((*writer)->route == Route::kRemote)
        if (const auto common = intersect((*writer)->target.box, copy->source.box)) elements += volume(*common);
    if (elements != volume(copy->source.box)) return wrong(*copy, "a relay of elements that its source does not pull");
  }
  return {};
}

Result<void> TensorChecker::check(const std::vector<const Copy*>& given) {
  std::vector<const Copy*> copies = given;
  for (const Copy* copy : copies) {
    TENPLEX_TRY(check_target_holder(*copy));
    TENPLEX_TRY(check_source_holder(*copy));
    TENPLEX_TRY(check_boxes(*copy));
    TENPLEX_TRY(check_route(*copy));
  }
  const auto by_sub_tensor = [](const Copy* a, const Copy* b) { return sub_tensor_key(*a) < sub_tensor_key(*b); };
  if (!std::is_sorted(copies.begin(), copies.end(), by_sub_tensor))
    std::sort(copies.begin(), copies.end(), by_sub_tensor);
  const Copy* const* const end = copies.data() + copies.size();
  for (const Copy* const* first = copies.data(); first != end;) {
    const Copy* const* last = first;
    while (last != end && sub_tensor_key(**last) == sub_tensor_key(**first)) ++last;
    TENPLEX_TRY(check_sub_tensor(first, last));
    first = last;
  }
  TENPLEX_TRY(check_all_filled(copies));
  TENPLEX_TRY(check_relays(copies));
  if (input_.baseline == Baseline::kFull) return {};
  const auto by_worker = [](const Copy* a, const Copy* b) { return a->target_worker < b->target_worker; };
  if (!std::is_sorted(copies.begin(), copies.end(), by_worker)) std::sort(copies.begin(), copies.end(), by_worker);
  return check_pulls(copies);
}

std::int64_t TensorChecker::bytes_to_gather() const {
  if (from_.overlapping) return -1;
  std::int64_t elements = 0;
  for (std::size_t shard = 0; shard < from_.shards.size(); ++shard) {
    const auto& holders = from_.holders[shard];
    const bool there = std::any_of(holders.begin(), holders.end(),
                                   [&](DeviceId rank) { return source_worker(rank) == input_.central; });
    if (!there) elements += from_.elements[shard];
  }
  return packed_bytes(input_.target->tensors()[target_.index()].dtype, elements).value_or(-1);
}

}  // namespace tenplex
