// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// digest_of_piece: walks the rows of a piece in the tensor's order. A row that lies contiguously in the local array is
// summed where it is; any other is gathered into a small buffer first.
#include <algorithm>
#include <array>
#include <cstring>

#include "tenplex/base/check.h"
#include "tenplex/ptc/digest_lanes.h"

namespace tenplex::internal {
namespace {

/// A row of elements that follow each other in the tensor, repeated over outer dimensions.
struct Rows {
  Dims extent;          ///< of the outer dimensions
  Dims tensor_strides;  ///< elements
  Dims local_strides;   ///< elements
  std::int64_t length = 1;
  std::int64_t local_stride = 1;  ///< elements, inside the row
  std::int64_t first_element = 0;
  std::int64_t local_offset = 0;
};

/// Takes the dimensions from the innermost one outwards: those that continue the row in the tensor and, with the same
/// step, in the local array become part of it.
Rows rows_of(const TensorInfo& tensor, const Piece& piece) {
  const Dims strides = row_major_strides(tensor.shape);
  Rows rows;
  rows.local_offset = piece.local_offset;
  bool in_row = true;
  std::array<int, kMaxRank> outer{};
  int outer_count = 0;
  for (int dim = piece.box.rank() - 1; dim >= 0; --dim) {
    rows.first_element += piece.box.offset[dim] * strides[dim];
    const std::int64_t extent = piece.box.extent[dim];
    if (extent == 1) continue;
    const std::int64_t local_stride = piece.local_strides[dim];
    if (in_row && rows.length == 1 && strides[dim] == 1) {
      rows.local_stride = local_stride;
      rows.length = extent;
    } else if (in_row && strides[dim] == rows.length && local_stride == rows.length * rows.local_stride) {
      rows.length *= extent;
    } else {
      in_row = false;
      outer[static_cast<std::size_t>(outer_count++)] = dim;
    }
  }
  while (outer_count > 0) {
    const int dim = outer[static_cast<std::size_t>(--outer_count)];
    rows.extent.push_back(piece.box.extent[dim]);
    rows.tensor_strides.push_back(strides[dim]);
    rows.local_strides.push_back(piece.local_strides[dim]);
  }
  return rows;
}

template <typename Element>
void gather_elements(std::byte* target, const std::byte* source, std::int64_t stride, std::size_t count) {
  for (std::size_t index = 0; index < count; ++index)
    std::memcpy(target + index * sizeof(Element),
                source + static_cast<std::int64_t>(index) * stride * static_cast<std::int64_t>(sizeof(Element)),
                sizeof(Element));
}

void gather(std::byte* target, const std::byte* source, std::int64_t stride, std::size_t count, std::size_t bytes) {
  struct SixteenBytes {
    std::uint64_t words[2];
  };
  if (bytes == 1) return gather_elements<std::uint8_t>(target, source, stride, count);
  if (bytes == 2) return gather_elements<std::uint16_t>(target, source, stride, count);
  if (bytes == 4) return gather_elements<std::uint32_t>(target, source, stride, count);
  if (bytes == 8) return gather_elements<std::uint64_t>(target, source, stride, count);
  gather_elements<SixteenBytes>(target, source, stride, count);
}

/// Element by element, for codes of less than a byte.
void gather_codes(std::byte* target, const std::byte* local, std::int64_t first, std::int64_t stride, std::size_t count,
                  std::int64_t bits) {
  std::memset(target, 0, (count * static_cast<std::size_t>(bits) + 7) / 8);
  const auto bit_of = [](const std::byte* bytes, std::int64_t bit) {
    return (bytes[bit / 8] >> static_cast<int>(bit % 8)) & std::byte{1};
  };
  for (std::size_t index = 0; index < count; ++index)
    for (std::int64_t bit = 0; bit < bits; ++bit) {
      const std::int64_t from = (first + static_cast<std::int64_t>(index) * stride) * bits + bit;
      const std::int64_t to = static_cast<std::int64_t>(index) * bits + bit;
      target[to / 8] |= bit_of(local, from) << static_cast<int>(to % 8);
    }
}

class PieceDigest {
 public:
  PieceDigest(const DigestPath& path, DType dtype, const std::byte* local, const Rows& rows)
      : path_(path), dtype_(dtype), bits_(bit_width(dtype)), local_(local), rows_(rows) {}

  Digest row(std::int64_t first_element, std::int64_t local_offset) const {
    if (rows_.local_stride == 1 || rows_.length == 1) {
      if (local_offset * bits_ % 8 == 0 && rows_.length * bits_ % 8 == 0)
        return digest_of_run(path_, dtype_, first_element, {local_ + local_offset * bits_ / 8, bytes_of(rows_.length)});
    }
    return gathered_row(first_element, local_offset);
  }

 private:
  static constexpr std::int64_t kGatherElements = 512;

  std::size_t bytes_of(std::int64_t elements) const { return static_cast<std::size_t>(elements * bits_ / 8); }

  Digest gathered_row(std::int64_t first_element, std::int64_t local_offset) const {
    std::array<std::byte, kGatherElements * 16> buffer;
    Digest sum;
    for (std::int64_t done = 0; done < rows_.length; done += kGatherElements) {
      const std::int64_t count = std::min(kGatherElements, rows_.length - done);
      const std::int64_t first = local_offset + done * rows_.local_stride;
      const auto elements = static_cast<std::size_t>(count);
      if (is_sub_byte(dtype_))
        gather_codes(buffer.data(), local_, first, rows_.local_stride, elements, bits_);
      else
        gather(buffer.data(), local_ + first * bits_ / 8, rows_.local_stride, elements,
               static_cast<std::size_t>(bits_) / 8);
      sum += digest_of_run(path_, dtype_, first_element + done, {buffer.data(), bytes_of(count)});
    }
    return sum;
  }

  const DigestPath& path_;
  const DType dtype_;
  const std::int64_t bits_;
  const std::byte* const local_;
  const Rows& rows_;
};

}  // namespace

Digest digest_of_piece(const DigestPath& path, const TensorInfo& tensor, const Piece& piece, const std::byte* local) {
  TENPLEX_CHECK(piece.box.rank() == tensor.shape.rank());
  if (piece.box.empty()) return {};
  const Rows rows = rows_of(tensor, piece);
  const PieceDigest digest(path, tensor.dtype, local, rows);
  std::int64_t element = rows.first_element;
  std::int64_t offset = rows.local_offset;
  Dims index = Dims::filled(rows.extent.rank(), 0);
  Digest sum;
  while (true) {
    sum += digest.row(element, offset);
    int dim = rows.extent.rank() - 1;
    for (; dim >= 0; --dim) {
      element += rows.tensor_strides[dim];
      offset += rows.local_strides[dim];
      if (++index[dim] < rows.extent[dim]) break;
      element -= rows.extent[dim] * rows.tensor_strides[dim];
      offset -= rows.extent[dim] * rows.local_strides[dim];
      index[dim] = 0;
    }
    if (dim < 0) return sum;
  }
}

}  // namespace tenplex::internal
