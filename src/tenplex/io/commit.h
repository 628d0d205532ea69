// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// AtomicTarget: a file or a folder that appears whole or not at all.
//
//   out.tenplex-partial-3f9c0d21a6b8e754/   written beside the target, locked while its writer lives
//     data files ─► fsync ─► folders ─► fsync ─► manifest ─► fsync
//   rename to out (refusing an existing one), or swap with the old out ─► fsync of the parent ─► old one removed
//                                             (if it is not the one that was to be replaced: swap back)
//
// Of a long name the partial one has only the start. Until the rename there is nothing under the target's name but what
// was there before; after it, what is there is complete and durable. An object that goes without commit() removes what
// it wrote. What a killed process left behind carries no lock, and the next writer of the same target removes it.
//
// Resource. Threads: create_file() calls are safe together; the other calls one at a time.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "tenplex/io/file_system.h"
#include "tenplex/io/tree_stamp.h"

namespace tenplex {

struct CommitOptions {
  bool single_file = false;  ///< the target is a file: create_file("") makes it
  bool overwrite = false;    ///< swap with an existing target, whose permissions it takes, then remove the old one
  bool sync = true;          ///< make everything durable on the way
  /// What `overwrite` may replace, as the caller saw it; else what begin() finds. Anything else stays.
  std::optional<TreeStamp> replaced = std::nullopt;
};

class AtomicTarget {
 public:
  /// Errors: already_exists without `overwrite`; not_found if the parent folder is missing; io.
  static Result<std::unique_ptr<AtomicTarget>> begin(FileSystem& files, const std::string& path,
                                                     const CommitOptions& options);
  ~AtomicTarget();
  AtomicTarget(const AtomicTarget&) = delete;
  AtomicTarget& operator=(const AtomicTarget&) = delete;

  const CommitOptions& options() const { return options_; }

  /// The target's name.
  const std::string& path() const { return path_; }

  /// Where the target is being written.
  const std::string& partial_path() const { return partial_; }

  /// Creates a file of the target, and the folders above it inside the target. Requires: "" for a single file.
  /// Errors: invalid_argument for an unsafe path, already_exists, resource_exhausted, io.
  Result<std::unique_ptr<ByteSink>> create_file(const std::string& relative);

  /// finish() or close(), as the options ask.
  Result<void> finish_file(ByteSink& sink) const;

  /// Makes the names of all files so far durable. Call it before the manifest is created, and before commit().
  Result<void> sync_names();

  /// Gives the target its name. Errors: already_exists if somebody made it, or changed or replaced what was to be
  /// replaced, meanwhile; unsupported where an existing one
  /// cannot be swapped atomically; io. After an error the old target is untouched and the object removes the new one.
  Result<void> commit();

  /// After commit(): where the old target is that was replaced and could not be removed; empty if nothing is left.
  const std::string& left_behind() const { return left_behind_; }

 private:
  AtomicTarget(FileSystem& files, std::string path, const CommitOptions& options);
  Result<bool> try_claim();
  void remove_leftovers();
  Result<void> make_folders_above(const std::string& relative);
  Result<void> check_replaced(const std::string& path);
  Result<void> replace_existing();
  Error swapped_back(const FileStamp& written, Error why);

  FileSystem& files_;
  const std::string path_;
  const std::string parent_;
  const CommitOptions options_;
  TreeStamp replaced_;  // with overwrite
  std::string partial_;
  std::string left_behind_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<ByteSink> single_file_;  // created when the name was claimed, handed out by create_file("")
  std::mutex mutex_;
  std::set<std::string> folders_;  // inside the target, relative; guarded by mutex_
  bool exists_ = false;            // partial_ is there and ours
};

}  // namespace tenplex
