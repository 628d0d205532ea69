// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The inner loops of strided_convert(), once per instruction set, for the dispatcher and for tests. All give the same
// bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tenplex::internal {

/// Order of the rows and columns of ConvertKernels::functions.
enum class Float { kFloat32, kFloat64, kFloat16, kBFloat16 };

using ConvertFunction = void (*)(std::byte* target, const std::byte* source, std::int64_t count);

struct ConvertKernels {
  const char* name;
  std::array<std::array<ConvertFunction, 4>, 4> functions;  ///< [source][target]

  ConvertFunction function(Float source, Float target) const {
    return functions[static_cast<std::size_t>(source)][static_cast<std::size_t>(target)];
  }
};

const ConvertKernels& convert_kernels_portable();
/// AVX2 and F16C. Null if this processor or this build lacks them.
const ConvertKernels* convert_kernels_avx2();
/// The fastest ones that this processor has.
const ConvertKernels& best_convert_kernels();

}  // namespace tenplex::internal
