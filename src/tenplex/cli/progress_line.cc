// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/progress_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <mutex>

#include "tenplex/base/bytes.h"

namespace tenplex::cli {
namespace {

using Clock = std::chrono::steady_clock;

int terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string bar(double fraction, int cells) {
  constexpr std::array kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(fraction * cells * 8);
  std::string text;
  for (int cell = 0; cell < cells; ++cell) {
    const int filled = std::clamp(eighths - cell * 8, 0, 8);
    text += filled == 8 ? "█" : filled == 0 ? " " : kEighths[static_cast<std::size_t>(filled)];
  }
  return text;
}

std::string time_left(double seconds) {
  if (seconds >= 3600)
    return fmt::format("{:.0f} h {:02.0f} min", std::floor(seconds / 3600), std::floor(std::fmod(seconds, 3600) / 60));
  if (seconds >= 60)
    return fmt::format("{:.0f} min {:02.0f} s", std::floor(seconds / 60), std::floor(std::fmod(seconds, 60)));
  return fmt::format("{:.0f} s", seconds);
}

}  // namespace

std::string progress_text(const Progress::Snapshot& snapshot, std::chrono::duration<double> elapsed, int width) {
  const double done = static_cast<double>(snapshot.done_bytes);
  // The first moments of a phase say nothing about its rate.
  const double rate = elapsed.count() >= 0.2 ? done / elapsed.count() : 0;
  const std::string speed = format_bytes(static_cast<std::int64_t>(rate)) + "/s";
  if (snapshot.total_bytes <= 0)
    return fmt::format("{:<9} {}   {}", snapshot.phase, format_bytes(snapshot.done_bytes), speed);
  const double fraction = std::clamp(done / static_cast<double>(snapshot.total_bytes), 0.0, 1.0);
  const double left = rate > 0 ? (static_cast<double>(snapshot.total_bytes) - done) / rate : 0;
  const std::string facts = fmt::format("{:3.0f} %   {} of {}   {}{}", std::floor(fraction * 100),
                                        format_bytes(snapshot.done_bytes), format_bytes(snapshot.total_bytes), speed,
                                        rate > 0 && left >= 0.5 ? "   " + time_left(left) + " left" : "");
  const int cells = std::min(30, width - 12 - static_cast<int>(facts.size()));
  if (cells < 5) return fmt::format("{:<9} {}", snapshot.phase, facts);
  return fmt::format("{:<9} {} {}", snapshot.phase, bar(fraction, cells), facts);
}

ProgressLine::ProgressLine(Progress& progress) : progress_(progress) {
  if (isatty(STDERR_FILENO) == 0) return;
  drawer_ = std::jthread([this](const std::stop_token& done) { draw(done); });
}

ProgressLine::~ProgressLine() {
  if (!drawer_.joinable()) return;
  drawer_.request_stop();
  drawer_.join();
  std::fputs("\r\x1b[K", stderr);
}

void ProgressLine::draw(const std::stop_token& done) {
  std::mutex mutex;
  std::condition_variable_any ended;
  std::unique_lock lock(mutex);
  std::string phase;
  auto started = Clock::now();
  // wait_for returns early, with true, only when the destructor asks the thread to stop.
  while (!ended.wait_for(lock, done, std::chrono::milliseconds(200), [&done] { return done.stop_requested(); })) {
    const auto snapshot = progress_.snapshot();
    if (snapshot.phase.empty()) continue;
    if (snapshot.phase != phase) {
      phase = snapshot.phase;
      started = Clock::now();
    }
    std::fputs(("\r\x1b[K" + progress_text(snapshot, Clock::now() - started, terminal_columns())).c_str(), stderr);
    std::fflush(stderr);
  }
}

}  // namespace tenplex::cli
