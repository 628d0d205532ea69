// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// LayerTensors: the tensors of a pipeline's model. A layer's file has names that are relative to the layer:
//
//   layer_01-model_states.pt  up.weight  ─► 1.up.weight
//   layer_00-model_states.pt  weight     ─► tied_modules.embed.weight
//
// That a layer is one of a tied module is in no file. It is known from `param_shapes`: no parameter is of the layer's
// own number, and just one tied module has parameters of these names and shapes. What is in the files of several layers
// is compared when it is read. A tied module that no layer uses as it is has no file: its parameters are the float32
// masters.
//
// Threads: as CheckpointJoiner.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/formats/deepspeed/model_parts.h"
#include "tenplex/formats/deepspeed/named_nodes.h"
#include "tenplex/formats/joined_reader.h"

namespace tenplex::deepspeed {

/// The opened files of a layer, by tensor parallel rank.
struct LayerParts {
  std::int64_t layer = 0;
  std::vector<CheckpointJoiner::Part> parts;
};

class LayerTensors {
 public:
  /// They outlive it. `layers` are by number; none in a universal checkpoint that ds_to_universal made.
  LayerTensors(ModelParts* parts, std::vector<LayerParts> layers, CheckpointJoiner* joiner);

  /// Adds all tensors to `top`, and to `objects` what is no tensor. Requires: the slots of the parameters are filled.
  /// Errors: corrupt, naming file and parameter, for a file that is missing, too many, or of another model; unsupported
  /// for a layer that may be of several tied modules.
  Result<void> add_to(std::vector<NamedNode>* top, std::vector<NamedNode>* objects);

 private:
  using TiedNames = std::map<std::string, std::vector<std::string>, std::less<>>;  // names in the module, by its key
  Result<void> check_keys(const LayerParts& layer) const;
  Result<std::string> prefix_of(const LayerParts& layer) const;
  bool is_of_module(const LayerParts& layer, std::string_view key, const std::vector<std::string>& names) const;
  Result<void> add_layer(const LayerParts& layer, const std::string& prefix);
  /// `item` is the place of the value in the files' dicts; `copied` a node of the joiner's state, or kNoNode.
  Result<void> add_tensor(const LayerParts& layer, const std::string& name, std::size_t item, NodeId copied);
  Result<void> check_complete() const;
  const StateGraph& graph(CheckpointJoiner::Part part) const { return joiner_.stored(part).state; }
  std::string quoted(const LayerParts& layer) const;
  DeviceId device(const LayerParts& layer, std::size_t tensor_rank) const;

  ModelParts& parts_;
  std::vector<LayerParts> layers_;
  CheckpointJoiner& joiner_;
  std::map<std::int64_t, std::vector<std::string>> own_names_;  // that are known, by layer
  TiedNames tied_names_;
  std::vector<std::int64_t> first_layers_;  // by stage, of those with parameters
  std::map<std::string, CheckpointJoiner::Number> numbers_;
  std::vector<NamedNode> entries_;
  std::vector<NamedNode> objects_;
};

}  // namespace tenplex::deepspeed
