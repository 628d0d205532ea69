// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Does a checkpoint hold what it says of tied embeddings?
//
//   config.json: "tie_word_embeddings": true, or Megatron's argument untie_embeddings_and_output_weights false,
//   and a word table and an output layer with different bytes       both are kept, and it is worth a warning
#pragma once

#include <optional>
#include <string>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/ptc/size_rules.h"

namespace tenplex::cli {

/// A line for people where the checkpoint says that its embeddings are tied and has two that differ. Reads both tensors
/// where there are two, up to the first difference. Errors: as CheckpointReader::locate(); io.
Result<std::optional<std::string>> tie_problem(const CheckpointReader& reader, const ConfigNumber& config);

}  // namespace tenplex::cli
