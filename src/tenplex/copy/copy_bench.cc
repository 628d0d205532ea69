// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The copy engine against memcpy of the same bytes, alternating in one run, one thread, on buffers larger than the
// caches. `of_memcpy` is the ratio of the speeds of the fastest runs.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "tenplex/base/testing/time_against.h"
#include "tenplex/copy/convert.h"
#include "tenplex/copy/copy_crc.h"
#include "tenplex/copy/strided_copy.h"

namespace tenplex {
namespace {

constexpr std::int64_t kBytes = std::int64_t{64} << 20;
constexpr std::int64_t kPitch = 4;  ///< rows of the strided side are this many row lengths apart
constexpr int kRepetitions = 11;

struct AlignedFree {
  void operator()(std::byte* bytes) const { std::free(bytes); }  // NOLINT(cppcoreguidelines-no-malloc)
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedFree>;

AlignedBytes touched_bytes() {
  const auto size = static_cast<std::size_t>(kBytes * kPitch) + 4096;
  AlignedBytes bytes(static_cast<std::byte*>(std::aligned_alloc(4096, size)));
  std::memset(bytes.get(), 0x5A, size);
  return bytes;
}

struct Buffers {
  AlignedBytes source = touched_bytes();
  AlignedBytes target = touched_bytes();
};

Buffers& buffers() {
  static Buffers touched;
  return touched;
}

template <typename Work>
void compare(benchmark::State& state, std::int64_t bytes, Work work) {
  const auto copy = [&] {
    std::memcpy(buffers().target.get(), buffers().source.get(), static_cast<std::size_t>(bytes));
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

void copy_shape(benchmark::State& state, const CopyShape& shape, std::int64_t misalignment = 0) {
  compare(state, kBytes, [&] {
    strided_copy(buffers().target.get() + misalignment, buffers().source.get() + misalignment, shape);
    benchmark::ClobberMemory();
  });
}

void contiguous(benchmark::State& state) {
  copy_shape(state, {{1024, kBytes / 1024}, {kBytes / 1024, 1}, {kBytes / 1024, 1}, 1});
}

void gather(benchmark::State& state) {
  const std::int64_t row = state.range(0);
  copy_shape(state, {{kBytes / row, row}, {row, 1}, {kPitch * row, 1}, 1}, state.range(1));
}

void scatter(benchmark::State& state) {
  const std::int64_t row = state.range(0);
  copy_shape(state, {{kBytes / row, row}, {kPitch * row, 1}, {row, 1}, 1}, state.range(1));
}

/// Strided on both sides, as between two tensors that are cut along their last dimension.
void both(benchmark::State& state) {
  const std::int64_t row = state.range(0);
  copy_shape(state, {{kBytes / row, row}, {kPitch * row, 1}, {kPitch * row, 1}, 1}, state.range(1));
}

/// A square matrix of `range(0)`-byte elements.
void transpose(benchmark::State& state) {
  const std::int64_t element = state.range(0);
  std::int64_t side = 8192;
  while (side * side * element > kBytes) side /= 2;
  const std::int64_t other = kBytes / side / element;
  copy_shape(state, {{side, other}, {other * element, element}, {element, side * element}, element});
}

void with_crc(benchmark::State& state, Checksum checksum) {
  compare(state, kBytes, [&] {
    benchmark::DoNotOptimize(
        copy_with_crc(checksum, 0, buffers().target.get(), {buffers().source.get(), static_cast<std::size_t>(kBytes)}));
  });
}

/// Bytes are those of the source.
void convert_run(benchmark::State& state, DType from, DType to) {
  const ConvertShape shape{{kBytes / size_bytes(from)}, {size_bytes(to)}, {size_bytes(from)}};
  compare(state, kBytes, [&] {
    strided_convert(to, buffers().target.get(), from, buffers().source.get(), shape);
    benchmark::ClobberMemory();
  });
}

BENCHMARK(contiguous)->UseManualTime()->Iterations(1);
BENCHMARK(gather)
    ->ArgsProduct({{16, 64, 128, 256, 512, 1024, 2048, 4096, 16384, 65536}, {0, 8}})
    ->UseManualTime()
    ->Iterations(1);
BENCHMARK(scatter)
    ->ArgsProduct({{16, 64, 128, 256, 512, 1024, 2048, 4096, 16384, 65536}, {0, 8}})
    ->UseManualTime()
    ->Iterations(1);
BENCHMARK(both)->ArgsProduct({{512, 1024, 4096, 65536}, {0, 8}})->UseManualTime()->Iterations(1);
BENCHMARK(transpose)->Arg(1)->Arg(2)->Arg(4)->Arg(8)->Arg(16)->UseManualTime()->Iterations(1);

BENCHMARK_CAPTURE(with_crc, crc32, Checksum::kCrc32)->UseManualTime()->Iterations(1);
BENCHMARK_CAPTURE(with_crc, crc32c, Checksum::kCrc32c)->UseManualTime()->Iterations(1);
BENCHMARK_CAPTURE(convert_run, float32_to_bfloat16, DType::kFloat32, DType::kBFloat16)->UseManualTime()->Iterations(1);
BENCHMARK_CAPTURE(convert_run, bfloat16_to_float32, DType::kBFloat16, DType::kFloat32)->UseManualTime()->Iterations(1);

}  // namespace
}  // namespace tenplex
