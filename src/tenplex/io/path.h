// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Parts of '/'-separated paths, as text; nothing is looked up.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tenplex {

/// "a/b/c" → "a/b"; "/a" → "/"; "a" → ".". Slashes at the end do not count.
std::string parent_path(std::string_view path);

/// "a/b/c/" → "c"; "/" → "/".
std::string last_component(std::string_view path);

/// `path` without slashes at its end; "/" stays.
std::string without_trailing_slashes(std::string_view path);

/// The non-empty components: "/a//b/" → {"a", "b"}. "." and ".." are kept.
std::vector<std::string> path_components(std::string_view path);

}  // namespace tenplex
