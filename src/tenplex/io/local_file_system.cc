// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "tenplex/io/file_system.h"
#include "tenplex/io/local_file.h"
#include "tenplex/io/open_below.h"

namespace tenplex {
namespace {

FileStatus to_status(const struct stat& status) {
  FileStatus result;
  result.size_bytes = status.st_size;
  result.stamp = stamp_of(status);
  if (S_ISREG(status.st_mode)) {
    result.kind = FileKind::kFile;
  } else if (S_ISDIR(status.st_mode)) {
    result.kind = FileKind::kFolder;
  } else {
    result.kind = S_ISLNK(status.st_mode) ? FileKind::kLink : FileKind::kOther;
  }
  return result;
}

std::int64_t clamp(unsigned long long count, unsigned long long unit) {
  unsigned long long product = 0;
  constexpr auto kMost = static_cast<unsigned long long>(INT64_MAX);
  return __builtin_mul_overflow(count, unit, &product) || product > kMost ? INT64_MAX
                                                                          : static_cast<std::int64_t>(product);
}

/// The reserve of the file system counts for root, who may use it. Totals of 0, and more free than there is in all, are
/// how file systems say that they do not know or have no limit.
FreeSpace to_free_space(const struct statvfs& space) {
  const bool root = ::geteuid() == 0;
  const auto blocks = root ? space.f_bfree : space.f_bavail;
  const auto files = root ? space.f_ffree : space.f_favail;
  FreeSpace result;
  if (space.f_blocks > 0 && space.f_frsize > 0 && blocks <= space.f_blocks)
    result.bytes = clamp(blocks, space.f_frsize);
  if (space.f_files > 0 && files <= space.f_files) result.files = clamp(files, 1);
  return result;
}

int rename_with_flags(const std::string& from, const std::string& to, unsigned int flags) {
  return ::syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0 ? 0 : errno;
}

bool is_missing_feature(int error) { return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP; }

// For file systems without RENAME_NOREPLACE: a hard link refuses an existing name; a folder can only be checked first.
int rename_without_flags(const std::string& from, const std::string& to) {
  struct stat status{};
  if (::lstat(from.c_str(), &status) != 0) return errno;
  if (!S_ISDIR(status.st_mode)) {
    if (::link(from.c_str(), to.c_str()) != 0) return errno;
    return ::unlink(from.c_str()) == 0 ? 0 : errno;
  }
  if (::lstat(to.c_str(), &status) == 0) return EEXIST;
  if (errno != ENOENT) return errno;
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

constexpr mode_t kModeBits = 07777;

/// Those of `from` for something of mode `now`, which keeps its own set-id and sticky bits. Between a file and a folder
/// the right to search a folder follows the right to read it.
mode_t permissions(mode_t from, mode_t now) {
  mode_t wanted = from & 0777U;
  if (S_ISDIR(now) && !S_ISDIR(from)) wanted |= (wanted & 0444U) >> 2U;
  if (!S_ISDIR(now) && S_ISDIR(from)) wanted &= 0666U;
  if (S_ISDIR(now)) wanted |= S_IRWXU;
  return wanted | (now & kModeBits & ~mode_t{0777});
}

class LocalLock : public FileLock {
 public:
  explicit LocalLock(FileDescriptor file) : file_(std::move(file)) {}

 private:
  FileDescriptor file_;
};

struct FolderCloser {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

class LocalFileSystem : public FileSystem {
 public:
  Result<std::unique_ptr<ByteSource>> open(const std::string& path) override {
    FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (!file.valid()) return errno_error(fmt::format("cannot open '{}'", path), errno);
    return LocalSource::adopt(std::move(file), path);
  }

  Result<std::unique_ptr<ByteSource>> open_below(const std::string& folder, const std::string& relative) override {
    TENPLEX_ASSIGN_OR_RETURN(std::string name, checked_join(folder, relative));
    TENPLEX_ASSIGN_OR_RETURN(FileDescriptor file, open_descriptor_below(folder, relative));
    return LocalSource::adopt(std::move(file), std::move(name));
  }

  Result<std::unique_ptr<ByteSink>> create(const std::string& path) override {
    FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file.valid()) return errno_error(fmt::format("cannot create '{}'", path), errno);
    return std::unique_ptr<ByteSink>(std::make_unique<LocalSink>(std::move(file), path));
  }

  Result<void> make_folder(const std::string& path) override {
    if (::mkdir(path.c_str(), 0777) == 0) return {};
    return errno_error(fmt::format("cannot create folder '{}'", path), errno);
  }

  Result<std::vector<FolderEntry>> list(const std::string& folder) override {
    const std::unique_ptr<DIR, FolderCloser> stream(::opendir(folder.empty() ? "." : folder.c_str()));
    if (!stream) return errno_error(fmt::format("cannot list folder '{}'", folder), errno);
    std::vector<FolderEntry> entries;
    for (errno = 0; const dirent* entry = ::readdir(stream.get()); errno = 0) {
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      struct stat status{};
      if (::fstatat(::dirfd(stream.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
        entries.push_back({std::string(name), to_status(status)});
      } else if (errno != ENOENT) {  // removed meanwhile: not an entry any more
        return errno_error(fmt::format("cannot read '{}/{}'", folder, name), errno);
      }
    }
    if (errno != 0) return errno_error(fmt::format("cannot list folder '{}'", folder), errno);
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return entries;
  }

  Result<FileStatus> status(const std::string& path) override {
    struct stat status{};
    if (::lstat(path.c_str(), &status) == 0) return to_status(status);
    return errno_error(fmt::format("cannot read '{}'", path), errno);
  }

  Result<FreeSpace> free_space(const std::string& path) override {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) return errno_error(fmt::format("cannot read '{}'", path), errno);
    struct statvfs space{};
    FreeSpace result;
    if (::statvfs(path.c_str(), &space) == 0) {
      result = to_free_space(space);
    } else if (errno != ENOSYS && errno != EOPNOTSUPP) {
      return errno_error(fmt::format("cannot read the free space of '{}'", path), errno);
    }
    result.file_system = status.st_dev;
    return result;
  }

  Result<void> rename_new(const std::string& from, const std::string& to) override {
    int error = rename_with_flags(from, to, RENAME_NOREPLACE);
    if (is_missing_feature(error)) error = rename_without_flags(from, to);
    if (error == 0) return {};
    return errno_error(fmt::format("cannot rename '{}' to '{}'", from, to), error);
  }

  Result<void> exchange(const std::string& a, const std::string& b) override {
    const int error = rename_with_flags(a, b, RENAME_EXCHANGE);
    if (error == 0) return {};
    if (is_missing_feature(error)) {
      return unsupported(fmt::format("the file system of '{}' cannot swap two names atomically", b));
    }
    return errno_error(fmt::format("cannot swap '{}' and '{}'", a, b), error);
  }

  Result<void> copy_permissions(const std::string& from, const std::string& path) override {
    struct stat source{};
    struct stat target{};
    if (::lstat(from.c_str(), &source) != 0) return errno_error(fmt::format("cannot read '{}'", from), errno);
    if (::lstat(path.c_str(), &target) != 0) return errno_error(fmt::format("cannot read '{}'", path), errno);
    if (S_ISLNK(target.st_mode) || (S_ISLNK(source.st_mode) && ::stat(from.c_str(), &source) != 0)) return {};
    const mode_t wanted = permissions(source.st_mode, target.st_mode);
    if (wanted == (target.st_mode & kModeBits) || ::chmod(path.c_str(), wanted) == 0) return {};
    return errno_error(fmt::format("cannot give '{}' the permissions of '{}'", path, from), errno);
  }

  Result<void> sync_folder(const std::string& folder) override {
    const FileDescriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!descriptor.valid()) return errno_error(fmt::format("cannot open folder '{}'", folder), errno);
    // Some network file systems cannot sync folders and say so with EINVAL; theirs are durable already.
    if (::fsync(descriptor.get()) == 0 || errno == EINVAL) return {};
    return errno_error(fmt::format("cannot make folder '{}' durable", folder), errno);
  }

  Result<void> sync_file(const std::string& path) override {
    const FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!descriptor.valid()) return errno_error(fmt::format("cannot open '{}'", path), errno);
    // What cannot be written is durable already.
    if (::fsync(descriptor.get()) == 0 || errno == EINVAL || errno == EROFS) return {};
    return errno_error(fmt::format("cannot make '{}' durable", path), errno);
  }

  Result<std::unique_ptr<FileLock>> try_lock(const std::string& path) override {
    FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file.valid()) return errno_error(fmt::format("cannot lock '{}'", path), errno);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return std::unique_ptr<FileLock>();
      return errno_error(fmt::format("cannot lock '{}'", path), errno);
    }
    struct stat locked{};
    struct stat named{};
    if (::fstat(file.get(), &locked) != 0 || ::lstat(path.c_str(), &named) != 0 || locked.st_ino != named.st_ino ||
        locked.st_dev != named.st_dev) {
      return not_found(fmt::format("cannot lock '{}': it was replaced", path));
    }
    return std::unique_ptr<FileLock>(std::make_unique<LocalLock>(std::move(file)));
  }

  Result<void> remove_all(const std::string& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (!error) return {};
    return errno_error(fmt::format("cannot remove '{}'", path), error.value());
  }
};

}  // namespace

std::unique_ptr<FileSystem> local_file_system() { return std::make_unique<LocalFileSystem>(); }

}  // namespace tenplex
