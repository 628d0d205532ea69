// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Executor: the only maker of compute threads. main() builds one and passes it down.
//
// for_each(count, body) runs body(0) … body(count − 1) on the pool and the calling thread, in order of start, and
// returns when all that were started have ended. The first failure (lowest index) is returned; bodies not yet started
// are then skipped. Bodies may not call for_each on the same executor.
//
// Resource. Threads: one for_each at a time; the bodies run in parallel.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>

#include "tenplex/base/result.h"

namespace tenplex {

class Executor {
 public:
  /// Uses `threads` threads in all, the caller's included; 0 means one per available core.
  explicit Executor(int threads);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  int thread_count() const;

  /// Errors: the body's; cancelled if `stop` was requested before all bodies had run.
  Result<void> for_each(std::int64_t count, const std::function<Result<void>(std::int64_t)>& body,
                        std::stop_token stop = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tenplex
