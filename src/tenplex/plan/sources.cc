// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/sources.h"

#include <algorithm>
#include <utility>

#include "tenplex/base/check.h"
#include "tenplex/base/checked.h"

namespace tenplex {
namespace {

/// A slice that takes a thousandth of a second or longer is worth a request of its own, however few its bytes.
constexpr std::int64_t kSlicesPerSecond = 1000;

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

}  // namespace

SourceChooser::SourceChooser(const PlanInput& input, const CutPair& cut) : input_(input), cut_(cut) {}

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
  bandwidths_.clear();
  const auto workers = cut_.source_holders->workers(source);
  for (const Holder& holder : workers) {
    if (workers.size() > 1 && holder.worker == receiver) continue;
    if (near && input_.topology->group_of(holder.worker) != group) continue;
    candidates_.push_back(holder);
    bandwidths_.push_back(input_.topology->worker(holder.worker).out_bytes_per_second);
  }
}

/// True if the slices are large, or take long: each link is busy for as long as all of them with all bytes.
bool SourceChooser::is_worth_dividing(std::int64_t bytes) const {
  if (bytes / static_cast<std::int64_t>(candidates_.size()) >= input_.slice_bytes) return true;
  std::int64_t together = 0;  // bytes per second
  for (const std::int64_t bandwidth : bandwidths_) {
    const auto sum = checked_add(together, bandwidth);
    if (!sum) return false;
    together = *sum;
  }
  return bytes >= ceil_div(together, kSlicesPerSecond);
}

void SourceChooser::divide(const Box& box, int dim, std::int64_t first, std::vector<Slice>* slices) {
  const std::size_t count = candidates_.size();
  const std::size_t start = static_cast<std::size_t>(first) % count;
  const auto lengths = turns_.count(box.extent[dim], start);
  std::int64_t begin = 0;
  for (std::size_t step = 0; step < count; ++step) {
    const std::size_t index = (start + step) % count;
    if (lengths[index] == 0) continue;
    Slice slice{box, candidates_[index], {}};
    slice.box.offset[dim] += begin;
    slice.box.extent[dim] = lengths[index];
    slices->push_back(std::move(slice));
    begin += lengths[index];
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
  turns_.set_bandwidths(bandwidths_);
  const bool comes_out_even = pulls.even && per_tensor * tensors % turns_.round() == 0;
  const std::int64_t first = cut_.group + source + pull->ordinal;
  if (!comes_out_even && per_tensor * tensors < 2 * turns_.round() && is_worth_dividing(bytes)) {
    const int dim = dividing_dim(box, static_cast<std::int64_t>(candidates_.size()), cut_.dtype);
    if (dim >= 0 && box.extent[dim] > 1) return divide(box, dim, first, slices);
  }
  Slice slice{box, candidates_[turns_.holder_at(first)], {}};
  if (per_tensor % turns_.round() != 0)
    for (std::int64_t tensor = 0; tensor < tensors && tensors > 1; ++tensor)
      slice.by_tensor.push_back(candidates_[turns_.holder_at(first + tensor * per_tensor)]);
  slices->push_back(std::move(slice));
}

}  // namespace tenplex
