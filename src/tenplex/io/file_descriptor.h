// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// FileDescriptor: owns a descriptor of the operating system. Resource that can be moved.
#pragma once

#include <utility>

namespace tenplex {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor();

  bool valid() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

  /// Closes now; 0, or the errno of close().
  int close();

 private:
  int descriptor_ = -1;
};

}  // namespace tenplex
