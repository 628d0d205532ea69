// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/sources.h"

#include <algorithm>
#include <numeric>

namespace tenplex {
namespace {

/// A step through [0, total) that visits every position once and spreads any run of visits evenly.
std::int64_t spreading_step(std::int64_t total) {
  auto step = std::max<std::int64_t>(total * 618 / 1000, 1);
  while (std::gcd(step, total) != 1) ++step;
  return step;
}

/// The dimension along which a box is divided among `parts`: the outermost one that is long enough for fair shares.
int dividing_dim(const Box& box, std::int64_t parts, DType dtype) {
  const int dims = is_sub_byte(dtype) ? box.rank() - 1 : box.rank();  // rows of packed elements stay whole
  int longest = -1;
  for (int dim = 0; dim < dims; ++dim) {
    if (box.extent[dim] >= 8 * parts) return dim;
    if (longest < 0 || box.extent[dim] > box.extent[longest]) longest = dim;
  }
  return longest;
}

/// value · part / whole without overflow.
std::int64_t proportion(std::int64_t value, std::int64_t part, std::int64_t whole) {
  return value / whole * part + value % whole * part / whole;
}

}  // namespace

std::vector<std::int64_t> link_weights(const Topology& topology) {
  std::int64_t divisor = 0;
  std::int64_t largest = 1;
  for (const Worker& worker : topology.workers()) {
    divisor = std::gcd(divisor, worker.out_bytes_per_second);
    largest = std::max(largest, worker.out_bytes_per_second);
  }
  constexpr std::int64_t kLargestWeight = 1024;
  std::vector<std::int64_t> weights;
  for (const Worker& worker : topology.workers()) {
    const std::int64_t exact = worker.out_bytes_per_second / std::max<std::int64_t>(divisor, 1);
    const bool fits = largest / std::max<std::int64_t>(divisor, 1) <= kLargestWeight;
    const auto scaled = static_cast<std::int64_t>(static_cast<double>(worker.out_bytes_per_second) /
                                                  static_cast<double>(largest) * double{kLargestWeight});
    weights.push_back(fits ? exact : std::max<std::int64_t>(scaled, 1));
  }
  return weights;
}

SourceChooser::SourceChooser(const PlanInput& input, const CutPair& cut, std::span<const std::int64_t> weights)
    : input_(input), cut_(cut), weights_(weights) {}

bool SourceChooser::near_holder(std::int64_t source, WorkerId receiver) const {
  const int group = input_.topology->group_of(receiver);
  const auto workers = cut_.source_holders->workers(source);
  return std::any_of(workers.begin(), workers.end(), [&](const Holder& holder) {
    return holder.worker != receiver && input_.topology->group_of(holder.worker) == group;
  });
}

SourceChooser::Pulls SourceChooser::number_pulls(std::int64_t source) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> needs;  // target shard, elements
  std::vector<std::uint32_t> hits;
  for (std::uint32_t entry = cut_.source->first_entry(source); entry < cut_.source->end_entry(source); ++entry) {
    const Box& box = cut_.source->box(entry);
    cut_.target->find(box, &hits);
    for (const std::uint32_t hit : hits)
      needs.emplace_back(cut_.target->shard_of(hit), volume(*intersect(box, cut_.target->box(hit))));
  }
  std::sort(needs.begin(), needs.end());
  Pulls pulls;
  std::int64_t first_elements = -1;
  for (auto need = needs.begin(); need != needs.end();) {
    const std::int64_t target = need->first;
    std::int64_t elements = 0;
    for (; need != needs.end() && need->first == target; ++need) elements += need->second;
    if (first_elements < 0) first_elements = elements;
    pulls.even = pulls.even && elements == first_elements;
    for (const Holder& receiver : cut_.target_holders->workers(target)) {
      if (input_.baseline != Baseline::kFull && cut_.source_holders->on_worker(source, receiver.worker, DeviceId(0)))
        continue;
      const int scope = near_holder(source, receiver.worker) ? input_.topology->group_of(receiver.worker) : -1;
      pulls.list.push_back({target, receiver.worker, scope, pulls.count[scope]++});
    }
  }
  return pulls;
}

const SourceChooser::Pulls& SourceChooser::pulls_of(std::int64_t source) {
  const auto found = pulls_.find(source);
  return found != pulls_.end() ? found->second : pulls_.emplace(source, number_pulls(source)).first->second;
}

void SourceChooser::find_candidates(WorkerId receiver, std::int64_t source) {
  const bool near = near_holder(source, receiver);
  const int group = input_.topology->group_of(receiver);
  candidates_.clear();
  ends_.clear();
  alike_ = true;
  const auto workers = cut_.source_holders->workers(source);
  for (const Holder& holder : workers) {
    if (workers.size() > 1 && holder.worker == receiver) continue;
    if (near && input_.topology->group_of(holder.worker) != group) continue;
    const std::int64_t weight = weights_[holder.worker.index()];
    candidates_.push_back(holder);
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + weight);
    alike_ = alike_ && weight == ends_.front();
  }
}

Holder SourceChooser::at_turn(std::int64_t turn) const {
  const std::int64_t total = ends_.back();
  if (alike_) return candidates_[static_cast<std::size_t>(turn) % candidates_.size()];
  const std::int64_t position = turn % total * spreading_step(total) % total;
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), position);
  return candidates_[static_cast<std::size_t>(end - ends_.begin())];
}

void SourceChooser::divide(const Box& box, int dim, std::int64_t first, std::vector<Slice>* slices) const {
  const std::size_t count = candidates_.size();
  const std::int64_t total = ends_.back();
  std::int64_t weight = 0;
  std::int64_t begin = 0;
  for (std::size_t step = 0; step < count; ++step) {
    const std::size_t index = (static_cast<std::size_t>(first) + step) % count;
    weight += weights_[candidates_[index].worker.index()];
    const std::int64_t end = proportion(box.extent[dim], weight, total);
    if (end == begin) continue;
    Slice slice{box, candidates_[index], {}};
    slice.box.offset[dim] += begin;
    slice.box.extent[dim] = end - begin;
    slices->push_back(std::move(slice));
    begin = end;
  }
}

void SourceChooser::choose(WorkerId receiver, std::int64_t source, std::int64_t target, const Box& box,
                           std::int64_t bytes, std::vector<Slice>* slices) {
  slices->clear();
  find_candidates(receiver, source);
  if (candidates_.size() == 1) {
    slices->push_back({box, candidates_[0], {}});
    return;
  }
  const Pulls& pulls = pulls_of(source);
  const auto pull = std::lower_bound(
      pulls.list.begin(), pulls.list.end(), std::pair(target, receiver),
      [](const Pull& a, const std::pair<std::int64_t, WorkerId>& b) { return std::pair(a.target, a.receiver) < b; });
  TENPLEX_CHECK(pull != pulls.list.end() && pull->target == target && pull->receiver == receiver);
  const std::int64_t per_tensor = pulls.count.at(pull->scope);
  const auto tensors = static_cast<std::int64_t>(cut_.tensors);
  const std::int64_t total = ends_.back();
  const bool comes_out_even = pulls.even && per_tensor * tensors % total == 0;
  const auto holders = static_cast<std::int64_t>(candidates_.size());
  const std::int64_t first = cut_.group + source + pull->ordinal;
  if (!comes_out_even && per_tensor * tensors < 2 * total && bytes / holders >= input_.slice_bytes) {
    const int dim = dividing_dim(box, holders, cut_.dtype);
    if (dim >= 0 && box.extent[dim] > 1) return divide(box, dim, first, slices);
  }
  Slice slice{box, at_turn(first), {}};
  if (per_tensor % total != 0)
    for (std::int64_t tensor = 0; tensor < tensors && tensors > 1; ++tensor)
      slice.by_tensor.push_back(at_turn(first + tensor * per_tensor));
  slices->push_back(std::move(slice));
}

}  // namespace tenplex
