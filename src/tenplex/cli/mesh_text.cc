// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/mesh_text.h"

#include "tenplex/base/printable.h"

namespace tenplex::cli {

std::string mesh_text(const std::vector<std::pair<std::string, std::int64_t>>& mesh) {
  std::string text;
  for (const auto& [axis, size] : mesh)
    text += (text.empty() ? "" : ", ") + printable_name(axis) + "=" + std::to_string(size);
  return text.empty() ? "one device" : text;
}

}  // namespace tenplex::cli
