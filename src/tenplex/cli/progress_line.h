// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// One line on standard error that shows how far a long operation is, redrawn five times a second; only when standard
// error is a terminal.
//
//   copy    ███████████▌          58 %   2.3 GiB of 4.0 GiB   1.1 GiB/s   2 s left
//
// Resource. Threads: one service thread draws; the line is cleared when the object ends.
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "tenplex/base/progress.h"

namespace tenplex::cli {

class ProgressLine {
 public:
  /// `progress` must outlive the line.
  explicit ProgressLine(Progress& progress);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

 private:
  void draw(const std::stop_token& done);

  Progress& progress_;
  std::jthread drawer_;
};

/// The line for one snapshot, without the control characters; `elapsed` since the phase began, `width` in columns.
std::string progress_text(const Progress::Snapshot& snapshot, std::chrono::duration<double> elapsed, int width);

}  // namespace tenplex::cli
