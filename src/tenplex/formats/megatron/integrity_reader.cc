// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/integrity_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/formats/manifest/manifest.h"
#include "tenplex/formats/megatron/backend_file.h"
#include "tenplex/formats/megatron/common_state.h"
#include "tenplex/formats/megatron/integrity_file.h"
#include "tenplex/formats/member_file.h"

namespace tenplex::megatron {
namespace {

class IntegrityReader final : public CheckpointReader {
 public:
  IntegrityReader(FileSystem& files, std::string folder, bool follow_links, JsonTexts sums,
                  std::unique_ptr<CheckpointReader> reader)
      : files_(files),
        folder_(std::move(folder)),
        follow_links_(follow_links),
        sums_(std::move(sums)),
        reader_(std::move(reader)) {}

  const CheckpointInfo& info() const override { return reader_->info(); }
  Result<const ByteSource*> file(std::int32_t index) const override { return reader_->file(index); }
  Result<ChunkLocation> locate(std::size_t index) const override { return reader_->locate(index); }
  Result<std::string> read_extra_file(const ExtraFile& file) const override { return reader_->read_extra_file(file); }
  Result<void> check_unchanged() const override { return reader_->check_unchanged(); }

  Result<void> check_files(Progress& progress) const override {
    std::int64_t total = 0;
    for (const auto& [name, sum] : sums_) {
      TENPLEX_ASSIGN_OR_RETURN(const auto source, open_member(files_, folder_, name, follow_links_));
      total += source->size();
    }
    progress.start_phase("integrity", total);
    for (const auto& [name, sum] : sums_) {
      TENPLEX_ASSIGN_OR_RETURN(const auto source, open_member(files_, folder_, name, follow_links_));
      auto found = sum_of_file(*source, progress).with_context(fmt::format("'{}'", name));
      if (!found) return std::move(found).error();
      if (*found != sum)
        return corrupt(fmt::format("file '{}': its SHA-256 is {}, integrity.json says {}", name, *found, sum));
    }
    return {};
  }

 private:
  FileSystem& files_;
  std::string folder_;
  bool follow_links_;
  JsonTexts sums_;
  std::unique_ptr<CheckpointReader> reader_;
};

bool is_of_format(std::string_view name) {
  return name == ".metadata" || name == kBackendFileName || name == kCommonFileName || name == kManifestName ||
         name.ends_with(".distcp");
}

Result<void> check_names(FileSystem& files, const std::string& folder, bool follow_links, const JsonTexts& sums) {
  std::vector<std::string_view> listed;
  listed.reserve(sums.size());
  for (const auto& [name, sum] : sums) {
    listed.push_back(name);
    const auto source = open_member(files, folder, name, follow_links);
    if (source) continue;
    if (source.error().code() != ErrorCode::kNotFound) return source.error();
    return corrupt(fmt::format("file '{}' is listed and not there", name));
  }
  std::sort(listed.begin(), listed.end());
  TENPLEX_ASSIGN_OR_RETURN(const auto entries, files.list(folder));
  for (const FolderEntry& entry : entries)
    if (is_of_format(entry.name) && !std::binary_search(listed.begin(), listed.end(), entry.name))
      return corrupt(fmt::format("file '{}' is there and not listed", entry.name));
  return {};
}

}  // namespace

bool has_integrity(FileSystem& files, const std::string& folder) {
  return files.status(fmt::format("{}/{}", folder, kIntegrityName)).has_value();
}

Result<std::unique_ptr<CheckpointReader>> with_integrity(FileSystem& files, const std::string& folder,
                                                         const ReadOptions& options,
                                                         std::unique_ptr<CheckpointReader> reader) {
  TENPLEX_ASSIGN_OR_RETURN(const auto source,
                           open_member(files, folder, std::string(kIntegrityName), options.follow_links));
  if (source->size() > options.max_metadata_bytes) return resource_exhausted("integrity.json is too large");
  TENPLEX_ASSIGN_OR_RETURN(const std::string text, read_string(*source, 0, source->size()));
  TENPLEX_ASSIGN_OR_RETURN(JsonTexts sums, decode_integrity(text));
  TENPLEX_TRY(check_names(files, folder, options.follow_links, sums));
  return std::unique_ptr<CheckpointReader>(
      std::make_unique<IntegrityReader>(files, folder, options.follow_links, std::move(sums), std::move(reader)));
}

}  // namespace tenplex::megatron
