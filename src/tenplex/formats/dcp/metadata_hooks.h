// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The pickle hooks that turn DCP's classes into rows of tables while the pickle is read. A token's upper three bits say
// which table, the rest which row.
//
// Resource: the hooks refer to it. Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tenplex/base/paged_list.h"
#include "tenplex/formats/dcp/metadata.h"
#include "tenplex/formats/pickle/pickle_reader.h"

namespace tenplex::dcp {

enum class TokenKind : std::uint8_t { kSize, kChunk, kTensor, kBytes, kIndex, kItem, kProperties, kConstant };

struct Token {
  TokenKind kind;
  std::uint32_t row;
};

/// Bits of a token's value that say the row.
inline constexpr int kRowBits = 27;
inline constexpr std::uint32_t kMaxRow = (1U << kRowBits) - 1;

/// The token that `id` is, or nothing.
inline std::optional<Token> as_token(NodeId id) {
  if (!is_token(id)) return std::nullopt;
  const std::uint32_t value = token_value(id);
  return Token{static_cast<TokenKind>(value >> kRowBits), value & kMaxRow};
}

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
  PagedList<ChunkRecord> chunks;
  std::vector<TensorRow> tensors;
  PagedList<IndexRow> indexes;
  PagedList<ItemRecord> items;
  std::vector<PropertiesRow> properties;
  std::vector<NodeId> constants;  ///< text atoms of layouts; row 0 stands for memory formats

 private:
  using Document = PickleDocument;
  Result<PickleReplacement> size(const Document& document, const ObjectParts& object);
  Result<PickleReplacement> constant(const Document& document, const ObjectParts& object);
  Result<PickleReplacement> passed_over(const Document& document, const ObjectParts& object);
  Result<PickleReplacement> chunk(const Document& document, const ObjectParts& object);
  Result<PickleReplacement> tensor_properties(const Document& document, const ObjectParts& object);
  Result<PickleReplacement> tensor(const Document& document, const ObjectParts& object);
  Result<PickleReplacement> index(const Document& document, const ObjectParts& object);
  Result<PickleReplacement> item(const Document& document, const ObjectParts& object);

  /// A field of one of the classes; its text is looked up until it was read once.
  struct Field {
    const char* name;
    NodeId atom = kNoNode;
  };
  /// The value of a field in the dict that __setstate__ or __dict__.update gets, or kNoNode.
  static NodeId find(const Document& document, const ObjectParts& object, Field& field);

  /// The row in `dims` of a torch.Size token, or of a tuple or list of integers.
  Result<std::uint32_t> dims_of(const Document& document, NodeId id, const char* what);
  Result<void> take_chunks(const Document& document, NodeId list, TensorRow* row);

  std::size_t max_chunks_;
  std::size_t claimed_chunks_ = 0;  ///< chunks below belong to a tensor already
  std::map<PropertiesRow, std::uint32_t> properties_rows_;
  std::map<NodeId, std::uint32_t> constant_rows_;
  std::vector<std::int64_t> scratch_;
  Field offsets_{"offsets"};
  Field sizes_{"sizes"};
  Field dtype_{"dtype"};
  Field layout_{"layout"};
  Field requires_grad_{"requires_grad"};
  Field properties_{"properties"};
  Field size_{"size"};
  Field chunks_{"chunks"};
  Field fqn_{"fqn"};
  Field offset_{"offset"};
  Field index_{"index"};
  Field relative_path_{"relative_path"};
  Field length_{"length"};
  Field transforms_{"transform_descriptors"};
};

}  // namespace tenplex::dcp
