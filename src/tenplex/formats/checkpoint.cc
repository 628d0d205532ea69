// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/checkpoint.h"

#include <fmt/format.h>

#include <array>

#include "tenplex/formats/dcp/dcp_format.h"
#include "tenplex/formats/deepspeed/deepspeed_format.h"
#include "tenplex/formats/hf/hf_format.h"
#include "tenplex/formats/megatron/megatron_format.h"
#include "tenplex/formats/megatron_legacy/legacy_format.h"
#include "tenplex/formats/safetensors/safetensors_format.h"
#include "tenplex/formats/torch/torch_format.h"
#include "tenplex/formats/watched_reader.h"

namespace tenplex {
namespace {

constexpr std::size_t kSeenNames = 5;  // listed in an error

/// What a person would see there: "a file of 12 bytes", "a folder with 'a', 'b' and 3 more".
std::string describe(FileSystem& files, const std::string& path) {
  const auto entries = files.list(path);
  if (!entries) {
    const auto source = files.open(path);
    return source ? fmt::format("a file of {} bytes", (*source)->size()) : source.error().message();
  }
  if (entries->empty()) return "an empty folder";
  std::string text = "a folder with";
  for (std::size_t k = 0; k < entries->size() && k < kSeenNames; ++k)
    text += fmt::format("{} '{}'", k == 0 ? "" : ",", (*entries)[k].name);
  if (entries->size() > kSeenNames) text += fmt::format(" and {} more", entries->size() - kSeenNames);
  return text;
}

std::string format_names(bool written) {
  std::string names;
  for (const Format& format : formats()) {
    if (written && format.make_writer == nullptr) continue;
    if (!names.empty()) names += ", ";
    names += format.name;
  }
  return names;
}

}  // namespace

std::span<const Format> formats() {
  static const std::array kFormats = {megatron_dist_format(), megatron_legacy_format(), dcp_format(),      hf_format(),
                                      safetensors_format(),   torch_format(),           deepspeed_format()};
  return kFormats;
}

Result<std::unique_ptr<CheckpointReader>> open_checkpoint(FileSystem& files, const std::string& path,
                                                          const ReadOptions& options) {
  TENPLEX_TRY(files.status(path));
  for (const Format& format : formats()) {
    if (!format.detect(files, path)) continue;
    return open_watched(files, [&](FileSystem& watched) { return format.open(watched, path, options); });
  }
  return unsupported(fmt::format("{}: none of the formats {}: {}", path, format_names(false), describe(files, path)));
}

bool in_same_place(const CheckpointReader& reader, std::size_t first, std::size_t second) {
  const Chunk a = reader.info().chunks[first];
  const Chunk b = reader.info().chunks[second];
  if (a.file != b.file || a.position != b.position || a.box != b.box) return false;
  const auto one = reader.locate(first);
  const auto other = reader.locate(second);
  return one && other && one->offset_bytes == other->offset_bytes && one->strides == other->strides;
}

Result<const Format*> find_format(std::string_view name) {
  for (const Format& format : formats()) {
    if (format.name != name) continue;
    if (format.make_writer != nullptr) return &format;
    return invalid_argument(
        fmt::format("format '{}' is read, not written; give another one with --format: {}", name, format_names(true)));
  }
  return invalid_argument(fmt::format("unknown format '{}', expected one of {}", name, format_names(true)));
}

}  // namespace tenplex
