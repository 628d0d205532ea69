// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/signals.h"

#include <csignal>
#include <cstdlib>

#include "tenplex/cli/context.h"

namespace tenplex::cli {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGUSR1);  // sent by ~Signals() to end the wait
  return set;
}

}  // namespace

Signals::Signals() {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);  // beyond `ulimit -f` a write fails with an error like any other
  waiter_ = std::jthread([this](const std::stop_token& done) { wait(done); });
}

Signals::~Signals() {
  waiter_.request_stop();
  pthread_kill(waiter_.native_handle(), SIGUSR1);
  waiter_.join();
}

void Signals::wait(const std::stop_token& done) {
  const sigset_t set = stop_signals();
  int signal = 0;
  while (sigwait(&set, &signal) == 0 && !done.stop_requested()) {
    if (signal == SIGUSR1) continue;
    if (!watched_ || source_.stop_requested()) std::_Exit(kExitInterrupted);
    source_.request_stop();
  }
}

}  // namespace tenplex::cli
