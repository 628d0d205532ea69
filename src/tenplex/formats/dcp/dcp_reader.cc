// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reading: `.metadata` and the objects are read by open(); a tensor's item is opened by locate(), each time it is
// asked.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "tenplex/base/guarded.h"
#include "tenplex/formats/dcp/catalog.h"
#include "tenplex/formats/dcp/dcp_format.h"
#include "tenplex/formats/dcp/metadata.h"
#include "tenplex/formats/dcp/safetensors_payload.h"
#include "tenplex/formats/dcp/side_file.h"
#include "tenplex/formats/dcp/state_builder.h"
#include "tenplex/formats/dcp/stored_item.h"
#include "tenplex/formats/manifest/manifest.h"
#include "tenplex/formats/member_file.h"
#include "tenplex/formats/torch/torch_dtype.h"
#include "tenplex/formats/torch/torch_item.h"
#include "tenplex/formats/torch/zip_record.h"

namespace tenplex {
namespace dcp {
namespace {

constexpr std::string_view kMetadataName = ".metadata";
constexpr std::size_t kMaxTemplates = 1024;
constexpr std::int64_t kMaxReadAtOnce = 2048;  // data of an item that are read with its head
constexpr std::int64_t kDescriptorBytes = 16;
constexpr std::int64_t kSmallItemBytes = 2304;  // reading such an item twice is within 4 KiB per item
constexpr std::int64_t kBlockBytes = 32 << 10;
constexpr std::size_t kBlocks = 64;

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
  DcpReader(FileSystem& files, std::string folder, const ReadOptions& options)
      : files_(files), folder_(std::move(folder)), options_(options), pool_(files, folder_, options.follow_links) {}

  Result<void> load();

  const CheckpointInfo& info() const override { return info_; }

  Result<const ByteSource*> file(std::int32_t index) const override {
    return static_cast<const ByteSource*>(&pool_[static_cast<std::size_t>(index)]);
  }

  Result<ChunkLocation> locate(std::size_t index) const override {
    if (const auto found = inner_.find(index); found != inner_.end()) return found->second;
    const Chunk chunk = info_.chunks[index];
    auto location = locate_item(chunk, lengths_[index]);
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
  using PayloadKey = std::pair<std::int32_t, std::int64_t>;
  using Payload = std::shared_ptr<const SafetensorsPayload>;  // shared: kept by the cache and by calls in progress

  // What torch.save writes in front of a contiguous tensor of one type and shape, and the length of the whole archive.
  struct Template {
    std::string head;
    std::int64_t length = 0;

    /// The CRC of `bytes` bytes of data, or nothing if it is another archive: `start` is the head, `descriptor` follows
    /// the data.
    std::optional<std::uint32_t> crc(std::string_view start, std::string_view descriptor) const;
  };

  // Part of a file, read for the sake of many small items.
  struct Block {
    std::int32_t file = -1;
    std::int64_t begin = 0;
    std::string bytes;
  };

  Result<ChunkLocation> locate_item(const Chunk& chunk, std::int64_t length) const;
  Result<std::optional<ChunkLocation>> locate_usual(const Chunk& chunk, const ItemRange& range) const;
  Result<std::optional<std::uint32_t>> usual_crc(const Template& usual, std::int64_t bytes,
                                                 const ItemRange& range) const;
  void find_small_items();
  std::shared_ptr<const Template> template_of(DType dtype, const Dims& extent) const;
  Result<ChunkLocation> locate_archive(const Chunk& chunk, const ItemRange& range) const;
  Result<Payload> payload(const PayloadKey& key) const;
  Result<void> load_side_file();

  FileSystem& files_;
  std::string folder_;
  ReadOptions options_;
  FilePool pool_;
  CheckpointInfo info_;
  std::vector<std::int64_t> lengths_;                     // of the items of chunks
  std::unordered_map<std::size_t, ChunkLocation> inner_;  // chunks inside objects
  SideFile side_;
  std::vector<bool> has_small_items_;  // per file: mostly items of about kSmallItemBytes
  mutable std::array<Guarded<Block>, kBlocks> blocks_;
  mutable Guarded<std::map<PayloadKey, Payload>> payloads_;
  mutable Guarded<std::map<std::pair<DType, Dims>, std::shared_ptr<const Template>>> templates_;  // shared with calls
};

Result<void> DcpReader::load_side_file() {
  auto source = open_member(files_, folder_, std::string(kManifestName), options_.follow_links);
  if (!source && source.error().code() == ErrorCode::kNotFound) return {};
  if (!source) return std::move(source).error();
  if ((*source)->size() > options_.max_metadata_bytes) return resource_exhausted("tenplex.json is too large");
  TENPLEX_ASSIGN_OR_RETURN(const std::string text, read_string(**source, 0, (*source)->size()));
  auto side = decode_side_file(text).with_context(std::string(kManifestName));
  if (!side) return std::move(side).error();
  side_ = std::move(*side);
  info_.metadata = side_.metadata;
  if (side_.layout != LayoutNote{}) info_.layout = side_.layout;
  info_.extra_files = side_.side.extra_files;
  return {};
}

Result<void> DcpReader::load() {
  auto source = open_member(files_, folder_, std::string(kMetadataName), options_.follow_links);
  if (!source && source.error().code() == ErrorCode::kNotFound) return explain_missing_metadata(files_, folder_);
  if (!source) return std::move(source).error();
  auto tables = read_metadata(**source, options_.max_metadata_bytes).with_context(std::string(kMetadataName));
  if (!tables) return std::move(tables).error();
  TENPLEX_TRY(load_side_file());
  drop_repeated(side_.repeated, &*tables);
  auto catalog = build_catalog(*tables, pool_).with_context(std::string(kMetadataName));
  if (!catalog) return std::move(catalog).error();
  info_.format = "dcp";
  info_.detail = fmt::format("PyTorch Distributed Checkpoint{}{}, {} data files", tables->version.empty() ? "" : " ",
                             tables->version, catalog->files.size());
  info_.device_count = std::max(side_.device_count, catalog->device_count);
  info_.problems = tables->problems;
  StateInput input{*tables, *catalog, pool_, side_, options_.max_metadata_bytes};
  TENPLEX_ASSIGN_OR_RETURN(BuiltState built, build_state(input));
  info_.state = std::move(built.graph);
  info_.tensors = std::move(catalog->tensors);
  info_.chunks = std::move(catalog->chunks);
  info_.files = std::move(catalog->files);
  lengths_ = std::move(catalog->lengths);
  note_other_files(files_, folder_, {std::string(kMetadataName), std::string(kManifestName)}, &info_);
  for (auto& inner : built.inner) {
    inner_.emplace(info_.chunks.size(), inner.location);
    info_.tensors.push_back(std::move(inner.tensor));
    info_.chunks.add(inner.chunk);
    lengths_.push_back(0);
  }
  find_small_items();
  return {};
}

Result<DcpReader::Payload> DcpReader::payload(const PayloadKey& key) const {
  auto cache = payloads_.lock();
  if (const auto found = cache->find(key); found != cache->end()) return Payload(found->second);
  TENPLEX_ASSIGN_OR_RETURN(
      SafetensorsPayload opened,
      SafetensorsPayload::open(pool_[static_cast<std::size_t>(key.first)], key.second, options_.max_metadata_bytes));
  Payload shared = std::make_shared<const SafetensorsPayload>(std::move(opened));
  cache->emplace(key, shared);
  return shared;
}

Result<ChunkLocation> DcpReader::locate_archive(const Chunk& chunk, const ItemRange& range) const {
  TENPLEX_ASSIGN_OR_RETURN(const StoredItem item,
                           read_item(pool_[static_cast<std::size_t>(range.file)], range, options_.max_metadata_bytes));
  const StateGraph& state = item.pickle.state;
  if (item.pickle.nodes.size() != 1 || state.root != item.pickle.nodes[0])
    return corrupt("the item is no single tensor");
  const TensorInfo& stored = item.pickle.tensors[0];
  const TensorInfo& tensor = info_.tensors[chunk.tensor.index()];
  if (stored.dtype != tensor.dtype || stored.shape != chunk.box.extent) {
    return corrupt(fmt::format("expected {} {}, the item has {} {}", to_string(tensor.dtype),
                               to_string(chunk.box.extent), to_string(stored.dtype), to_string(stored.shape)));
  }
  return item.location(0);
}

std::shared_ptr<const DcpReader::Template> DcpReader::template_of(DType dtype, const Dims& extent) const {
  auto cache = templates_.lock();
  std::shared_ptr<const Template>& found = (*cache)[{dtype, extent}];
  if (!found) {
    const ZipLayout zip = tensor_item(dtype, extent);
    found = std::make_shared<const Template>(Template{zip.literal(0, {}), zip.size_bytes()});
  }
  std::shared_ptr<const Template> result = found;
  if (cache->size() > kMaxTemplates) cache->clear();
  return result;
}

// Nearly every item starts with exactly the bytes that torch.save writes for its type and shape; then the data follow,
// and behind them a descriptor with their CRC. Everything else is left to the full reader.
Result<std::optional<ChunkLocation>> DcpReader::locate_usual(const Chunk& chunk, const ItemRange& range) const {
  const DType dtype = info_.tensors[chunk.tensor.index()].dtype;
  const auto none = [] { return Result<std::optional<ChunkLocation>>(std::nullopt); };
  if (!torch_has_dtype(dtype) || chunk.box.empty()) return none();
  const std::int64_t bytes = volume(chunk.box) * size_bytes(dtype);
  if (bytes > range.length || range.length >= std::int64_t{kZipSaturated32}) return none();
  const std::shared_ptr<const Template> usual = template_of(dtype, chunk.box.extent);
  if (usual->length != range.length) return none();
  TENPLEX_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> crc, usual_crc(*usual, bytes, range));
  if (!crc) return none();
  const std::int64_t begin = range.offset + static_cast<std::int64_t>(usual->head.size());
  return std::optional(ChunkLocation{begin, row_major_strides(chunk.box.extent), CheckedRange{begin, bytes, *crc}});
}

std::optional<std::uint32_t> DcpReader::Template::crc(std::string_view start, std::string_view descriptor) const {
  if (!start.starts_with(head)) return std::nullopt;
  const std::uint32_t crc = get_u32(descriptor, 4);
  if (get_u32(descriptor, 0) != kZipDescriptorMagic || crc == 0) return std::nullopt;
  return crc;
}

// Reads the head and the descriptor: of a small item both at once, and with its neighbours where those are small too.
Result<std::optional<std::uint32_t>> DcpReader::usual_crc(const Template& usual, std::int64_t bytes,
                                                          const ItemRange& range) const {
  const ByteSource& file = pool_[static_cast<std::size_t>(range.file)];
  const auto head_size = static_cast<std::int64_t>(usual.head.size());
  if (bytes > kMaxReadAtOnce) {
    TENPLEX_ASSIGN_OR_RETURN(const std::string start, read_string(file, range.offset, head_size));
    TENPLEX_ASSIGN_OR_RETURN(const std::string descriptor,
                             read_string(file, range.offset + head_size + bytes, kDescriptorBytes));
    return usual.crc(start, descriptor);
  }
  const std::int64_t wanted = head_size + bytes + kDescriptorBytes;
  const auto parts_of = [&](std::string_view item) {
    return usual.crc(item, item.substr(static_cast<std::size_t>(head_size + bytes)));
  };
  const std::int64_t block_begin = range.offset / kBlockBytes * kBlockBytes;
  const std::int64_t block_end = std::min(block_begin + kBlockBytes, file.size());
  if (!has_small_items_[static_cast<std::size_t>(range.file)] || range.offset + wanted > block_end) {
    TENPLEX_ASSIGN_OR_RETURN(const std::string item, read_string(file, range.offset, wanted));
    return parts_of(item);
  }
  // Neighbouring blocks, also of neighbouring files, have different places.
  const auto place = static_cast<std::size_t>(block_begin / kBlockBytes + std::int64_t{range.file} * 5) % kBlocks;
  auto block = blocks_[place].lock();
  if (block->file != range.file || block->begin != block_begin) {
    block->file = -1;
    TENPLEX_ASSIGN_OR_RETURN(block->bytes, read_string(file, block_begin, block_end - block_begin));
    block->begin = block_begin;
    block->file = range.file;
  }
  return parts_of(std::string_view(block->bytes)
                      .substr(static_cast<std::size_t>(range.offset - block_begin), static_cast<std::size_t>(wanted)));
}

void DcpReader::find_small_items() {
  std::vector<std::int64_t> items(pool_.size(), 0);
  for (std::size_t i = 0; i < info_.chunks.size(); ++i) ++items[static_cast<std::size_t>(info_.chunks[i].file)];
  for (std::size_t file = 0; file < items.size(); ++file)
    has_small_items_.push_back(pool_[file].size() / kSmallItemBytes < items[file]);
}

Result<ChunkLocation> DcpReader::locate_item(const Chunk& chunk, std::int64_t length) const {
  const ItemRange range{chunk.file, chunk.position, length};
  TENPLEX_ASSIGN_OR_RETURN(const std::optional<ChunkLocation> usual, locate_usual(chunk, range));
  if (usual) return ChunkLocation(*usual);
  TENPLEX_ASSIGN_OR_RETURN(const bool archive, is_archive(pool_[static_cast<std::size_t>(chunk.file)], range));
  if (archive) return locate_archive(chunk, range);
  TENPLEX_ASSIGN_OR_RETURN(const Payload blob, payload({chunk.file, chunk.position}));
  const TensorInfo& tensor = info_.tensors[chunk.tensor.index()];
  return blob->locate(tensor.name, tensor.dtype, chunk.box);
}

}  // namespace
}  // namespace dcp

Result<std::unique_ptr<CheckpointReader>> open_dcp(FileSystem& files, const std::string& path,
                                                   const ReadOptions& options) {
  auto reader = std::make_unique<dcp::DcpReader>(files, path, options);
  if (auto loaded = reader->load(); !loaded) return std::move(loaded).error().with_context(fmt::format("'{}'", path));
  return Result<std::unique_ptr<CheckpointReader>>(std::move(reader));
}

}  // namespace tenplex
