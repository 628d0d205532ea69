// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/io/open_below.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <deque>
#include <vector>

#include "tenplex/io/path.h"

namespace tenplex {
namespace {

// A FIFO in a checkpoint must not block the open.
constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
constexpr int kFolderFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;
constexpr int kMaxLinks = 40;

Error leaves_folder(const std::string& folder, const std::string& relative) {
  return invalid_argument(fmt::format("'{}' leads out of the folder '{}'", relative, folder));
}

Error cannot_open(const std::string& folder, const std::string& relative, int error) {
  return errno_error(fmt::format("cannot open '{}' in '{}'", relative, folder), error);
}

Result<FileDescriptor> open_folder(const std::string& folder) {
  FileDescriptor descriptor(::open(folder.empty() ? "." : folder.c_str(), kFolderFlags));
  if (!descriptor.valid()) return errno_error(fmt::format("cannot open folder '{}'", folder), errno);
  return descriptor;
}

// The target of the link `name`, or nothing if it is no link.
Result<std::string> read_link(int folder, const std::string& name) {
  std::array<char, PATH_MAX> target{};
  const ssize_t length = ::readlinkat(folder, name.c_str(), target.data(), target.size());
  if (length < 0 && errno == EINVAL) return std::string();
  if (length < 0) return errno_error(fmt::format("cannot open '{}'", name), errno);
  if (static_cast<std::size_t>(length) == target.size()) return invalid_argument("symbolic link is too long");
  return std::string(target.data(), static_cast<std::size_t>(length));
}

}  // namespace

Result<FileDescriptor> walk_descriptor_below(const std::string& folder, const std::string& relative) {
  if (!relative.empty() && relative.front() == '/') return leaves_folder(folder, relative);
  std::vector<FileDescriptor> open;  // the folders from the start to where the walk is
  TENPLEX_ASSIGN_OR_RETURN(FileDescriptor start, open_folder(folder));
  open.push_back(std::move(start));
  const std::vector<std::string> parts = path_components(relative);
  std::deque<std::string> rest(parts.begin(), parts.end());
  for (int links = 0; !rest.empty();) {
    const std::string name = std::move(rest.front());
    rest.pop_front();
    if (name == ".") continue;
    if (name == "..") {
      if (open.size() == 1) return leaves_folder(folder, relative);
      open.pop_back();
      continue;
    }
    TENPLEX_ASSIGN_OR_RETURN(const std::string target, read_link(open.back().get(), name));
    if (!target.empty()) {
      if (target.front() == '/') return leaves_folder(folder, relative);
      if (++links > kMaxLinks) return cannot_open(folder, relative, ELOOP);
      const std::vector<std::string> steps = path_components(target);
      rest.insert(rest.begin(), steps.begin(), steps.end());
      continue;
    }
    const int flags = O_NOFOLLOW | (rest.empty() ? kReadFlags : kFolderFlags);
    FileDescriptor next(::openat(open.back().get(), name.c_str(), flags));
    if (!next.valid()) return cannot_open(folder, relative, errno);
    if (rest.empty()) return next;
    open.push_back(std::move(next));
  }
  return invalid_argument(fmt::format("'{}' names no file in '{}'", relative, folder));
}

Result<FileDescriptor> open_descriptor_below(const std::string& folder, const std::string& relative) {
  TENPLEX_ASSIGN_OR_RETURN(const FileDescriptor start, open_folder(folder));
  open_how how{};
  how.flags = kReadFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  for (int attempt = 0; attempt < 16; ++attempt) {
    const long descriptor = ::syscall(SYS_openat2, start.get(), relative.c_str(), &how, sizeof(how));
    if (descriptor >= 0) return FileDescriptor(static_cast<int>(descriptor));
    if (errno == EXDEV) return leaves_folder(folder, relative);
    if (errno == ENOSYS || errno == EPERM) return walk_descriptor_below(folder, relative);
    // EAGAIN: something on the way was renamed during the walk.
    if (errno != EAGAIN && errno != EINTR) return cannot_open(folder, relative, errno);
  }
  return cannot_open(folder, relative, EAGAIN);
}

}  // namespace tenplex
