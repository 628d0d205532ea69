// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// TensorChecker: proves the copies of one tensor. Part of check.h; see there.
//
// Resource. Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tenplex/plan/plan.h"

namespace tenplex {

class TensorChecker {
 public:
  explicit TensorChecker(const PlanInput& input) : input_(input) {}

  /// Makes a pair of tensors the one at hand. Errors: the ids do not exist, or name, dtype or shape differ.
  Result<void> load(TensorId source, TensorId target);

  /// Proves that `copies`, all of the tensor at hand, are what the target needs. They may be in any order.
  Result<void> check(const std::vector<const Copy*>& copies);

  /// True if another pair of tensors has, shard by shard, the boxes, addresses and holders of the pair at hand. Asks
  /// the collections for every shard and trusts no key. Requires: the tensors exist.
  bool is_cut_alike(TensorId source, TensorId target) const;

  /// Proves of one copy that its source is held as it says.
  Result<void> check_source_holder(const Copy& copy) const;

  /// kCentral: bytes of all source elements that the central worker lacks; −1 if shards overlap.
  std::int64_t bytes_to_gather() const;

 private:
  struct Cut {
    std::vector<SubTensor> shards;
    std::vector<std::vector<DeviceId>> holders;
    std::vector<std::int64_t> elements;
    std::vector<std::size_t> sorted;  // shards by their first box
    bool overlapping = false;
  };

  void read(const Collection& collection, TensorId tensor, Cut* cut) const;
  static bool is_same(const Cut& cut, const Collection& collection, TensorId tensor);
  WorkerId source_worker(DeviceId rank) const;
  WorkerId target_worker(DeviceId rank) const;
  Result<void> check_target_holder(const Copy& copy) const;
  Result<void> check_boxes(const Copy& copy);
  Result<void> check_route(const Copy& copy) const;
  Result<void> check_sub_tensor(const Copy* const* begin, const Copy* const* end);
  Result<void> check_class(const Copy* const* begin, const Copy* const* end);
  Result<void> check_all_filled(const std::vector<const Copy*>& copies) const;
  Result<void> check_pulls(const std::vector<const Copy*>& copies) const;
  Result<void> check_relays(const std::vector<const Copy*>& copies) const;
  std::int64_t find_twin(const SubTensor& shard) const;
  bool one_source_has(std::size_t target_shard) const;
  Error wrong(const Copy& copy, const std::string& what) const;

  const PlanInput& input_;
  TensorId source_;
  TensorId target_;
  Cut from_;
  Cut to_;
  std::vector<std::int8_t>
      split_;                    // per target shard: 1 = one source shard has it all, 0 = none has, −1 = not yet known
  std::size_t source_hint_ = 0;  // pieces that the last copy was found in
  std::size_t target_hint_ = 0;
};

}  // namespace tenplex
