// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether bytes are text. Pure. Threads: any.
#pragma once

#include <cstddef>
#include <string_view>

namespace tenplex {

/// Position of the first byte that is not well-formed UTF-8 (no surrogates, no overlong forms), or npos.
std::size_t find_invalid_utf8(std::string_view text);

}  // namespace tenplex
