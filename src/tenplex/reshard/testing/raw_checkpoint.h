// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// A checkpoint format for the engine's own tests: headerless arrays in files, cut as any collection says. It shares no
// code with the engine: bytes are placed one unit at a time.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tenplex/base/crc32.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/io/testing/memory_file_system.h"

namespace tenplex {

/// Bytes of a tensor, row-major. Types of 4 and 6 bits are handled in groups that fill whole bytes.
inline std::int64_t group_of(DType dtype) {
  const int bits = bit_width(dtype) % 8;
  return bits == 4 ? 2 : bits == 6 ? 4 : 1;
}
inline std::int64_t group_bytes(DType dtype) { return group_of(dtype) * bit_width(dtype) / 8; }

inline std::string random_bytes(std::int64_t size, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(static_cast<std::size_t>(size), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

/// Calls visit(tensor_byte, local_byte) for every group of elements of a piece.
template <typename Visit>
void for_each_group(const TensorInfo& tensor, const Piece& piece, Visit visit) {
  if (piece.box.empty()) return;
  const std::int64_t group = group_of(tensor.dtype);
  const Dims tensor_strides = row_major_strides(tensor.shape);
  const int rank = piece.box.rank();
  Dims index = Dims::filled(rank, 0);
  for (;;) {
    std::int64_t global = 0;
    std::int64_t local = piece.local_offset;
    for (int dim = 0; dim < rank; ++dim) {
      global += (piece.box.offset[dim] + index[dim]) * tensor_strides[dim];
      local += index[dim] * piece.local_strides[dim];
    }
    visit(global / group * group_bytes(tensor.dtype), local / group * group_bytes(tensor.dtype));
    int dim = rank - 1;
    while (dim >= 0 && (index[dim] += dim == rank - 1 ? group : 1) >= piece.box.extent[dim]) index[dim--] = 0;
    if (dim < 0) return;
  }
}

/// The local array of a shard, padding zero.
inline std::string local_array(const TensorInfo& tensor, const SubTensor& shard, const std::string& content) {
  std::string local(static_cast<std::size_t>(*packed_bytes(tensor.dtype, volume(shard.local_shape))), '\0');
  const auto bytes = static_cast<std::size_t>(group_bytes(tensor.dtype));
  for (const Piece& piece : shard.pieces) {
    for_each_group(tensor, piece, [&](std::int64_t global, std::int64_t at) {
      std::memcpy(local.data() + at, content.data() + global, bytes);
    });
  }
  return local;
}

class RawReader : public CheckpointReader {
 public:
  RawReader(FileSystem& files, std::string folder) : files_(files), folder_(std::move(folder)) {}

  const CheckpointInfo& info() const override { return info_; }
  Result<const ByteSource*> file(std::int32_t index) const override {
    const std::lock_guard lock(mutex_);
    auto& source = sources_[index];
    if (!source) {
      TENPLEX_ASSIGN_OR_RETURN(source, files_.open_below(folder_, info_.files[static_cast<std::size_t>(index)]));
    }
    return source.get();
  }
  Result<ChunkLocation> locate(std::size_t index) const override { return locations_[index]; }
  Result<std::string> read_extra_file(const ExtraFile& file) const override {
    TENPLEX_ASSIGN_OR_RETURN(const auto source, files_.open_below(folder_, file.path));
    return read_string(*source, 0, source->size());
  }

  Result<void> check_unchanged() const override {
    if (changed_) return corrupt("it changed");
    return {};
  }

  CheckpointInfo info_;
  std::vector<ChunkLocation> locations_;
  bool changed_ = false;  ///< what check_unchanged() finds

 private:
  FileSystem& files_;
  std::string folder_;
  mutable std::mutex mutex_;
  mutable std::map<std::int32_t, std::unique_ptr<ByteSource>> sources_;
};

struct RawSourceOptions {
  bool checked = true;    ///< every shard is an item with a CRC
  std::int64_t gap = 40;  ///< bytes between items
  std::int64_t first_gap = 7;
};

/// Writes one file per device and returns a reader of them.
inline std::unique_ptr<RawReader> put_raw_checkpoint(MemoryFileSystem& files, FileSystem& through,
                                                     const std::string& folder, const Collection& collection,
                                                     const std::vector<std::string>& contents,
                                                     const RawSourceOptions& options = {}) {
  auto reader = std::make_unique<RawReader>(through, folder);
  reader->info_.format = "raw";
  reader->info_.tensors.assign(collection.tensors().begin(), collection.tensors().end());
  reader->info_.device_count = collection.device_count();
  std::vector<std::int64_t> shards;
  SubTensor shard;
  for (int device = 0; device < collection.device_count(); ++device) {
    std::string bytes(static_cast<std::size_t>(options.first_gap), '!');
    reader->info_.files.push_back("rank" + std::to_string(device));
    for (std::size_t t = 0; t < reader->info_.tensors.size(); ++t) {
      collection.shards_of_device(TensorId(t), DeviceId(device), &shards);
      for (const std::int64_t index : shards) {
        collection.shard(TensorId(t), index, &shard);
        const std::string local = local_array(reader->info_.tensors[t], shard, contents[t]);
        const auto begin = static_cast<std::int64_t>(bytes.size());
        for (const Piece& piece : shard.pieces) {
          ChunkLocation location;
          location.offset_bytes = begin + piece.local_offset * bit_width(reader->info_.tensors[t].dtype) / 8;
          location.strides = piece.local_strides;
          if (options.checked)
            location.checked = CheckedRange{begin, static_cast<std::int64_t>(local.size()), crc32(0, as_bytes(local))};
          reader->locations_.push_back(location);
          reader->info_.chunks.add({TensorId(t), DeviceId(device), device, begin, piece.box});
        }
        bytes += local + std::string(static_cast<std::size_t>(options.gap), '!');
      }
    }
    files.put_file(folder + "/rank" + std::to_string(device), bytes);
  }
  return reader;
}

struct RawWriterOptions {
  bool pieces = false;  ///< shards as kPiece segments
  bool crcs = true;     ///< after every array its CRC-32, as a literal
  bool manifest = true;
  /// Tensors that share one storage of this many bytes; the others are written as shards.
  std::vector<StorageView> storage = {};
  std::int64_t storage_bytes = 0;
  bool also_as_shards = false;                      ///< those of the storage too
  std::int64_t left_out_shard = -1;                 ///< of every tensor; -1 = none
  std::vector<TensorId> stored_as = {};             ///< as OutputPlan::stored_as
  std::map<std::string, std::string> objects = {};  ///< files of the objects folder
};

class RawWriter : public CheckpointWriter {
 public:
  explicit RawWriter(RawWriterOptions options = {}) : options_(std::move(options)) {}

  Result<OutputPlan> prepare(const WriteRequest& request) override {
    const Collection& target = *request.target;
    std::vector<std::int64_t> shards;
    SubTensor shard;
    for (int device = 0; device < target.device_count(); ++device) {
      OutputFile file;
      file.path = "files/rank" + std::to_string(device);
      file.segments.push_back({Segment::Kind::kLiteral, {}, 0, 0, 5});
      if (device == 0 && !options_.storage.empty())
        add(&file, {Segment::Kind::kStorage, {}, 0, 0, options_.storage_bytes});
      for (std::size_t t = 0; t < target.tensors().size(); ++t) {
        bool stored = false;
        for (const StorageView& view : options_.storage)
          stored = stored || (view.tensor == TensorId(t) && !options_.also_as_shards);
        if (!options_.stored_as.empty()) stored = stored || options_.stored_as[t] != TensorId(t);
        if (stored) continue;
        const DType dtype = target.tensors()[t].dtype;
        target.shards_of_device(TensorId(t), DeviceId(device), &shards);
        for (const std::int64_t index : shards) {
          if (index == options_.left_out_shard) continue;
          target.shard(TensorId(t), index, &shard);
          if (!options_.pieces) {
            add(&file, {Segment::Kind::kShard, TensorId(t), 0, index, *packed_bytes(dtype, volume(shard.local_shape))});
            continue;
          }
          for (std::size_t piece = 0; piece < shard.pieces.size(); ++piece) {
            add(&file, {Segment::Kind::kPiece, TensorId(t), static_cast<std::int32_t>(piece), index,
                        *packed_bytes(dtype, volume(shard.pieces[piece].box))});
          }
        }
      }
      plan_.files.push_back(std::move(file));
    }
    for (std::size_t i = 0; i < request.source->extra_files.size(); ++i) {
      const ExtraFile& extra = request.source->extra_files[i];
      plan_.files.push_back(
          {extra.path, {{Segment::Kind::kExtra, {}, 0, static_cast<std::int64_t>(i), extra.size_bytes}}});
    }
    for (const auto& [path, content] : options_.objects) {
      plan_.files.push_back({path, {{Segment::Kind::kLiteral, {}, 0, 0, std::ssize(content)}}, true});
    }
    plan_.stored_as = options_.stored_as;
    if (options_.manifest) plan_.manifest = OutputFile{"manifest", {{Segment::Kind::kLiteral, {}, 0, 0, 4}}};
    return plan_;
  }

  Result<std::string> literal(std::int32_t file, std::size_t segment,
                              std::span<const std::uint32_t> crcs) const override {
    if (file < 0) return std::string("done");
    const OutputFile& out = plan_.files[static_cast<std::size_t>(file)];
    if (out.in_objects_folder) return options_.objects.at(out.path);
    if (segment == 0) return std::string("RAW01");
    std::string bytes(4, '\0');
    std::memcpy(bytes.data(), &crcs[segment - 1], 4);
    return bytes;
  }

  bool needs_crcs() const override { return options_.crcs; }
  std::vector<StorageView> storage_views(std::int64_t) const override { return options_.storage; }

  const OutputPlan& plan() const { return plan_; }

 private:
  void add(OutputFile* file, const Segment& segment) const {
    file->segments.push_back(segment);
    if (options_.crcs) file->segments.push_back({Segment::Kind::kLiteral, {}, 0, 0, 4});
  }

  RawWriterOptions options_;
  OutputPlan plan_;
};

/// What the files of the target must hold, path → bytes.
inline std::map<std::string, std::string> expected_files(const RawWriter& writer, const Collection& target,
                                                         const std::vector<std::string>& contents,
                                                         const std::string& storage = "") {
  std::map<std::string, std::string> files;
  SubTensor shard;
  for (const OutputFile& file : writer.plan().files) {
    std::string bytes;
    std::uint32_t crc = 0;
    for (std::size_t i = 0; i < file.segments.size(); ++i) {
      const Segment& segment = file.segments[i];
      std::string part;
      if (segment.kind == Segment::Kind::kLiteral) {
        part = i == 0 ? "RAW01" : std::string(reinterpret_cast<const char*>(&crc), 4);
      } else if (segment.kind == Segment::Kind::kExtra) {
        part = "extra";
      } else if (segment.kind == Segment::Kind::kStorage) {
        part = storage;
      } else {
        const TensorInfo& tensor = target.tensors()[segment.tensor.index()];
        target.shard(segment.tensor, segment.shard, &shard);
        if (segment.kind == Segment::Kind::kPiece) {
          shard = sub_tensor_of_box(shard.pieces[static_cast<std::size_t>(segment.piece)].box);
        }
        part = local_array(tensor, shard, contents[segment.tensor.index()]);
      }
      crc = crc32(0, as_bytes(part));
      bytes += part;
    }
    files[file.path] = bytes;
  }
  if (writer.plan().manifest) files["manifest"] = "done";
  return files;
}

inline std::map<std::string, std::string> files_of(const MemoryFileSystem& files, const std::string& folder) {
  std::map<std::string, std::string> contents;
  for (const std::string& path : files.files_below(folder))
    contents[path] = files.content(fmt::format("{}/{}", folder, path)).value();
  return contents;
}

}  // namespace tenplex
