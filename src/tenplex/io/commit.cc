// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/io/commit.h"

#include <fmt/format.h>

#include <random>
#include <utility>

#include "tenplex/io/path.h"

namespace tenplex {
namespace {

constexpr std::string_view kMark = ".tenplex-partial-";
constexpr std::size_t kSuffixDigits = 16;
constexpr std::size_t kMaxStemBytes = 96;
constexpr int kMaxAttempts = 64;

// The start of the target's name, so that a target may have the longest name there is (255 bytes on most file systems,
// 143 on some) and its partial one too. Ends between characters.
std::string partial_stem(std::string_view name) {
  if (name.size() <= kMaxStemBytes) return std::string(name);
  std::size_t size = kMaxStemBytes;
  while (size > 0 && (static_cast<unsigned char>(name[size]) & 0xC0U) == 0x80U) --size;
  return std::string(name.substr(0, size));
}

std::string partial_name(const std::string& path) {
  std::random_device device;
  const std::uint64_t random = (std::uint64_t{device()} << 32) | device();
  const std::string name = last_component(path);
  return fmt::format("{}{}{}{:016x}", path.substr(0, path.size() - name.size()), partial_stem(name), kMark, random);
}

// Also of another target with the same stem: what carries no lock is no longer needed, whose ever it was.
bool is_partial_of(std::string_view entry, std::string_view target) {
  const std::string stem = partial_stem(target);
  if (!entry.starts_with(stem)) return false;
  entry.remove_prefix(stem.size());
  if (!entry.starts_with(kMark) || entry.size() != kMark.size() + kSuffixDigits) return false;
  return entry.find_first_not_of("0123456789abcdef", kMark.size()) == std::string_view::npos;
}

}  // namespace

AtomicTarget::AtomicTarget(FileSystem& files, std::string path, const CommitOptions& options)
    : files_(files), path_(std::move(path)), parent_(parent_path(path_)), options_(options) {}

AtomicTarget::~AtomicTarget() {
  single_file_.reset();
  if (exists_) static_cast<void>(files_.remove_all(partial_));
}

Result<std::unique_ptr<AtomicTarget>> AtomicTarget::begin(FileSystem& files, const std::string& path,
                                                          const CommitOptions& options) {
  std::unique_ptr<AtomicTarget> target(new AtomicTarget(files, without_trailing_slashes(path), options));
  const auto status = files.status(target->path_);
  if (status && !options.overwrite) return already_exists(fmt::format("'{}' exists already", path));
  if (!status && status.error().code() != ErrorCode::kNotFound) return status.error();
  if (options.overwrite && !options.replaced) {
    TENPLEX_ASSIGN_OR_RETURN(target->replaced_, look_at(files, target->path_));
  } else if (options.overwrite) {
    target->replaced_ = *options.replaced;
  }
  target->remove_leftovers();
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const auto claimed = target->try_claim();
    if (!claimed && claimed.error().code() == ErrorCode::kNotFound)
      return not_found(fmt::format("cannot write '{}': there is no folder '{}'", path, target->parent_));
    if (!claimed) return claimed.error();
    if (!*claimed) continue;
    // Before a byte is written, so that nobody can read it who could not read the old target.
    if (status) TENPLEX_TRY(files.copy_permissions(target->path_, target->partial_));
    return target;
  }
  return io_error(fmt::format("cannot lock a temporary name beside '{}'", path));
}

// False if another process that cleans up got hold of the new name first.
Result<bool> AtomicTarget::try_claim() {
  partial_ = partial_name(path_);
  if (options_.single_file) {
    TENPLEX_ASSIGN_OR_RETURN(single_file_, files_.create(partial_));
  } else {
    TENPLEX_TRY(files_.make_folder(partial_));
  }
  exists_ = true;
  auto lock = files_.try_lock(partial_);
  if (!lock && lock.error().code() != ErrorCode::kNotFound) return lock.error();
  if (lock && *lock) {
    lock_ = std::move(*lock);
    return true;
  }
  single_file_.reset();
  exists_ = false;
  return false;
}

// Best effort: what cannot be listed, locked or removed stays, and does no harm.
void AtomicTarget::remove_leftovers() {
  const auto entries = files_.list(parent_);
  if (!entries) return;
  const std::string name = last_component(path_);
  for (const FolderEntry& entry : *entries) {
    if (!is_partial_of(entry.name, name)) continue;
    const auto leftover = checked_join(parent_, entry.name);
    if (!leftover) continue;
    const auto lock = files_.try_lock(*leftover);
    if (lock && *lock) static_cast<void>(files_.remove_all(*leftover));
  }
}

Result<void> AtomicTarget::make_folders_above(const std::string& relative) {
  const std::vector<std::string> parts = path_components(relative);
  std::string folder;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    folder += (i == 0 ? "" : "/") + parts[i];
    if (folders_.contains(folder)) continue;
    TENPLEX_TRY(files_.make_folder(partial_ + "/" + folder));
    folders_.insert(folder);
  }
  return {};
}

Result<std::unique_ptr<ByteSink>> AtomicTarget::create_file(const std::string& relative) {
  if (options_.single_file) {
    if (!relative.empty() || !single_file_) return internal_error("the target is one file");
    return std::move(single_file_);
  }
  TENPLEX_ASSIGN_OR_RETURN(const std::string path, checked_join(partial_, relative));
  TENPLEX_TRY(make_folders_above(relative));
  return files_.create(path);
}

Result<void> AtomicTarget::finish_file(ByteSink& sink) const { return options_.sync ? sink.finish() : sink.close(); }

Result<void> AtomicTarget::sync_names() {
  if (!options_.sync || options_.single_file) return {};
  for (const std::string& folder : folders_) TENPLEX_TRY(files_.sync_folder(partial_ + "/" + folder));
  return files_.sync_folder(partial_);
}

Result<void> AtomicTarget::check_replaced(const std::string& path) {
  TENPLEX_ASSIGN_OR_RETURN(const TreeStamp found, look_at(files_, path));
  if (found == replaced_) return {};
  return already_exists(
      fmt::format("'{}' was {} while the new one was written: what is there now stays, and nothing is replaced", path_,
                  replaced_.exists() ? "changed or replaced" : "made by somebody else"));
}

/// Undoes a swap after `why`. What is then under the partial name is removed only if it is what was written here.
Error AtomicTarget::swapped_back(const FileStamp& written, Error why) {
  const bool back = files_.exchange(partial_, path_).has_value();
  const auto status = files_.status(partial_);
  exists_ = back && status && status->stamp.inode == written.inode;
  if (exists_) return why;
  // Not under a name that the next run takes for a leftover.
  const std::string kept = fmt::format("{}.tenplex-kept-{}", path_, partial_.substr(partial_.size() - kSuffixDigits));
  const bool renamed = files_.rename_new(partial_, kept).has_value();
  return std::move(why).with_context(
      fmt::format("'{}' could not be put back and is now '{}'", path_, renamed ? kept : partial_));
}

Result<void> AtomicTarget::replace_existing() {
  TENPLEX_TRY(check_replaced(path_));
  TENPLEX_ASSIGN_OR_RETURN(const FileStatus written, files_.status(partial_));
  TENPLEX_TRY(files_.exchange(partial_, path_));
  // Somebody may have come between the look and the swap: what was swapped out can be looked at in peace.
  if (auto same = check_replaced(partial_); !same) return swapped_back(written.stamp, std::move(same).error());
  // The old target must not lose a byte before the swap is durable.
  if (options_.sync)
    if (auto synced = files_.sync_folder(parent_); !synced)
      return swapped_back(written.stamp, std::move(synced).error());
  exists_ = false;
  // It is complete under its name; an old one that cannot be removed is a leftover for the next run.
  if (!files_.remove_all(partial_)) left_behind_ = partial_;
  return {};
}

Result<void> AtomicTarget::commit() {
  if (options_.overwrite && files_.status(path_)) return replace_existing();
  TENPLEX_TRY(files_.rename_new(partial_, path_));
  if (options_.sync) {
    if (auto synced = files_.sync_folder(parent_); !synced) {
      // Not known to be durable: take the name away again, so that an error means "no target".
      exists_ = static_cast<bool>(files_.rename_new(path_, partial_));
      return synced;
    }
  }
  exists_ = false;
  return {};
}

}  // namespace tenplex
