// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Guarded<T>: a value that can be reached only while its lock is held.
//
//   Guarded<std::vector<int>> queue;
//   auto locked = queue.lock();      // held until `locked` goes out of scope
//   locked->push_back(3);
//   locked.wait(changed, stop, [&] { return !locked->empty(); });
//
// Resource. Threads: any.
#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <utility>

namespace tenplex {

template <typename T>
class Guarded {
 public:
  class Locked {
   public:
    T& operator*() { return *value_; }
    T* operator->() { return value_; }

    /// Gives the lock up while it waits for `ready()`, which runs under the lock.
    template <typename Predicate>
    void wait(std::condition_variable_any& changed, Predicate ready) {
      changed.wait(lock_, std::move(ready));
    }
    /// As above, until `stop` is requested at the latest; returns ready().
    template <typename Predicate>
    bool wait(std::condition_variable_any& changed, std::stop_token stop, Predicate ready) {
      return changed.wait(lock_, std::move(stop), std::move(ready));
    }

   private:
    friend class Guarded;
    Locked(std::mutex& mutex, T& value) : lock_(mutex), value_(&value) {}
    std::unique_lock<std::mutex> lock_;
    T* value_;
  };

  Guarded() = default;
  explicit Guarded(T value) : value_(std::move(value)) {}
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  Locked lock() { return Locked(mutex_, value_); }

 private:
  std::mutex mutex_;
  T value_{};
};

}  // namespace tenplex
