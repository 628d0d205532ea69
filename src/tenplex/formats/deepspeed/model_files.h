// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// ModelFiles: the files with the model's states of all ranks of a job, held against each other.
//
//                 tensor rank 0   tensor rank 1
//   stage 0       mp_rank_00 …    mp_rank_01 …       a model rank is a tensor parallel rank of a stage; of each there
//   is stage 1       mp_rank_02 …    mp_rank_03 …       one file, or one per data parallel rank
//
// Threads: as CheckpointJoiner.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tenplex/base/ids.h"
#include "tenplex/formats/deepspeed/named_nodes.h"
#include "tenplex/formats/joined_reader.h"

namespace tenplex::deepspeed {

/// How many ranks of each kind a job had.
struct RankMesh {
  std::size_t stages = 1;
  std::size_t tensor_ranks = 1;
  std::size_t data_ranks = 1;

  std::size_t stage_of(std::size_t model_rank) const { return model_rank / tensor_ranks; }
  /// The number under which a rank is known: a stage's follow each other, and those of one data parallel rank in it.
  DeviceId device(std::size_t model_rank, std::size_t data_rank) const {
    const std::size_t before = stage_of(model_rank) * data_ranks + data_rank;
    return DeviceId(before * tensor_ranks + model_rank % tensor_ranks);
  }
};

class ModelFiles {
 public:
  using Part = CheckpointJoiner::Part;

  struct Expected {
    std::size_t layer_ranks = 0;  ///< tensor parallel ranks that a pipeline's layers have files of; 0: no such files
    std::size_t data_ranks = 1;   ///< that there are files of
    std::string_view layer_file;  ///< the name of one, for messages
  };

  /// By model rank, and of each one file or one per data parallel rank. What differs where it may goes to `notes`.
  /// Errors: corrupt, naming the file, for another structure and for what does not fit the other files; unsupported for
  /// stages without files of layers.
  static Result<ModelFiles> make(std::vector<std::vector<Part>> parts, const Expected& expected,
                                 CheckpointJoiner* joiner, RankNotes* notes);

  const RankMesh& mesh() const { return mesh_; }
  /// 'module' is None: the model's tensors are in files of layers.
  bool is_pipeline() const { return pipeline_; }
  std::size_t rank_count() const { return parts_.size(); }
  std::size_t file_count(std::size_t model_rank) const { return parts_[model_rank].size(); }
  Part part(std::size_t model_rank, std::size_t data_rank) const { return parts_[model_rank][data_rank]; }
  const StateGraph& graph(std::size_t model_rank, std::size_t data_rank) const {
    return joiner_->stored(parts_[model_rank][data_rank]).state;
  }
  DeviceId device(std::size_t model_rank, std::size_t data_rank) const { return mesh_.device(model_rank, data_rank); }
  /// "'mp_rank_00_model_states.pt'", for messages.
  std::string quoted(std::size_t model_rank, std::size_t data_rank) const;

  const CheckpointInfo& first() const { return joiner_->stored(parts_[0][0]); }
  /// Of the first file; kNoNode if there is none.
  NodeId item(std::string_view key) const;
  /// Of the dict in that file, the tensor; nothing if there is none.
  std::optional<TensorId> tensor_in(std::string_view dict, std::string_view name, std::size_t model_rank,
                                    std::size_t data_rank) const;

 private:
  ModelFiles(std::vector<std::vector<Part>> parts, CheckpointJoiner* joiner)
      : parts_(std::move(parts)), joiner_(joiner) {}

  Result<void> read_mesh(const Expected& expected);
  Result<void> compare(std::size_t model_rank, std::size_t data_rank, RankNotes* notes) const;
  Result<bool> is_alike(std::string_view key, std::size_t model_rank, std::size_t data_rank) const;

  std::vector<std::vector<Part>> parts_;
  CheckpointJoiner* joiner_;
  RankMesh mesh_;
  bool pipeline_ = false;
};

}  // namespace tenplex::deepspeed
