// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/item_locator.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/formats/torch/zip_record.h"

namespace tenplex::dcp {
namespace {

constexpr std::size_t kMaxPatterns = 1024;
constexpr std::int64_t kMaxReadAtOnce = 2048;  // data of an item that are read with its head
constexpr std::int64_t kDescriptorBytes = 16;
constexpr std::int64_t kSmallItemBytes = 2304;  // reading such an item twice is within 4 KiB per item
constexpr std::int64_t kBlockBytes = 32 << 10;

std::int64_t data_bytes(const std::pair<DType, Dims>& key) { return volume(key.second) * size_bytes(key.first); }

}  // namespace

ItemLocator::ItemLocator(const FilePool& pool, const ChunkTable& chunks, std::int64_t max_metadata_bytes)
    : pool_(pool), max_metadata_bytes_(max_metadata_bytes) {
  std::vector<std::int64_t> items(pool_.size(), 0);
  for (std::size_t i = 0; i < chunks.size(); ++i) ++items[static_cast<std::size_t>(chunks[i].file)];
  for (std::size_t file = 0; file < items.size(); ++file)
    has_small_items_.push_back(pool_[file].size() / kSmallItemBytes < items[file]);
}

Result<ChunkLocation> ItemLocator::locate(const TensorInfo& tensor, const Chunk& chunk, std::int64_t length) const {
  const ItemRange range{chunk.file, chunk.position, length};
  const PatternKey key{tensor.dtype, chunk.box.extent};
  TENPLEX_ASSIGN_OR_RETURN(const std::optional<ChunkLocation> known, locate_known(key, range));
  if (known) return ChunkLocation(*known);
  TENPLEX_ASSIGN_OR_RETURN(const bool archive, is_archive(file(range), range));
  if (archive) return locate_archive(key, range);
  TENPLEX_ASSIGN_OR_RETURN(const Payload blob, payload(range));
  return blob->locate(tensor.name, tensor.dtype, chunk.box);
}

Result<ItemLocator::Payload> ItemLocator::payload(const ItemRange& range) const {
  auto cache = payloads_.lock();
  Payload& found = (*cache)[{range.file, range.offset}];
  if (!found) {
    TENPLEX_ASSIGN_OR_RETURN(SafetensorsPayload opened,
                             SafetensorsPayload::open(file(range), range.offset, max_metadata_bytes_));
    found = std::make_shared<const SafetensorsPayload>(std::move(opened));
  }
  return Payload(found);
}

// ── archives ─────────────────────────────────────────────────────────────────────────────────────────────────────────

Result<ChunkLocation> ItemLocator::locate_archive(const PatternKey& key, const ItemRange& range) const {
  TENPLEX_ASSIGN_OR_RETURN(const StoredItem item, read_item(file(range), range, max_metadata_bytes_));
  const StateGraph& state = item.pickle.state;
  if (item.pickle.nodes.size() != 1 || state.root != item.pickle.nodes[0])
    return corrupt("the item is no single tensor");
  const TensorInfo& stored = item.pickle.tensors[0];
  if (stored.dtype != key.first || stored.shape != key.second) {
    return corrupt(fmt::format("expected {} {}, the item has {} {}", to_string(key.first), to_string(key.second),
                               to_string(stored.dtype), to_string(stored.shape)));
  }
  learn(key, range, item);
  return item.location(0);
}

// Keeps the archive as a pattern if all that says how to read its data lies in front of them, and nothing else is in
// its storage.
void ItemLocator::learn(const PatternKey& key, const ItemRange& range, const StoredItem& item) const {
  const ChunkLocation location = item.location(0);
  if (item.head.empty() || !location.checked || location.checked->begin != location.offset_bytes ||
      location.checked->size != data_bytes(key) || range.length >= std::int64_t{kZipSaturated32})
    return;
  Pattern pattern{item.head, range.length, location.strides};
  if (pattern.crc(item.head, item.descriptor) != location.checked->crc32) return;
  auto cache = patterns_.lock();
  if (cache->size() >= kMaxPatterns) cache->clear();
  (*cache)[key] = std::make_shared<const Pattern>(std::move(pattern));
}

std::optional<std::uint32_t> ItemLocator::Pattern::crc(std::string_view start, std::string_view descriptor) const {
  if (!start.starts_with(head)) return std::nullopt;
  const std::uint32_t crc = get_u32(descriptor, 4);
  if (get_u32(descriptor, 0) != kZipDescriptorMagic || crc == 0) return std::nullopt;
  return crc;
}

Result<std::optional<ChunkLocation>> ItemLocator::locate_known(const PatternKey& key, const ItemRange& range) const {
  std::shared_ptr<const Pattern> pattern;
  {
    auto cache = patterns_.lock();
    if (const auto found = cache->find(key); found != cache->end()) pattern = found->second;
  }
  if (!pattern || pattern->length != range.length) return std::optional<ChunkLocation>();
  const std::int64_t bytes = data_bytes(key);
  TENPLEX_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> crc, known_crc(*pattern, bytes, range));
  if (!crc) return std::optional<ChunkLocation>();
  const std::int64_t begin = range.offset + static_cast<std::int64_t>(pattern->head.size());
  return std::optional(ChunkLocation{begin, pattern->strides, CheckedRange{begin, bytes, *crc}});
}

// Reads the head and the descriptor: of a small item both at once, and with its neighbours where those are small too.
Result<std::optional<std::uint32_t>> ItemLocator::known_crc(const Pattern& pattern, std::int64_t bytes,
                                                            const ItemRange& range) const {
  const ByteSource& source = file(range);
  const auto head_size = static_cast<std::int64_t>(pattern.head.size());
  if (bytes > kMaxReadAtOnce) {
    TENPLEX_ASSIGN_OR_RETURN(const std::string start, read_string(source, range.offset, head_size));
    TENPLEX_ASSIGN_OR_RETURN(const std::string descriptor,
                             read_string(source, range.offset + head_size + bytes, kDescriptorBytes));
    return pattern.crc(start, descriptor);
  }
  const std::int64_t wanted = head_size + bytes + kDescriptorBytes;
  const auto parts_of = [&](std::string_view item) {
    return pattern.crc(item, item.substr(static_cast<std::size_t>(head_size + bytes)));
  };
  const std::int64_t block_begin = range.offset / kBlockBytes * kBlockBytes;
  const std::int64_t block_end = std::min(block_begin + kBlockBytes, source.size());
  if (!has_small_items_[static_cast<std::size_t>(range.file)] || range.offset + wanted > block_end) {
    TENPLEX_ASSIGN_OR_RETURN(const std::string item, read_string(source, range.offset, wanted));
    return parts_of(item);
  }
  // Neighbouring blocks, also of neighbouring files, have different places.
  const auto place = static_cast<std::size_t>(block_begin / kBlockBytes + std::int64_t{range.file} * 5) % kBlocks;
  auto block = blocks_[place].lock();
  if (block->file != range.file || block->begin != block_begin) {
    block->file = -1;
    TENPLEX_ASSIGN_OR_RETURN(block->bytes, read_string(source, block_begin, block_end - block_begin));
    block->begin = block_begin;
    block->file = range.file;
  }
  return parts_of(std::string_view(block->bytes)
                      .substr(static_cast<std::size_t>(range.offset - block_begin), static_cast<std::size_t>(wanted)));
}

}  // namespace tenplex::dcp
