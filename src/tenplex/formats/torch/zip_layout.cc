// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/torch/zip_layout.h"

#include <fmt/format.h>

#include "tenplex/base/bytes.h"
#include "tenplex/base/crc32.h"

namespace tenplex {
namespace {

constexpr std::size_t kSerializationIdSize = 40;
constexpr std::string_view kSerializationIdName = ".data/serialization_id";

std::uint64_t combine(std::uint64_t seed, std::uint64_t value) {
  return seed ^ (value + 0x9e3779b9 + (seed << 6) + (seed >> 2));
}

}  // namespace

void ZipLayout::add(std::string_view name, std::string bytes) {
  Entry entry;
  entry.name.reserve(folder_.size() + 1 + name.size());
  entry.name.append(folder_).append("/").append(name);
  entry.header_offset = static_cast<std::uint64_t>(size_bytes_);
  entry.size = bytes.size();
  entry.crc32 = crc32(0, as_bytes(bytes));
  entry.bytes = std::move(bytes);
  size_bytes_ += static_cast<std::int64_t>(zip_local_size(entry) + entry.size + zip_descriptor_size(entry));
  entries_.push_back(std::move(entry));
}

void ZipLayout::begin(std::string pickle, std::string side) {
  entries_.reserve(7);
  add("data.pkl", std::move(pickle));
  add(".format_version", "1");
  add(".storage_alignment", "64");
  add("byteorder", "little");
  if (!side.empty()) add("tenplex.json", std::move(side));
  first_data_ = entries_.size();
}

void ZipLayout::add_data(std::int64_t size_bytes) {
  Entry entry;
  entry.name = fmt::format("{}/data/{}", folder_, entries_.size() - first_data_);
  entry.header_offset = static_cast<std::uint64_t>(size_bytes_);
  entry.size = static_cast<std::uint64_t>(size_bytes);
  size_bytes_ += static_cast<std::int64_t>(zip_local_size(entry) + entry.size + zip_descriptor_size(entry));
  if (size_bytes > 0) data_parts_.push_back(entries_.size());
  entries_.push_back(std::move(entry));
}

void ZipLayout::close() {
  add("version", "3\n");
  for (const Entry& entry : entries_)
    names_ = combine(names_, crc32(0, as_bytes(std::string_view(entry.name).substr(folder_.size()))));
  add(kSerializationIdName, std::string(kSerializationIdSize, '0'));
  for (const Entry& entry : entries_) size_bytes_ += static_cast<std::int64_t>(zip_central_size(entry));
  size_bytes_ += kZipTailSize;
}

std::int64_t ZipLayout::data_begin(std::size_t entry) const {
  return static_cast<std::int64_t>(entries_[entry].header_offset + zip_local_size(entries_[entry]));
}

std::int64_t ZipLayout::data_end(std::size_t entry) const {
  return data_begin(entry) + static_cast<std::int64_t>(entries_[entry].size);
}

std::int64_t ZipLayout::part_size(std::size_t part) const {
  const std::size_t data = part / 2;
  if (part % 2 == 1) return static_cast<std::int64_t>(entries_[data_parts_[data]].size);
  const std::int64_t begin = data == 0 ? 0 : data_end(data_parts_[data - 1]);
  return (data == data_parts_.size() ? size_bytes_ : data_begin(data_parts_[data])) - begin;
}

std::string ZipLayout::literal(std::size_t part, std::span<const std::uint32_t> data_crcs) const {
  const std::size_t data = part / 2;
  std::string out;
  out.reserve(static_cast<std::size_t>(part_size(part)));
  std::size_t entry = 0;
  if (data > 0) {
    entry = data_parts_[data - 1];
    put_zip_descriptor(out, entries_[entry], data_crcs.back());
    ++entry;
  }
  put_entries(out, entry, data, data_crcs);
  return out;
}

std::string ZipLayout::first_literal(std::string pickle) const {
  std::string head;
  put_zip_local(head, entries_.front());
  pickle.reserve(static_cast<std::size_t>(part_size(0)));
  pickle.insert(0, head);
  put_zip_descriptor(pickle, entries_.front(), entries_.front().crc32);
  put_entries(pickle, 1, 0, {});
  return pickle;
}

// The entries from `entry` on up to the local header of data number `data`, or to the end of the archive.
void ZipLayout::put_entries(std::string& out, std::size_t entry, std::size_t data,
                            std::span<const std::uint32_t> data_crcs) const {
  const bool last = data == data_parts_.size();
  const std::size_t end = last ? entries_.size() : data_parts_[data];
  const std::string id = last ? serialization_id(data_crcs) : std::string();
  const std::uint32_t id_crc = crc32(0, as_bytes(id));
  for (; entry < end; ++entry) {
    const bool is_id = last && entry + 1 == entries_.size();
    put_zip_local(out, entries_[entry]);
    out += is_id ? id : entries_[entry].bytes;
    put_zip_descriptor(out, entries_[entry], is_id ? id_crc : entries_[entry].crc32);
  }
  if (last) {
    put_directory(out, data_crcs, id_crc);
  } else {
    put_zip_local(out, entries_[end]);
  }
}

void ZipLayout::put_directory(std::string& out, std::span<const std::uint32_t> data_crcs, std::uint32_t id_crc) const {
  std::uint64_t size = 0;
  std::size_t data = 0;
  for (std::size_t entry = 0; entry < entries_.size(); ++entry) {
    std::uint32_t crc = entries_[entry].crc32;
    if (data < data_parts_.size() && data_parts_[data] == entry) crc = data_crcs[data++];
    if (entry + 1 == entries_.size()) crc = id_crc;
    put_zip_central(out, entries_[entry], crc);
    size += zip_central_size(entries_[entry]);
  }
  const std::uint64_t offset = static_cast<std::uint64_t>(size_bytes_ - kZipTailSize) - size;
  put_zip_tail(out, entries_.size(), offset, size);
}

// 20 digits of the names and 20 of the contents: equal checkpoints have equal ids.
std::string ZipLayout::serialization_id(std::span<const std::uint32_t> data_crcs) const {
  std::uint64_t contents = 0;
  std::size_t data = 0;
  for (std::size_t entry = 0; entry + 1 < entries_.size(); ++entry) {
    const bool is_data = data < data_parts_.size() && data_parts_[data] == entry;
    contents = combine(contents, is_data ? data_crcs[data++] : entries_[entry].crc32);
  }
  return fmt::format("{:020}{:020}", names_, contents);
}

}  // namespace tenplex
