// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/layout_sizes.h"

#include <fmt/format.h>

#include "tenplex/base/checked.h"

namespace tenplex {

std::optional<std::int64_t> LayoutSizes::find(std::string_view name) const {
  for (const NamedSizes* sizes : {&given_, &layout_.rules().sizes})
    for (const auto& [known, value] : *sizes)
      if (known == name) return value;
  return std::nullopt;
}

Result<std::int64_t> LayoutSizes::value_of(const Size& size, const Mesh* axes) const {
  if (size.name.empty()) return size.value;
  if (const auto value = find(size.name)) return *value;
  if (axes != nullptr) {
    if (const auto axis = axes->find(size.name)) return axes->axes()[*axis].size;
  }
  return invalid_argument(fmt::format("size '{}' has no value; give it one under 'sizes:' in the layout", size.name));
}

Result<std::vector<std::int64_t>> LayoutSizes::values_of(std::span<const Size> sizes) const {
  std::vector<std::int64_t> values;
  for (const Size& size : sizes) {
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t value, value_of(size, nullptr));
    values.push_back(value);
  }
  return values;
}

Result<std::int64_t> LayoutSizes::product_of(std::span<const Size> sizes, const Mesh& axes) const {
  std::int64_t product = 1;
  for (const Size& size : sizes) {
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t value, value_of(size, &axes));
    if (value < 1) return invalid_argument(fmt::format("'multiple_of' must be at least 1, found {}", value));
    const auto next = checked_mul(product, value);
    if (!next) return out_of_range("the product of 'multiple_of' exceeds 2^63");
    product = *next;
  }
  return product;
}

Result<std::int64_t> LayoutSizes::padded_extent(const PadRule& pad, std::int64_t data, const Mesh& axes) const {
  TENPLEX_ASSIGN_OR_RETURN(const std::int64_t multiple, product_of(pad.multiple_of, axes));
  const auto padded = checked_mul(ceil_div(data, multiple), multiple);
  if (!padded) return out_of_range("the padded extent exceeds 2^63");
  return *padded;
}

}  // namespace tenplex
