// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/tie_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/ptc/name_index.h"

namespace tenplex::cli {
namespace {

struct Pair {
  std::string_view table;
  std::string_view output;
};

constexpr std::array<Pair, 3> kPairs = {{{"embedding.word_embeddings.weight", "output_layer.weight"},
                                         {"model.embed_tokens.weight", "lm_head.weight"},
                                         {"transformer.wte.weight", "lm_head.weight"}}};
constexpr std::int64_t kBlockBytes = std::int64_t{1} << 20;

bool says_tied(const ConfigNumber& config) {
  if (const auto tied = config("tie_word_embeddings")) return *tied != 0;
  const auto untied = config("untie_embeddings_and_output_weights");
  return untied && *untied == 0;
}

/// The first chunk of every box of a tensor.
std::map<std::pair<Dims, Dims>, std::size_t> chunks_of(const CheckpointInfo& info, TensorId tensor) {
  std::map<std::pair<Dims, Dims>, std::size_t> chunks;
  for (std::size_t index = 0; index < info.chunks.size(); ++index) {
    const Chunk chunk = info.chunks[index];
    if (chunk.tensor == tensor) chunks.emplace(std::pair(chunk.box.offset, chunk.box.extent), index);
  }
  return chunks;
}

enum class Comparison : unsigned char { kEqual, kDifferent, kUnknown };

/// kUnknown where the two chunks do not lie alike in their files.
Result<Comparison> compare(const CheckpointReader& reader, std::size_t first, std::size_t second) {
  const CheckpointInfo& info = reader.info();
  const Chunk one = info.chunks[first];
  const Chunk two = info.chunks[second];
  TENPLEX_ASSIGN_OR_RETURN(const ChunkLocation here, reader.locate(first));
  TENPLEX_ASSIGN_OR_RETURN(const ChunkLocation there, reader.locate(second));
  const Dims dense = row_major_strides(one.box.extent);
  if (here.strides != dense || there.strides != dense) return Comparison::kUnknown;
  TENPLEX_ASSIGN_OR_RETURN(const ByteSource* file, reader.file(one.file));
  TENPLEX_ASSIGN_OR_RETURN(const ByteSource* other, reader.file(two.file));
  const std::int64_t bytes = packed_bytes(info.tensors[one.tensor.index()].dtype, volume(one.box.extent)).value_or(0);
  for (std::int64_t at = 0; at < bytes; at += kBlockBytes) {
    const std::int64_t size = std::min(kBlockBytes, bytes - at);
    TENPLEX_ASSIGN_OR_RETURN(const std::string a, read_string(*file, here.offset_bytes + at, size));
    TENPLEX_ASSIGN_OR_RETURN(const std::string b, read_string(*other, there.offset_bytes + at, size));
    if (a != b) return Comparison::kDifferent;
  }
  return Comparison::kEqual;
}

Result<Comparison> compare(const CheckpointReader& reader, TensorId first, TensorId second) {
  const CheckpointInfo& info = reader.info();
  const TensorInfo& one = info.tensors[first.index()];
  const TensorInfo& other = info.tensors[second.index()];
  if (one.dtype != other.dtype || one.shape != other.shape) return Comparison::kDifferent;
  const auto here = chunks_of(info, first);
  const auto there = chunks_of(info, second);
  for (const auto& [box, chunk] : here) {
    const auto same = there.find(box);
    if (same == there.end()) return Comparison::kUnknown;
    TENPLEX_ASSIGN_OR_RETURN(const Comparison found, compare(reader, chunk, same->second));
    if (found != Comparison::kEqual) return found;
  }
  return Comparison::kEqual;
}

}  // namespace

Result<std::optional<std::string>> tie_problem(const CheckpointReader& reader, const ConfigNumber& config) {
  if (!says_tied(config)) return std::optional<std::string>();
  const NameIndex names(reader.info().tensors);
  for (const Pair& pair : kPairs) {
    const auto table = names.find(pair.table);
    const auto output = names.find(pair.output);
    if (!table || !output) continue;
    TENPLEX_ASSIGN_OR_RETURN(const Comparison found, compare(reader, *table, *output));
    if (found == Comparison::kEqual) continue;
    return std::optional(
        fmt::format("the configuration says that '{}' and '{}' are tied, {}: both are kept", pair.table, pair.output,
                    found == Comparison::kDifferent ? "and their bytes differ" : "and they are cut in different ways"));
  }
  return std::optional<std::string>();
}

}  // namespace tenplex::cli
