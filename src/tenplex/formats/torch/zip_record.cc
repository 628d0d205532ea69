// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/torch/zip_record.h"

#include <algorithm>
#include <array>

namespace tenplex {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPaddingHeader = 4;  // "FB", length
constexpr std::uint64_t kFlags = 0x0808;   // UTF-8 names, sizes in a descriptor after the data
constexpr std::uint64_t kFlagsOfEmpty = 0x0800;

std::uint64_t get(std::string_view text, std::size_t at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t byte = bytes; byte-- > 0;) value = (value << 8) | static_cast<unsigned char>(text[at + byte]);
  return value;
}

template <std::size_t kBytes>
void put(std::string& out, std::uint64_t value) {
  std::array<char, kBytes> little;
  for (std::size_t byte = 0; byte < kBytes; ++byte) little[byte] = static_cast<char>((value >> (8 * byte)) & 0xff);
  out.append(little.data(), kBytes);
}

// Sizes are in the zip64 extra field both or not at all; in the local header and in the directory alike.
std::size_t zip64_extra_size(const ZipItem& item) {
  if (!item.wide()) return 0;
  return 4 + (item.size >= kZipSaturated32 ? 16U : 0U) + (item.header_offset >= kZipSaturated32 ? 8U : 0U);
}

void put_zip64_extra(std::string& out, const ZipItem& item) {
  if (!item.wide()) return;
  put_u16(out, kZip64ExtraId);
  put_u16(out, zip64_extra_size(item) - 4);
  if (item.size >= kZipSaturated32) {
    put_u64(out, item.size);
    put_u64(out, item.size);
  }
  if (item.header_offset >= kZipSaturated32) put_u64(out, item.header_offset);
}

std::uint64_t saturated(std::uint64_t value, std::uint64_t limit) { return std::min(value, limit); }

}  // namespace

std::uint16_t get_u16(std::string_view text, std::size_t at) { return static_cast<std::uint16_t>(get(text, at, 2)); }
std::uint32_t get_u32(std::string_view text, std::size_t at) { return static_cast<std::uint32_t>(get(text, at, 4)); }
std::uint64_t get_u64(std::string_view text, std::size_t at) { return get(text, at, 8); }
void put_u16(std::string& out, std::uint64_t value) { put<2>(out, value); }
void put_u32(std::string& out, std::uint64_t value) { put<4>(out, value); }
void put_u64(std::string& out, std::uint64_t value) { put<8>(out, value); }

Result<ZipCentralHeader> parse_central_header(std::string_view* rest) {
  const std::string_view text = *rest;
  if (text.size() < static_cast<std::size_t>(kZipCentralSize) || get_u32(text, 0) != kZipCentralMagic)
    return corrupt("zip directory: an entry is cut off or damaged");
  const std::size_t name_size = get_u16(text, 28);
  const std::size_t extra_size = get_u16(text, 30);
  const std::size_t total = static_cast<std::size_t>(kZipCentralSize) + name_size + extra_size + get_u16(text, 32);
  if (total > text.size()) return corrupt("zip directory: an entry is cut off");
  ZipCentralHeader header;
  header.flags = get_u16(text, 8);
  header.method = get_u16(text, 10);
  header.crc32 = get_u32(text, 16);
  header.compressed_size = get_u32(text, 20);
  header.size = get_u32(text, 24);
  header.header_offset = get_u32(text, 42);
  header.name = text.substr(static_cast<std::size_t>(kZipCentralSize), name_size);
  header.extra = text.substr(static_cast<std::size_t>(kZipCentralSize) + name_size, extra_size);
  rest->remove_prefix(total);
  return header;
}

std::size_t zip_padding(const ZipItem& item) {
  const std::size_t start = item.header_offset + static_cast<std::size_t>(kZipLocalSize) + item.name.size() +
                            zip64_extra_size(item) + kPaddingHeader;
  return (kAlignment - start % kAlignment) % kAlignment;
}

std::size_t zip_local_size(const ZipItem& item) {
  return static_cast<std::size_t>(kZipLocalSize) + item.name.size() + zip64_extra_size(item) + kPaddingHeader +
         zip_padding(item);
}

std::size_t zip_descriptor_size(const ZipItem& item) {
  if (item.size == 0) return 0;
  return item.wide() ? 24 : 16;
}

std::size_t zip_central_size(const ZipItem& item) {
  return static_cast<std::size_t>(kZipCentralSize) + item.name.size() + zip64_extra_size(item);
}

void put_zip_local(std::string& out, const ZipItem& item) {
  const std::size_t padding = zip_padding(item);
  put_u32(out, kZipLocalMagic);
  put_u16(out, 0);  // version needed
  put_u16(out, item.size == 0 ? kFlagsOfEmpty : kFlags);
  out.append(18, '\0');  // method, time, date, CRC, sizes
  put_u16(out, item.name.size());
  put_u16(out, zip64_extra_size(item) + kPaddingHeader + padding);
  out += item.name;
  put_zip64_extra(out, item);
  out += "FB";
  put_u16(out, padding);
  out.append(padding, 'Z');
}

void put_zip_descriptor(std::string& out, const ZipItem& item, std::uint32_t crc32) {
  if (item.size == 0) return;
  put_u32(out, kZipDescriptorMagic);
  put_u32(out, crc32);
  for (int copy = 0; copy < 2; ++copy) item.wide() ? put_u64(out, item.size) : put_u32(out, item.size);
}

void put_zip_central(std::string& out, const ZipItem& item, std::uint32_t crc32) {
  put_u32(out, kZipCentralMagic);
  put_u32(out, 0);  // versions
  put_u16(out, item.size == 0 ? kFlagsOfEmpty : kFlags);
  out.append(6, '\0');  // method, time, date
  put_u32(out, crc32);
  put_u32(out, saturated(item.size, kZipSaturated32));
  put_u32(out, saturated(item.size, kZipSaturated32));
  put_u16(out, item.name.size());
  put_u16(out, zip64_extra_size(item));
  out.append(10, '\0');  // comment, disk, attributes
  put_u32(out, saturated(item.header_offset, kZipSaturated32));
  out += item.name;
  put_zip64_extra(out, item);
}

void put_zip_tail(std::string& out, std::uint64_t entries, std::uint64_t directory_offset,
                  std::uint64_t directory_size) {
  put_u32(out, kZip64EndMagic);
  put_u64(out, static_cast<std::uint64_t>(kZip64EndSize) - 12);
  put_u16(out, 0x031e);  // made by
  put_u16(out, 45);      // needed
  put_u64(out, 0);       // disks
  put_u64(out, entries);
  put_u64(out, entries);
  put_u64(out, directory_size);
  put_u64(out, directory_offset);
  put_u32(out, kZip64LocatorMagic);
  put_u32(out, 0);
  put_u64(out, directory_offset + directory_size);
  put_u32(out, 1);
  put_u32(out, kZipEndMagic);
  put_u32(out, 0);
  put_u16(out, saturated(entries, kZipSaturated16));
  put_u16(out, saturated(entries, kZipSaturated16));
  put_u32(out, saturated(directory_size, kZipSaturated32));
  put_u32(out, saturated(directory_offset, kZipSaturated32));
  put_u16(out, 0);
}

}  // namespace tenplex
