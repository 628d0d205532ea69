// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a writer says of a target that differs from its source on purpose. A CheckpointWriter that has something to say
// is a NotedWriter too.
//
// Value type and interface. Threads: as CheckpointWriter.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tenplex/base/ids.h"

namespace tenplex {

struct TargetNotes {
  /// Beginnings of names of objects, and of tensors that only source or target has, over which ReshardOptions::verify
  /// passes.
  std::vector<std::string> not_compared;
  std::vector<std::string> problems;  ///< what is left out: one line each, for people
  /// Tensors of the source, of at most a few elements, of which the first stands for both: they must have one value.
  std::vector<std::pair<TensorId, TensorId>> equal;
};

class NotedWriter {
 public:
  virtual ~NotedWriter() = default;
  NotedWriter(const NotedWriter&) = delete;
  NotedWriter& operator=(const NotedWriter&) = delete;

  /// Requires: prepare() was called.
  virtual const TargetNotes& notes() const = 0;

 protected:
  NotedWriter() = default;
};

}  // namespace tenplex
