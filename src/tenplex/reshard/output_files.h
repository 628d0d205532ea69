// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// OutputFiles: the files of the target, and those beside it in the objects folder, while they are written, all of them
// open at once, and what is known of each data segment: its CRC-32, and which parts of it are there.
//
// Resource. Threads: write() calls on different ranges are safe together; the other calls one at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenplex/base/executor.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/io/added_files.h"
#include "tenplex/io/commit.h"
#include "tenplex/reshard/crc_parts.h"
#include "tenplex/reshard/output_layout.h"

namespace tenplex {

/// Bytes of an array that are ready in memory.
struct ReadyBytes {
  const OutputArray* array = nullptr;
  std::int64_t begin = 0;  ///< in the array
  const std::byte* memory = nullptr;
  std::int64_t size = 0;
  bool track = false;  ///< the array has padding: note what was written
};

class OutputFiles {
 public:
  /// Creates every data file. `objects` takes those of the objects folder, which are written at once, so that one that
  /// is there already is found before any tensor moves. All arguments outlive the object.
  /// Errors: as AtomicTarget::create_file() and AddedFiles::create_file(); the writer's.
  static Result<std::unique_ptr<OutputFiles>> create(AtomicTarget& target, AddedFiles& objects, const OutputPlan& plan,
                                                     const OutputLayout& layout, const CheckpointWriter& writer,
                                                     const CheckpointReader& source);

  /// Where an array is written first.
  const Destination& first_place(const OutputArray& array) const { return layout_.destinations(array).front(); }

  /// Writes ranges of arrays; neighbours in a file become one call, with the literals between them where their CRCs are
  /// known by then. Requires: sorted by first destination. Errors: resource_exhausted, io.
  Result<void> write(std::span<const ReadyBytes> ranges);

  /// Writes zeros wherever an array with padding was not written.
  Result<void> write_padding(const OutputArray& array);

  /// Literal and extra segments of all data files but the last ones, then fsync (if the target's options ask), then the
  /// manifest. Errors: the writer's; internal if a segment is incomplete; resource_exhausted, io.
  Result<void> write_literals(const CheckpointReader& source, Executor& executor, std::stop_token stop);
  /// Between the two: files with OutputFile::after_others, after the writer's take_written().
  Result<void> write_last_files(const CheckpointReader& source);
  Result<void> finish(const CheckpointReader& source, Executor& executor, std::stop_token stop);

  std::int64_t bytes_written() const { return bytes_written_; }
  std::int64_t file_count() const { return static_cast<std::int64_t>(plan_.files.size()) + (plan_.manifest ? 1 : 0); }

 private:
  OutputFiles(AtomicTarget& target, AddedFiles& objects, const OutputPlan& plan, const OutputLayout& layout,
              const CheckpointWriter& writer)
      : target_(target),
        objects_(objects),
        plan_(plan),
        layout_(layout),
        writer_(writer),
        needs_crcs_(writer.needs_crcs()) {}
  class Run;
  struct File {
    std::unique_ptr<ByteSink> sink;
    // Per segment. An entry is written by the thread that completes the segment and read by the others after a join.
    std::vector<std::uint32_t> crcs;  // empty without needs_crcs_
    std::vector<std::uint8_t> done;   // of data: its CRC is known; of literals: it is written
  };
  struct Stripe {
    mutable std::mutex mutex;
    std::map<std::pair<std::int32_t, std::uint32_t>, CrcParts> parts;  // by file and segment, not complete yet
  };

  Result<void> write_at(std::size_t file, std::int64_t offset, ByteSpan bytes);
  Stripe& stripe_of(const Destination& place) const {
    return stripes_[(place.segment + static_cast<std::size_t>(place.file) * 31) % stripes_.size()];
  }
  void note(const OutputArray& array, std::int64_t begin, std::int64_t end, std::uint32_t crc);
  Result<std::string> literal(std::int32_t file, std::size_t segment, std::span<const std::uint32_t> crcs) const;
  Result<void> check_data_segments(std::size_t file) const;
  Result<void> write_segments(const OutputFile& file, std::int32_t index, ByteSink& sink,
                              const CheckpointReader& source);
  Result<void> sync_names();
  Result<void> write_manifest(const CheckpointReader& source);

  AtomicTarget& target_;
  AddedFiles& objects_;
  const OutputPlan& plan_;
  const OutputLayout& layout_;
  const CheckpointWriter& writer_;
  const bool needs_crcs_;
  std::vector<File> files_;
  mutable std::array<Stripe, 64> stripes_;
  std::atomic<std::int64_t> bytes_written_ = 0;
};

}  // namespace tenplex
