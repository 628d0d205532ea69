// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reading: `.metadata` and the objects are read by open(); a tensor's item is opened by locate(), each time it is
// asked.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "tenplex/base/counted.h"
#include "tenplex/base/freed_memory.h"
#include "tenplex/formats/dcp/catalog.h"
#include "tenplex/formats/dcp/dcp_format.h"
#include "tenplex/formats/dcp/folder.h"
#include "tenplex/formats/dcp/item_locator.h"
#include "tenplex/formats/dcp/metadata.h"
#include "tenplex/formats/dcp/side_file.h"
#include "tenplex/formats/dcp/state_builder.h"
#include "tenplex/formats/dcp/stored_ties.h"
#include "tenplex/formats/manifest/manifest.h"
#include "tenplex/formats/member_file.h"
#include "tenplex/formats/state/object_groups.h"

namespace tenplex {
namespace dcp {
namespace {

constexpr std::string_view kMetadataName = ".metadata";

Error explain_missing_metadata(FileSystem& files, const std::string& folder) {
  const auto entries = files.list(folder);
  if (!entries) return entries.error();
  for (const FolderEntry& entry : *entries) {
    if (entry.name.starts_with("__") && entry.name.ends_with(kMetadataName)) {
      return unsupported(fmt::format(
          "'{}' says that every rank saved for itself (no_dist or use_collectives=False); save with collectives",
          entry.name));
    }
  }
  return corrupt("incomplete: no .metadata, the save did not finish");
}

/// Megatron-Core writes metadata.json last; without it, its folders look like any other.
Result<void> check_no_unfinished_save(const MetadataTables& tables) {
  for (const ByteRecord& object : tables.byte_items)
    if (tables.text(object.name) == "common_state/shard_0_1")
      return corrupt("incomplete: it is of Megatron-Core and has no metadata.json, the save did not finish");
  return {};
}

/// Takes entries out of the tables that are only second names of others.
void drop_repeated(const std::vector<std::string>& repeated, MetadataTables* tables) {
  if (repeated.empty()) return;
  const std::unordered_set<std::string_view> names(repeated.begin(), repeated.end());
  const auto is_repeated = [&](const auto& record) { return names.contains(tables->text(record.name)); };
  std::erase_if(tables->tensors, is_repeated);
  std::erase_if(tables->byte_items, is_repeated);
}

class DcpReader final : public CheckpointReader {
 public:
  DcpReader(FileSystem& files, std::string folder, const ReadOptions& options, ReadDialect dialect)
      : files_(files),
        folder_(std::move(folder)),
        options_(options),
        dialect_(std::move(dialect)),
        pool_(files, folder_, options.follow_links) {}

  Result<void> load();

  const CheckpointInfo& info() const override { return info_; }

  Result<const ByteSource*> file(std::int32_t index) const override {
    return static_cast<const ByteSource*>(&pool_[static_cast<std::size_t>(index)]);
  }

  Result<ChunkLocation> locate(std::size_t index) const override {
    if (const auto found = inner_.find(index); found != inner_.end()) return found->second;
    const Chunk chunk = info_.chunks[index];
    auto location = locator_->locate(info_.tensors[chunk.tensor.index()], chunk, lengths_[index]);
    if (location) return location;
    return std::move(location).error().with_context(
        fmt::format("tensor '{}' chunk {} in '{}'", info_.tensors[chunk.tensor.index()].name, to_string(chunk.box),
                    info_.files[static_cast<std::size_t>(chunk.file)]));
  }

  Result<std::string> read_extra_file(const ExtraFile& file) const override {
    TENPLEX_ASSIGN_OR_RETURN(const auto source, open_member(files_, folder_, file.path, options_.follow_links));
    return read_string(*source, 0, source->size());
  }

 private:
  Result<void> load_side_file(const ByteSource& metadata);
  Result<MetadataTables> load_tables(const ByteSource& source);
  Result<std::optional<ItemRange>> add_common_file(Catalog* catalog);

  FileSystem& files_;
  std::string folder_;
  ReadOptions options_;
  ReadDialect dialect_;
  FilePool pool_;
  CheckpointInfo info_;
  std::vector<std::int64_t> lengths_;                     // of the items of chunks
  std::unordered_map<std::size_t, ChunkLocation> inner_;  // chunks inside objects
  SideFile side_;
  std::optional<ItemLocator> locator_;
};

// Of the whole file, in blocks.
Result<std::string> checksum_of_file(const ByteSource& source) {
  constexpr std::int64_t kBlockBytes = std::int64_t{1} << 20;
  Hasher hasher;
  for (std::int64_t offset = 0; offset < source.size(); offset += kBlockBytes) {
    TENPLEX_ASSIGN_OR_RETURN(const std::string block,
                             read_string(source, offset, std::min(kBlockBytes, source.size() - offset)));
    hasher.add_raw(as_bytes(block));
  }
  return to_string(hasher.finish());
}

Result<void> DcpReader::load_side_file(const ByteSource& metadata) {
  auto source = open_member(files_, folder_, std::string(kManifestName), options_.follow_links);
  if (!source && source.error().code() == ErrorCode::kNotFound) return {};
  if (!source) return std::move(source).error();
  if ((*source)->size() > options_.max_metadata_bytes) return resource_exhausted("tenplex.json is too large");
  TENPLEX_ASSIGN_OR_RETURN(const std::string text, read_string(**source, 0, (*source)->size()));
  auto side = decode_side_file(text).with_context(std::string(kManifestName));
  if (!side) return std::move(side).error();
  TENPLEX_ASSIGN_OR_RETURN(const std::string found, checksum_of_file(metadata));
  if (side->of != found) {
    info_.problems.push_back("tenplex.json is passed over: it belongs to another .metadata than the one beside it");
    return {};
  }
  const bool needs_state = !side->repeated.empty() || !side->inner_views.empty() || !side->shared_nodes.empty();
  if (needs_state && side->side.state_json.empty())
    return corrupt("tenplex.json: names, views or nodes are said to be shared, but there is no state");
  side_ = std::move(*side);
  info_.metadata.insert(info_.metadata.end(), side_.metadata.begin(), side_.metadata.end());
  if (side_.layout != LayoutNote{}) info_.layout = side_.layout;
  info_.extra_files = side_.side.extra_files;
  return {};
}

Result<MetadataTables> DcpReader::load_tables(const ByteSource& source) {
  TENPLEX_ASSIGN_OR_RETURN(MetadataTables tables, read_metadata(source, options_.max_metadata_bytes));
  if (dialect_.check) TENPLEX_TRY(dialect_.check(tables));
  return tables;
}

Result<std::optional<ItemRange>> DcpReader::add_common_file(Catalog* catalog) {
  if (dialect_.common_file.empty()) return std::optional<ItemRange>();
  TENPLEX_ASSIGN_OR_RETURN(const std::int32_t file, pool_.add(dialect_.common_file));
  catalog->files.push_back(dialect_.common_file);
  return std::optional(ItemRange{file, 0, pool_[static_cast<std::size_t>(file)].size()});
}

Result<void> DcpReader::load() {
  auto source = open_member(files_, folder_, std::string(kMetadataName), options_.follow_links);
  if (!source && source.error().code() == ErrorCode::kNotFound) return explain_missing_metadata(files_, folder_);
  if (!source) return std::move(source).error();
  auto tables = load_tables(**source).with_context(std::string(kMetadataName));
  if (!tables) return std::move(tables).error();
  info_.problems = tables->problems;
  info_.metadata = dialect_.metadata;
  TENPLEX_TRY(load_side_file(**source));
  drop_repeated(side_.repeated, &*tables);
  auto catalog = build_catalog(*tables, pool_).with_context(std::string(kMetadataName));
  if (!catalog) return std::move(catalog).error();
  tables->forget_chunks();
  info_.format = dialect_.format;
  info_.has_common = !dialect_.common_key.empty();
  info_.detail = fmt::format("{}{}{}, {}", dialect_.title, tables->version.empty() ? "" : " ", tables->version,
                             counted(catalog->files.size(), "data file"));
  info_.device_count = std::max(side_.device_count, catalog->device_count);
  TENPLEX_ASSIGN_OR_RETURN(const std::optional<ItemRange> common, add_common_file(&*catalog));
  StateInput input{*tables, *catalog, pool_, side_, dialect_, common, options_.max_metadata_bytes};
  TENPLEX_ASSIGN_OR_RETURN(BuiltState built, build_state(input));
  info_.state = std::move(built.graph);
  tables = MetadataTables{};
  give_back_freed_memory();
  info_.tensors = std::move(catalog->tensors);
  info_.chunks = std::move(catalog->chunks);
  info_.files = std::move(catalog->files);
  lengths_ = std::move(catalog->lengths);
  std::vector<std::string> own_files = dialect_.own_files;
  own_files.insert(own_files.end(), {std::string(kMetadataName), std::string(kManifestName)});
  note_other_files(files_, folder_, own_files, &info_);
  for (auto& inner : built.inner) {
    inner_.emplace(info_.chunks.size(), inner.location);
    info_.tensors.push_back(std::move(inner.tensor));
    info_.chunks.add(inner.chunk);
    lengths_.push_back(0);
  }
  split_unlike_objects(info_.tensors, &info_.state);
  locator_.emplace(pool_, info_.chunks, options_.max_metadata_bytes);
  info_.aliases = find_stored_ties(*this, side_.side.aliases, &info_.problems);
  return {};
}

}  // namespace

Result<std::unique_ptr<CheckpointReader>> open_folder(FileSystem& files, const std::string& path,
                                                      const ReadOptions& options, ReadDialect dialect) {
  auto reader = std::make_unique<DcpReader>(files, path, options, std::move(dialect));
  if (auto loaded = reader->load(); !loaded) return std::move(loaded).error().with_context(fmt::format("'{}'", path));
  return Result<std::unique_ptr<CheckpointReader>>(std::move(reader));
}

}  // namespace dcp

Result<std::unique_ptr<CheckpointReader>> open_dcp(FileSystem& files, const std::string& path,
                                                   const ReadOptions& options) {
  dcp::ReadDialect dialect;
  dialect.check = &dcp::check_no_unfinished_save;
  return dcp::open_folder(files, path, options, std::move(dialect));
}

}  // namespace tenplex
