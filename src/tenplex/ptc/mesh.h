// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Mesh: the devices of a job as a grid with named axes, the fastest index first.
//
//   axes [tp=2, pp=3]:  device = tp + 2·pp        device 5 has tp = 1, pp = 2
//
// A layout may name several meshes over the same devices (dense parameters and experts); an axis that two of them share
// has one size. Value types. Threads: as any value.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/base/ids.h"
#include "tenplex/base/result.h"

namespace tenplex {

inline constexpr std::int64_t kMaxDevices = std::int64_t{1} << 20;

/// Axis name and size, as given by a user; axes that are left out have size 1.
using MeshSizes = std::vector<std::pair<std::string, std::int64_t>>;

/// "heads=8,groups=2" as names and numbers, in order. `what` and `form` are what messages call the text and an entry of
/// it
/// ("mesh", "AXIS=SIZE"). Errors: invalid_argument.
Result<std::vector<std::pair<std::string, std::int64_t>>> parse_named_numbers(std::string_view text,
                                                                              std::string_view what,
                                                                              std::string_view form);

/// Reads "tp=2,pp=2"; "" names no axis. Errors: invalid_argument for anything else, an axis given twice or a size below
/// 1; out_of_range for a size above kMaxDevices. (Products are checked per mesh, by make_meshes().)
Result<MeshSizes> parse_mesh_sizes(std::string_view text);

/// "tp=2,pp=2".
std::string to_string(const MeshSizes& sizes);

class Mesh {
 public:
  struct Axis {
    std::string name;
    std::int64_t size = 1;
    std::int64_t stride = 1;  ///< step in device ids

    friend bool operator==(const Axis&, const Axis&) = default;
  };

  /// Errors: out_of_range if the product of the sizes exceeds kMaxDevices. Requires: distinct axis names, sizes >= 1.
  static Result<Mesh> make(std::string name, std::span<const std::string> axes, const MeshSizes& sizes);

  const std::string& name() const { return name_; }
  std::span<const Axis> axes() const { return axes_; }
  std::int64_t device_count() const { return device_count_; }
  /// Index into axes(), or nothing.
  std::optional<std::size_t> find(std::string_view axis) const;
  /// The device's index along one axis. Requires: device < device_count().
  std::int64_t coordinate(DeviceId device, std::size_t axis) const {
    return device.value() / axes_[axis].stride % axes_[axis].size;
  }
  /// One index per axis, in the order of axes().
  std::vector<std::int64_t> coordinates(DeviceId device) const;
  /// Requires: one index per axis, each inside its axis.
  DeviceId device(std::span<const std::int64_t> coordinates) const;

  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  std::string name_;
  std::vector<Axis> axes_;
  std::int64_t device_count_ = 1;
};

/// A mesh before its sizes are known.
struct MeshAxes {
  std::string name;
  std::vector<std::string> axes;  ///< fastest first

  friend bool operator==(const MeshAxes&, const MeshAxes&) = default;
};

/// The size of an axis that a user leaves out.
struct AxisDefault {
  std::string axis;
  std::string like;  ///< the size of this axis; empty: what the rest of its mesh leaves of the first mesh's devices
  int line = 0;

  friend bool operator==(const AxisDefault&, const AxisDefault&) = default;
};

/// `sizes` with those of axes that have a default. Errors: invalid_argument if a mesh does not divide the first one.
Result<MeshSizes> complete_sizes(std::span<const MeshAxes> meshes, std::span<const AxisDefault> defaults,
                                 const MeshSizes& sizes);

/// Gives every mesh its sizes. Errors: invalid_argument for an axis that no mesh has (the message lists those there
/// are), a size below 1, an axis given twice, or meshes that differ in their number of devices; out_of_range.
Result<std::vector<Mesh>> make_meshes(std::span<const MeshAxes> meshes, const MeshSizes& sizes);

}  // namespace tenplex
