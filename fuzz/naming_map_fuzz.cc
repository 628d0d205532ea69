// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a naming map. What parses is applied to a small model on each side; what fits is checked inside
// map_tensors() to use every element once, so an internal error is a fault. What became of the model is mapped again.
// decoder: src/tenplex/ptc/naming_map.cc
// decoder: src/tenplex/ptc/map_match.cc
// decoder: src/tenplex/ptc/map_index.cc
// decoder: src/tenplex/ptc/size_rules.cc
// decoder: src/tenplex/ptc/map_tensors.cc
// decoder: src/tenplex/ptc/group_mapper.cc
// decoder: src/tenplex/ptc/group_pieces.cc
// decoder: src/tenplex/ptc/part_join.cc
// decoder: src/tenplex/ptc/map_agreements.cc
// decoder: src/tenplex/ptc/map_rule_checks.cc
#include <cstdint>
#include <string_view>
#include <vector>

#include "tenplex/base/check.h"
#include "tenplex/ptc/map_tensors.h"

namespace {

using tenplex::TensorInfo;

/// The names that the seeds have for their first side, then those that they have for the second.
const std::vector<std::vector<TensorInfo>>& models() {
  using tenplex::DType;
  const auto f32 = [](const char* name, const tenplex::Dims& shape) {
    return TensorInfo{name, DType::kFloat32, shape};
  };
  static const std::vector<std::vector<TensorInfo>> models = {
      {f32("0.q", {4, 3}), f32("0.k", {2, 3}), f32("0.v", {2, 3})},
      {f32("0.qkv", {8, 3}), f32("1.qkv", {8, 3})},
      {f32("gate", {3, 2}), f32("up", {3, 2})},
      {f32("fc1", {6, 2})},
      {f32("c_attn", {2, 12})},
      {f32("qkv", {12, 2})},
      {f32("0.0.w", {5}), f32("0.1.w", {5}), f32("1.0.w", {5}), f32("1.1.w", {5})},
      {f32("w", {2, 3, 4}), {"packed", DType::kFloat4E2M1FN, {4, 4}}},
      {f32("0.0.w", {}), f32("0.2.w", {}), f32("empty", {0, 4})},
      {f32("opt.state.m.0.q", {4, 3}), f32("opt.state.m.0.k", {2, 3}), f32("opt.state.m.0.v", {2, 3})},
      {f32("state.gate.step", {}), f32("state.up.step", {}), f32("gate", {3, 2}), f32("up", {3, 2})},
      {f32("state.fc1.step", {}), f32("fc1", {6, 2})},
      {f32("state.w.step", {}), f32("w", {2, 3, 4})},
      {}};
  return models;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto map = tenplex::parse_naming_map(text, "fuzzed");
  if (!map) return 0;
  const auto config = [](std::string_view key) -> std::optional<std::int64_t> {
    if (key == "n_head") return 4;
    return std::nullopt;
  };
  const auto sizes = tenplex::map_sizes(*map, {}, config);
  if (!sizes) return 0;
  for (const std::vector<TensorInfo>& model : models()) {
    const auto there = tenplex::map_tensors(*map, model, *sizes);
    TENPLEX_CHECK(there || there.error().code() != tenplex::ErrorCode::kInternal);
    if (!there) continue;
    const auto back = tenplex::map_tensors(*map, there->map.targets, *sizes);
    TENPLEX_CHECK(back || back.error().code() != tenplex::ErrorCode::kInternal);
  }
  return 0;
}
