// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/base/executor.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tenplex/base/check.h"
#include "tenplex/base/guarded.h"

namespace tenplex {
namespace {

/// One call of for_each; lives on the stack of its caller.
class Job {
 public:
  Job(std::int64_t count, const std::function<Result<void>(std::int64_t)>& body, std::stop_token stop)
      : count_(count), body_(body), stop_(std::move(stop)) {}

  /// Runs bodies until none is left to start. Several threads at once.
  void run() {
    while (!failed_.load(std::memory_order_relaxed) && !stop_.stop_requested()) {
      const std::int64_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= count_) return;
      started_.fetch_add(1, std::memory_order_relaxed);
      if (auto result = body_(index); !result) record(index, std::move(result).error());
    }
  }

  /// Requires: all calls of run() have returned.
  Result<void> result() {
    if (auto failure = failure_.lock(); failure->has_value()) return std::move((*failure)->error);
    if (started_ < count_) return cancelled("stopped before all work was done");
    return {};
  }

 private:
  struct Failure {
    std::int64_t index;
    Error error;
  };

  void record(std::int64_t index, Error error) {
    failed_ = true;
    auto failure = failure_.lock();
    if (!failure->has_value() || index < (*failure)->index) failure->emplace(Failure{index, std::move(error)});
  }

  const std::int64_t count_;
  const std::function<Result<void>(std::int64_t)>& body_;
  const std::stop_token stop_;
  std::atomic<std::int64_t> next_ = 0;
  std::atomic<std::int64_t> started_ = 0;
  std::atomic<bool> failed_ = false;
  Guarded<std::optional<Failure>> failure_;
};

int available_cores() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

}  // namespace

struct Executor::State {
  struct Shared {
    Job* job = nullptr;  ///< the job that workers may join
    int joined = 0;      ///< workers that are running it
    std::uint64_t jobs_started = 0;
  };

  Guarded<Shared> shared;
  std::condition_variable_any job_started;
  std::condition_variable_any job_left;
  std::vector<std::jthread> workers;  ///< last, so that they end before what they use

  void work(const std::stop_token& quit) {
    std::uint64_t seen = 0;
    while (Job* job = join_next_job(quit, seen)) {
      job->run();
      auto locked = shared.lock();
      if (--locked->joined == 0) job_left.notify_one();
    }
  }

  /// Nothing once `quit` is requested.
  Job* join_next_job(const std::stop_token& quit, std::uint64_t& seen) {
    auto locked = shared.lock();
    const bool found =
        locked.wait(job_started, quit, [&] { return locked->job != nullptr && locked->jobs_started != seen; });
    if (!found) return nullptr;
    seen = locked->jobs_started;
    ++locked->joined;
    return locked->job;
  }

  void run_with_workers(Job& job) {
    {
      auto locked = shared.lock();
      TENPLEX_CHECK(locked->job == nullptr);
      locked->job = &job;
      ++locked->jobs_started;
    }
    job_started.notify_all();
    job.run();
    auto locked = shared.lock();
    locked->job = nullptr;
    locked.wait(job_left, [&] { return locked->joined == 0; });
  }
};

Executor::Executor(int threads) : state_(std::make_unique<State>()) {
  const int workers = (threads == 0 ? available_cores() : std::max(threads, 1)) - 1;
  try {
    for (int worker = 0; worker < workers; ++worker)
      state_->workers.emplace_back([state = state_.get()](const std::stop_token& quit) { state->work(quit); });
  } catch (const std::system_error&) {
    return;  // The system grants no more threads; those that started do the work.
  }
}

Executor::~Executor() {
  for (auto& worker : state_->workers) worker.request_stop();
}

int Executor::thread_count() const { return static_cast<int>(state_->workers.size()) + 1; }

Result<void> Executor::for_each(std::int64_t count, const std::function<Result<void>(std::int64_t)>& body,
                                std::stop_token stop) {
  Job job(count, body, std::move(stop));
  if (count > 1 && !state_->workers.empty()) {
    state_->run_with_workers(job);
  } else {
    job.run();
  }
  return job.result();
}

}  // namespace tenplex
