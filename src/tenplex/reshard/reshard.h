// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The offline engine: streams a checkpoint into another cut, format or dtype, in bounded memory.
//
//   source chunks ─► windows of one tensor at a time ─► output files, all advancing together ─► atomic commit
//
// The target is there, whole, when the call succeeds; on an error, a cancellation or a kill the old target (or nothing)
// is. How it streams and why: docs/design/0001-streaming.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tenplex/base/executor.h"
#include "tenplex/base/progress.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/io/tree_stamp.h"

namespace tenplex {

/// The least that ReshardOptions::max_memory_bytes and the like may be.
inline constexpr std::int64_t kMinMemoryBytes = std::int64_t{1} << 20;

/// Errors: invalid_argument below kMinMemoryBytes.
Result<void> check_memory_limit(std::int64_t max_memory_bytes);

struct ReshardOptions {
  /// Bytes of tensor data held at any time, all threads together; at least kMinMemoryBytes.
  std::int64_t max_memory_bytes = std::int64_t{256} << 20;
  bool overwrite = false;  ///< replace an existing target, in one atomic step
  bool sync = true;        ///< fsync before the commit; false for scratch copies
  bool cast = false;       ///< convert where a target tensor has another dtype; otherwise that is an error
  bool verify = false;     ///< re-read source and target and compare them before the commit; needs `reopen`
  std::optional<TreeStamp> replaced = std::nullopt;  ///< as CommitOptions::replaced
  /// Opens the written target at the given path for `verify`.
  std::function<Result<std::unique_ptr<CheckpointReader>>(const std::string& path)> reopen;
};

struct ReshardReport {
  std::int64_t tensors = 0;
  std::int64_t bytes_needed = 0;   ///< of the source's tensors, each element once
  std::int64_t bytes_read = 0;     ///< tensor data read to write the target; without metadata and verification
  std::int64_t bytes_written = 0;  ///< size of all files written
  std::int64_t files_written = 0;
  std::int64_t windows = 0;            ///< units of work
  std::int64_t peak_buffer_bytes = 0;  ///< most buffer memory that was held, at most max_memory_bytes
  std::int64_t items_checked = 0;      ///< stored items of the source whose CRC was found right
  std::int64_t items_unchecked = 0;    ///< stored items with a CRC that were not read in full
  bool verified = false;
  std::vector<std::string> problems;  ///< TargetNotes::problems, and an old target that could not be removed
  double plan_seconds = 0;            ///< laying out the files and finding overlaps
  double move_seconds = 0;            ///< reading and writing tensor data
  double finish_seconds = 0;          ///< headers, fsync, commit
  double verify_seconds = 0;
};

/// Writes `target` (tensors by the same TensorIds as the source's) with `writer` to `path`.
/// Phases of `progress`: "write", "sync", "verify". Requires: request.source is source.info(), request.target is
/// `target`.
/// Errors: already_exists; corrupt, naming file and tensor, when a CRC does not match or two stored copies of the same
/// elements differ, or a file of the source changed meanwhile; invalid_argument when the source lacks elements, or
/// dtypes differ without `cast`, or `path` ends with '/' and the target is one file; unsupported from the writer;
/// resource_exhausted when the target does not fit on the disk, before anything is written, and when the disk becomes
/// full meanwhile; cancelled; io.
Result<ReshardReport> reshard(const CheckpointReader& source, const Collection& target, CheckpointWriter& writer,
                              const WriteRequest& request, FileSystem& files, const std::string& path,
                              const ReshardOptions& options, Executor& executor, Progress& progress);

}  // namespace tenplex
