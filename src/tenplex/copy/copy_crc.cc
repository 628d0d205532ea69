// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/copy/copy_crc.h"

#include <algorithm>

#include "tenplex/base/check.h"
#include "tenplex/base/crc32.h"
#include "tenplex/base/crc32c.h"
#include "tenplex/copy/strided_copy.h"

namespace tenplex {
namespace {

/// Fits in the second-level cache together with its source.
constexpr std::int64_t kBlockBytes = std::int64_t{128} << 10;

class Packer {
 public:
  Packer(Checksum checksum, std::uint32_t crc, std::byte* target, const PackShape& shape)
      : checksum_(checksum),
        crc_(crc),
        target_(target),
        shape_(shape),
        target_strides_(row_major_strides(shape.extent)) {
    for (std::int64_t& stride : target_strides_) stride *= shape.element_bytes;
  }

  /// Packs the dimensions from `dim` on.
  void pack(int dim, const std::byte* source) {
    const int rank = shape_.extent.rank();
    if (dim == rank) return pack_block(dim, 1, source);
    const std::int64_t extent = shape_.extent[dim];
    const std::int64_t stride = shape_.source_strides[dim];
    const std::int64_t inner_bytes = target_strides_[dim];
    if (inner_bytes > kBlockBytes) {
      for (std::int64_t index = 0; index < extent; ++index) pack(dim + 1, source + index * stride);
      return;
    }
    const std::int64_t at_once = kBlockBytes / inner_bytes;
    for (std::int64_t index = 0; index < extent; index += at_once)
      pack_block(dim, std::min(at_once, extent - index), source + index * stride);
  }

  std::uint32_t crc() const { return crc_; }

 private:
  /// `length` turns of dimension `dim` with all dimensions inside it.
  void pack_block(int dim, std::int64_t length, const std::byte* source) {
    CopyShape block{{}, {}, {}, shape_.element_bytes};
    std::int64_t bytes = shape_.element_bytes;
    for (int inner = dim; inner < shape_.extent.rank(); ++inner) {
      block.extent.push_back(inner == dim ? length : shape_.extent[inner]);
      block.target_strides.push_back(target_strides_[inner]);
      block.source_strides.push_back(shape_.source_strides[inner]);
      bytes *= block.extent[inner - dim];
    }
    strided_copy(target_, source, block);
    const ByteSpan written(target_, static_cast<std::size_t>(bytes));
    crc_ = checksum_ == Checksum::kCrc32 ? crc32(crc_, written) : crc32c(crc_, written);
    target_ += bytes;
  }

  const Checksum checksum_;
  std::uint32_t crc_;
  std::byte* target_;
  const PackShape& shape_;
  Dims target_strides_;
};

}  // namespace

std::uint32_t pack_with_crc(Checksum checksum, std::uint32_t crc_before, std::byte* target, const std::byte* source,
                            const PackShape& shape) {
  TENPLEX_CHECK(shape.source_strides.rank() == shape.extent.rank() && shape.element_bytes > 0);
  if (std::find(shape.extent.begin(), shape.extent.end(), 0) != shape.extent.end()) return crc_before;
  Packer packer(checksum, crc_before, target, shape);
  packer.pack(0, source);
  return packer.crc();
}

std::uint32_t copy_with_crc(Checksum checksum, std::uint32_t crc_before, std::byte* target, ByteSpan source) {
  return pack_with_crc(checksum, crc_before, target, source.data(),
                       {{static_cast<std::int64_t>(source.size())}, {1}, 1});
}

}  // namespace tenplex
