// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/progress.h"

#include <utility>

namespace tenplex {

Progress::Progress(std::stop_token stop) : stop_(std::move(stop)) {}

void Progress::start_phase(std::string name, std::int64_t total_bytes) {
  auto phase = phase_.lock();
  *phase = {std::move(name), total_bytes};
  done_bytes_ = 0;
}

Progress::Snapshot Progress::snapshot() {
  auto phase = phase_.lock();
  return {phase->name, done_bytes_, phase->total_bytes};
}

Result<void> Progress::check() const {
  if (stop_.stop_requested()) return cancelled("stopped on request");
  return {};
}

}  // namespace tenplex
