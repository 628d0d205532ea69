// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// A folder as the input of a fuzzer: for every file its name, a line end, its length (u16, little-endian) and that many
// bytes. A file that starts with 0x80 is a data.pkl, and an archive of torch.save is made around it.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "tenplex/io/path.h"
#include "tenplex/io/testing/memory_file_system.h"
#include "torch_archive.h"

namespace tenplex {

/// Puts the next file below `root`, or passes it over where its name is none. False after the last file.
inline bool take_file(std::string_view* rest, const std::string& root, int storages, MemoryFileSystem* files) {
  const std::size_t line = rest->find('\n');
  if (line == std::string_view::npos || rest->size() - line < 3) return false;
  const std::string_view name = rest->substr(0, line);
  const auto byte = [&](std::size_t at) { return static_cast<std::size_t>(static_cast<unsigned char>((*rest)[at])); };
  const std::size_t size = std::min(byte(line + 1) | byte(line + 2) << 8, rest->size() - line - 3);
  std::string content(rest->substr(line + 3, size));
  rest->remove_prefix(line + 3 + size);
  const auto path = checked_join(root, name);
  if (!path || files->status(*path)) return true;
  // No file is where a folder has to be.
  for (std::size_t at = path->find('/', root.size() + 1); at != std::string::npos; at = path->find('/', at + 1)) {
    const auto status = files->status(path->substr(0, at));
    if (status && status->kind != FileKind::kFolder) return true;
  }
  if (content.starts_with('\x80')) content = archive_around(std::move(content), "", storages);
  files->put_file(*path, std::move(content));
  return true;
}

}  // namespace tenplex
