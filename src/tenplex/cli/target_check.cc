// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/target_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "tenplex/base/counted.h"
#include "tenplex/base/printable.h"
#include "tenplex/formats/other_files.h"
#include "tenplex/formats/whole_tensor.h"

namespace tenplex::cli {
namespace {

/// The path without links, "." and ".."; what does not exist is kept as it is written.
std::filesystem::path real_path(const std::string& path) {
  std::error_code ignored;
  auto real = std::filesystem::weakly_canonical(path, ignored);
  if (ignored) return path;
  return real.has_filename() ? real : real.parent_path();
}

bool lies_in(const std::filesystem::path& inner, const std::filesystem::path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

bool is_empty_folder(FileSystem& files, const std::string& path) {
  const auto entries = files.list(path);
  return entries && entries->empty();
}

bool is_checkpoint(FileSystem& files, const std::string& path) {
  const auto all = formats();
  return std::any_of(all.begin(), all.end(), [&](const Format& format) { return format.detect(files, path); });
}

/// The first tensor that is in pieces, or nothing.
std::optional<TensorId> first_cut(const Collection& collection) {
  for (std::size_t index = 0; index < collection.tensors().size(); ++index)
    if (!is_whole(collection, TensorId(index))) return TensorId(index);
  return std::nullopt;
}

bool is_safetensors_folder(const Format& format, const Collection& target) {
  return format.name == "safetensors" && (target.device_count() > 1 || first_cut(target));
}

}  // namespace

Result<void> check_target(FileSystem& files, const std::string& source, const std::string& target, bool overwrite) {
  if (source.empty() || target.empty())
    return invalid_argument(fmt::format("the name of the {} is empty", source.empty() ? "source" : "target"));
  const auto real_source = real_path(source);
  const auto real_target = real_path(target);
  if (real_source == real_target) return invalid_argument(fmt::format("source and target are the same: '{}'", target));
  if (lies_in(real_source, real_target))
    return invalid_argument(fmt::format("the source '{}' lies in the target '{}'", source, target));
  if (lies_in(real_target, real_source))
    return invalid_argument(fmt::format("the target '{}' lies in the source '{}'", target, source));
  const auto status = files.status(target);
  if (!status) return {};
  if (!overwrite) return already_exists(fmt::format("'{}' exists already; --overwrite replaces it", target));
  if (is_empty_folder(files, target)) return {};
  if (!is_checkpoint(files, target))
    return invalid_argument(fmt::format("'{}' is no checkpoint; --overwrite replaces only checkpoints", target));
  return {};
}

Result<void> check_replaced(FileSystem& files, const std::string& target, const std::vector<ExtraFile>& rewritten,
                            const ReadOptions& reading) {
  const auto status = files.status(target);
  if (!status || is_empty_folder(files, target)) return {};
  const auto held = open_checkpoint(files, target, reading);
  if (!held)
    return invalid_argument(
        fmt::format("--overwrite replaces only what it can read as a checkpoint; remove '{}' yourself if nothing in it "
                    "is needed: {}",
                    target, held.error().to_string()));
  if (status->kind != FileKind::kFolder) return {};
  TENPLEX_ASSIGN_OR_RETURN(std::vector<std::string> others, other_files(files, target, (*held)->info()));
  std::erase_if(others, [&rewritten](const std::string& path) {
    return std::any_of(rewritten.begin(), rewritten.end(), [&path](const auto& file) { return file.path == path; });
  });
  if (others.empty()) return {};
  return invalid_argument(fmt::format(
      "--overwrite would remove {} of '{}' that {} no part of the checkpoint, the first is '{}': move or remove "
      "them yourself",
      counted(others.size(), "file"), target, others.size() == 1 ? "is" : "are", others.front()));
}

Result<void> check_source_stays(const CheckpointReader& source, const std::string& source_path,
                                const std::string& target) {
  const auto real_target = real_path(target);
  const auto check = [&](const std::string& path) -> Result<void> {
    if (!lies_in(real_path(path), real_target)) return {};
    return invalid_argument(
        fmt::format("'{}' of the source is a link to what lies in the target '{}', which --overwrite removes",
                    printable_name(path), target));
  };
  const CheckpointInfo& info = source.info();
  for (std::size_t index = 0; index < info.files.size(); ++index) {
    TENPLEX_ASSIGN_OR_RETURN(const ByteSource* const file, source.file(static_cast<std::int32_t>(index)));
    TENPLEX_TRY(check(file->name()));
  }
  for (const ExtraFile& extra : info.extra_files) TENPLEX_TRY(check(fmt::format("{}/{}", source_path, extra.path)));
  return {};
}

Result<void> check_target_name(const std::string& path, const Format& format, const Collection& target) {
  if (!path.ends_with(".safetensors") || !is_safetensors_folder(format, target)) return {};
  const std::string reason =
      target.device_count() > 1
          ? fmt::format("a target on {} is a folder", counted(target.device_count(), "device"))
          : fmt::format("tensor '{}' is in pieces with this layout, which makes the target a folder",
                        target.tensors()[first_cut(target)->index()].name);
  return invalid_argument(fmt::format(
      "'{}' is the name of one file of whole tensors, and {}: give a name that does not end in '.safetensors'", path,
      reason));
}

Result<void> check_objects_folder(FileSystem& files, const std::string& objects_folder, const std::string& source,
                                  const std::string& source_format, const Format& format, const Collection& target) {
  if (objects_folder.empty()) return {};
  const bool reads = source_format == "hf" || (source_format == "safetensors" && !files.list(source));
  const bool folder = is_safetensors_folder(format, target);
  if (reads || (format.name == "safetensors" && !folder)) return {};
  return invalid_argument(
      fmt::format("--objects is for what a single safetensors file cannot hold, and the target is {}: leave it out",
                  folder ? "a folder, which has 'objects' of its own" : fmt::format("of format '{}'", format.name)));
}

}  // namespace tenplex::cli
