// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The GPT of 1 T parameters (128 layers, hidden 25600, Adam, ZeRO-1) on 16,384 devices, and a checkpoint of 10^6
// chunks.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "tenplex/ptc/explicit_collection.h"
#include "tenplex/ptc/rule_collection.h"

namespace tenplex {
namespace {

constexpr std::string_view kLayout = R"(meshes: {dense: [tp, dp, pp]}
tensors:
  - {match: embedding.weight, slice: [{dim: 0, by: tp}], stage: first}
  - {match: output_layer.weight, slice: [{dim: 0, by: tp}], stage: last}
  - {match: ['layers.{layer}.linear_qkv.weight', 'layers.{layer}.linear_qkv.bias'], slice: [{dim: 0, by: tp}], stage: layer}
  - {match: ['layers.{layer}.linear_fc1.weight', 'layers.{layer}.linear_fc1.bias'], slice: [{dim: 0, by: tp, segments: [1, 1]}], stage: layer}
  - {match: ['layers.{layer}.linear_proj.weight', 'layers.{layer}.linear_fc2.weight'], slice: [{dim: 1, by: tp}], stage: layer}
  - {match: 'layers.{layer}.*', stage: layer}
  - {match: 'final_norm.*', stage: last}
slots: {fp32_param: zero1, exp_avg: zero1, exp_avg_sq: zero1}
)";

std::vector<TensorInfo> gpt() {
  constexpr std::int64_t kHidden = 25600;
  std::vector<TensorInfo> tensors;
  const auto add = [&](const std::string& name, const Dims& shape) {
    tensors.push_back({name, DType::kBFloat16, shape});
    for (const char* slot : {"fp32_param", "exp_avg", "exp_avg_sq"})
      tensors.push_back({fmt::format("optimizer.state.{}.{}", slot, name), DType::kFloat32, shape});
  };
  add("embedding.weight", {51200, kHidden});
  for (int layer = 0; layer < 128; ++layer) {
    const std::string prefix = fmt::format("layers.{}.", layer);
    add(prefix + "linear_qkv.weight", {3 * kHidden, kHidden});
    add(prefix + "linear_qkv.bias", {3 * kHidden});
    add(prefix + "linear_fc1.weight", {4 * kHidden, kHidden});
    add(prefix + "linear_fc1.bias", {4 * kHidden});
    add(prefix + "linear_proj.weight", {kHidden, kHidden});
    add(prefix + "linear_proj.bias", {kHidden});
    add(prefix + "linear_fc2.weight", {kHidden, 4 * kHidden});
    add(prefix + "linear_fc2.bias", {kHidden});
    for (const char* norm : {"norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"}) add(prefix + norm, {kHidden});
  }
  add("final_norm.weight", {kHidden});
  add("output_layer.weight", {51200, kHidden});
  return tensors;
}

void build_rule_collection(benchmark::State& state) {
  const Layout layout = parse_layout(kLayout, "gpt").value();
  const std::vector<TensorInfo> tensors = gpt();
  for (auto _ : state)
    benchmark::DoNotOptimize(RuleCollection::make(layout, {{"tp", 8}, {"dp", 32}, {"pp", 64}}, tensors).value());
  state.counters["tensors"] = static_cast<double>(tensors.size());
}
BENCHMARK(build_rule_collection)->Unit(benchmark::kMillisecond);

void shards_of_one_device(benchmark::State& state) {
  const Layout layout = parse_layout(kLayout, "gpt").value();
  const auto collection = RuleCollection::make(layout, {{"tp", 8}, {"dp", 32}, {"pp", 64}}, gpt()).value();
  std::vector<std::int64_t> shards;
  SubTensor shard;
  for (auto _ : state)
    for (std::size_t tensor = 0; tensor < collection->tensors().size(); ++tensor) {
      collection->shards_of_device(TensorId(tensor), DeviceId(8191), &shards);
      for (const std::int64_t index : shards) collection->shard(TensorId(tensor), index, &shard);
      benchmark::DoNotOptimize(shard);
    }
}
BENCHMARK(shards_of_one_device)->Unit(benchmark::kMicrosecond);

void build_explicit_collection(benchmark::State& state) {
  constexpr std::int64_t kRows = 1'000'000;
  double bytes = 0;
  for (auto _ : state) {
    ExplicitCollectionBuilder builder({{"w", DType::kFloat32, {kRows, 128}}}, 64, {});
    builder.reserve(kRows, 2);
    for (std::int64_t row = 0; row < kRows; ++row)
      if (!builder.add_box(DeviceId(static_cast<std::int32_t>(row / 15625)), TensorId(0), {{row, 0}, {1, 128}})) return;
    const auto collection = std::move(builder).finish().value();
    bytes = static_cast<double>(collection->memory_bytes());
  }
  state.counters["bytes_per_shard"] = bytes / kRows;
}
BENCHMARK(build_explicit_collection)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tenplex
