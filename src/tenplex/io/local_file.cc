// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/io/local_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace tenplex {
namespace {

// Linux moves at most 0x7ffff000 bytes per call.
constexpr std::size_t kMaxBytesPerCall = std::size_t{1} << 30;

// Linux takes 1024.
constexpr std::size_t kMaxPartsPerCall = 1024;

}  // namespace

FileStamp stamp_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, status.st_size,
          std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

Result<std::unique_ptr<ByteSource>> LocalSource::adopt(FileDescriptor file, std::string name) {
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return errno_error(fmt::format("cannot read '{}'", name), errno);
  if (!S_ISREG(status.st_mode)) return invalid_argument(fmt::format("'{}' is not a regular file", name));
  return std::unique_ptr<ByteSource>(new LocalSource(std::move(file), std::move(name), stamp_of(status)));
}

Result<void> LocalSource::read_at(std::int64_t offset, MutableByteSpan buffer) const {
  const auto wanted = static_cast<std::int64_t>(buffer.size());
  if (offset < 0 || offset > size() || wanted > size() - offset) {
    return out_of_range(
        fmt::format("'{}': expected {} bytes at {}, found a file of {} bytes", name_, wanted, offset, size()));
  }
  while (!buffer.empty()) {
    const ssize_t count = ::pread(file_.get(), buffer.data(), std::min(buffer.size(), kMaxBytesPerCall), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error(fmt::format("cannot read '{}' at {}", name_, offset), errno);
    if (count == 0) {
      return corrupt(
          fmt::format("'{}' became shorter while it was read: expected {} bytes, found {}", name_, size(), offset));
    }
    buffer = buffer.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
  return {};
}

Result<void> LocalSink::write_at(std::int64_t offset, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file_.get(), bytes.data(), std::min(bytes.size(), kMaxBytesPerCall), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error(fmt::format("cannot write '{}' at {}", name_, offset), errno);
    if (count == 0) return io_error(fmt::format("cannot write '{}' at {}: no bytes were taken", name_, offset));
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
  return {};
}

Result<void> LocalSink::write_parts_at(std::int64_t offset, std::span<const ByteSpan> parts) {
  std::array<iovec, kMaxPartsPerCall> vectors;
  while (!parts.empty()) {
    std::size_t count = 0;
    std::size_t bytes = 0;
    for (; count < parts.size() && count < vectors.size() && bytes + parts[count].size() <= kMaxBytesPerCall; ++count) {
      // The kernel reads only; iovec is shared with calls that write.
      vectors[count] = {const_cast<std::byte*>(parts[count].data()), parts[count].size()};
      bytes += parts[count].size();
    }
    if (count < 2) {
      TENPLEX_TRY(write_at(offset, parts.front()));
      offset += static_cast<std::int64_t>(parts.front().size());
      parts = parts.subspan(1);
      continue;
    }
    ssize_t written = ::pwritev(file_.get(), vectors.data(), static_cast<int>(count), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno_error(fmt::format("cannot write '{}' at {}", name_, offset), errno);
    // Usually all; otherwise the rest of the part where it stopped goes on its own.
    for (; count > 0 && written >= static_cast<ssize_t>(parts.front().size()); --count) {
      written -= static_cast<ssize_t>(parts.front().size());
      offset += static_cast<std::int64_t>(parts.front().size());
      parts = parts.subspan(1);
    }
    if (count == 0) continue;
    TENPLEX_TRY(write_at(offset + written, parts.front().subspan(static_cast<std::size_t>(written))));
    offset += static_cast<std::int64_t>(parts.front().size());
    parts = parts.subspan(1);
  }
  return {};
}

Result<void> LocalSink::finish() {
  while (::fsync(file_.get()) != 0) {
    if (errno == EINTR) continue;
    return errno_error(fmt::format("cannot make '{}' durable", name_), errno);
  }
  return close();
}

Result<void> LocalSink::close() {
  if (const int error = file_.close(); error != 0) return errno_error(fmt::format("cannot close '{}'", name_), error);
  return {};
}

}  // namespace tenplex
