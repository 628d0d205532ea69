// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a layout file. What parses is applied to a small model on a small mesh; what fits must cover every
// tensor.
// decoder: src/tenplex/ptc/layout.cc
// decoder: src/tenplex/ptc/layout_reader.cc
// decoder: src/tenplex/ptc/layout_rule_reader.cc
// decoder: src/tenplex/ptc/layer_stages.cc
// decoder: src/tenplex/ptc/object_owners.cc
// decoder: src/tenplex/ptc/size_rules.cc
// decoder: src/tenplex/ptc/yaml_document.cc
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tenplex/base/check.h"
#include "tenplex/ptc/layout.h"
#include "tenplex/ptc/rule_collection.h"

namespace {

const std::vector<tenplex::TensorInfo>& model() {
  using tenplex::DType;
  static const std::vector<tenplex::TensorInfo> tensors = {
      {"embedding.weight", DType::kFloat32, {13, 4}},
      {"layers.0.up.weight", DType::kBFloat16, {12, 4}},
      {"layers.1.up.weight", DType::kBFloat16, {12, 4}},
      {"layers.0.experts.0.w", DType::kFloat32, {4, 6}},
      {"layers.0.experts.1.w", DType::kFloat32, {4, 6}},
      {"state.layers.0.up.weight.exp_avg", DType::kFloat32, {12, 4}},
      {"state.layers.0.up.weight.step", DType::kInt64, {}},
      {"head.weight", DType::kFloat32, {13, 4}},
      {"stack.fc1", DType::kFloat32, {2, 8, 4}},
      {"stack.fc2", DType::kFloat32, {2, 4, 4}}};
  return tensors;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto layout = tenplex::parse_layout(text, "fuzzed");
  if (!layout) return 0;
  (void)layout->with_zero(1);
  const auto config = [](std::string_view key) -> std::optional<std::int64_t> {
    if (key == "n_layer") return 2;
    return std::nullopt;
  };
  const auto sized = layout->with_sizes({{"given", 1}}, config);
  if (!sized) return 0;
  TENPLEX_CHECK(sized->text() == layout->text() || tenplex::parse_layout(sized->text(), "sized"));
  tenplex::MeshSizes sizes;
  for (const std::string& axis : layout->axes())
    if (sizes.size() < 3) sizes.emplace_back(axis, 2);
  const auto collection =
      tenplex::RuleCollection::make(*sized, sizes, model(), {"rng.1", "step", "layers.1.state/3_8"});
  if (!collection) return 0;
  tenplex::SubTensor shard;
  for (std::size_t t = 0; t < model().size(); ++t) {
    const tenplex::TensorId tensor(t);
    if ((*collection)->alias_of(tensor)) continue;
    std::int64_t elements = 0;
    for (std::int64_t s = 0; s < (*collection)->shard_count(tensor); ++s) {
      (*collection)->shard(tensor, s, &shard);
      for (const tenplex::Piece& piece : shard.pieces) elements += tenplex::volume(piece.box);
    }
    TENPLEX_CHECK(elements == tenplex::volume((*collection)->tensors()[t].shape));
  }
  return 0;
}
