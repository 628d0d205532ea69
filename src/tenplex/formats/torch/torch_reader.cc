// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tenplex/base/crc32.h"
#include "tenplex/formats/torch/torch_format.h"
#include "tenplex/formats/torch/torch_pickle_reader.h"
#include "tenplex/formats/torch/torch_side.h"
#include "tenplex/formats/torch/zip_archive.h"
#include "tenplex/ptc/dtype.h"

namespace tenplex {
namespace {

constexpr std::string_view kZipMagic = "PK\3\4";
// torch's magic number, pickled with protocol 2, starts the files that PyTorch wrote before 1.6.
constexpr std::string_view kLegacyMagic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e", 15);
constexpr std::int64_t kHeadBytes = 512;

enum class TorchFileKind : std::uint8_t { kOther, kZip, kLegacy, kTar };

Result<TorchFileKind> kind_of(const ByteSource& source) {
  TENPLEX_ASSIGN_OR_RETURN(const std::string head, read_string(source, 0, std::min(kHeadBytes, source.size())));
  if (head.starts_with(kZipMagic)) return TorchFileKind::kZip;
  if (head.starts_with(kLegacyMagic)) return TorchFileKind::kLegacy;
  const bool tar = head.size() >= 262 && std::string_view(head).substr(257, 5) == "ustar";
  for (const std::string_view name : {"sys_info", "pickle", "tensors", "storages"})
    if (tar && head.starts_with(name) && head[name.size()] == '\0') return TorchFileKind::kTar;
  return TorchFileKind::kOther;
}

Error legacy_error() {
  return unsupported(
      "the file has the layout of PyTorch before 1.6, which is no zip; convert it with "
      "torch.save(torch.load(OLD, map_location='cpu'), NEW)");
}

class TorchReader : public CheckpointReader {
 public:
  static Result<std::unique_ptr<CheckpointReader>> open(std::unique_ptr<ByteSource> source, const std::string& path,
                                                        const ReadOptions& options,
                                                        std::span<const std::string_view> ignored_attributes) {
    TENPLEX_ASSIGN_OR_RETURN(const TorchFileKind kind, kind_of(*source));
    if (kind == TorchFileKind::kLegacy || kind == TorchFileKind::kTar) return legacy_error();
    if (kind == TorchFileKind::kOther) return unsupported("the file is no zip and so was not written by torch.save");
    TENPLEX_ASSIGN_OR_RETURN(ZipArchive archive, ZipArchive::open(*source, 0, source->size()));
    std::unique_ptr<TorchReader> reader(new TorchReader(std::move(source), std::move(archive)));
    TENPLEX_TRY(reader->load(path, options, ignored_attributes));
    return std::unique_ptr<CheckpointReader>(std::move(reader));
  }

  const CheckpointInfo& info() const override { return info_; }

  Result<const ByteSource*> file(std::int32_t index) const override {
    TENPLEX_CHECK(index == 0);
    return static_cast<const ByteSource*>(source_.get());
  }

  // Chunk i is tensor i.
  Result<ChunkLocation> locate(std::size_t index) const override {
    const TensorView view = info_.state.view(nodes_[index]);
    const std::size_t entry = entries_[view.storage];
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t begin, archive_.data_offset(entry));
    const ZipEntry& stored = archive_.entries()[entry];
    ChunkLocation location;
    location.strides = view.strides;
    location.offset_bytes = begin;
    // The offset of an empty view may be anything.
    if (volume(info_.tensors[index].shape) > 0)
      location.offset_bytes += view.offset * size_bytes(info_.tensors[index].dtype);
    if (stored.crc32 != 0) location.checked = CheckedRange{begin, stored.size_bytes, stored.crc32};
    return location;
  }

  Result<std::string> read_extra_file(const ExtraFile& file) const override {
    return not_found(fmt::format("'{}': a torch file has no files beside it", file.path));
  }

 private:
  TorchReader(std::unique_ptr<ByteSource> source, ZipArchive archive)
      : source_(std::move(source)), archive_(std::move(archive)) {}

  Result<void> load(const std::string& path, const ReadOptions& options,
                    std::span<const std::string_view> ignored_attributes) {
    TENPLEX_ASSIGN_OR_RETURN(const std::size_t pickle_entry, find_pickle());
    TENPLEX_TRY(check_kind());
    TENPLEX_TRY(check_pickle(pickle_entry, options.max_metadata_bytes));
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t offset, archive_.data_offset(pickle_entry));
    auto parsed = read_torch_pickle(*source_, offset, archive_.entries()[pickle_entry].size_bytes, ignored_attributes)
                      .with_context(fmt::format("'{}/data.pkl'", folder_));
    if (!parsed) return std::move(parsed).error();
    TENPLEX_TRY(find_storages(parsed->storages));
    nodes_ = std::move(parsed->nodes);
    info_.format = "torch";
    info_.tensors = std::move(parsed->tensors);
    info_.state = std::move(parsed->state);
    TENPLEX_TRY(load_side(options.max_metadata_bytes));
    info_.files = {path.substr(path.rfind('/') + 1)};
    for (std::size_t tensor = 0; tensor < info_.tensors.size(); ++tensor) {
      const Dims& shape = info_.tensors[tensor].shape;
      const std::size_t entry = entries_[info_.state.view(nodes_[tensor]).storage];
      info_.chunks.add({TensorId(tensor), DeviceId(0), 0, archive_.entries()[entry].header_offset,
                        Box{Dims::filled(shape.rank(), 0), shape}});
    }
    return {};
  }

  // Free text of another format, in an entry that torch passes over.
  Result<void> load_side(std::int64_t max_bytes) {
    const auto entry = archive_.find(fmt::format("{}/{}", folder_, kTorchSideName));
    if (!entry) return {};
    TENPLEX_ASSIGN_OR_RETURN(const std::string text, archive_.read(*entry, max_bytes));
    auto metadata = decode_torch_side(text).with_context(fmt::format("'{}'", kTorchSideName));
    if (!metadata) return std::move(metadata).error();
    info_.metadata = std::move(*metadata);
    return {};
  }

  // The folder is whatever comes before "/data.pkl".
  Result<std::size_t> find_pickle() {
    for (std::size_t entry = 0; entry < archive_.entries().size(); ++entry) {
      const std::string_view name = archive_.entries()[entry].name;
      const std::size_t slash = name.find('/');
      if (slash == std::string_view::npos || name.substr(slash) != "/data.pkl") continue;
      folder_ = name.substr(0, slash);
      return entry;
    }
    return unsupported("the zip has no 'data.pkl' and so was not written by torch.save");
  }

  Result<void> check_kind() {
    const auto path = [&](std::string_view name) { return fmt::format("{}/{}", folder_, name); };
    if (archive_.find(path("constants.pkl")))
      return unsupported(
          "the file is a TorchScript archive (it has 'constants.pkl'): save the model's state_dict() instead");
    std::string order = "little";
    if (const auto entry = archive_.find(path("byteorder"))) {
      TENPLEX_ASSIGN_OR_RETURN(order, archive_.read(*entry, 64));
    }
    if (order == "big")
      return unsupported(
          "the file was written on a big-endian machine; load it with torch and save it on a little-endian one");
    if (order != "little") return corrupt(fmt::format("the byte order is '{}'", order));
    std::string version = "?";
    if (const auto entry = archive_.find(path("version"))) {
      TENPLEX_ASSIGN_OR_RETURN(version, archive_.read(*entry, 64));
    }
    while (!version.empty() && version.back() == '\n') version.pop_back();
    info_.detail = fmt::format("torch.save zip, version {}, byte order little", version);
    return {};
  }

  // Holds data.pkl against its CRC, a piece at a time.
  Result<void> check_pickle(std::size_t index, std::int64_t max_bytes) const {
    const ZipEntry& entry = archive_.entries()[index];
    if (entry.size_bytes > max_bytes)
      return resource_exhausted(
          fmt::format("'{}' has {} bytes; the limit is {}", entry.name, entry.size_bytes, max_bytes));
    if (entry.crc32 == 0) return {};
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t begin, archive_.data_offset(index));
    std::vector<std::byte> buffer(static_cast<std::size_t>(std::min<std::int64_t>(entry.size_bytes, 256 << 10)));
    std::uint32_t crc = 0;
    for (std::int64_t done = 0; done < entry.size_bytes;) {
      const auto count = std::min<std::int64_t>(entry.size_bytes - done, static_cast<std::int64_t>(buffer.size()));
      const std::span<std::byte> part(buffer.data(), static_cast<std::size_t>(count));
      TENPLEX_TRY(source_->read_at(begin + done, part));
      crc = crc32(crc, part);
      done += count;
    }
    if (crc != entry.crc32)
      return corrupt(fmt::format("'{}': CRC-32 is {:08x}, found {:08x}", entry.name, entry.crc32, crc));
    return {};
  }

  Result<void> find_storages(const std::vector<TorchStorage>& storages) {
    std::set<std::string> devices;
    for (const TorchStorage& storage : storages) {
      const std::string name = fmt::format("{}/data/{}", folder_, storage.key);
      const auto entry = archive_.find(name);
      if (!entry) return corrupt(fmt::format("the pickle refers to '{}', which is not in the zip", name));
      const std::int64_t stored = archive_.entries()[*entry].size_bytes;
      if (stored != storage.size_bytes)
        return corrupt(fmt::format("'{}' has {} bytes, the pickle says {}", name, stored, storage.size_bytes));
      entries_.push_back(*entry);
      if (storage.location != "cpu" && devices.size() < 8) devices.insert(storage.location);
    }
    for (const std::string& device : devices)
      info_.problems.push_back(
          fmt::format("some tensors were saved on device '{}'; torch files are written for 'cpu'", device));
    return {};
  }

  std::unique_ptr<ByteSource> source_;
  ZipArchive archive_;
  std::string folder_;
  std::vector<NodeId> nodes_;         // of each tensor
  std::vector<std::size_t> entries_;  // of each storage
  CheckpointInfo info_;
};

}  // namespace

Result<std::unique_ptr<CheckpointReader>> open_torch_source(std::unique_ptr<ByteSource> source, const std::string& name,
                                                            const ReadOptions& options,
                                                            std::span<const std::string_view> ignored_attributes) {
  return TorchReader::open(std::move(source), name, options, ignored_attributes);
}

bool detect_torch(FileSystem& files, const std::string& path) {
  const auto status = files.status(path);
  if (!status || status->kind == FileKind::kFolder) return false;
  const auto source = files.open(path);
  if (!source) return false;
  const auto kind = kind_of(**source);
  return kind && *kind != TorchFileKind::kOther;
}

Result<std::unique_ptr<CheckpointReader>> open_torch(FileSystem& files, const std::string& path,
                                                     const ReadOptions& options) {
  TENPLEX_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, files.open(path));
  return open_torch_source(std::move(source), path, options).with_context(fmt::format("'{}'", path));
}

}  // namespace tenplex
