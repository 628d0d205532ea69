// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/io/file_descriptor.h"

#include <unistd.h>

#include <cerrno>

namespace tenplex {

FileDescriptor::~FileDescriptor() { static_cast<void>(close()); }

int FileDescriptor::close() {
  if (!valid()) return 0;
  // After EINTR Linux has closed the descriptor all the same.
  return ::close(std::exchange(descriptor_, -1)) == 0 || errno == EINTR ? 0 : errno;
}

}  // namespace tenplex
