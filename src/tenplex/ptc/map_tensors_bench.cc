// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Llama 3.1 405B (126 layers, 128 heads, 8 groups) and a Mixtral of 64 layers with 128 experts to Megatron's names.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "tenplex/ptc/builtin_maps.h"
#include "tenplex/ptc/map_tensors.h"

namespace tenplex {
namespace {

constexpr std::int64_t kHidden = 16384;

void add(std::vector<TensorInfo>* tensors, std::string name, const Dims& shape) {
  tensors->push_back({std::move(name), DType::kBFloat16, shape});
}

/// What the two models share: all but the layers' MLPs.
std::vector<TensorInfo> attention(int layers, std::int64_t heads, std::int64_t groups) {
  std::vector<TensorInfo> tensors;
  for (int layer = 0; layer < layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    add(&tensors, prefix + "self_attn.q_proj.weight", {heads * 128, kHidden});
    add(&tensors, prefix + "self_attn.k_proj.weight", {groups * 128, kHidden});
    add(&tensors, prefix + "self_attn.v_proj.weight", {groups * 128, kHidden});
    add(&tensors, prefix + "self_attn.o_proj.weight", {kHidden, heads * 128});
    add(&tensors, prefix + "input_layernorm.weight", {kHidden});
    add(&tensors, prefix + "post_attention_layernorm.weight", {kHidden});
  }
  add(&tensors, "model.embed_tokens.weight", {128256, kHidden});
  add(&tensors, "lm_head.weight", {128256, kHidden});
  add(&tensors, "model.norm.weight", {kHidden});
  return tensors;
}

std::vector<TensorInfo> llama_405b() {
  std::vector<TensorInfo> tensors = attention(126, 128, 8);
  for (int layer = 0; layer < 126; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.mlp.", layer);
    for (const char* name : {"gate_proj.weight", "up_proj.weight"}) add(&tensors, prefix + name, {53248, kHidden});
    add(&tensors, prefix + "down_proj.weight", {kHidden, 53248});
  }
  return tensors;
}

std::vector<TensorInfo> large_mixture() {
  std::vector<TensorInfo> tensors = attention(64, 128, 8);
  for (int layer = 0; layer < 64; ++layer) {
    add(&tensors, fmt::format("model.layers.{}.block_sparse_moe.gate.weight", layer), {128, kHidden});
    for (int expert = 0; expert < 128; ++expert)
      for (const char* name : {"w1", "w2", "w3"})
        add(&tensors, fmt::format("model.layers.{}.block_sparse_moe.experts.{}.{}.weight", layer, expert, name),
            {kHidden, kHidden});
  }
  return tensors;
}

/// With fp32 masters and Adam's moments.
std::vector<TensorInfo> with_slots(std::vector<TensorInfo> tensors) {
  const std::size_t parameters = tensors.size();
  tensors.reserve(parameters * 4);
  for (const char* slot : {"fp32_param", "exp_avg", "exp_avg_sq"})
    for (std::size_t index = 0; index < parameters; ++index)
      tensors.push_back(
          {fmt::format("optimizer.state.{}.{}", slot, tensors[index].name), DType::kFloat32, tensors[index].shape});
  return tensors;
}

void map_there(benchmark::State& state, const char* name, const std::vector<TensorInfo>& tensors) {
  const NamingMap map = builtin_map(name).value();
  const NamedSizes sizes = {{"heads", 128}, {"groups", 8}};
  std::size_t pieces = 0;
  for (auto _ : state) pieces = map_tensors(map, tensors, sizes).value().map.pieces.size();
  state.counters["tensors"] = static_cast<double>(tensors.size());
  state.counters["pieces"] = static_cast<double>(pieces);
}

void map_back(benchmark::State& state, const char* name, const std::vector<TensorInfo>& tensors) {
  const auto there = map_tensors(builtin_map(name).value(), tensors, {{"heads", 128}, {"groups", 8}}).value();
  map_there(state, name, there.map.targets);
}

BENCHMARK_CAPTURE(map_there, llama_405b, "hf-llama", llama_405b())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(map_back, llama_405b, "hf-llama", llama_405b())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(map_there, llama_405b_with_slots, "hf-llama", with_slots(llama_405b()))
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(map_there, large_mixture, "hf-mixtral", large_mixture())->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tenplex
