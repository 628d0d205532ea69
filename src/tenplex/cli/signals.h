// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ^C, SIGTERM and SIGHUP: they end the program at once, with kExitInterrupted, until an operation that has something to
// clean up calls watch(). From then on the first one asks it to stop, and a second one ends the program.
//
// Resource. Threads: one service thread waits for the signals; make it before any other thread starts, so that all of
// them inherit the blocked mask.
#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

namespace tenplex::cli {

class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// The token is stopped by the next signal. Threads: any.
  std::stop_token watch() {
    watched_ = true;
    return source_.get_token();
  }

 private:
  void wait(const std::stop_token& done);

  std::stop_source source_;
  std::atomic<bool> watched_ = false;
  std::jthread waiter_;
};

}  // namespace tenplex::cli
