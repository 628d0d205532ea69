// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The pickle hooks that turn DCP's classes into rows of tables while the pickle is read. A token's upper three bits say
// which table, the rest which row.
//
// Resource: the hooks refer to it. Threads: one at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tenplex/formats/dcp/metadata.h"
#include "tenplex/formats/pickle/pickle_reader.h"

namespace tenplex::dcp {

enum class TokenKind : std::uint8_t { kSize, kChunk, kTensor, kBytes, kIndex, kItem, kProperties, kConstant };

struct Token {
  TokenKind kind;
  std::uint32_t row;
};

/// The token that `id` is, or nothing.
std::optional<Token> as_token(NodeId id);

struct PropertiesRow {
  NodeId dtype = kNoNode;   ///< global atom
  NodeId layout = kNoNode;  ///< global or text atom, or a constant token
  bool requires_grad = false;

  friend auto operator<=>(const PropertiesRow&, const PropertiesRow&) = default;
};

struct TensorRow {
  std::uint32_t properties = 0;
  std::uint32_t shape = 0;
  std::uint32_t first_chunk = 0;
  std::uint32_t chunk_count = 0;
  bool taken = false;  ///< a name was given to it
};

struct IndexRow {
  static constexpr std::uint32_t kNoOffset = 0xffffffff;
  NodeId name = kNoNode;
  std::uint32_t offset = kNoOffset;  ///< in dims
  std::int32_t hint = -1;
};

class MetadataHooks {
 public:
  /// `max_chunks` bounds what chunk lists may add up to.
  explicit MetadataHooks(std::size_t max_chunks) : max_chunks_(max_chunks) {}
  MetadataHooks(const MetadataHooks&) = delete;
  MetadataHooks& operator=(const MetadataHooks&) = delete;

  /// Valid while this object lives.
  std::vector<PickleHook> make();

  DimsPool dims;
  std::deque<ChunkRecord> chunks;
  std::vector<TensorRow> tensors;
  std::deque<IndexRow> indexes;
  std::deque<ItemRecord> items;
  std::vector<PropertiesRow> properties;
  std::vector<NodeId> constants;  ///< text atoms of layouts; row 0 stands for memory formats

 private:
  using Document = PickleDocument;
  Result<PickleReplacement> size(const Document& document, const ObjectParts& object);
  Result<PickleReplacement> constant(const Document& document, const ObjectParts& object);
  Result<PickleReplacement> chunk(const Document& document, const ObjectParts& object);
  Result<PickleReplacement> tensor_properties(const Document& document, const ObjectParts& object);
  Result<PickleReplacement> tensor(const Document& document, const ObjectParts& object);
  Result<PickleReplacement> index(const Document& document, const ObjectParts& object);
  Result<PickleReplacement> item(const Document& document, const ObjectParts& object);

  /// The row in `dims` of a torch.Size token, or of a tuple or list of integers.
  Result<std::uint32_t> dims_of(const Document& document, NodeId id, const char* what);
  Result<void> take_chunks(const Document& document, NodeId list, TensorRow* row);

  std::size_t max_chunks_;
  std::size_t claimed_chunks_ = 0;  ///< chunks below belong to a tensor already
  std::map<PropertiesRow, std::uint32_t> properties_rows_;
  std::map<NodeId, std::uint32_t> constant_rows_;
  std::vector<std::int64_t> scratch_;
};

}  // namespace tenplex::dcp
