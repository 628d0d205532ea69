// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "tenplex/plan/tensor_check.h"

namespace tenplex {
namespace {

/// The claims about bytes, and what the copies add up to.
struct ByteCount {
  std::vector<std::int64_t> remote;  // per receiving worker, by its remote copies
  std::int64_t gathered = 0;         // kCentral
  bool gathered_exactly = true;
};

Result<void> check_header(const PlanHeader& header, const PlanInput& input) {
  if (header.source != input.source->hash()) return invalid_argument("plan: source hash is not the source's");
  if (header.target != input.target->hash()) return invalid_argument("plan: target hash is not the target's");
  if (header.roster != roster_hash(*input.topology, input.placement))
    return invalid_argument("plan: roster hash is not that of this topology and placement");
  if (header.baseline != input.baseline) return invalid_argument("plan: baseline is not the one asked for");
  if (header.baseline == Baseline::kCentral && header.central != input.central)
    return invalid_argument("plan: central worker is not the one asked for");
  return {};
}

std::string name_of(const PlanInput& input, std::size_t object) { return input.target->objects()[object].name; }

Result<void> check_object(const ObjectCopy& copy, const PlanInput& input) {
  const auto number = static_cast<std::size_t>(copy.target_object);
  const std::string& name = input.target->objects()[number].name;
  const auto wrong = [&name](std::string_view what) {
    return invalid_argument(fmt::format("plan: object '{}': {}", name, what));
  };
  const auto sources = input.source->objects();
  if (copy.source_object < 0 || static_cast<std::size_t>(copy.source_object) >= sources.size() ||
      sources[static_cast<std::size_t>(copy.source_object)].name != name)
    return wrong("its source is another object");
  if (copy.source.device != sources[static_cast<std::size_t>(copy.source_object)].owner)
    return wrong("source device is not the owner");
  if (copy.target.device != input.target->objects()[number].owner) return wrong("target device is not the owner");
  const int from = input.placement.source_slots[copy.source.device.index()];
  const int to = input.placement.target_slots[copy.target.device.index()];
  if (copy.source.worker != input.topology->worker_of_slot(from)) return wrong("source worker is not the owner's");
  if (copy.target.worker != input.topology->worker_of_slot(to)) return wrong("target worker is not the owner's");
  Route route = Route::kRemote;
  if (copy.source.worker == copy.target.worker) route = Route::kLocal;
  if (from == to) route = Route::kAlias;
  if (copy.route != route)
    return wrong(fmt::format("route is {}, expected {}", to_string(copy.route), to_string(route)));
  return {};
}

Result<void> check_objects(const std::vector<ObjectCopy>& objects, const PlanInput& input) {
  std::vector<int> seen(input.target->objects().size());
  for (const ObjectCopy& copy : objects) {
    if (copy.target_object < 0 || static_cast<std::size_t>(copy.target_object) >= seen.size())
      return invalid_argument(fmt::format("plan: target object {} does not exist", copy.target_object));
    if (++seen[static_cast<std::size_t>(copy.target_object)] > 1)
      return invalid_argument(fmt::format("plan: object '{}' is copied twice",
                                          name_of(input, static_cast<std::size_t>(copy.target_object))));
    TENPLEX_TRY(check_object(copy, input));
  }
  for (std::size_t object = 0; object < seen.size(); ++object)
    if (seen[object] == 0)
      return invalid_argument(fmt::format("plan: object '{}' is not copied", name_of(input, object)));
  return {};
}

Result<void> check_bytes(WorkerId worker, std::int64_t bytes_in, std::int64_t bound, const ByteCount& count,
                         const PlanInput& input) {
  const bool gathers = input.baseline == Baseline::kCentral && worker == input.central;
  const std::int64_t expected = gathers ? count.gathered : count.remote[worker.index()];
  if (bytes_in != expected && !(gathers && !count.gathered_exactly))
    return invalid_argument(
        fmt::format("plan: worker {} receives {} bytes, but the plan says {}", worker.value(), expected, bytes_in));
  // The copies were proven to pull only what is needed and not held, each element once.
  if (input.baseline == Baseline::kNone ? bound != expected : bound > bytes_in)
    return invalid_argument(fmt::format("plan: worker {} has the bound of {} bytes, but the plan says {}",
                                        worker.value(), expected, bound));
  return {};
}

Error not_planned(const PlanInput& input, std::size_t tensor) {
  return invalid_argument(fmt::format("plan: tensor '{}' is not planned", input.target->tensors()[tensor].name));
}

void add_gathered(const TensorChecker& checker, std::int64_t tensors, ByteCount* count) {
  const std::int64_t bytes = checker.bytes_to_gather();
  count->gathered_exactly = count->gathered_exactly && bytes >= 0;
  count->gathered += bytes * tensors;
}

/// True if the tensor has an element that some target device holds.
bool has_elements(const PlanInput& input, TensorId tensor) {
  SubTensor shard;
  for (std::int64_t number = 0; number < input.target->shard_count(tensor); ++number) {
    input.target->shard(tensor, number, &shard);
    for (const Piece& piece : shard.pieces)
      if (!piece.box.empty()) return true;
  }
  return false;
}

Result<void> check_tensor_copies(const std::vector<const Copy*>& copies, TensorChecker* checker, ByteCount* count) {
  TENPLEX_TRY(checker->load(copies[0]->source_tensor, copies[0]->target_tensor));
  for (const Copy* copy : copies)
    if (copy->source_tensor != copies[0]->source_tensor)
      return invalid_argument(fmt::format("plan: target tensor {} is filled from tensors {} and {}",
                                          copy->target_tensor.value(), copies[0]->source_tensor.value(),
                                          copy->source_tensor.value()));
  TENPLEX_TRY(checker->check(copies));
  for (const Copy* copy : copies)
    if (copy->route == Route::kRemote) count->remote[copy->target_worker.index()] += copy->bytes;
  add_gathered(*checker, 1, count);
  return {};
}

/// Checks the further tensors of a group: cut alike, and with holders that hold.
Result<void> check_likeness(const Plan& plan, std::size_t group, const PlanInput& input, const TensorChecker& checker,
                            const std::vector<const PartGroup*>& parts) {
  const auto& tensors = plan.groups[group].tensors;
  const TensorId first_target = tensors[0].second;
  for (std::size_t tensor = 1; tensor < tensors.size(); ++tensor) {
    const auto [source, target] = tensors[tensor];
    if (source.value() < 0 || source.index() >= input.source->tensors().size() || target.value() < 0 ||
        target.index() >= input.target->tensors().size())
      return invalid_argument(fmt::format("plan: group {} has a tensor that does not exist", group));
    const TensorInfo& info = input.target->tensors()[target.index()];
    if (input.source->tensors()[source.index()] != info)
      return invalid_argument(fmt::format("plan: tensor '{}': its source differs in name, dtype or shape", info.name));
    const TensorInfo& first = input.target->tensors()[first_target.index()];
    if (info.dtype != first.dtype || info.shape != first.shape || !checker.is_cut_alike(source, target))
      return invalid_argument(
          fmt::format("plan: tensors '{}' and '{}' are in one group, but are not cut alike", first.name, info.name));
    Copy copy;
    for (const PartGroup* part : parts)
      for (std::size_t index = 0; part != nullptr && index < part->copies.size(); ++index) {
        if (!part->copies.takes_turns(index)) continue;
        part->copies.get(index, tensor, &copy);
        TENPLEX_TRY(checker.check_source_holder(copy));
        if (copy.source_worker == copy.target_worker && input.baseline == Baseline::kNone)
          return invalid_argument(fmt::format("plan: tensor '{}': a remote copy from the same worker", info.name));
      }
  }
  return {};
}

class PlanChecker {
 public:
  PlanChecker(const Plan& plan, const PlanInput& input)
      : plan_(plan), input_(input), checker_(input), next_(plan.parts.size()), sent_(plan.parts.size()) {
    count_.remote.resize(plan.parts.size());
  }

  Result<void> check_groups() {
    std::vector<bool> planned(input_.target->tensors().size());
    for (std::size_t group = 0; group < plan_.groups.size(); ++group) {
      if (plan_.groups[group].tensors.empty())
        return invalid_argument(fmt::format("plan: group {} has no tensor", group));
      TENPLEX_TRY(check_group(group));
      for (const auto& [source, target] : plan_.groups[group].tensors) {
        if (planned[target.index()])
          return invalid_argument(
              fmt::format("plan: tensor '{}' is planned twice", input_.target->tensors()[target.index()].name));
        planned[target.index()] = true;
      }
    }
    for (std::size_t tensor = 0; tensor < planned.size(); ++tensor)
      if (!planned[tensor]) return not_planned(input_, tensor);
    return check_parts();
  }

 private:
  Result<void> check_group(std::size_t group) {
    std::vector<const PartGroup*> parts(plan_.parts.size());
    std::size_t copy_count = 0;
    for (std::size_t worker = 0; worker < parts.size(); ++worker) {
      const auto& groups = plan_.parts[worker].groups;
      if (next_[worker] == groups.size() || groups[next_[worker]].group != static_cast<std::int32_t>(group)) continue;
      parts[worker] = &groups[next_[worker]++];
      copy_count += parts[worker]->copies.size();
    }
    if (copies_.size() < copy_count) copies_.resize(copy_count);
    TENPLEX_TRY(checker_.load(plan_.groups[group].tensors[0].first, plan_.groups[group].tensors[0].second));
    pointers_.clear();
    const auto tensors = static_cast<std::int64_t>(plan_.groups[group].tensors.size());
    for (std::size_t worker = 0; worker < parts.size(); ++worker) {
      if (parts[worker] == nullptr) continue;
      if (parts[worker]->copies.rank() !=
          input_.target->tensors()[plan_.groups[group].tensors[0].second.index()].shape.rank())
        return invalid_argument(fmt::format("plan: group {} has copies of another rank than its tensors", group));
      for (std::size_t index = 0; index < parts[worker]->copies.size(); ++index) {
        if (!parts[worker]->copies.has_turns(index, plan_.groups[group].tensors.size()))
          return invalid_argument(fmt::format("plan: group {} has more tensors than its copies have holders", group));
        Copy& copy = copies_[pointers_.size()];
        parts[worker]->copies.get(index, 0, &copy);
        copy.source_tensor = plan_.groups[group].tensors[0].first;
        copy.target_tensor = plan_.groups[group].tensors[0].second;
        if (copy.target_worker != WorkerId(worker))
          return invalid_argument(
              fmt::format("plan: the part of worker {} has a copy into worker {}", worker, copy.target_worker.value()));
        if (copy.route == Route::kRemote) count_.remote[worker] += copy.bytes * tensors;
        pointers_.push_back(&copy);
      }
    }
    TENPLEX_TRY(checker_.check(pointers_));
    add_gathered(checker_, tensors, &count_);
    return check_likeness(plan_, group, input_, checker_, parts);
  }

  Result<void> check_parts() {
    std::vector<ObjectCopy> objects;
    for (std::size_t worker = 0; worker < plan_.parts.size(); ++worker) {
      const WorkerPart& part = plan_.parts[worker];
      if (part.worker != WorkerId(worker) || next_[worker] != part.groups.size())
        return invalid_argument(
            fmt::format("plan: the part of worker {} has groups that do not exist or are out of order", worker));
      TENPLEX_TRY(check_bytes(part.worker, part.bytes_in, part.bytes_in_bound, count_, input_));
      TENPLEX_TRY(check_senders(part));
      objects.insert(objects.end(), part.objects.begin(), part.objects.end());
    }
    return check_objects(objects, input_);
  }

  Result<void> check_senders(const WorkerPart& part) {
    count_sent(part);
    auto checked = check_claims(part);
    for (const std::size_t worker : senders_) sent_[worker] = 0;
    senders_.clear();
    return checked;
  }

  bool gathers(const WorkerPart& part) const {
    return input_.baseline == Baseline::kCentral && part.worker == input_.central;
  }

  // Into sent_, which is 0 for all but senders_: a part has few of the workers.
  void count_sent(const WorkerPart& part) {
    if (gathers(part)) return;
    for (const PartGroup& group : part.groups) {
      const std::size_t tensors = plan_.groups[static_cast<std::size_t>(group.group)].tensors.size();
      for (std::size_t index = 0; index < group.copies.size(); ++index) {
        if (group.copies.route(index) != Route::kRemote) continue;
        for (std::size_t tensor = 0; tensor < tensors; ++tensor) {
          const bool central = input_.baseline == Baseline::kCentral;
          const std::size_t sender = (central ? input_.central : group.copies.holder(index, tensor).worker).index();
          if (sent_[sender] == 0) senders_.push_back(sender);
          sent_[sender] += group.copies.bytes(index);
        }
      }
    }
  }

  Result<void> check_claims(const WorkerPart& part) const {
    std::int64_t claimed = 0;
    for (const auto& [sender, bytes] : part.bytes_from) {
      claimed += bytes;
      if (sender.value() < 0 || sender.index() >= sent_.size())
        return invalid_argument(fmt::format("plan: worker {} does not exist", sender.value()));
      if (!gathers(part) && sent_[sender.index()] != bytes)
        return invalid_argument(fmt::format("plan: worker {} sends {} bytes to worker {}, but the plan says {}",
                                            sender.value(), sent_[sender.index()], part.worker.value(), bytes));
    }
    if (claimed != part.bytes_in)
      return invalid_argument(fmt::format("plan: the senders of worker {} send {} bytes, but the plan says {}",
                                          part.worker.value(), claimed, part.bytes_in));
    return {};
  }

  const Plan& plan_;
  const PlanInput& input_;
  TensorChecker checker_;
  std::vector<std::size_t> next_;  // per worker: the first group not yet seen
  ByteCount count_;
  std::vector<std::int64_t> sent_;    // per worker, to the part that is checked
  std::vector<std::size_t> senders_;  // whose entry in sent_ is not 0
  std::vector<Copy> copies_;
  std::vector<const Copy*> pointers_;
};

}  // namespace

Result<void> check(const ExplicitPlan& plan, const PlanInput& input) {
  TENPLEX_TRY(check_header(plan.header, input));
  const auto workers = static_cast<std::size_t>(input.topology->worker_count());
  if (plan.copies.size() != workers || plan.bytes_in.size() != workers || plan.bytes_in_bound.size() != workers)
    return invalid_argument(fmt::format("plan: expected {} workers, found {}", workers, plan.copies.size()));
  std::vector<std::vector<const Copy*>> of_tensor(input.target->tensors().size());
  for (std::size_t worker = 0; worker < workers; ++worker)
    for (const Copy& copy : plan.copies[worker]) {
      if (copy.target_tensor.value() < 0 || copy.target_tensor.index() >= of_tensor.size())
        return invalid_argument(fmt::format("plan: target tensor {} does not exist", copy.target_tensor.value()));
      if (copy.target_worker != WorkerId(worker))
        return invalid_argument(
            fmt::format("plan: the part of worker {} has a copy into worker {}", worker, copy.target_worker.value()));
      of_tensor[copy.target_tensor.index()].push_back(&copy);
    }
  TensorChecker checker(input);
  ByteCount count;
  count.remote.resize(workers);
  for (std::size_t tensor = 0; tensor < of_tensor.size(); ++tensor) {
    if (!of_tensor[tensor].empty()) {
      TENPLEX_TRY(check_tensor_copies(of_tensor[tensor], &checker, &count));
    } else if (has_elements(input, TensorId(tensor))) {
      return not_planned(input, tensor);
    }
  }
  for (std::size_t worker = 0; worker < workers; ++worker)
    TENPLEX_TRY(check_bytes(WorkerId(worker), plan.bytes_in[worker], plan.bytes_in_bound[worker], count, input));
  return check_objects(plan.objects, input);
}

Result<void> check(const Plan& plan, const PlanInput& input) {
  TENPLEX_TRY(check_header(plan.header, input));
  if (plan.parts.size() != static_cast<std::size_t>(input.topology->worker_count()))
    return invalid_argument(
        fmt::format("plan: expected {} workers, found {}", input.topology->worker_count(), plan.parts.size()));
  return PlanChecker(plan, input).check_groups();
}

}  // namespace tenplex
