// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/torch/zip_archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tenplex/base/checked.h"
#include "tenplex/base/crc32.h"
#include "tenplex/formats/torch/zip_record.h"

namespace tenplex {
namespace {

constexpr std::int64_t kMaxComment = 65535;
constexpr std::int64_t kMaxDirectoryBytes = std::int64_t{1} << 30;  // some ten million entries

Error bad_directory(std::string_view what) { return corrupt(fmt::format("zip directory: {}", what)); }

// Replaces the saturated fields of a central header by the values in its zip64 extra field.
Result<void> read_zip64_extra(std::string_view extra, ZipCentralHeader* header) {
  while (extra.size() >= 4) {
    const auto id = get_u16(extra, 0);
    const std::size_t size = get_u16(extra, 2);
    if (size > extra.size() - 4) return bad_directory("an extra field is cut off");
    std::string_view body = extra.substr(4, size);
    extra.remove_prefix(4 + size);
    if (id != kZip64ExtraId) continue;
    for (std::uint64_t* field : {&header->size, &header->compressed_size, &header->header_offset}) {
      if (*field != kZipSaturated32) continue;
      if (body.size() < 8) return bad_directory("a zip64 extra field is too short");
      *field = get_u64(body, 0);
      body.remove_prefix(8);
    }
    return {};
  }
  return {};
}

Result<void> check_name(std::string_view name) {
  const bool has_dots =
      name == ".." || name.starts_with("../") || name.ends_with("/..") || name.find("/../") != std::string_view::npos;
  if (name.empty() || name.front() == '/' || has_dots || name.find('\0') != std::string_view::npos ||
      name.find('\\') != std::string_view::npos)
    return bad_directory(fmt::format("'{}' is no name for an entry", name));
  return {};
}

}  // namespace

Result<std::string> ZipArchive::bytes(std::int64_t offset, std::int64_t size) const {
  if (offset < 0 || size < 0 || offset > size_ || size > size_ - offset)
    return corrupt(fmt::format("the zip ends at byte {}, before [{}, +{})", size_, offset, size));
  return read_string(*source_, offset_ + offset, size);
}

Result<ZipArchive> ZipArchive::open(const ByteSource& source, std::int64_t offset, std::int64_t size) {
  if (offset < 0 || size < 0 || offset > source.size() || size > source.size() - offset)
    return corrupt(
        fmt::format("a zip at [{}, +{}) lies outside the {} bytes of the file", offset, size, source.size()));
  ZipArchive archive(source, offset, size);
  TENPLEX_ASSIGN_OR_RETURN(const Directory directory, archive.find_directory());
  TENPLEX_TRY(archive.read_directory(directory));
  TENPLEX_TRY(archive.check_entries(directory.offset));
  return archive;
}

// The end record is last, unless a comment follows; torch writes none, so the first read nearly always finds it.
Result<ZipArchive::Directory> ZipArchive::find_directory() const {
  if (size_ < kZipEndSize) return corrupt(fmt::format("{} bytes are too few for a zip", size_));
  for (const std::int64_t comment_bytes : {std::int64_t{0}, kMaxComment}) {
    const std::int64_t begin = std::max<std::int64_t>(0, size_ - kZipEndSize - comment_bytes);
    TENPLEX_ASSIGN_OR_RETURN(const std::string tail, bytes(begin, size_ - begin));
    for (std::size_t at = tail.size() - kZipEndSize + 1; at-- > 0;) {
      if (get_u32(tail, at) != kZipEndMagic || at + kZipEndSize + get_u16(tail, at + 20) != tail.size()) continue;
      Directory directory{get_u32(tail, at + 16), get_u32(tail, at + 12), get_u16(tail, at + 10)};
      if (get_u16(tail, at + 4) != 0 || get_u16(tail, at + 6) != 0 || get_u16(tail, at + 8) != directory.entries)
        return unsupported("a zip archive split over several files");
      const std::int64_t end = begin + static_cast<std::int64_t>(at);
      TENPLEX_TRY(read_zip64_end(end, &directory));
      if (directory.offset < 0 || directory.size < 0 || directory.offset > end ||
          directory.size > end - directory.offset)
        return bad_directory("it lies outside the archive");
      if (directory.entries < 0 || directory.entries > directory.size / kZipCentralSize)
        return bad_directory(fmt::format("{} entries do not fit in its {} bytes", directory.entries, directory.size));
      if (directory.size > kMaxDirectoryBytes)
        return resource_exhausted(fmt::format("the zip directory has {} bytes", directory.size));
      return directory;
    }
  }
  return corrupt("the end of the zip is missing: the file is cut off or no zip");
}

Result<void> ZipArchive::read_zip64_end(std::int64_t end_offset, Directory* directory) const {
  const bool needed = directory->offset == kZipSaturated32 || directory->size == kZipSaturated32 ||
                      directory->entries == kZipSaturated16;
  const std::int64_t locator_offset = end_offset - kZip64LocatorSize;
  std::string locator;
  if (locator_offset >= 0) {
    TENPLEX_ASSIGN_OR_RETURN(locator, bytes(locator_offset, kZip64LocatorSize));
  }
  if (locator.empty() || get_u32(locator, 0) != kZip64LocatorMagic) {
    if (needed) return bad_directory("its zip64 end record is missing");
    return {};
  }
  const std::uint64_t record_offset = get_u64(locator, 8);
  if (record_offset > static_cast<std::uint64_t>(locator_offset) || get_u32(locator, 16) > 1)
    return bad_directory("the zip64 locator points outside the archive");
  TENPLEX_ASSIGN_OR_RETURN(const std::string record, bytes(static_cast<std::int64_t>(record_offset), kZip64EndSize));
  if (get_u32(record, 0) != kZip64EndMagic) return bad_directory("there is no zip64 end record where it should be");
  const Directory wide{static_cast<std::int64_t>(get_u64(record, 48)), static_cast<std::int64_t>(get_u64(record, 40)),
                       static_cast<std::int64_t>(get_u64(record, 32))};
  const auto agrees = [](std::int64_t narrow_value, std::int64_t wide_value, std::int64_t saturated) {
    return narrow_value == wide_value || narrow_value == saturated;
  };
  if (!agrees(directory->offset, wide.offset, kZipSaturated32) ||
      !agrees(directory->size, wide.size, kZipSaturated32) ||
      !agrees(directory->entries, wide.entries, kZipSaturated16))
    return bad_directory("its two end records disagree");
  *directory = wide;
  return {};
}

Result<void> ZipArchive::read_directory(const Directory& directory) {
  TENPLEX_ASSIGN_OR_RETURN(const std::string text, bytes(directory.offset, directory.size));
  entries_.reserve(static_cast<std::size_t>(directory.entries));
  std::string_view rest = text;
  for (std::int64_t index = 0; index < directory.entries; ++index) {
    TENPLEX_ASSIGN_OR_RETURN(ZipCentralHeader header, parse_central_header(&rest));
    TENPLEX_TRY(check_name(header.name));
    TENPLEX_TRY(read_zip64_extra(header.extra, &header));
    if ((header.flags & 0x2041) != 0) return unsupported(fmt::format("zip entry '{}' is encrypted", header.name));
    if (header.header_offset > static_cast<std::uint64_t>(directory.offset) ||
        header.compressed_size > static_cast<std::uint64_t>(directory.offset))
      return bad_directory(fmt::format("'{}' lies outside the archive", header.name));
    entries_.push_back({std::string(header.name), static_cast<std::int64_t>(header.header_offset),
                        static_cast<std::int64_t>(header.compressed_size), header.method != 0, 0, header.crc32});
    if (header.method == 0 && header.size != header.compressed_size)
      return bad_directory(
          fmt::format("'{}' has {} bytes and {} bytes", header.name, header.size, header.compressed_size));
  }
  if (!rest.empty()) return bad_directory("it is longer than its entries");
  return {};
}

// Distinct names, and room for every entry before the next one.
Result<void> ZipArchive::check_entries(std::int64_t data_end) {
  std::vector<std::uint32_t> order(entries_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return entries_[a].header_offset < entries_[b].header_offset; });
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    ZipEntry& entry = entries_[order[rank]];
    entry.limit = rank + 1 < order.size() ? entries_[order[rank + 1]].header_offset : data_end;
    const std::int64_t header = kZipLocalSize + static_cast<std::int64_t>(entry.name.size());
    if (entry.limit - entry.header_offset < header || entry.limit - entry.header_offset - header < entry.size_bytes)
      return bad_directory(fmt::format("'{}' overlaps what follows it", entry.name));
  }
  by_name_ = std::move(order);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return entries_[a].name < entries_[b].name; });
  for (std::size_t rank = 1; rank < by_name_.size(); ++rank)
    if (entries_[by_name_[rank - 1]].name == entries_[by_name_[rank]].name)
      return bad_directory(fmt::format("two entries have the name '{}'", entries_[by_name_[rank]].name));
  return {};
}

std::optional<std::size_t> ZipArchive::find(std::string_view name) const {
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](std::uint32_t index, std::string_view key) { return entries_[index].name < key; });
  if (found == by_name_.end() || entries_[*found].name != name) return std::nullopt;
  return *found;
}

Result<std::int64_t> ZipArchive::data_offset(std::size_t index) const {
  const ZipEntry& entry = entries_[index];
  if (entry.compressed)
    return unsupported(fmt::format("zip entry '{}' is compressed; torch.save stores entries as they are", entry.name));
  const auto name_size = static_cast<std::int64_t>(entry.name.size());
  TENPLEX_ASSIGN_OR_RETURN(const std::string header, bytes(entry.header_offset, kZipLocalSize + name_size));
  const auto bad = [&](std::string_view what) {
    return corrupt(fmt::format("zip entry '{}': its local header {}", entry.name, what));
  };
  if (get_u32(header, 0) != kZipLocalMagic) return bad("is missing");
  if (get_u16(header, 26) != entry.name.size() || std::string_view(header).substr(kZipLocalSize) != entry.name)
    return bad("has another name");
  if (get_u16(header, 8) != 0) return bad("says that it is compressed");
  const std::int64_t begin = kZipLocalSize + name_size + get_u16(header, 28);
  if (entry.limit - entry.header_offset < begin || entry.limit - entry.header_offset - begin < entry.size_bytes)
    return bad("leaves no room for its data");
  return offset_ + entry.header_offset + begin;
}

Result<std::string> ZipArchive::read(std::size_t index, std::int64_t max_bytes) const {
  const ZipEntry& entry = entries_[index];
  if (entry.size_bytes > max_bytes)
    return resource_exhausted(
        fmt::format("zip entry '{}' has {} bytes; the limit is {}", entry.name, entry.size_bytes, max_bytes));
  TENPLEX_ASSIGN_OR_RETURN(const std::int64_t offset, data_offset(index));
  TENPLEX_ASSIGN_OR_RETURN(std::string data, read_string(*source_, offset, entry.size_bytes));
  if (entry.crc32 != 0 && crc32(0, as_bytes(data)) != entry.crc32)
    return corrupt(fmt::format("zip entry '{}': CRC-32 is {:08x}, found {:08x}", entry.name, entry.crc32,
                               crc32(0, as_bytes(data))));
  return data;
}

}  // namespace tenplex
