// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What every on-disk format gives the engine, and what it gets from it.
//
//   reading:  open_checkpoint(path) ─► CheckpointReader: tensors, chunks (which box lies in which file), state tree
//   writing:  CheckpointWriter::prepare(request) ─► OutputPlan: files as lists of segments, in file order;
//             the engine fills data segments from the plan's copies and asks the writer for the literal ones
//
// A format never moves tensor bytes itself. Source: docs/architecture.md, "How a checkpoint is re-cut".
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/base/progress.h"
#include "tenplex/base/result.h"
#include "tenplex/formats/chunk_table.h"
#include "tenplex/formats/state/state_graph.h"
#include "tenplex/io/file_system.h"
#include "tenplex/ptc/collection.h"

namespace tenplex {

/// How a checkpoint says it was cut, where it does.
struct LayoutNote {
  std::string name;                                        ///< "fsdp", "hf-llama", or the user's family
  std::string text;                                        ///< YAML of the layout
  std::vector<std::pair<std::string, std::int64_t>> mesh;  ///< axis name, size, as given with --to

  friend bool operator==(const LayoutNote&, const LayoutNote&) = default;
};

/// A file that belongs to the checkpoint and is copied as it is (config.json, tokenizer files).
struct ExtraFile {
  std::string path;  ///< relative to the checkpoint's folder
  std::int64_t size_bytes = 0;
};

struct CheckpointInfo {
  std::string format;               ///< as in --format
  std::string detail;               ///< one line for people: "torch 2 zip, byteorder little"
  std::vector<TensorInfo> tensors;  ///< in the order of the files; TensorId indexes it
  ChunkTable chunks;
  std::vector<std::string> files;  ///< relative to the folder, or the file's own name
  int device_count = 1;
  StateGraph state;         ///< root = kNoNode where there are only tensors
  bool has_common = false;  ///< the tree's entry "common" is all that the format does not cut, tensors in it too
  /// Without a tree, which says it itself: tensors that are an earlier one under another name, stored once.
  std::vector<std::pair<TensorId, TensorId>> aliases;
  std::vector<ExtraFile> extra_files;
  std::vector<ExtraFile> unread_files;  ///< extra files in a folder that was not given: ReadOptions::objects_folder
  std::optional<LayoutNote> layout;
  std::int64_t clipped_tensors = 0;                           ///< stored with padding, which clip() left out
  std::vector<std::pair<std::string, std::string>> metadata;  ///< free text that the format keeps beside the tensors
  std::vector<std::string> problems;                          ///< odd but readable: one line each
};

/// A file range that carries an IEEE CRC-32 over all its bytes.
struct CheckedRange {
  std::int64_t begin = 0;
  std::int64_t size = 0;
  std::uint32_t crc32 = 0;
};

struct ChunkLocation {
  std::int64_t offset_bytes = 0;        ///< in the chunk's file, of the box's first element
  Dims strides;                         ///< elements, one per dimension of the box
  std::optional<CheckedRange> checked;  ///< the stored item that contains the chunk
};

class CheckpointReader {
 public:
  virtual ~CheckpointReader() = default;
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;

  virtual const CheckpointInfo& info() const = 0;

  /// Requires: 0 <= index < info().files.size(). Threads: safe together. Errors: io, not_found.
  virtual Result<const ByteSource*> file(std::int32_t index) const = 0;

  /// Where chunk `index` starts; all its elements lie inside the file. Threads: safe together.
  /// Errors: corrupt if the stored item does not hold what the metadata says, io.
  virtual Result<ChunkLocation> locate(std::size_t index) const = 0;

  /// Bytes of an extra file. Errors: io.
  virtual Result<std::string> read_extra_file(const ExtraFile& file) const = 0;

  /// Call it after the last read: what was read is of one state of the checkpoint only if no file changed meanwhile.
  /// Default: nothing is known. Errors: corrupt, naming a file that changed since the checkpoint was opened.
  virtual Result<void> check_unchanged() const { return {}; }

  /// Holds whole files against the checksums that the checkpoint keeps of them, where it keeps any: a phase of
  /// `progress` that reads all of them. Default: there are none. Errors: corrupt naming the file; io, cancelled.
  virtual Result<void> check_files(Progress& progress) const {
    static_cast<void>(progress);
    return {};
  }

 protected:
  CheckpointReader() = default;
};

/// True if two chunks are the same box at the same place of the same file; false too where one cannot be located.
/// Threads: safe together.
bool in_same_place(const CheckpointReader& reader, std::size_t first, std::size_t second);

struct ReadOptions {
  std::string objects_folder;                               ///< --objects: where opaque objects lie; empty = not given
  std::int64_t max_metadata_bytes = std::int64_t{4} << 30;  ///< refuse larger headers, pickles and indexes
  bool follow_links = false;                                ///< --follow-links: also links that leave the folder
  /// --only model: where a format cannot tell what belongs to which parameter in an optimizer, it leaves the optimizer
  /// out instead of giving an error.
  bool model_only = false;
  /// --param-order: the parameters of an optimizer that numbers them or has them flat, in the order of the model, by
  /// their names in the whole model. Empty: not given.
  std::vector<std::string> parameter_order;
};

// ── Writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/// A tensor of a storage that several views share: element i of the tensor is storage[offset + Σ i·strides].
struct StorageView {
  TensorId tensor;
  std::int64_t offset = 0;
  Dims strides;
};

/// A run of bytes of an output file.
struct Segment {
  enum class Kind : std::uint8_t {
    kLiteral,  ///< CheckpointWriter::literal() makes it
    kShard,    ///< the local array of shard `shard` of `tensor`, contiguous
    kPiece,    ///< only piece `piece` of that shard, as a contiguous array of the piece's box
    kStorage,  ///< storage number `shard` of the writer: see CheckpointWriter::storage_views()
    kExtra,    ///< extra file number `shard` of the source, copied as it is
  };
  Kind kind = Kind::kLiteral;
  TensorId tensor;
  std::int32_t piece = 0;
  std::int64_t shard = 0;
  std::int64_t size_bytes = 0;
};

struct OutputFile {
  std::string path;               ///< relative to the target folder; "" = the target itself is this one file
  std::vector<Segment> segments;  ///< in file order, without gaps
  /// The path is relative to WriteRequest::objects_folder instead, which may exist and is created if it does not; the
  /// file is new there or has these bytes already (already_exists otherwise), and synced before the target is
  /// committed. It holds literals and extra files only.
  bool in_objects_folder = false;
  /// It holds literals only, which are asked for after CheckpointWriter::take_written().
  bool after_others = false;
};

struct OutputPlan {
  bool single_file = false;            ///< the target is a file, not a folder
  std::vector<OutputFile> files;       ///< data files
  std::optional<OutputFile> manifest;  ///< written and synced after all of them; its presence means "complete"
  /// Per tensor the one whose stored bytes it shares (itself where it has its own); empty if none shares any. Only the
  /// stored one needs segments.
  std::vector<TensorId> stored_as;
};

struct WriteRequest {
  const CheckpointInfo* source = nullptr;  ///< state, extra files; TensorIds of source and target agree
  const Collection* target = nullptr;      ///< tensors with the dtypes to write
  LayoutNote layout;                       ///< how the target is cut
  std::string target_name;                 ///< last path component of the target, for formats that store it
  std::string objects_folder;              ///< --objects; empty = not given
  bool keep_all_files = true;              ///< false: leave out extra files without a place in the format, or unread
  std::int64_t max_file_bytes = 0;         ///< hf: shard size; 0 = the format's default
  /// deepspeed: how many steps the optimizer has made, where the source does not say it.
  std::optional<std::int64_t> optimizer_steps;
};

/// Opens data file number `file` of the plan for reading, once all its bytes are written.
using OpenWritten = std::function<Result<std::unique_ptr<ByteSource>>(std::int32_t file)>;

class CheckpointWriter {
 public:
  virtual ~CheckpointWriter() = default;
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Lays the files out; sizes are final. Called once. Errors: unsupported names what the format cannot hold and why.
  virtual Result<OutputPlan> prepare(const WriteRequest& request) = 0;

  /// Bytes of literal segment `segment` of data file `file` (−1 = the manifest), exactly its size_bytes long.
  /// `crcs` holds the IEEE CRC-32 of the data segments of this file that come before it, in order (0 for others); for
  /// the manifest it is empty. Threads: safe together.
  virtual Result<std::string> literal(std::int32_t file, std::size_t segment,
                                      std::span<const std::uint32_t> crcs) const = 0;

  /// Called once, if a file of the plan is `after_others`, when all the others but the manifest have their bytes.
  /// Errors: what `open` gave; cancelled.
  virtual Result<void> take_written(const OpenWritten& open, Progress& progress) {
    static_cast<void>(open);
    static_cast<void>(progress);
    return {};
  }

  /// True if literal() reads `crcs`.
  virtual bool needs_crcs() const { return false; }

  /// Of how many data segments just before literal segment `segment` of data file `file` literal() reads the CRCs; the
  /// engine may ask for the literal as soon as those are known, with anything in place of the others. Default: of all.
  virtual std::size_t crcs_needed(std::int32_t file, std::size_t segment) const {
    static_cast<void>(file);
    return segment;
  }

  /// The tensors in storage `index`, for Segment::Kind::kStorage.
  virtual std::vector<StorageView> storage_views(std::int64_t index) const {
    (void)index;
    return {};
  }

 protected:
  CheckpointWriter() = default;
};

/// One on-disk format. A table of these, built by formats(), is the only registry.
struct Format {
  std::string_view name;         ///< as in --format
  std::string_view description;  ///< one line
  /// True if the path looks like this format; reads at most a few KiB.
  bool (*detect)(FileSystem& files, const std::string& path);
  Result<std::unique_ptr<CheckpointReader>> (*open)(FileSystem& files, const std::string& path,
                                                    const ReadOptions& options);
  std::unique_ptr<CheckpointWriter> (*make_writer)();  ///< null: the format is only read
  /// The target with further cuts that the format's own library makes, to be written as it would; null: none. The
  /// writer takes any target.
  std::unique_ptr<Collection> (*as_stored)(std::unique_ptr<Collection> target) = nullptr;
  bool one_master_name = false;  ///< what is written must have gone through with_one_master_name()
};

/// All formats, in the order in which detection tries them.
std::span<const Format> formats();

/// With check_unchanged(). Errors: not_found, unsupported if no format knows the path (the message says what was seen
/// there).
Result<std::unique_ptr<CheckpointReader>> open_checkpoint(FileSystem& files, const std::string& path,
                                                          const ReadOptions& options);

/// A format that is written, by its name. Errors: invalid_argument, listing the names.
Result<const Format*> find_format(std::string_view name);

}  // namespace tenplex
