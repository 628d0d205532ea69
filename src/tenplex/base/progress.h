// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Progress: how far a long operation is, told by the threads that work on it to whoever prints it, and the request to
// stop, told in the other direction. An operation is a sequence of phases ("read", "verify"), each with a total.
//
// Resource. Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <stop_token>
#include <string>

#include "tenplex/base/guarded.h"
#include "tenplex/base/result.h"

namespace tenplex {

class Progress {
 public:
  struct Snapshot {
    std::string phase;             ///< empty before the first phase
    std::int64_t done_bytes = 0;   ///< of this phase
    std::int64_t total_bytes = 0;  ///< of this phase; 0 if not known
  };

  explicit Progress(std::stop_token stop = {});
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Ends the phase before, if any, and starts one at 0 bytes.
  void start_phase(std::string name, std::int64_t total_bytes);

  void add(std::int64_t bytes) { done_bytes_.fetch_add(bytes, std::memory_order_relaxed); }

  Snapshot snapshot();

  const std::stop_token& stop() const { return stop_; }

  /// Errors: cancelled once stop was requested.
  Result<void> check() const;

 private:
  struct Phase {
    std::string name;
    std::int64_t total_bytes = 0;
  };

  const std::stop_token stop_;
  std::atomic<std::int64_t> done_bytes_ = 0;
  Guarded<Phase> phase_;
};

}  // namespace tenplex
