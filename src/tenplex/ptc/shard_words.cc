// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/shard_words.h"

namespace tenplex {
namespace {

constexpr std::int64_t kGeneral = -1;

void append(const Dims& dims, std::vector<std::int64_t>* words) {
  words->insert(words->end(), dims.begin(), dims.end());
}

bool is_contiguous_box(const SubTensor& shard) {
  if (shard.pieces.size() != 1) return false;
  const Piece& piece = shard.pieces.front();
  return piece.local_offset == 0 && shard.local_shape == piece.box.extent &&
         piece.local_strides == row_major_strides(piece.box.extent);
}

Dims take(std::span<const std::int64_t>* words, int count) {
  const Dims dims(words->first(static_cast<std::size_t>(count)));
  *words = words->subspan(static_cast<std::size_t>(count));
  return dims;
}

std::int64_t take(std::span<const std::int64_t>* words) {
  const std::int64_t word = words->front();
  *words = words->subspan(1);
  return word;
}

}  // namespace

void append_box_words(const Box& box, std::vector<std::int64_t>* words) {
  append(box.offset, words);
  append(box.extent, words);
  if (box.rank() == 0) words->push_back(0);
}

void append_shard_words(int rank, const SubTensor& shard, std::vector<std::int64_t>* words) {
  if (is_contiguous_box(shard)) return append_box_words(shard.pieces.front().box, words);
  words->push_back(kGeneral);
  words->push_back(shard.local_shape.rank());
  append(shard.local_shape, words);
  for (const Piece& piece : shard.pieces) {
    TENPLEX_CHECK(piece.box.rank() == rank);
    append(piece.box.offset, words);
    append(piece.box.extent, words);
    words->push_back(piece.local_offset);
    const bool contiguous = piece.local_strides == row_major_strides(piece.box.extent);
    words->push_back(contiguous ? 1 : 0);
    if (!contiguous) append(piece.local_strides, words);
  }
}

void read_shard_words(int rank, std::span<const std::int64_t> words, SubTensor* shard) {
  shard->pieces.clear();
  if (words.front() != kGeneral) {
    Box box = Box::whole({});
    if (rank > 0) {
      box.offset = take(&words, rank);
      box.extent = take(&words, rank);
    }
    shard->local_shape = box.extent;
    shard->pieces.push_back({box, 0, row_major_strides(box.extent)});
    return;
  }
  take(&words);
  const auto local_rank = static_cast<int>(take(&words));
  shard->local_shape = take(&words, local_rank);
  while (!words.empty()) {
    Piece piece;
    piece.box.offset = take(&words, rank);
    piece.box.extent = take(&words, rank);
    piece.local_offset = take(&words);
    const bool contiguous = take(&words) == 1;
    piece.local_strides = contiguous ? row_major_strides(piece.box.extent) : take(&words, rank);
    shard->pieces.push_back(piece);
  }
}

}  // namespace tenplex
