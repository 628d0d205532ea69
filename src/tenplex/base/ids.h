// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Ids that the compiler keeps apart: a DeviceId does not convert to a WorkerId or to an integer.
//
//   DeviceId  rank in the job's mesh, 0-based (not a GPU ordinal)
//   WorkerId  index of one host in the roster, 0-based
//   TensorId  index of a tensor in its collection, 0-based
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace tenplex {

template <typename Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(std::int32_t value) : value_(value) {}
  constexpr explicit Id(std::size_t value) : value_(static_cast<std::int32_t>(value)) {}

  constexpr std::int32_t value() const { return value_; }
  constexpr std::size_t index() const { return static_cast<std::size_t>(value_); }

  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  std::int32_t value_ = 0;
};

using DeviceId = Id<struct DeviceTag>;
using WorkerId = Id<struct WorkerTag>;
using TensorId = Id<struct TensorTag>;

}  // namespace tenplex

template <typename Tag>
struct std::hash<tenplex::Id<Tag>> {
  std::size_t operator()(tenplex::Id<Tag> id) const noexcept { return std::hash<std::int32_t>{}(id.value()); }
};
