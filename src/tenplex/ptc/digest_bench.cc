// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The logical digest against memcpy of the same bytes, alternating in one run, one thread. `of_memcpy` is the ratio of
// the speeds of the fastest runs.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "tenplex/base/testing/time_against.h"
#include "tenplex/ptc/digest_lanes.h"

namespace tenplex {
namespace {

constexpr std::size_t kBytes = std::size_t{64} << 20;
constexpr int kRepetitions = 15;

struct Buffers {
  std::vector<std::byte> source = std::vector<std::byte>(kBytes, std::byte{0x5A});
  std::vector<std::byte> target = std::vector<std::byte>(kBytes, std::byte{0x11});
};

template <typename Work>
void compare(benchmark::State& state, Buffers& buffers, std::size_t bytes, Work work) {
  const auto copy = [&] {
    std::memcpy(buffers.target.data(), buffers.source.data(), bytes);
    benchmark::ClobberMemory();
  };
  for (auto _ : state) {
    const auto result = time_against(kRepetitions, work, copy);
    state.SetIterationTime(result.seconds);
    state.counters["GB/s"] = static_cast<double>(bytes) / result.seconds / 1e9;
    state.counters["memcpy_GB/s"] = static_cast<double>(bytes) / result.reference_seconds / 1e9;
    state.counters["of_memcpy"] = result.speed_of_reference();
  }
}

void long_run(benchmark::State& state, const internal::DigestPath* path, DType dtype) {
  if (path == nullptr) return state.SkipWithError("this processor lacks the instructions");
  Buffers buffers;
  compare(state, buffers, kBytes,
          [&] { benchmark::DoNotOptimize(internal::digest_of_run(*path, dtype, 0, buffers.source)); });
}

/// Rows of a column slice: contiguous in the local array, far apart in the tensor.
void short_rows(benchmark::State& state) {
  Buffers buffers;
  const auto row = state.range(0) / 4;
  const auto rows = static_cast<std::int64_t>(kBytes) / state.range(0);
  const TensorInfo tensor{"t", DType::kFloat32, {rows, 8 * row + 5}};
  const Piece piece{{{0, 3 * row + 1}, {rows, row}}, 0, {row, 1}};
  compare(state, buffers, kBytes,
          [&] { benchmark::DoNotOptimize(digest_of_piece(tensor, piece, buffers.source.data())); });
}

/// A transposed view: every element is gathered.
void transposed(benchmark::State& state) {
  Buffers buffers;
  const TensorInfo tensor{"t", DType::kFloat32, {4096, 4096}};
  const Piece piece{Box::whole(tensor.shape), 0, {1, 4096}};
  compare(state, buffers, kBytes,
          [&] { benchmark::DoNotOptimize(digest_of_piece(tensor, piece, buffers.source.data())); });
}

// Every comparison is made of many runs already: one iteration.
const internal::DigestPath* portable() { return &internal::digest_path_portable(); }
const internal::DigestPath* avx2() { return internal::digest_path_avx2(); }
const internal::DigestPath* avx512() { return internal::digest_path_avx512(); }

BENCHMARK_CAPTURE(long_run, portable_1_byte, portable(), DType::kInt8)->UseManualTime()->Iterations(1);
BENCHMARK_CAPTURE(long_run, portable_2_bytes, portable(), DType::kBFloat16)->UseManualTime()->Iterations(1);
BENCHMARK_CAPTURE(long_run, portable_4_bytes, portable(), DType::kFloat32)->UseManualTime()->Iterations(1);
BENCHMARK_CAPTURE(long_run, avx2_1_byte, avx2(), DType::kInt8)->UseManualTime()->Iterations(1);
BENCHMARK_CAPTURE(long_run, avx2_2_bytes, avx2(), DType::kBFloat16)->UseManualTime()->Iterations(1);
BENCHMARK_CAPTURE(long_run, avx2_4_bytes, avx2(), DType::kFloat32)->UseManualTime()->Iterations(1);
BENCHMARK_CAPTURE(long_run, avx512_1_byte, avx512(), DType::kInt8)->UseManualTime()->Iterations(1);
BENCHMARK_CAPTURE(long_run, avx512_2_bytes, avx512(), DType::kBFloat16)->UseManualTime()->Iterations(1);
BENCHMARK_CAPTURE(long_run, avx512_4_bytes, avx512(), DType::kFloat32)->UseManualTime()->Iterations(1);
BENCHMARK_CAPTURE(long_run, float4, &internal::best_digest_path(), DType::kFloat4E2M1FN)
    ->UseManualTime()
    ->Iterations(1);
BENCHMARK(short_rows)->Arg(64)->Arg(256)->Arg(1024)->Arg(4096)->UseManualTime()->Iterations(1);
BENCHMARK(transposed)->UseManualTime()->Iterations(1);

}  // namespace
}  // namespace tenplex
