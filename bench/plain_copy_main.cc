// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The yardstick of bench/reshard.py: reads and writes the same bytes, with nothing in between.
//
//   plain_copy [--threads N] [--sync] TARGET_FOLDER SOURCE_FILE…
//
// Every thread has one buffer of 4 MiB whose pages are there already, and takes the next part of a file until none is
// left: pread, then pwrite at the same offset. Prints the wall seconds of that and the CPU seconds of the process.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr std::int64_t kBufferBytes = 4 << 20;

struct File {
  int source = -1;
  int target = -1;
  std::int64_t size = 0;
};

struct Part {
  const File* file;
  std::int64_t offset;
};

[[noreturn]] void fail(const std::string& what) {
  std::perror(what.c_str());
  std::exit(1);
}

File open_files(const std::string& source, const std::string& target) {
  File file;
  file.source = ::open(source.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.source < 0) fail(source);
  struct stat status{};
  if (::fstat(file.source, &status) != 0) fail(source);
  file.size = status.st_size;
  file.target = ::open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file.target < 0) fail(target);
  return file;
}

void copy_parts(const std::vector<Part>& parts, std::atomic<std::size_t>& next) {
  std::vector<char> buffer(kBufferBytes, 1);
  for (std::size_t i = next++; i < parts.size(); i = next++) {
    const File& file = *parts[i].file;
    const std::int64_t end = std::min(file.size, parts[i].offset + kBufferBytes);
    for (std::int64_t at = parts[i].offset; at < end;) {
      const ssize_t got = ::pread(file.source, buffer.data(), static_cast<std::size_t>(end - at), at);
      if (got <= 0) fail("read");
      for (ssize_t done = 0; done < got;) {
        const ssize_t put =
            ::pwrite(file.target, buffer.data() + done, static_cast<std::size_t>(got - done), at + done);
        if (put <= 0) fail("write");
        done += put;
      }
      at += got;
    }
  }
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 1;
  bool sync = false;
  int i = 1;
  for (; i < argc && std::strncmp(argv[i], "--", 2) == 0; ++i) {
    if (std::string_view(argv[i]) == "--sync") {
      sync = true;
    } else if (std::string_view(argv[i]) == "--threads" && i + 1 < argc) {
      threads = std::atoi(argv[++i]);
    }
  }
  if (argc - i < 2 || threads < 1) {
    std::fprintf(stderr, "usage: plain_copy [--threads N] [--sync] TARGET_FOLDER SOURCE_FILE...\n");
    return 2;
  }
  const auto begin = std::chrono::steady_clock::now();
  const std::string folder = argv[i++];
  if (::mkdir(folder.c_str(), 0777) != 0) fail(folder);
  std::vector<File> files;
  for (int number = 0; i < argc; ++i, ++number)
    files.push_back(open_files(argv[i], folder + "/" + std::to_string(number)));
  std::vector<Part> parts;
  for (const File& file : files)
    for (std::int64_t offset = 0; offset < file.size; offset += kBufferBytes) parts.push_back({&file, offset});
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> workers;
  for (int t = 1; t < threads; ++t) workers.emplace_back([&] { copy_parts(parts, next); });
  copy_parts(parts, next);
  for (std::thread& worker : workers) worker.join();
  for (const File& file : files) {
    if (sync && ::fsync(file.target) != 0) fail("fsync");
    ::close(file.target);
    ::close(file.source);
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  std::printf("{\"wall_seconds\": %.6f, \"cpu_seconds\": %.6f}\n", wall.count(),
              seconds(usage.ru_utime) + seconds(usage.ru_stime));
  return 0;
}
