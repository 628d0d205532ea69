// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/manifest/state_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tenplex/base/checked.h"
#include "tenplex/ptc/dtype.h"

namespace tenplex {
namespace {

struct KindTag {
  NodeKind kind;
  std::string_view tag;
};

constexpr std::array kTags = {
    KindTag{NodeKind::kBigInt, "I"},    KindTag{NodeKind::kBytes, "b"},  KindTag{NodeKind::kByteArray, "B"},
    KindTag{NodeKind::kList, "l"},      KindTag{NodeKind::kTuple, "t"},  KindTag{NodeKind::kSet, "set"},
    KindTag{NodeKind::kFrozenSet, "F"}, KindTag{NodeKind::kDict, "d"},   KindTag{NodeKind::kTensor, "T"},
    KindTag{NodeKind::kStorage, "S"},   KindTag{NodeKind::kGlobal, "g"}, KindTag{NodeKind::kObject, "o"},
    KindTag{NodeKind::kInt, "i"},       KindTag{NodeKind::kFloat, "f"},  KindTag{NodeKind::kString, "s"},
};

// "module\nname", sorted.
constexpr std::array<std::string_view, 16> kPlainClasses = {
    "__builtin__\nbytearray",
    "__builtin__\ncomplex",
    "__builtin__\nfrozenset",
    "__builtin__\nset",
    "argparse\nNamespace",
    "builtins\nbytearray",
    "builtins\ncomplex",
    "builtins\nfrozenset",
    "builtins\nrange",
    "builtins\nset",
    "builtins\nslice",
    "collections\nCounter",
    "collections\nOrderedDict",
    "collections\ndefaultdict",
    "torch\nSize",
    "torch\ndevice",
};

// Of `builtins`, which Python 2 calls `__builtin__`: default factories of dicts, types as settings.
constexpr std::array<std::string_view, 8> kPlainTypes = {"bool", "bytes", "dict", "float",
                                                         "int",  "list",  "str",  "tuple"};

// torch dtypes that no tensor of ours has.
constexpr std::array<std::string_view, 6> kQuantizedTypes = {"complex32", "qint32",   "qint8",
                                                             "quint2x4",  "quint4x2", "quint8"};

constexpr std::size_t kReferenceParts = 8;

template <std::size_t n>
bool contains(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The rest of a text that starts with `start`; nothing for others.
std::optional<std::string_view> rest_after(std::string_view start, std::string_view text) {
  if (!text.starts_with(start)) return std::nullopt;
  return text.substr(start.size());
}

std::optional<Dims> read_dims(const PickleDocument& document, NodeId tuple) {
  const std::span<const NodeId> items = document.children(tuple);
  if (document.kind(tuple) != NodeKind::kTuple || items.size() > std::size_t{kMaxRank}) return std::nullopt;
  Dims dims;
  for (const NodeId item : items) {
    const auto value = document.integer(item);
    if (!value) return std::nullopt;
    dims.push_back(*value);
  }
  return dims;
}

}  // namespace

std::string_view tag_of(NodeKind kind) {
  for (const KindTag& entry : kTags)
    if (entry.kind == kind) return entry.tag;
  return {};
}

std::optional<NodeKind> kind_of_tag(std::string_view tag) {
  for (const KindTag& entry : kTags)
    if (entry.tag == tag) return entry.kind;
  return std::nullopt;
}

bool is_plain_global(std::string_view name) {
  if (contains(kPlainClasses, name)) return true;
  for (const std::string_view module : {"builtins\n", "__builtin__\n"})
    if (const auto type = rest_after(module, name); type && contains(kPlainTypes, *type)) return true;
  const auto type = rest_after("torch\n", name);
  return type && (parse_dtype(*type).has_value() || contains(kQuantizedTypes, *type));
}

bool is_plain_object(const StateGraph& graph, const ObjectParts& parts) {
  if (parts.callable == kNoNode || graph[parts.callable].kind != NodeKind::kGlobal) return false;
  return contains(kPlainClasses, graph[parts.callable].text);
}

std::string step_name(const StateGraph& graph, NodeId parent, NodeId child) {
  const bool object = graph[parent].kind == NodeKind::kObject;
  const std::vector<NodeId>& items = object ? graph.object(parent).dict_items : graph[parent].children;
  const auto found = std::find(items.begin(), items.end(), child);
  if (found == items.end()) return {};
  const auto index = found - items.begin();
  if (!object && graph[parent].kind != NodeKind::kDict) return fmt::format("{}", index);
  if (index % 2 == 0) return "(key)";
  const Node& key = graph[items[static_cast<std::size_t>(index - 1)]];
  if (key.kind == NodeKind::kInt) return fmt::format("{}", key.integer);
  return key.kind == NodeKind::kString ? key.text : "(key)";
}

std::optional<std::string> view_fault(const TensorView& view, const TensorInfo& tensor) {
  if (view.strides.rank() != tensor.shape.rank())
    return fmt::format("tensor '{}': strides {} for shape {}", tensor.name, to_string(view.strides),
                       to_string(tensor.shape));
  std::optional<std::int64_t> last = view.offset;
  bool negative = view.offset < 0;
  for (int dim = 0; dim < tensor.shape.rank(); ++dim) {
    negative = negative || view.strides[dim] < 0;
    const auto reach = checked_mul(std::max<std::int64_t>(tensor.shape[dim] - 1, 0), view.strides[dim]);
    last = last && reach ? checked_add(*last, *reach) : std::nullopt;
  }
  if (negative || !last || !checked_mul(*last, 128))
    return fmt::format("tensor '{}': offset {} and strides {} lead outside of any storage", tensor.name, view.offset,
                       to_string(view.strides));
  return std::nullopt;
}

Result<void> write_tensor_reference(PickleWriter& writer, NodeKind kind, const TensorView& view,
                                    std::string_view name) {
  writer.mark();
  writer.text(kind == NodeKind::kTensor ? "tensor" : "storage");
  writer.text(name);
  writer.integer(view.storage);
  writer.integer(view.offset);
  writer.mark();
  for (const std::int64_t stride : view.strides) writer.integer(stride);
  writer.tuple();
  writer.boolean(view.requires_grad);
  writer.boolean(view.parameter);
  writer.integer(view.object);
  writer.tuple();
  writer.persistent_id();
  return {};
}

void write_node_reference(PickleWriter& writer, std::int64_t position) {
  writer.text("node");
  writer.integer(position);
  writer.tuple(2);
  writer.persistent_id();
}

std::optional<std::int64_t> read_node_reference(const PickleDocument& document, NodeId id) {
  const std::span<const NodeId> parts = document.children(id);
  if (document.kind(id) != NodeKind::kTuple || parts.size() != 2 || document.text(parts[0]) != "node")
    return std::nullopt;
  return document.integer(parts[1]);
}

Result<TensorReference> read_tensor_reference(const PickleDocument& document, NodeId id) {
  const std::span<const NodeId> parts = document.children(id);
  if (document.kind(id) != NodeKind::kTuple || parts.size() != kReferenceParts)
    return corrupt("a persistent id in an object file does not name a tensor");
  const auto kind = document.text(parts[0]);
  const auto name = document.text(parts[1]);
  const auto storage = document.integer(parts[2]);
  const auto offset = document.integer(parts[3]);
  const auto strides = read_dims(document, parts[4]);
  const auto requires_grad = document.boolean(parts[5]);
  const auto parameter = document.boolean(parts[6]);
  const auto object = document.integer(parts[7]);
  if (!kind || (*kind != "tensor" && *kind != "storage") || !name || !storage || *storage < 0 ||
      *storage > kMaxStorageId || !offset || !strides || !requires_grad || !parameter || !object || *object < 0 ||
      *object > kMaxStorageId)
    return corrupt("a persistent id in an object file does not name a tensor");
  TensorReference reference;
  reference.kind = *kind == "tensor" ? NodeKind::kTensor : NodeKind::kStorage;
  reference.name = *name;
  reference.view.storage = static_cast<std::uint32_t>(*storage);
  reference.view.offset = *offset;
  reference.view.strides = *strides;
  reference.view.requires_grad = *requires_grad;
  reference.view.parameter = *parameter;
  reference.view.object = static_cast<std::uint32_t>(*object);
  return reference;
}

}  // namespace tenplex
