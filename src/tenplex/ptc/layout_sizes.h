// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// LayoutSizes: the numbers for the names that stand for sizes in a layout.
//
//   multiple_of: [128, heads, tp]    128; heads from the caller or `sizes:`; tp, else, from the mesh
//
// Borrows the layout. Threads: all calls are safe together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/ptc/layout.h"

namespace tenplex {

class LayoutSizes {
 public:
  /// `given` counts where the layout has the same name.
  explicit LayoutSizes(const Layout& layout, NamedSizes given = {}) : layout_(layout), given_(std::move(given)) {}

  /// The value of a name that is no axis, or nothing.
  std::optional<std::int64_t> find(std::string_view name) const;

  /// `axes` may be null: then no name is an axis. Errors: invalid_argument for a name without a value.
  Result<std::int64_t> value_of(const Size& size, const Mesh* axes) const;

  /// None of the names is an axis. Errors: as value_of().
  Result<std::vector<std::int64_t>> values_of(std::span<const Size> sizes) const;

  /// Errors: as value_of(); invalid_argument for a factor below 1 and a product above 2^63.
  Result<std::int64_t> product_of(std::span<const Size> sizes, const Mesh& axes) const;

  /// The extent to which `pad` pads `data` indices on that mesh. Errors: as product_of(); out_of_range.
  Result<std::int64_t> padded_extent(const PadRule& pad, std::int64_t data, const Mesh& axes) const;

 private:
  const Layout& layout_;
  const NamedSizes given_;
};

}  // namespace tenplex
