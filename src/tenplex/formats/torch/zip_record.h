// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The records of a zip file, byte by byte, for the reader and the writer. Threads: functions without state.
// Source: PKWARE APPNOTE 6.3; the fields torch's copy of miniz writes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tenplex/base/result.h"

namespace tenplex {

inline constexpr std::uint32_t kZipLocalMagic = 0x04034b50;
inline constexpr std::uint32_t kZipDescriptorMagic = 0x08074b50;
inline constexpr std::uint32_t kZipCentralMagic = 0x02014b50;
inline constexpr std::uint32_t kZip64EndMagic = 0x06064b50;
inline constexpr std::uint32_t kZip64LocatorMagic = 0x07064b50;
inline constexpr std::uint32_t kZipEndMagic = 0x06054b50;

inline constexpr std::int64_t kZipLocalSize = 30;
inline constexpr std::int64_t kZipCentralSize = 46;
inline constexpr std::int64_t kZip64EndSize = 56;
inline constexpr std::int64_t kZip64LocatorSize = 20;
inline constexpr std::int64_t kZipEndSize = 22;

inline constexpr std::uint16_t kZip64ExtraId = 1;
inline constexpr std::uint16_t kZipSaturated16 = 0xffff;
inline constexpr std::uint32_t kZipSaturated32 = 0xffffffff;

/// Little-endian integers. Requires: they lie inside `text`.
std::uint16_t get_u16(std::string_view text, std::size_t at);
std::uint32_t get_u32(std::string_view text, std::size_t at);
std::uint64_t get_u64(std::string_view text, std::size_t at);

void put_u16(std::string& out, std::uint64_t value);
void put_u32(std::string& out, std::uint64_t value);
void put_u64(std::string& out, std::uint64_t value);

/// A header of the central directory; sizes and offset are widened by the caller from the zip64 extra field.
struct ZipCentralHeader {
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
  std::uint32_t crc32 = 0;
  std::uint64_t compressed_size = 0;
  std::uint64_t size = 0;
  std::uint64_t header_offset = 0;
  std::string_view name;
  std::string_view extra;
};

/// Takes one header off the front of `*rest`. Errors: corrupt.
Result<ZipCentralHeader> parse_central_header(std::string_view* rest);

/// What a writer says about one entry.
struct ZipItem {
  std::string name;
  std::uint64_t header_offset = 0;
  std::uint64_t size = 0;

  bool wide() const { return size >= kZipSaturated32 || header_offset >= kZipSaturated32; }
};

/// Sizes of the parts of an entry whose data start at a multiple of 64, as torch writes them.
std::size_t zip_padding(const ZipItem& item);
std::size_t zip_local_size(const ZipItem& item);
std::size_t zip_descriptor_size(const ZipItem& item);
std::size_t zip_central_size(const ZipItem& item);

void put_zip_local(std::string& out, const ZipItem& item);
void put_zip_descriptor(std::string& out, const ZipItem& item, std::uint32_t crc32);
void put_zip_central(std::string& out, const ZipItem& item, std::uint32_t crc32);

/// The three end records. `directory_offset` and `directory_size` locate the central directory.
inline constexpr std::int64_t kZipTailSize = kZip64EndSize + kZip64LocatorSize + kZipEndSize;
void put_zip_tail(std::string& out, std::uint64_t entries, std::uint64_t directory_offset,
                  std::uint64_t directory_size);

}  // namespace tenplex
