// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// StateGraph: the nested containers, scalars, opaque objects and tensor leaves of a checkpoint, independent of the
// format they came from. Python's object model as pickle sees it, never executed:
//
//   dict ─ "model"  ─ dict ─ "w" ─ tensor (TensorId 0, its own storage)
//        ├ "step"   ─ int 7
//        └ "args"   ─ object: argparse.Namespace, state = dict …       (what __reduce_ex__ would return)
//
// Nodes are numbered; one node may be reached on several paths (shared objects) and graphs may contain cycles, so every
// traversal carries its own visited set or a depth limit.
//
// Value type. Threads: as any value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/base/ids.h"
#include "tenplex/base/paged_list.h"
#include "tenplex/base/result.h"
#include "tenplex/ptc/dims.h"

namespace tenplex {

using NodeId = std::uint32_t;
inline constexpr NodeId kNoNode = 0xffffffff;

enum class NodeKind : std::uint8_t {
  kNone,
  kBool,
  kInt,     ///< fits int64
  kBigInt,  ///< two's complement little-endian bytes in `text`
  kFloat,
  kString,  ///< UTF-8 (surrogates as pickle's "surrogatepass") in `text`
  kBytes,   ///< in `text`
  kByteArray,
  kList,  ///< children
  kTuple,
  kSet,
  kFrozenSet,
  kDict,     ///< children = key, value, key, value, … in insertion order
  kTensor,   ///< `view`
  kStorage,  ///< a bare torch storage; `view`
  kGlobal,   ///< a class or function named, never looked up: text = "module\nname"
  kObject,   ///< `object`: what Python's __reduce_ex__ returns
};

/// True for what changes in place: who holds it can tell it from another one that is equal. Not for tuples, which are
/// what their items are.
bool has_identity(NodeKind kind);

/// How a tensor leaf was stored and wrapped. Two leaves with equal `storage` shared memory.
struct TensorView {
  TensorId tensor;            ///< of the checkpoint's tensors
  std::uint32_t storage = 0;  ///< id of the storage, unique in the graph
  std::int64_t offset = 0;    ///< elements, of the first element in the storage
  Dims strides;               ///< elements, may be any non-negative values
  bool requires_grad = false;
  bool parameter = false;  ///< wrapped in torch.nn.Parameter
  /// Leaves with the same number, not 0, were one Python object that several names led to.
  std::uint32_t object = 0;

  friend bool operator==(const TensorView&, const TensorView&) = default;
};

/// callable(*arguments), then __setstate__(state), extend(list_items), update(dict_items); absent parts are kNoNode.
struct ObjectParts {
  NodeId callable = kNoNode;
  NodeId arguments = kNoNode;          ///< a tuple
  NodeId keyword_arguments = kNoNode;  ///< a dict, with NEWOBJ_EX only
  NodeId state = kNoNode;
  std::vector<NodeId> list_items;
  std::vector<NodeId> dict_items;  ///< key, value, key, value, …
  bool new_object = false;         ///< callable.__new__(callable, *arguments) instead of a call

  friend bool operator==(const ObjectParts&, const ObjectParts&) = default;
};

struct Node {
  NodeKind kind = NodeKind::kNone;
  bool boolean = false;
  union {
    std::int64_t integer = 0;  ///< kInt; index into the graph's views or objects for kTensor, kStorage, kObject
    double real;               ///< kFloat
  };
  std::string text;
  std::vector<NodeId> children;
};

class StateGraph {
 public:
  NodeId root = kNoNode;  ///< kNoNode: the checkpoint has no tree, only a flat list of tensors

  NodeId add(Node node);
  /// A node of that kind, with nothing in it yet.
  NodeId add_new(NodeKind kind);
  NodeId add_none();
  NodeId add_bool(bool value);
  NodeId add_int(std::int64_t value);
  NodeId add_float(double value);
  NodeId add_string(std::string text);
  NodeId add_bytes(std::string bytes);
  NodeId add_list(std::vector<NodeId> items);
  NodeId add_tuple(std::vector<NodeId> items);
  NodeId add_dict(std::vector<NodeId> keys_and_values);
  NodeId add_tensor(const TensorView& view);
  NodeId add_global(std::string_view module, std::string_view name);
  NodeId add_object(ObjectParts parts);

  std::size_t size() const { return nodes_.size(); }
  const Node& operator[](NodeId id) const { return nodes_[id]; }
  Node& operator[](NodeId id) { return nodes_[id]; }
  /// Requires: kind is kTensor or kStorage.
  TensorView view(NodeId id) const;
  void set_view(NodeId id, const TensorView& view);
  /// Requires: kind is kObject.
  const ObjectParts& object(NodeId id) const { return objects_[static_cast<std::size_t>(nodes_[id].integer)]; }
  ObjectParts& object(NodeId id) { return objects_[static_cast<std::size_t>(nodes_[id].integer)]; }

  /// How much there is of everything; rollback(mark()) drops what was added in between.
  struct Mark {
    std::size_t nodes = 0;
    std::size_t views = 0;
    std::size_t objects = 0;
  };
  Mark mark() const { return {nodes_.size(), views_.size(), objects_.size()}; }
  /// Requires: `mark` is of this graph, and nothing left in it refers to what is dropped.
  void rollback(const Mark& mark);

  /// Calls visit(NodeId&) for every reference that node `id` holds, in order.
  template <typename Visit>
  void for_each_edge(NodeId id, Visit&& visit) {
    visit_edges(*this, id, visit);
  }
  template <typename Visit>
  void for_each_edge(NodeId id, Visit&& visit) const {
    visit_edges(*this, id, visit);
  }

  /// True for a kGlobal node of that module and name.
  bool is_global(NodeId id, std::string_view module, std::string_view name) const;

  /// True for an object made by calling that global (collections.OrderedDict, torch.Size, …).
  bool is_instance(NodeId id, std::string_view module, std::string_view name) const;

 private:
  struct PackedView {
    std::int64_t offset;
    TensorId tensor;
    std::uint32_t storage;
    std::uint32_t object;
    std::uint32_t strides : 30;  // in strides_
    std::uint32_t requires_grad : 1;
    std::uint32_t parameter : 1;
  };

  PackedView pack(const TensorView& view);

  template <typename Graph, typename Visit>
  static void visit_edges(Graph& graph, NodeId id, Visit& visit) {
    for (auto& child : graph.nodes_[id].children) visit(child);
    if (graph.nodes_[id].kind != NodeKind::kObject) return;
    auto& parts = graph.object(id);
    visit(parts.callable);
    visit(parts.arguments);
    visit(parts.keyword_arguments);
    visit(parts.state);
    for (auto& item : parts.list_items) visit(item);
    for (auto& item : parts.dict_items) visit(item);
  }

  PagedList<Node> nodes_;
  PagedList<PackedView> views_;
  std::vector<Dims> strides_;                   // of views, each once: many tensors have the same
  std::map<Dims, std::uint32_t> strides_rows_;  // in strides_
  std::vector<ObjectParts> objects_;
};

/// Children of a dict or dict subclass (key, value, …) or nothing if the node is neither.
std::optional<std::span<const NodeId>> mapping_items(const StateGraph& graph, NodeId node);

/// Items of a list or list subclass, or nothing.
std::optional<std::span<const NodeId>> list_items(const StateGraph& graph, NodeId node);

/// True if two sub-graphs mean the same: equal kinds, values and structure, floats by their bits; tensors by
/// tensor_names() (flatten.h), requires_grad and parameter (TensorId, storage and strides are not compared).
bool equal(const StateGraph& a, NodeId a_node, const StateGraph& b, NodeId b_node);

/// The same for sub-graphs without tensors, which need no names; false if there is a tensor in them.
bool equal_objects(const StateGraph& a, NodeId a_node, const StateGraph& b, NodeId b_node);

}  // namespace tenplex
