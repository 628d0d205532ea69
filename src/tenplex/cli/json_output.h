// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// JSON as the program prints it: indented, keys in the order they were added, bytes that are not UTF-8 replaced.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tenplex::cli {

using Json = nlohmann::ordered_json;

inline std::string dump(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace tenplex::cli
