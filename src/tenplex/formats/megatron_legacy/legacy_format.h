// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Format "megatron": a legacy checkpoint of Megatron-LM (--ckpt-format torch), a file for each model parallel rank.
//
//   iter_0001000/mp_rank_00_000/model_optim_rng.pt     what tensor rank 0 of pipeline stage 0 has
//
// Reading puts the parts together by the layout megatron-gpt: layers and experts get their numbers in the whole model,
// slots of the mixed-precision optimizer the names of their parameters. Writing takes them apart again. Specification:
// docs/formats/megatron.md. Threads: as Format says.
#pragma once

#include <memory>
#include <string>

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

bool detect_megatron_legacy(FileSystem& files, const std::string& path);

/// Errors: corrupt naming the rank or the tensor whose parts do not fit; unsupported for what cannot be put together.
Result<std::unique_ptr<CheckpointReader>> open_megatron_legacy(FileSystem& files, const std::string& path,
                                                               const ReadOptions& options);

std::unique_ptr<CheckpointWriter> make_megatron_legacy_writer();

/// For the table of formats().
Format megatron_legacy_format();

}  // namespace tenplex
