// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "tenplex/base/freed_memory.h"
#include "tenplex/formats/dcp/metadata_hooks.h"

namespace tenplex::dcp {
namespace {

// A chunk takes more than this in any pickle; so a list of n bytes cannot honestly hold more chunks.
constexpr std::int64_t kMinBytesPerChunk = 8;
constexpr std::size_t kNoRecord = static_cast<std::size_t>(-1);

// Joins the tables that the hooks filled: names to tensors, items to chunks.
class Joiner {
 public:
  Joiner(MetadataHooks& hooks, MetadataTables& tables) : hooks_(hooks), tables_(tables) {}

  Result<void> name_tensors(NodeId state_dict_metadata);
  Result<void> join_items(NodeId storage_data);

 private:
  enum class Owner : std::uint8_t { kNone, kTensor, kBytes };
  struct OwnerOf {
    Owner kind = Owner::kNone;
    std::uint32_t record = 0;
  };

  // Names are atoms, numbered densely from kFirstAtom, so a vector replaces a hash table.
  OwnerOf& owner(NodeId atom) {
    const std::size_t index = atom - kFirstAtom;
    if (index >= owners_.size()) owners_.resize(index + 1);
    return owners_[index];
  }
  Result<void> add_tensor(NodeId name, TensorRow* row);
  Result<void> join_item(const IndexRow& index, std::uint32_t item);
  std::size_t find_chunk(const TensorRecord& tensor, const IndexRow& index);
  Result<void> check_all_joined() const;
  void sort_chunks();

  MetadataHooks& hooks_;
  MetadataTables& tables_;
  std::vector<OwnerOf> owners_;
  std::vector<std::uint32_t> sorted_;  // chunk numbers by (tensor, offsets); made on the first wrong hint
  std::int64_t strays_ = 0;
};

Result<void> Joiner::add_tensor(NodeId name, TensorRow* row) {
  if (std::exchange(row->taken, true)) return corrupt("shares its metadata object with another tensor");
  const PropertiesRow& properties = hooks_.properties[row->properties];
  const std::optional<std::string_view> global = tables_.document.global(properties.dtype);
  const std::string_view dtype_name = global ? *global : tables_.document.text(properties.dtype).value_or("");
  constexpr std::string_view kPrefix = "torch\n";
  std::optional<DType> dtype;
  if (global && dtype_name.starts_with(kPrefix)) {
    dtype = parse_dtype(dtype_name.substr(kPrefix.size()));
  }
  if (!dtype) {
    std::string shown(dtype_name);
    std::replace(shown.begin(), shown.end(), '\n', '.');
    return unsupported(fmt::format("element type '{}' is not known", shown));
  }
  NodeId layout = properties.layout;
  if (const std::optional<Token> token = as_token(layout)) layout = hooks_.constants[token->row];
  if (const std::optional<std::string_view> text = tables_.document.text(layout); text && *text != "torch.strided") {
    return unsupported(fmt::format("layout '{}' is not supported, only torch.strided", *text));
  }
  tables_.tensors.push_back({name, *dtype, properties.requires_grad, row->shape, row->first_chunk, row->chunk_count});
  return {};
}

Result<void> Joiner::name_tensors(NodeId state_dict_metadata) {
  if (tables_.document.kind(state_dict_metadata) != NodeKind::kDict) {
    return corrupt("state_dict_metadata: expected a dict");
  }
  const std::span<const NodeId> pairs = tables_.document.children(state_dict_metadata);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const NodeId name = pairs[i];
    if (!is_atom(name) || tables_.document.kind(name) != NodeKind::kString) {
      return corrupt("state_dict_metadata: expected text keys");
    }
    const std::string_view text = tables_.text(name);
    const std::optional<Token> token = as_token(pairs[i + 1]);
    if (token && token->kind == TokenKind::kTensor) {
      owner(name) = {Owner::kTensor, static_cast<std::uint32_t>(tables_.tensors.size())};
      TENPLEX_TRY(add_tensor(name, &hooks_.tensors[token->row]).with_context(fmt::format("tensor '{}'", text)));
    } else if (token && token->kind == TokenKind::kBytes) {
      owner(name) = {Owner::kBytes, static_cast<std::uint32_t>(tables_.byte_items.size())};
      tables_.byte_items.push_back({name, kNoItem});
    } else {
      return corrupt(fmt::format("'{}': expected TensorStorageMetadata or BytesStorageMetadata", text));
    }
  }
  return {};
}

void Joiner::sort_chunks() {
  sorted_.resize(tables_.chunks.size());
  std::iota(sorted_.begin(), sorted_.end(), 0U);
  for (const TensorRecord& tensor : tables_.tensors) {
    const auto first = sorted_.begin() + tensor.first_chunk;
    std::sort(first, first + tensor.chunk_count,
              [&](std::uint32_t a, std::uint32_t b) { return tables_.chunks[a].offsets < tables_.chunks[b].offsets; });
  }
}

std::size_t Joiner::find_chunk(const TensorRecord& tensor, const IndexRow& index) {
  if (index.hint >= 0 && static_cast<std::uint32_t>(index.hint) < tensor.chunk_count) {
    const std::size_t chunk = tensor.first_chunk + static_cast<std::uint32_t>(index.hint);
    if (tables_.chunks[chunk].offsets == index.offset) return chunk;
  }
  if (sorted_.empty()) sort_chunks();
  const auto first = sorted_.begin() + tensor.first_chunk;
  const auto last = first + tensor.chunk_count;
  const auto found = std::lower_bound(first, last, index.offset, [&](std::uint32_t chunk, std::uint32_t offset) {
    return tables_.chunks[chunk].offsets < offset;
  });
  return found != last && tables_.chunks[*found].offsets == index.offset ? *found : kNoRecord;
}

Result<void> Joiner::join_item(const IndexRow& index, std::uint32_t item) {
  const OwnerOf found = owner(index.name);
  std::uint32_t* place = nullptr;
  if (found.kind == Owner::kBytes) place = &tables_.byte_items[found.record].item;
  if (found.kind == Owner::kTensor && index.offset != IndexRow::kNoOffset) {
    const std::size_t chunk = find_chunk(tables_.tensors[found.record], index);
    if (chunk != kNoRecord) place = &tables_.chunks[chunk].item;
  }
  if (place == nullptr) {
    ++strays_;
    return {};
  }
  if (*place != kNoItem) {
    return corrupt(fmt::format("storage_data names the same chunk of '{}' twice", tables_.text(index.name)));
  }
  *place = item;
  return {};
}

Result<void> Joiner::check_all_joined() const {
  for (const ByteRecord& record : tables_.byte_items) {
    if (record.item == kNoItem) {
      return corrupt(fmt::format("object '{}' has no entry in storage_data", tables_.text(record.name)));
    }
  }
  return {};
}

Result<void> Joiner::join_items(NodeId storage_data) {
  if (tables_.document.kind(storage_data) != NodeKind::kDict) return corrupt("storage_data: expected a dict");
  const std::span<const NodeId> pairs = tables_.document.children(storage_data);
  tables_.items = std::move(hooks_.items);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::optional<Token> key = as_token(pairs[i]);
    const std::optional<Token> value = as_token(pairs[i + 1]);
    if (!key || key->kind != TokenKind::kIndex || !value || value->kind != TokenKind::kItem) {
      return corrupt("storage_data: expected MetadataIndex keys and _StorageInfo values");
    }
    TENPLEX_TRY(join_item(hooks_.indexes[key->row], value->row));
  }
  if (strays_ > 0) {
    tables_.problems.push_back(fmt::format("{} entries of storage_data belong to no listed tensor", strays_));
  }
  return check_all_joined();
}

// What Megatron-Core wrote before 0.14: {name: {"nd_reformulated_orig_global_shape": …}}.
std::string find_reformulated(const PickleDocument& document, NodeId mcore_data) {
  if (document.kind(mcore_data) != NodeKind::kDict) return {};
  const std::span<const NodeId> pairs = document.children(mcore_data);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (is_token(pairs[i + 1]) || document.kind(pairs[i + 1]) != NodeKind::kDict) continue;
    if (document.find(pairs[i + 1], "nd_reformulated_orig_global_shape") == kNoNode) continue;
    return std::string(document.text(pairs[i]).value_or("?"));
  }
  return {};
}

Result<void> join(MetadataHooks& hooks, MetadataTables* tables) {
  const NodeId root = tables->document.root();
  if (tables->document.kind(root) != NodeKind::kObject) {
    return corrupt("expected an object of class torch.distributed.checkpoint.metadata.Metadata");
  }
  const NodeId state = tables->document.object(root).state;
  if (tables->document.kind(state) != NodeKind::kDict) return corrupt("Metadata: expected its fields as a dict");
  tables->dims = std::move(hooks.dims);
  tables->chunks = std::move(hooks.chunks);
  Joiner joiner(hooks, *tables);
  const NodeId state_dict_metadata = tables->document.find(state, "state_dict_metadata");
  const NodeId storage_data = tables->document.find(state, "storage_data");
  TENPLEX_TRY(joiner.name_tensors(state_dict_metadata));
  TENPLEX_TRY(joiner.join_items(storage_data));
  tables->paths.load(tables->document, tables->document.find(state, "planner_data"));
  if (const auto version = tables->document.text(tables->document.find(state, "version"))) tables->version = *version;
  tables->reformulated = find_reformulated(tables->document, tables->document.find(state, "mcore_data"));
  tables->document.graph() = StateGraph();  // what it held is in the tables
  return {};
}

}  // namespace

Result<MetadataTables> read_metadata(const ByteSource& source, std::int64_t max_bytes) {
  if (source.size() > max_bytes) {
    return resource_exhausted(fmt::format("metadata of {} is larger than the limit of {}", format_bytes(source.size()),
                                          format_bytes(max_bytes)));
  }
  auto hooks = std::make_unique<MetadataHooks>(static_cast<std::size_t>(source.size() / kMinBytesPerChunk));
  PickleOptions options;
  options.hooks = hooks->make();
  MetadataTables tables;
  TENPLEX_ASSIGN_OR_RETURN(tables.document, read_pickle(source, 0, source.size(), options));
  tables.document.forget_texts();
  give_back_freed_memory();  // the memo, which is larger than the tables
  TENPLEX_TRY(join(*hooks, &tables));
  return tables;
}

}  // namespace tenplex::dcp
