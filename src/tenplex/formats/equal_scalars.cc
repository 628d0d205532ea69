// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/equal_scalars.h"

#include <fmt/format.h>

#include <string>

#include "tenplex/formats/box_bytes.h"

namespace tenplex {

Result<void> check_equal_scalars(const CheckpointReader& reader,
                                 std::span<const std::pair<TensorId, TensorId>> kept_and_left_out) {
  if (kept_and_left_out.empty()) return {};
  const auto& tensors = reader.info().tensors;
  const BoxBytes bytes(reader);
  const auto value = [&](TensorId tensor) { return bytes.read(tensor, Box::whole(tensors[tensor.index()].shape)); };
  for (const auto& [kept, left_out] : kept_and_left_out) {
    TENPLEX_ASSIGN_OR_RETURN(const std::string first, value(kept));
    TENPLEX_ASSIGN_OR_RETURN(const std::string second, value(left_out));
    if (first != second || tensors[kept.index()].dtype != tensors[left_out.index()].dtype)
      return unsupported(fmt::format("'{}' and '{}' have different values and would become one number",
                                     tensors[kept.index()].name, tensors[left_out.index()].name));
  }
  return {};
}

}  // namespace tenplex
