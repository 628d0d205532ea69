// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/stored_item.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tenplex/formats/torch/zip_archive.h"

namespace tenplex::dcp {
namespace {

constexpr std::int64_t kSmallItem = 4096;  // read whole
constexpr std::int64_t kHeadBytes = 1024;  // pickle and small entries
constexpr std::int64_t kTailBytes = 2048;  // directory and what is in front of it
constexpr std::int64_t kDescriptorBytes = 16;
constexpr std::string_view kZipMagic = "PK\3\4";

// The range of a file with its two ends in memory; everything between is read from the file.
class ItemSource final : public ByteSource {
 public:
  ItemSource(const ByteSource& file, const ItemRange& range) : file_(file), range_(range) {}

  Result<void> load() {
    const bool small = range_.length <= kSmallItem;
    TENPLEX_ASSIGN_OR_RETURN(head_, read_string(file_, range_.offset, small ? range_.length : kHeadBytes));
    if (small) return {};
    TENPLEX_ASSIGN_OR_RETURN(tail_, read_string(file_, range_.offset + range_.length - kTailBytes, kTailBytes));
    return {};
  }

  std::int64_t size() const override { return range_.length; }
  const std::string& name() const override { return file_.name(); }

  Result<void> read_at(std::int64_t offset, MutableByteSpan buffer) const override {
    const auto count = static_cast<std::int64_t>(buffer.size());
    if (offset < 0 || count > range_.length || offset > range_.length - count) {
      return out_of_range(fmt::format("bytes {} to {} of an item of {}", offset, offset + count, range_.length));
    }
    const std::int64_t tail_begin = range_.length - static_cast<std::int64_t>(tail_.size());
    if (offset + count <= static_cast<std::int64_t>(head_.size())) {
      std::memcpy(buffer.data(), head_.data() + offset, buffer.size());
    } else if (offset >= tail_begin) {
      std::memcpy(buffer.data(), tail_.data() + (offset - tail_begin), buffer.size());
    } else {
      return file_.read_at(range_.offset + offset, buffer);
    }
    return {};
  }

 private:
  const ByteSource& file_;
  ItemRange range_;
  std::string head_;
  std::string tail_;
};

// The top folder is whatever comes before "/data.pkl".
Result<std::size_t> find_pickle(const ZipArchive& archive) {
  constexpr std::string_view kName = "/data.pkl";
  for (std::size_t i = 0; i < archive.entries().size(); ++i) {
    const std::string_view name = archive.entries()[i].name;
    if (name.ends_with(kName) && name.find('/') == name.size() - kName.size()) return i;
  }
  return corrupt("the item has no data.pkl");
}

Result<void> check_byte_order(const ZipArchive& archive, std::string_view folder) {
  const std::optional<std::size_t> entry = archive.find(fmt::format("{}/byteorder", folder));
  if (!entry) return {};
  TENPLEX_ASSIGN_OR_RETURN(const std::string order, archive.read(*entry, 64));
  if (order != "little") return unsupported(fmt::format("the item has byte order '{}'", order));
  return {};
}

Result<CheckedRange> storage_range(const ZipArchive& archive, std::string_view folder, const TorchStorage& storage,
                                   const ItemRange& range) {
  const std::string name = fmt::format("{}/data/{}", folder, storage.key);
  const std::optional<std::size_t> entry = archive.find(name);
  if (!entry) return corrupt(fmt::format("the item has no '{}'", name));
  const ZipEntry& found = archive.entries()[*entry];
  if (found.size_bytes != storage.size_bytes) {
    return corrupt(fmt::format("'{}' has {} bytes, its pickle says {}", name, found.size_bytes, storage.size_bytes));
  }
  TENPLEX_ASSIGN_OR_RETURN(const std::int64_t begin, archive.data_offset(*entry));
  return CheckedRange{range.offset + begin, found.size_bytes, found.crc32};
}

// Both ends lie in memory already for what torch writes.
Result<void> keep_frame(const ItemSource& source, const ZipArchive& archive, std::size_t pickle, std::int64_t begin,
                        StoredItem* item) {
  const std::string& name = archive.entries()[pickle].name;
  const auto order = archive.find(fmt::format("{}/byteorder", name.substr(0, name.find('/'))));
  const std::int64_t end = begin + item->storages[0].size;
  if (!order || archive.entries()[pickle].limit > begin || archive.entries()[*order].limit > begin ||
      begin > kHeadBytes || source.size() - end < kDescriptorBytes)
    return {};
  TENPLEX_ASSIGN_OR_RETURN(item->head, read_string(source, 0, begin));
  TENPLEX_ASSIGN_OR_RETURN(item->descriptor, read_string(source, end, kDescriptorBytes));
  return {};
}

}  // namespace

ChunkLocation StoredItem::location(std::size_t index) const {
  const TensorView view = pickle.state.view(pickle.nodes[index]);
  const CheckedRange& range = storages[view.storage];
  ChunkLocation location{range.begin, view.strides, std::nullopt};
  // The offset of an empty view may be anything.
  const TensorInfo& tensor = pickle.tensors[index];
  if (volume(tensor.shape) > 0) location.offset_bytes += view.offset * size_bytes(tensor.dtype);
  if (range.crc32 != 0) location.checked = range;
  return location;
}

Result<bool> is_archive(const ByteSource& file, const ItemRange& range) {
  const auto size = static_cast<std::int64_t>(kZipMagic.size());
  if (file.size() - range.offset < size) return false;
  TENPLEX_ASSIGN_OR_RETURN(const std::string start, read_string(file, range.offset, size));
  return start == kZipMagic;
}

Result<StoredItem> read_item(const ByteSource& file, const ItemRange& range, std::int64_t max_pickle_bytes) {
  ItemSource source(file, range);
  TENPLEX_TRY(source.load());
  TENPLEX_ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::open(source, 0, range.length));
  TENPLEX_ASSIGN_OR_RETURN(const std::size_t pickle, find_pickle(archive));
  const ZipEntry& entry = archive.entries()[pickle];
  const std::string folder = entry.name.substr(0, entry.name.find('/'));
  TENPLEX_TRY(check_byte_order(archive, folder));
  if (entry.size_bytes > max_pickle_bytes) {
    return resource_exhausted(fmt::format("the item's pickle has {}, the limit is {}", format_bytes(entry.size_bytes),
                                          format_bytes(max_pickle_bytes)));
  }
  TENPLEX_TRY(archive.read(pickle, max_pickle_bytes));  // holds it against its CRC
  TENPLEX_ASSIGN_OR_RETURN(const std::int64_t begin, archive.data_offset(pickle));
  StoredItem item;
  TENPLEX_ASSIGN_OR_RETURN(item.pickle, read_torch_pickle(source, begin, entry.size_bytes));
  for (const TorchStorage& storage : item.pickle.storages) {
    TENPLEX_ASSIGN_OR_RETURN(const CheckedRange stored, storage_range(archive, folder, storage, range));
    item.storages.push_back(stored);
  }
  if (!item.storages.empty())
    TENPLEX_TRY(keep_frame(source, archive, pickle, item.storages[0].begin - range.offset, &item));
  return item;
}

}  // namespace tenplex::dcp
