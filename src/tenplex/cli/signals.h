// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ^C and SIGTERM as a stop request: the first one asks the running operation to stop and clean up, a second one ends
// the program at once.
//
// Resource. Threads: one service thread waits for the signals; make it before any other thread starts, so that all of
// them inherit the blocked mask.
#pragma once

#include <stop_token>
#include <thread>

namespace tenplex::cli {

class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  void wait(const std::stop_token& done);

  std::stop_source source_;
  std::jthread waiter_;
};

}  // namespace tenplex::cli
