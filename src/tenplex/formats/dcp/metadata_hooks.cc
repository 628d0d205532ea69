// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/metadata_hooks.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

namespace tenplex::dcp {
namespace {

constexpr std::size_t kMaxFields = 32;
constexpr std::size_t kMaxStoredRank = 64;  // of any torch.Size; tensors of rank > kMaxRank are refused by name later

Result<PickleReplacement> make_token(TokenKind kind, std::size_t row) {
  if (row > kMaxRow) return resource_exhausted("more objects of one class than 2^27");
  return PickleReplacement::token((static_cast<std::uint32_t>(kind) << kRowBits) | static_cast<std::uint32_t>(row));
}

Error wrong_field(std::string_view type, std::string_view field, std::string_view expected) {
  return corrupt(fmt::format("{}.{}: expected {}", type, field, expected));
}

bool is_none(const PickleDocument& document, NodeId id) {
  return id == kNoNode || document.kind(id) == NodeKind::kNone;
}

}  // namespace

// A dict far larger than any of these classes has is not searched: a short pickle can refer to one long dict again and
// again.
NodeId MetadataHooks::find(const Document& document, const ObjectParts& object, Field& field) {
  if (document.kind(object.state) != NodeKind::kDict) return kNoNode;
  const std::span<const NodeId> items = document.children(object.state);
  if (items.size() > kMaxFields * 2) return kNoNode;
  if (field.atom == kNoNode) field.atom = document.find_text(field.name);
  if (field.atom == kNoNode) return kNoNode;
  for (std::size_t item = 0; item + 1 < items.size(); item += 2)
    if (items[item] == field.atom) return items[item + 1];
  return kNoNode;
}

Result<std::uint32_t> MetadataHooks::dims_of(const Document& document, NodeId id, const char* what) {
  if (const std::optional<Token> token = as_token(id)) {
    if (token->kind == TokenKind::kSize) return token->row;
    return corrupt(fmt::format("{}: expected a torch.Size", what));
  }
  const std::optional<NodeKind> kind = document.kind(id);
  if (kind != NodeKind::kTuple && kind != NodeKind::kList) {
    return corrupt(fmt::format("{}: expected a torch.Size or a tuple of integers", what));
  }
  if (document.children(id).size() > kMaxStoredRank) return unsupported(fmt::format("{}: more than 64 numbers", what));
  scratch_.clear();
  for (const NodeId child : document.children(id)) {
    const std::optional<std::int64_t> value = document.integer(child);
    if (!value) return corrupt(fmt::format("{}: expected integers of at most 64 bits", what));
    scratch_.push_back(*value);
  }
  return dims.intern(scratch_);
}

Result<PickleReplacement> MetadataHooks::size(const Document& document, const ObjectParts& object) {
  const std::span<const NodeId> arguments = document.children(object.arguments);
  if (arguments.empty()) return make_token(TokenKind::kSize, dims.intern({}));
  if (arguments.size() != 1) return corrupt("torch.Size: expected one argument");
  TENPLEX_ASSIGN_OR_RETURN(const std::uint32_t row, dims_of(document, arguments[0], "torch.Size"));
  return make_token(TokenKind::kSize, row);
}

Result<PickleReplacement> MetadataHooks::constant(const Document& document, const ObjectParts& object) {
  const std::span<const NodeId> arguments = document.children(object.arguments);
  const NodeId atom = !arguments.empty() && is_atom(arguments.back()) ? arguments.back() : kNoNode;
  const auto [place, added] = constant_rows_.try_emplace(atom, static_cast<std::uint32_t>(constants.size()));
  if (added) constants.push_back(atom);
  return make_token(TokenKind::kConstant, place->second);
}

Result<PickleReplacement> MetadataHooks::passed_over(const Document&, const ObjectParts&) {
  return make_token(TokenKind::kConstant, 0);
}

Result<PickleReplacement> MetadataHooks::chunk(const Document& document, const ObjectParts& object) {
  ChunkRecord record;
  TENPLEX_ASSIGN_OR_RETURN(record.offsets,
                           dims_of(document, find(document, object, offsets_), "ChunkStorageMetadata.offsets"));
  TENPLEX_ASSIGN_OR_RETURN(record.sizes,
                           dims_of(document, find(document, object, sizes_), "ChunkStorageMetadata.sizes"));
  chunks.push_back(record);
  return make_token(TokenKind::kChunk, chunks.size() - 1);
}

Result<PickleReplacement> MetadataHooks::tensor_properties(const Document& document, const ObjectParts& object) {
  PropertiesRow row;
  NodeId requires_grad = kNoNode;
  if (document.kind(object.state) == NodeKind::kTuple) {
    const std::span<const NodeId> state = document.children(object.state);
    if (state.size() < 3) return corrupt("TensorProperties: expected at least (dtype, layout, requires_grad)");
    row.dtype = state[0];
    row.layout = state[1];
    requires_grad = state[2];
  } else {
    row.dtype = find(document, object, dtype_);
    row.layout = find(document, object, layout_);
    requires_grad = find(document, object, requires_grad_);
  }
  if (!is_atom(row.dtype)) return wrong_field("TensorProperties", "dtype", "a torch dtype");
  if (!is_atom(row.layout) && !is_token(row.layout)) row.layout = kNoNode;
  row.requires_grad = document.boolean(requires_grad).value_or(false);
  const auto [place, added] = properties_rows_.try_emplace(row, static_cast<std::uint32_t>(properties.size()));
  if (added) properties.push_back(row);
  return make_token(TokenKind::kProperties, place->second);
}

Result<void> MetadataHooks::take_chunks(const Document& document, NodeId list, TensorRow* row) {
  const std::optional<NodeKind> kind = document.kind(list);
  if (kind != NodeKind::kList && kind != NodeKind::kTuple) {
    return wrong_field("TensorStorageMetadata", "chunks", "a list of ChunkStorageMetadata");
  }
  const std::span<const NodeId> children = document.children(list);
  bool in_a_run = true;
  for (std::size_t i = 0; i < children.size(); ++i) {
    const std::optional<Token> token = as_token(children[i]);
    if (!token || token->kind != TokenKind::kChunk) {
      return wrong_field("TensorStorageMetadata", "chunks", "a list of ChunkStorageMetadata");
    }
    if (i == 0) row->first_chunk = token->row;
    in_a_run = in_a_run && token->row == row->first_chunk + i;
  }
  // A run of chunks that no tensor has yet is taken as it is; any other list is copied, within the bound.
  if (!in_a_run || row->first_chunk < claimed_chunks_) {
    if (children.size() > max_chunks_ || chunks.size() > max_chunks_ - children.size())
      return corrupt("chunk lists are shared between tensors");
    row->first_chunk = static_cast<std::uint32_t>(chunks.size());
    for (const NodeId child : children) chunks.push_back(ChunkRecord(chunks[as_token(child)->row]));
  }
  row->chunk_count = static_cast<std::uint32_t>(children.size());
  claimed_chunks_ = std::max<std::size_t>(claimed_chunks_, row->first_chunk + children.size());
  return {};
}

Result<PickleReplacement> MetadataHooks::tensor(const Document& document, const ObjectParts& object) {
  TensorRow row;
  const std::optional<Token> token = as_token(find(document, object, properties_));
  if (!token || token->kind != TokenKind::kProperties) {
    return wrong_field("TensorStorageMetadata", "properties", "TensorProperties");
  }
  row.properties = token->row;
  TENPLEX_ASSIGN_OR_RETURN(row.shape, dims_of(document, find(document, object, size_), "TensorStorageMetadata.size"));
  TENPLEX_TRY(take_chunks(document, find(document, object, chunks_), &row));
  tensors.push_back(row);
  return make_token(TokenKind::kTensor, tensors.size() - 1);
}

Result<PickleReplacement> MetadataHooks::index(const Document& document, const ObjectParts& object) {
  IndexRow row;
  row.name = find(document, object, fqn_);
  if (!is_atom(row.name) || document.kind(row.name) != NodeKind::kString) {
    return wrong_field("MetadataIndex", "fqn", "text");
  }
  if (const NodeId offset = find(document, object, offset_); !is_none(document, offset)) {
    TENPLEX_ASSIGN_OR_RETURN(row.offset, dims_of(document, offset, "MetadataIndex.offset"));
  }
  if (const NodeId hint = find(document, object, index_); !is_none(document, hint)) {
    const std::optional<std::int64_t> value = document.integer(hint);
    if (value && *value >= 0 && *value <= std::numeric_limits<std::int32_t>::max()) {
      row.hint = static_cast<std::int32_t>(*value);
    }
  }
  indexes.push_back(row);
  return make_token(TokenKind::kIndex, indexes.size() - 1);
}

Result<PickleReplacement> MetadataHooks::item(const Document& document, const ObjectParts& object) {
  ItemRecord record;
  record.path = find(document, object, relative_path_);
  if (!is_atom(record.path) || document.kind(record.path) != NodeKind::kString) {
    return wrong_field("_StorageInfo", "relative_path", "text");
  }
  const std::optional<std::int64_t> offset = document.integer(find(document, object, offset_));
  const std::optional<std::int64_t> length = document.integer(find(document, object, length_));
  if (!offset) return wrong_field("_StorageInfo", "offset", "an integer");
  if (!length) return wrong_field("_StorageInfo", "length", "an integer");
  record.offset = *offset;
  record.length = *length;
  const NodeId transforms = find(document, object, transforms_);
  record.transformed = !is_none(document, transforms) &&
                       (is_token(transforms) || is_atom(transforms) || document.kind(transforms) == NodeKind::kObject ||
                        !document.children(transforms).empty());
  items.push_back(record);
  return make_token(TokenKind::kItem, items.size() - 1);
}

std::vector<PickleHook> MetadataHooks::make() {
  using When = PickleHook::When;
  using Method = Result<PickleReplacement> (MetadataHooks::*)(const Document&, const ObjectParts&);
  std::vector<PickleHook> hooks;
  const auto add = [&](const char* module, const char* name, When when, Method method) {
    hooks.push_back({module, name, when, [this, method](const Document& document, const ObjectParts& object) {
                       return (this->*method)(document, object);
                     }});
  };
  constants.assign(1, kNoNode);
  constant_rows_.emplace(kNoNode, 0);
  add("torch", "Size", When::kCall, &MetadataHooks::size);
  add("torch.serialization", "_get_layout", When::kCall, &MetadataHooks::constant);
  add("builtins", "getattr", When::kCall, &MetadataHooks::constant);
  add("__builtin__", "getattr", When::kCall, &MetadataHooks::constant);
  // Where torch 1.12 and 1.13 kept the classes, then today's place.
  for (const std::string package : {"torch.distributed._shard.checkpoint", "torch.distributed.checkpoint"}) {
    const std::string metadata = package + ".metadata";
    const std::string filesystem = package + ".filesystem";
    add(metadata.c_str(), "_MEM_FORMAT_ENCODING", When::kCall, &MetadataHooks::constant);
    add(metadata.c_str(), "ChunkStorageMetadata", When::kState, &MetadataHooks::chunk);
    add(metadata.c_str(), "TensorProperties", When::kState, &MetadataHooks::tensor_properties);
    add(metadata.c_str(), "TensorStorageMetadata", When::kState, &MetadataHooks::tensor);
    add(metadata.c_str(), "MetadataIndex", When::kState, &MetadataHooks::index);
    add(filesystem.c_str(), "_StorageInfo", When::kState, &MetadataHooks::item);
    hooks.push_back({metadata, "BytesStorageMetadata", When::kCall,
                     [](const Document&, const ObjectParts&) { return make_token(TokenKind::kBytes, 0); }});
  }
  // Plans that Megatron-Core keeps for its next save: as many objects as there are chunks, and nothing new in them.
  for (const char* name : {"SavePlan", "WriteItem", "TensorWriteData"})
    add("torch.distributed.checkpoint.planner", name, When::kState, &MetadataHooks::passed_over);
  const char* sharded = "torch.distributed._shard.sharded_tensor.metadata";
  add(sharded, "TensorProperties", When::kState, &MetadataHooks::tensor_properties);
  add(sharded, "MEM_FORMAT_ENCODING", When::kCall, &MetadataHooks::constant);
  return hooks;
}

}  // namespace tenplex::dcp
