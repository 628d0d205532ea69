// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Base64 with padding (RFC 4648, section 4), for bytes inside JSON. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tenplex {

std::string to_base64(std::string_view bytes);

/// Nothing if the text is not exactly what to_base64() would have written.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace tenplex
