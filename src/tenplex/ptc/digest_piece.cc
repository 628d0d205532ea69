// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// digest_of_piece: walks the rows of a piece in the tensor's order. A row that lies contiguously in the local array is
// summed where it is; any other is gathered into a small buffer first.
#include <algorithm>
#include <array>
#include <cstdlib>
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

  // Rows that are gathered together, because their elements are neighbours in the local array.
  std::int64_t group = 1;
  std::int64_t group_tensor_stride = 0;  ///< elements
  std::int64_t group_local_stride = 0;   ///< elements
};

/// Takes the outer dimension with the smallest step in the local array out of the outer dimensions, if that step is
/// smaller than the one inside a row.
void group_rows(Rows& rows) {
  int best = -1;
  std::int64_t step = std::abs(rows.local_stride);
  for (int dim = 0; dim < rows.extent.rank(); ++dim) {
    if (std::abs(rows.local_strides[dim]) >= step) continue;
    best = dim;
    step = std::abs(rows.local_strides[dim]);
  }
  if (best < 0) return;
  rows.group = rows.extent[best];
  rows.group_tensor_stride = rows.tensor_strides[best];
  rows.group_local_stride = rows.local_strides[best];
  rows.extent[best] = 1;
}

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

/// Rows that are copied out of the local array together.
struct Gather {
  const std::byte* source;
  std::int64_t rows;
  std::int64_t elements;    ///< per row
  std::int64_t row_step;    ///< elements, in the local array
  std::int64_t inner_step;  ///< elements, in the local array
};

constexpr std::int64_t kGatherRows = 16;
constexpr std::int64_t kGatherRowBytes = 2048;
constexpr std::int64_t kGatherPitch = kGatherRowBytes + 64;  // bytes; the rows must not share cache sets
using GatherBuffer = std::array<std::byte, kGatherRows * kGatherPitch>;

template <typename Element>
void gather_elements(std::byte* target, const Gather& gather) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(Element));
  for (std::int64_t element = 0; element < gather.elements; ++element)
    for (std::int64_t row = 0; row < gather.rows; ++row)
      std::memcpy(target + row * kGatherPitch + element * kBytes,
                  gather.source + (element * gather.inner_step + row * gather.row_step) * kBytes, sizeof(Element));
}

void gather_rows(std::byte* target, const Gather& gather, std::int64_t element_bytes) {
  struct SixteenBytes {
    std::uint64_t words[2];
  };
  if (element_bytes == 1) return gather_elements<std::uint8_t>(target, gather);
  if (element_bytes == 2) return gather_elements<std::uint16_t>(target, gather);
  if (element_bytes == 4) return gather_elements<std::uint32_t>(target, gather);
  if (element_bytes == 8) return gather_elements<std::uint64_t>(target, gather);
  gather_elements<SixteenBytes>(target, gather);
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

  /// The row at this position, with those of its group.
  Digest row(std::int64_t first_element, std::int64_t local_offset) const {
    if (rows_.local_stride == 1 || rows_.length == 1) {
      if (local_offset * bits_ % 8 == 0 && rows_.length * bits_ % 8 == 0)
        return digest_of_run(path_, dtype_, first_element, {local_ + local_offset * bits_ / 8, bytes_of(rows_.length)});
    }
    return is_sub_byte(dtype_) ? row_of_codes(first_element, local_offset) : gathered_rows(first_element, local_offset);
  }

 private:
  std::size_t bytes_of(std::int64_t elements) const { return static_cast<std::size_t>(elements * bits_ / 8); }

  Digest row_of_codes(std::int64_t first_element, std::int64_t local_offset) const {
    constexpr std::int64_t kCodes = 512;
    std::array<std::byte, kCodes> buffer;
    Digest sum;
    for (std::int64_t done = 0; done < rows_.length; done += kCodes) {
      const std::int64_t count = std::min(kCodes, rows_.length - done);
      gather_codes(buffer.data(), local_, local_offset + done * rows_.local_stride, rows_.local_stride,
                   static_cast<std::size_t>(count), bits_);
      sum += digest_of_run(path_, dtype_, first_element + done, {buffer.data(), bytes_of(count)});
    }
    return sum;
  }

  Digest gathered_rows(std::int64_t first_element, std::int64_t local_offset) const {
    const std::int64_t at_once = kGatherRowBytes * 8 / bits_;
    Digest sum;
    for (std::int64_t row = 0; row < rows_.group; row += kGatherRows)
      for (std::int64_t done = 0; done < rows_.length; done += at_once)
        sum += gathered_tile(first_element + row * rows_.group_tensor_stride + done,
                             local_offset + row * rows_.group_local_stride + done * rows_.local_stride,
                             std::min(kGatherRows, rows_.group - row), std::min(at_once, rows_.length - done));
    return sum;
  }

  Digest gathered_tile(std::int64_t first_element, std::int64_t local_offset, std::int64_t rows,
                       std::int64_t elements) const {
    GatherBuffer buffer;
    gather_rows(buffer.data(),
                {local_ + local_offset * bits_ / 8, rows, elements, rows_.group_local_stride, rows_.local_stride},
                bits_ / 8);
    Digest sum;
    for (std::int64_t row = 0; row < rows; ++row)
      sum += digest_of_run(path_, dtype_, first_element + row * rows_.group_tensor_stride,
                           {buffer.data() + row * kGatherPitch, bytes_of(elements)});
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
  Rows rows = rows_of(tensor, piece);
  if (rows.length > 1 && rows.local_stride != 1 && !is_sub_byte(tensor.dtype)) group_rows(rows);
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
