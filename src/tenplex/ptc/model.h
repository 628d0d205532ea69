// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Model: the tensors of a model without a checkpoint, as a list in YAML. The language is docs/models.md.
//
//   sizes: {layers: 2, hidden: 8}
//   numbers: {layer: layers}
//   tensors:
//     - {name: 'layers.{layer}.weight', shape: [hidden, hidden]}     layers.0.weight, layers.1.weight
//
// Value type, immutable. Threads: as any value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/ptc/name_pattern.h"
#include "tenplex/ptc/size_rules.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex {

struct ModelTensor {
  NamePattern name;
  std::vector<Size> shape;
  DType dtype = DType::kBFloat16;
  bool has_slots = true;
  int line = 0;
};

struct ModelRules {
  std::string layout;  ///< the layout for its names
  DType dtype = DType::kBFloat16;
  std::vector<SizeRule> sizes;
  std::vector<std::pair<std::string, Size>> numbers;  ///< words in braces: how many numbers they have, from 0
  std::vector<std::pair<std::string, DType>> slots;   ///< of every parameter, in this order
  std::string slot_name = "optimizer.state.{slot}.{param}";
  std::vector<ModelTensor> tensors;
};

class Model {
 public:
  static constexpr std::int64_t kMaxTensors = std::int64_t{1} << 20;

  const std::string& name() const { return name_; }
  /// The YAML it was read from.
  const std::string& text() const { return text_; }
  const ModelRules& rules() const { return rules_; }

  /// Elements of all parameters, slots not counted.
  std::int64_t parameter_count() const { return parameter_count_; }

  /// All tensors: parameters in the order of the file, the lowest number first, then slot after slot.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }

 private:
  friend Result<Model> parse_model(std::string_view yaml, std::string_view name);
  Result<void> list_tensors();
  Result<void> list_parameter(const ModelTensor& rule, const NamedSizes& sizes, std::vector<std::size_t>* with_slots);
  Result<void> list_slots(const std::vector<std::size_t>& with_slots);

  std::string name_;
  std::string text_;
  ModelRules rules_;
  std::vector<TensorInfo> tensors_;
  std::int64_t parameter_count_ = 0;
};

inline constexpr std::size_t kMaxModelBytes = std::size_t{1} << 20;

/// `name` is what messages call the model. Errors: invalid_argument with the line for YAML that does not parse, a key,
/// size, word or element type that does not exist; out_of_range for a text above kMaxModelBytes, more than kMaxTensors
/// tensors and tensors that are too large. YAML anchors and aliases are refused.
Result<Model> parse_model(std::string_view yaml, std::string_view name);

}  // namespace tenplex
