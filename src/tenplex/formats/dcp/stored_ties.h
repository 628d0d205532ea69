// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Tensors of a DCP folder that are one tensor under several names. tenplex.json names them; the folder may have been
// written anew since, so a tie counts only where `.metadata` leads from both names to the very same bytes:
//
//   "aliases": {"head.weight": "embed.weight"}    embed.weight ─► __0_0.distcp at 0, __1_0.distcp at 0
//                                                 head.weight  ─► __0_0.distcp at 0, __1_0.distcp at 0
//
// Reads the heads of the tied tensors' items. Threads: safe together.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/manifest/json_values.h"

namespace tenplex::dcp {

/// CheckpointInfo::aliases for the pairs of `aliases` (name, name of the stored tensor) that hold; those that do not
/// add one line to `*problems`. Requires: the reader's chunks are in the order of its tensors where it has no tree.
std::vector<std::pair<TensorId, TensorId>> find_stored_ties(const CheckpointReader& reader, const JsonTexts& aliases,
                                                            std::vector<std::string>* problems);

}  // namespace tenplex::dcp
