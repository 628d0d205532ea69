// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// One file of the machine's file system, for reading (LocalSource) or being written (LocalSink).
//
// Both use positioned calls, so that threads share a descriptor without a lock; short and interrupted calls are
// continued. Resources. Threads: as ByteSource and ByteSink say.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <string>

#include "tenplex/io/byte_sink.h"
#include "tenplex/io/byte_source.h"
#include "tenplex/io/file_descriptor.h"

namespace tenplex {

FileStamp stamp_of(const struct stat& status);

class LocalSource : public ByteSource {
 public:
  /// Takes over an open descriptor. Errors: invalid_argument if it is no regular file, io.
  static Result<std::unique_ptr<ByteSource>> adopt(FileDescriptor file, std::string name);

  std::int64_t size() const override { return stamp_.size_bytes; }
  FileStamp stamp() const override { return stamp_; }
  Result<void> read_at(std::int64_t offset, MutableByteSpan buffer) const override;
  const std::string& name() const override { return name_; }

 private:
  LocalSource(FileDescriptor file, std::string name, const FileStamp& stamp)
      : file_(std::move(file)), name_(std::move(name)), stamp_(stamp) {}

  FileDescriptor file_;
  std::string name_;
  FileStamp stamp_;
};

class LocalSink : public ByteSink {
 public:
  LocalSink(FileDescriptor file, std::string name) : file_(std::move(file)), name_(std::move(name)) {}

  Result<void> write_at(std::int64_t offset, ByteSpan bytes) override;
  Result<void> write_parts_at(std::int64_t offset, std::span<const ByteSpan> parts) override;
  Result<void> finish() override;
  Result<void> close() override;
  const std::string& name() const override { return name_; }

 private:
  FileDescriptor file_;
  std::string name_;
};

}  // namespace tenplex
