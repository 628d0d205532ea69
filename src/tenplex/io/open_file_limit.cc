// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/io/open_file_limit.h"

#include <fmt/format.h>
#include <sys/resource.h>

namespace tenplex {
namespace {

constexpr std::int64_t kOtherFiles = 16;  // standard streams, locks, some of the source

std::int64_t clamp(rlim_t limit) { return limit > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(limit); }

}  // namespace

std::int64_t open_file_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? clamp(limit.rlim_cur) : 0;
}

Result<void> check_open_files(std::int64_t files) {
  const std::int64_t limit = open_file_limit();
  if (limit == 0 || files <= limit - kOtherFiles) return {};
  return resource_exhausted(fmt::format(
      "the target has {} files, which are all open at once while they are written, and the process may have {} open: "
      "raise the limit (ulimit -n), or write a target of fewer files",
      files, limit));
}

std::int64_t raise_open_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  if (limit.rlim_cur < limit.rlim_max) {
    rlimit raised = limit;
    raised.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return clamp(limit.rlim_cur);
}

}  // namespace tenplex
