// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Which files make a DeepSpeed checkpoint, by their names alone:
//
//   mp_rank_TT_model_states.pt                                 the model of ZeRO-1/2 and of universal checkpoints
//   zero_pp_rank_D_mp_rank_TT_model_states.pt                  of ZeRO-3, one per data parallel rank D
//   [bf16_|fp16_]zero_pp_rank_D_mp_rank_TT_optim_states.pt     the optimizer, one per data parallel rank D
//   layer_L_expert_E_mp_rank_00_model_states.pt                expert E of MoE layer L
//   expp_rank_X_mp_rank_00_optim_states.pt                     the optimizer of expert parallel rank X without ZeRO
//   layer_LL-model_TT-model_states.pt                          layer LL of a pipeline
//   zero/                                                      a universal checkpoint's tensors
//
// TT is a model parallel rank. In a pipeline it numbers the tensor parallel ranks of the first stage, of the second, …
//
// Threads: safe together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/io/file_system.h"

namespace tenplex::deepspeed {

/// The attribute with which ZeRO-3 numbers its flat tensors; it means nothing in another job.
inline constexpr std::string_view kParameterNumber = "ds_id";

struct RankFile {
  enum class Kind : std::uint8_t { kModel, kZeroModel, kOptimizer };
  Kind kind = Kind::kModel;
  std::int64_t data_rank = 0;   ///< 0 for kModel
  std::int64_t model_rank = 0;  ///< the number after mp_rank_
};

/// What the name says, or nothing if it is none of the three.
std::optional<RankFile> parse_rank_file(std::string_view name);

/// The files of one model parallel rank: a tensor parallel rank of a stage.
struct ModelRankFiles {
  std::string model;                     ///< mp_rank_TT_model_states.pt; "" if it is not there
  std::vector<std::string> zero_models;  ///< one per data parallel rank, or none
  std::vector<std::string> optimizers;   ///< the same

  /// Those with the model's states: `zero_models`, or `model` alone.
  std::vector<std::string> models() const { return zero_models.empty() ? std::vector{model} : zero_models; }
};

/// The files of one layer of a pipeline.
struct LayerFiles {
  std::int64_t layer = 0;
  std::vector<std::string> names;  ///< by tensor parallel rank
};

/// The files of one tag, in the order of their ranks; names are relative to `folder`.
struct TagFiles {
  std::string folder;
  std::string base;                            ///< the folder that was given; no link may leave it
  std::string prefix;                          ///< "" or "TAG/": where the tag's folder is in it
  std::vector<ModelRankFiles> ranks;           ///< at least one; all have files of the same kinds
  std::vector<LayerFiles> layers;              ///< by number; each has as many files; of a pipeline
  std::vector<std::string> experts;            ///< layer_L_expert_E_mp_rank_00_model_states.pt
  std::vector<std::string> expert_optimizers;  ///< expp_rank_X_mp_rank_00_optim_states.pt, by X: a job without ZeRO
  bool universal = false;                      ///< zero/ is there
  std::vector<std::string> others;             ///< no part of the checkpoint
};

/// One line in the problems if there are others.
void note_others(const TagFiles& tag, std::vector<std::string>* problems);

/// The folder of the tag that `path` is, or that its `latest` (or else `latest_universal`) names; nothing if neither.
/// `root` becomes the folder with that file, or "". Errors: corrupt for a file that names no folder beside it; io.
Result<std::optional<std::string>> find_tag_folder(FileSystem& files, const std::string& path, std::string* root);

/// Errors: unsupported for experts beside tensor parallelism or a pipeline and for other .pt files, naming one; corrupt
/// for a rank or a layer without a file; not_found if there is no model; io.
Result<TagFiles> list_tag_files(FileSystem& files, const std::string& folder);

}  // namespace tenplex::deepspeed
