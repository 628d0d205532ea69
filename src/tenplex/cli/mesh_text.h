// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Mesh sizes as text: "tp=4, pp=2".
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tenplex::cli {

/// "one device" for an empty list.
std::string mesh_text(const std::vector<std::pair<std::string, std::int64_t>>& mesh);

}  // namespace tenplex::cli
