// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/copy/convert.h"

#include <algorithm>
#include <array>
#include <optional>

#include "tenplex/base/check.h"
#include "tenplex/copy/convert_kernels.h"
#include "tenplex/copy/strided_copy.h"

namespace tenplex {
namespace internal {

const ConvertKernels& best_convert_kernels() {
  static const ConvertKernels& best =
      convert_kernels_avx2() != nullptr ? *convert_kernels_avx2() : convert_kernels_portable();
  return best;
}

namespace {

std::optional<Float> as_float(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return Float::kFloat32;
    case DType::kFloat64:
      return Float::kFloat64;
    case DType::kFloat16:
      return Float::kFloat16;
    case DType::kBFloat16:
      return Float::kBFloat16;
    default:
      return std::nullopt;
  }
}

ConvertFunction conversion(DType source_dtype, DType target_dtype) {
  const auto source = as_float(source_dtype);
  const auto target = as_float(target_dtype);
  TENPLEX_CHECK(source && target);
  return best_convert_kernels().function(*source, *target);
}

/// Converts a box in parts: a part is gathered into a buffer, converted there, and scattered. Both copies are
/// strided_copy()'s, so that transposed views are read in tiles.
class StridedConverter {
 public:
  StridedConverter(DType target_dtype, DType source_dtype, const ConvertShape& shape)
      : function_(conversion(source_dtype, target_dtype)),
        target_bytes_(size_bytes(target_dtype)),
        source_bytes_(size_bytes(source_dtype)),
        shape_(shape),
        part_(Dims::filled(shape.extent.rank(), 1)) {
    // The innermost dimensions first, while the part still fits; a side of the part is short enough for both memories.
    std::int64_t elements = 1;
    for (int dim = shape.extent.rank() - 1; dim >= 0; --dim) {
      part_[dim] = std::min({shape.extent[dim], kPartSide, kPartElements / elements});
      elements *= part_[dim];
    }
  }

  void run(int dim, std::byte* target, const std::byte* source, Dims part) {
    if (dim == shape_.extent.rank()) return convert_part(target, source, part);
    for (std::int64_t at = 0; at < shape_.extent[dim]; at += part_[dim]) {
      part[dim] = std::min(part_[dim], shape_.extent[dim] - at);
      run(dim + 1, target + at * shape_.target_strides[dim], source + at * shape_.source_strides[dim], part);
    }
  }

 private:
  static constexpr std::int64_t kPartSide = 128;
  static constexpr std::int64_t kPartElements = 4096;

  static Dims packed_strides(const Dims& extent, std::int64_t element_bytes) {
    Dims strides = row_major_strides(extent);
    for (std::int64_t& stride : strides) stride *= element_bytes;
    return strides;
  }

  void convert_part(std::byte* target, const std::byte* source, const Dims& part) const {
    alignas(64) std::array<std::byte, kPartElements * 8> gathered;
    alignas(64) std::array<std::byte, kPartElements * 8> converted;
    strided_copy(gathered.data(), source,
                 {part, packed_strides(part, source_bytes_), shape_.source_strides, source_bytes_});
    function_(converted.data(), gathered.data(), volume(part));
    strided_copy(target, converted.data(),
                 {part, shape_.target_strides, packed_strides(part, target_bytes_), target_bytes_});
  }

  const ConvertFunction function_;
  const std::int64_t target_bytes_;
  const std::int64_t source_bytes_;
  const ConvertShape& shape_;
  Dims part_;
};

/// Number of innermost dimensions, and of elements in them, that are contiguous on both sides.
std::int64_t contiguous_run(const ConvertShape& shape, std::int64_t target_bytes, std::int64_t source_bytes,
                            int* outer_rank) {
  std::int64_t run = 1;
  int dim = shape.extent.rank();
  for (; dim > 0; --dim) {
    const bool continues =
        shape.target_strides[dim - 1] == run * target_bytes && shape.source_strides[dim - 1] == run * source_bytes;
    if (shape.extent[dim - 1] != 1 && !continues) break;
    run *= shape.extent[dim - 1];
  }
  *outer_rank = dim;
  return run;
}

void convert_runs(ConvertFunction function, std::byte* target, const std::byte* source, const ConvertShape& shape,
                  int outer_rank, std::int64_t run, int dim) {
  if (dim == outer_rank) return function(target, source, run);
  for (std::int64_t at = 0; at < shape.extent[dim]; ++at)
    convert_runs(function, target + at * shape.target_strides[dim], source + at * shape.source_strides[dim], shape,
                 outer_rank, run, dim + 1);
}

}  // namespace
}  // namespace internal

bool can_convert(DType source_dtype, DType target_dtype) {
  return internal::as_float(source_dtype).has_value() && internal::as_float(target_dtype).has_value();
}

void strided_convert(DType target_dtype, std::byte* target, DType source_dtype, const std::byte* source,
                     const ConvertShape& shape) {
  constexpr std::int64_t kMinRun = 32;  // shorter runs are faster through the buffer
  TENPLEX_CHECK(shape.target_strides.rank() == shape.extent.rank());
  TENPLEX_CHECK(shape.source_strides.rank() == shape.extent.rank());
  if (std::find(shape.extent.begin(), shape.extent.end(), 0) != shape.extent.end()) return;
  int outer_rank = 0;
  const std::int64_t run =
      internal::contiguous_run(shape, size_bytes(target_dtype), size_bytes(source_dtype), &outer_rank);
  if (run >= kMinRun || outer_rank == 0)
    return internal::convert_runs(internal::conversion(source_dtype, target_dtype), target, source, shape, outer_rank,
                                  run, 0);
  internal::StridedConverter(target_dtype, source_dtype, shape)
      .run(0, target, source, Dims::filled(shape.extent.rank(), 1));
}

}  // namespace tenplex
