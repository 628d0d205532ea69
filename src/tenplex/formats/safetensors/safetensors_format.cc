// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/safetensors/safetensors_format.h"

#include <array>

#include "tenplex/formats/manifest/manifest.h"
#include "tenplex/formats/safetensors/safetensors_reader.h"
#include "tenplex/formats/safetensors/safetensors_writer.h"

namespace tenplex {
namespace {

/// A plausible header length and a '{', or the name of a safetensors file (so that damage is reported as such).
bool looks_like_file(FileSystem& files, const std::string& path) {
  if (path.ends_with(".safetensors")) return true;
  const auto source = files.open(path);
  if (!source || (*source)->size() < 10) return false;
  std::array<std::byte, 9> start{};
  if (!(*source)->read_at(0, start)) return false;
  std::uint64_t length = 0;
  for (std::size_t k = 8; k-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(start.at(k));
  return start[8] == std::byte{'{'} && length <= static_cast<std::uint64_t>((*source)->size() - 8);
}

bool detect(FileSystem& files, const std::string& path) {
  const auto entries = files.list(path);
  if (!entries) return looks_like_file(files, path);
  if (files.status(path + "/" + std::string(kManifestName)).has_value()) return true;
  const auto names = safetensors::safetensors_files(files, path);
  return names.has_value() && !names->empty();
}

std::unique_ptr<CheckpointWriter> make_writer() { return std::make_unique<safetensors::SafetensorsWriter>(); }

}  // namespace

Format safetensors_format() {
  return {"safetensors", "one .safetensors file, or a folder with one per device and a manifest", detect,
          safetensors::open_safetensors, make_writer};
}

}  // namespace tenplex
