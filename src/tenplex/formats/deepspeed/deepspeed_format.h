// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Format "deepspeed": the folders of DeepSpeed's ZeRO stages 1 to 3, also with tensor parallelism, of pipelines
// or with experts, and its universal checkpoints.
//
//   reading  ZeRO: flat groups of all ranks ─► whole parameters and moments; universal: zero/<parameter>/<slot>.pt
//   writing  a universal checkpoint, also of a source that is no DeepSpeed checkpoint
//
// Both give one tree: parameters and buffers under their names, optimizer slots as optimizer.state.<slot>.<parameter>,
// and all else under "common". Specification: docs/formats/deepspeed.md. Threads: as Format says.
#pragma once

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

/// True for a folder with `latest` or `latest_universal` that names a folder of a DeepSpeed checkpoint, and for such a
/// folder itself.
bool detect_deepspeed(FileSystem& files, const std::string& path);

/// Errors: corrupt, naming file, group and parameter, where the files of the ranks do not make one checkpoint;
/// unsupported for tensor parallel ranks without universal_checkpoint_info; io.
Result<std::unique_ptr<CheckpointReader>> open_deepspeed(FileSystem& files, const std::string& path,
                                                         const ReadOptions& options);

std::unique_ptr<CheckpointWriter> make_deepspeed_writer();

/// For the table of formats().
Format deepspeed_format();

}  // namespace tenplex
