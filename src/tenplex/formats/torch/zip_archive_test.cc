// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/torch/zip_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenplex/base/crc32.h"
#include "tenplex/formats/torch/zip_layout.h"
#include "tenplex/io/testing/memory_file_system.h"

namespace tenplex {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;

// Three entries: data.pkl "pickle", data/0 "abcd", data/1 empty, and what ZipLayout adds around them.
std::string small_zip() {
  ZipLayout layout("x");
  layout.begin("pickle");
  layout.add_data(4);
  layout.add_data(0);
  layout.close();
  const std::vector<std::uint32_t> crcs = {crc32(0, as_bytes("abcd"))};
  std::string bytes = layout.literal(0, {}) + "abcd" + layout.literal(2, crcs);
  EXPECT_EQ(static_cast<std::int64_t>(bytes.size()), layout.size_bytes());
  return bytes;
}

class Zip {
 public:
  explicit Zip(std::string bytes) {
    files_.put_file("/z", std::move(bytes));
    source_ = *files_.open("/z");
  }
  const ByteSource& source() const { return *source_; }
  Result<ZipArchive> open() const { return ZipArchive::open(*source_, 0, source_->size()); }

 private:
  MemoryFileSystem files_;
  std::unique_ptr<ByteSource> source_;
};

std::size_t end_record(const std::string& bytes) { return bytes.size() - static_cast<std::size_t>(kZipEndSize); }
// Of central directory entry `index`, counted from 0.
std::size_t central(const std::string& bytes, int index) {
  std::size_t at = bytes.find("PK\1\2");
  for (; index > 0; --index) at = bytes.find("PK\1\2", at + 1);
  return at;
}

std::string archive_error_of(std::string bytes) {
  const Zip zip(std::move(bytes));
  auto archive = zip.open();
  if (!archive) return archive.error().to_string();
  for (std::size_t entry = 0; entry < archive->entries().size(); ++entry)
    if (auto data = archive->read(entry, 1000); !data) return data.error().to_string();
  return "no error";
}

TEST(ZipLayout, WrapsThePickleThatItGaveBackAsIfItHadIt) {
  for (const int data_entries : {0, 2}) {
    ZipLayout layout("x");
    layout.begin("pickle", "side");
    for (int entry = 0; entry < data_entries; ++entry) layout.add_data(4);
    layout.close();
    const std::string whole = layout.literal(0, {});
    const std::string pickle = layout.take_pickle();
    EXPECT_EQ(pickle, "pickle");
    EXPECT_EQ(layout.first_literal(pickle), whole);
    EXPECT_EQ(static_cast<std::int64_t>(whole.size()), layout.part_size(0));
  }
}

TEST(ZipArchive, ReadsEntriesAtMultiplesOf64) {
  const Zip zip(small_zip());
  const auto archive = zip.open();
  ASSERT_TRUE(archive) << archive.error().to_string();
  EXPECT_EQ(archive->entries().size(), 8U);
  for (std::size_t entry = 0; entry < archive->entries().size(); ++entry)
    EXPECT_EQ(*archive->data_offset(entry) % 64, 0);
  EXPECT_EQ(*archive->read(*archive->find("x/data/0"), 100), "abcd");
  EXPECT_EQ(*archive->read(*archive->find("x/data/1"), 100), "");
  EXPECT_EQ(*archive->read(*archive->find("x/data.pkl"), 100), "pickle");
  EXPECT_FALSE(archive->find("x/data/2"));
}

TEST(ZipArchive, OpensARangeOfAFile) {
  const std::string bytes = small_zip();
  const Zip zip("12345" + bytes + "behind");
  const auto archive = ZipArchive::open(zip.source(), 5, static_cast<std::int64_t>(bytes.size()));
  ASSERT_TRUE(archive);
  const std::size_t entry = *archive->find("x/data/0");
  EXPECT_EQ(*archive->data_offset(entry) % 64, 5);
  EXPECT_EQ(*archive->read(entry, 100), "abcd");
}

TEST(ZipArchive, RefusesEveryTruncation) {
  const std::string bytes = small_zip();
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_NE(archive_error_of(bytes.substr(0, size)), "no error") << size;
}

TEST(ZipArchive, FindsAFlippedBitInData) {
  std::string bytes = small_zip();
  bytes[bytes.find("abcd")] = 'b';
  EXPECT_THAT(archive_error_of(bytes), HasSubstr("CRC-32"));
}

TEST(ZipArchive, AcceptsEntriesWithoutACrc) {
  std::string bytes = small_zip();
  bytes.replace(central(bytes, 4) + 16, 4, 4, '\0');
  bytes[bytes.find("abcd")] = 'b';
  EXPECT_EQ(archive_error_of(bytes), "no error");
}

TEST(ZipArchive, RefusesSizesThatReachIntoTheNextEntry) {
  std::string bytes = small_zip();
  const std::size_t at = central(bytes, 4);
  bytes[at + 20] = bytes[at + 24] = 127;
  EXPECT_THAT(archive_error_of(bytes), HasSubstr("overlaps"));
}

TEST(ZipArchive, RefusesEntriesOutsideTheArchive) {
  std::string bytes = small_zip();
  bytes[central(bytes, 4) + 45] = 1;
  EXPECT_THAT(archive_error_of(bytes), HasSubstr("outside"));
}

TEST(ZipArchive, RefusesTwoEntriesInOnePlace) {
  std::string bytes = small_zip();
  bytes.replace(central(bytes, 5) + 42, 4, bytes, central(bytes, 4) + 42, 4);
  EXPECT_THAT(archive_error_of(bytes), HasSubstr("overlaps"));
}

TEST(ZipArchive, RefusesTwoEntriesOfOneName) {
  std::string bytes = small_zip();
  bytes[central(bytes, 5) + 46 + 7] = '0';  // x/data/1 → x/data/0
  EXPECT_THAT(archive_error_of(bytes), HasSubstr("two entries have the name"));
}

TEST(ZipArchive, RefusesNamesThatLeaveTheFolder) {
  std::string bytes = small_zip();
  bytes.replace(central(bytes, 4) + 46, 8, "../ata/0");
  EXPECT_THAT(archive_error_of(bytes), HasSubstr("no name for an entry"));
}

TEST(ZipArchive, RefusesALocalHeaderOfAnotherName) {
  std::string bytes = small_zip();
  bytes[bytes.find("x/data/0")] = 'y';
  EXPECT_THAT(archive_error_of(bytes), HasSubstr("another name"));
}

TEST(ZipArchive, RefusesCompressedAndEncryptedEntries) {
  std::string compressed = small_zip();
  compressed[central(compressed, 4) + 10] = 8;
  EXPECT_THAT(archive_error_of(compressed), HasSubstr("is compressed"));
  std::string encrypted = small_zip();
  encrypted[central(encrypted, 4) + 8] |= 1;
  EXPECT_THAT(archive_error_of(encrypted), HasSubstr("is encrypted"));
}

TEST(ZipArchive, RefusesALocalHeaderThatLeavesNoRoom) {
  std::string bytes = small_zip();
  bytes[bytes.find("x/data/0") - 1] = '\x7f';  // length of its extra field
  EXPECT_THAT(archive_error_of(bytes), HasSubstr("no room"));
}

TEST(ZipArchive, RefusesEndRecordsThatDisagree) {
  std::string bytes = small_zip();
  bytes[end_record(bytes) + 16] ^= 1;
  EXPECT_THAT(archive_error_of(bytes), HasSubstr("disagree"));
  std::string count = small_zip();
  count[end_record(count) + 8] = count[end_record(count) + 10] = 100;
  EXPECT_NE(archive_error_of(count), "no error");
}

TEST(ZipArchive, WithAFlippedByteOfTheDirectoryIsRefusedOrReadsTheSame) {
  const std::string bytes = small_zip();
  const Zip whole(bytes);
  const auto intact = whole.open();
  ASSERT_TRUE(intact);
  int refused = 0;
  for (std::size_t at = bytes.find("PK\1\2"); at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0xff);
    if (archive_error_of(damaged) != "no error") {
      ++refused;
      continue;
    }
    const Zip zip(std::move(damaged));
    const auto archive = zip.open();
    ASSERT_EQ(archive->entries().size(), intact->entries().size()) << at;
    for (std::size_t entry = 0; entry < intact->entries().size(); ++entry) {
      EXPECT_EQ(archive->entries()[entry].name, intact->entries()[entry].name) << at;
      EXPECT_EQ(archive->read(entry, 1000).value(), intact->read(entry, 1000).value()) << at;
    }
  }
  EXPECT_GT(refused, 0);
}

// Offsets and sizes as torch 2.13 wrote them for a list of 2^32 + 5 bytes, three floats and an empty tensor.
TEST(ZipLayout, UsesZip64WhereTorchDoes) {
  ZipLayout layout("b");
  layout.begin(std::string(282, 'p'));
  layout.add_data((std::int64_t{1} << 32) + 5);
  layout.add_data(12);
  layout.add_data(0);
  layout.close();
  EXPECT_EQ(layout.size_bytes(), 4294968576 + 695);
  const std::string middle = layout.literal(2, std::vector<std::uint32_t>{0xb1c2a1a3});
  EXPECT_EQ(middle.substr(0, 24), "PK\7\x08\xa3\xa1\xc2\xb1\5\0\0\0\1\0\0\0\5\0\0\0\1\0\0\0"s);
  EXPECT_EQ(middle.substr(24 + 38, 12), "\1\0\x08\0\x1d\3\0\0\1\0\0\0"s);
  const std::string last = layout.literal(4, std::vector<std::uint32_t>{0xb1c2a1a3, 0});
  EXPECT_EQ(last.substr(last.size() - 22), "PK\5\6\0\0\0\0\x09\0\x09\0\x55\2\0\0\xff\xff\xff\xff\0\0"s);
}

}  // namespace
}  // namespace tenplex
