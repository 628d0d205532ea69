// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// A part of a checkpoint, as if there were nothing else in it:
//
//   model      all but what is named optimizer.… or common.optimizer.…
//   optimizer  only that
//   tensors    tensors alone, without the objects and what lies in them; also of the two above ("model,tensors")
//
// Threads: as CheckpointReader.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

struct Selection {
  enum class Part : std::uint8_t { kAll, kModel, kOptimizer };
  Part part = Part::kAll;
  bool tensors_only = false;

  friend bool operator==(const Selection&, const Selection&) = default;
};

/// "model", "optimizer", "tensors", or "tensors" and one of the others joined by ','; "" is all.
/// Errors: invalid_argument.
Result<Selection> parse_selection(std::string_view text);

/// The checkpoint with what is selected; `reader` itself if that is all. Keeps `reader`.
/// Errors: not_found if nothing is; as leave_tree_out().
Result<std::unique_ptr<CheckpointReader>> select(std::unique_ptr<CheckpointReader> reader, const Selection& selection);

}  // namespace tenplex
