// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Many torch files that are one checkpoint: every rank of a job wrote its own, and only together they hold each tensor.
//
//   part 0  zero_pp_rank_0_….pt  flat [138] ──► elements [0, 91) of 'words.weight', [91, 138) … of 'up.weight'
//   part 1  zero_pp_rank_1_….pt  flat [138] ──►                                     the rest of 'up.weight', …
//
// CheckpointJoiner opens the files and collects tensors, where their elements lie, and a state tree. No data is read
// and no byte moved: a chunk is a place in one of the files. A run of a flat tensor becomes up to 2·rank − 1 chunks.
//
//   tensor number  ─► add_tensor() or copy_state(), which adds the stored tensors that the copied tree leads to
//   finish()       ─► tensors that the tree leads to, named and ordered as tensor_names() says; others are dropped
//
// Threads: the joiner one at a time; the reader as CheckpointReader.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/file_pool.h"
#include "tenplex/formats/local_part.h"

namespace tenplex {

class CheckpointJoiner {
 public:
  using Part = std::uint32_t;    ///< an opened file
  using Number = std::uint32_t;  ///< of a tensor of the joined checkpoint, before it is finished

  struct Options {
    ReadOptions read;
    /// Stands before the names in CheckpointInfo::files: "", or the sub-folder that `folder` is of the checkpoint's,
    /// with a slash.
    std::string prefix;
    /// Python attributes of tensors that are left out, as in read_torch_pickle().
    std::vector<std::string_view> ignored_attributes;
  };

  /// `files` outlives what finish() returns.
  CheckpointJoiner(FileSystem& files, const std::string& folder, Options options);

  /// Opens a torch file below the folder. Errors: as open_torch() and open_member(), naming the file.
  Result<Part> open(const std::string& relative);

  /// What a file holds by itself.
  const CheckpointInfo& stored(Part part) const { return parts_[part]->info(); }
  const std::string& name(Part part) const { return names_[part]; }

  /// Bytes of a small stored tensor, row-major. Errors: unsupported for more than 64 bytes or other strides; corrupt,
  /// io.
  Result<std::string> small_bytes(Part part, TensorId tensor) const;

  /// `size` bytes from `begin` of a stored tensor's row-major bytes. Requires: they are in it. Errors: unsupported for
  /// other strides; corrupt, io.
  Result<std::string> bytes(Part part, TensorId tensor, std::int64_t begin, std::int64_t size) const;

  // ── Tensors ──
  /// A tensor without elements yet. Errors: as check_shape(); `name` is for messages.
  Result<Number> add_tensor(std::string_view name, DType dtype, const Dims& shape);

  /// A stored tensor, whole; the same number each time.
  Number stored_tensor(Part part, TensorId tensor, DeviceId device);

  /// Elements [begin, end) of the tensor's row-major flattening are those from `offset` of a stored tensor of one
  /// dimension. Errors: corrupt if they are not in there, or if the types differ.
  struct Run {
    Part part = 0;
    TensorId stored;
    std::int64_t offset = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  Result<void> add_run(Number tensor, DeviceId device, const Run& run);

  /// The same for elements [begin, end) of a rank's array of the tensor.
  Result<void> add_run(Number tensor, DeviceId device, const Run& run, const LocalPart& local);

  /// `box` of the tensor is what starts at `start` of a stored one of the same rank. Errors: as add_run().
  Result<void> add_box(Number tensor, DeviceId device, Part part, TensorId stored, const Box& box, const Dims& start);

  /// A stored tensor is a rank's array of the tensor. Errors: as add_run().
  Result<void> add_part(Number tensor, DeviceId device, Part part, TensorId stored, const LocalPart& local);

  const Dims& shape(Number tensor) const { return tensors_[tensor].shape; }
  DType dtype(Number tensor) const { return tensors_[tensor].dtype; }

  // ── State ──
  StateGraph& state() { return info_.state; }

  /// Adds what `node` of `graph` leads to, and the tensors in it. `graph` is the part's tree, or a changed copy of it.
  NodeId copy_state(Part part, const StateGraph& graph, NodeId node, DeviceId device);

  /// A leaf for the tensor, in a storage of its own.
  NodeId tensor_node(Number tensor);

  /// `root` of state() leads to everything. Errors: unsupported and corrupt, as tensor_names() and check_tensor();
  /// corrupt for a tensor with elements that nothing stores.
  Result<std::unique_ptr<CheckpointReader>> finish(NodeId root, CheckpointInfo info);

 private:
  class Reader;
  struct Place {
    Part part = 0;
    TensorId stored;
    std::int64_t offset = 0;  // elements: in the stored tensor of one dimension, or of the row in starts_
    std::int32_t run = -1;    // of a run: the shape whose flattening it is of, in run_shapes_
  };
  struct Source {
    Place place;
    DeviceId device;
    Box box;
  };
  struct Pending {
    DType dtype = DType::kFloat32;
    Dims shape;
    std::vector<Source> sources;
  };

  std::int32_t run_shape(const Dims& shape);
  Result<void> check_type(const Pending& tensor, Part part, TensorId stored) const;
  Result<void> add_chunks(const Pending& tensor, TensorId id);

  std::unique_ptr<FilePool> pool_;
  Options options_;
  std::vector<std::unique_ptr<CheckpointReader>> parts_;
  std::vector<std::string> names_;
  std::vector<Pending> tensors_;
  std::map<std::pair<Part, TensorId>, Number> of_stored_;
  std::uint32_t next_storage_ = 0;
  std::uint32_t next_object_ = 0;
  CheckpointInfo info_;
  std::vector<Place> places_;  // per chunk
  std::vector<Dims> starts_;
  std::vector<Dims> run_shapes_;
};

}  // namespace tenplex
