// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The names that layers of DeepSpeed's PipelineModule have: of their files, and of their parameters in the whole model.
//
//   layer_03-model_states.pt            layer 3
//   layer_03-model_01-model_states.pt   layer 3 of tensor parallel rank 1
//   3.up.weight                         up.weight in the file of layer 3
//   tied_modules.embed.weight           weight in the file of any layer that uses the tied module "embed"
//
// Value types. Threads: functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tenplex::deepspeed {

struct LayerFile {
  std::int64_t layer = 0;
  std::int64_t tensor_rank = 0;
};

/// Nothing if it is no such name.
std::optional<LayerFile> parse_layer_file(std::string_view name);

struct LayerName {
  std::int64_t layer = -1;  ///< negative: of a tied module
  std::string_view module;  ///< the tied module's key
  std::string_view rest;    ///< the name in the layer's file

  bool tied() const { return layer < 0; }
};

/// Nothing if it is of no layer. The parts are views of `name`.
std::optional<LayerName> parse_layer_name(std::string_view name);

}  // namespace tenplex::deepspeed
