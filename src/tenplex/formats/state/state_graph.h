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
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/base/ids.h"
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

/// How a tensor leaf was stored and wrapped. Two leaves with equal `storage` shared memory.
struct TensorView {
  TensorId tensor;            ///< of the checkpoint's tensors
  std::uint32_t storage = 0;  ///< id of the storage, unique in the graph
  std::int64_t offset = 0;    ///< elements, of the first element in the storage
  Dims strides;               ///< elements, may be any non-negative values
  bool requires_grad = false;
  bool parameter = false;  ///< wrapped in torch.nn.Parameter

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
  std::int64_t integer = 0;  ///< kInt; index into the graph's views or objects for kTensor, kStorage, kObject
  double real = 0;
  std::string text;
  std::vector<NodeId> children;
};

class StateGraph {
 public:
  NodeId root = kNoNode;  ///< kNoNode: the checkpoint has no tree, only a flat list of tensors

  NodeId add(Node node);
  NodeId add_none();
  NodeId add_bool(bool value);
  NodeId add_int(std::int64_t value);
  NodeId add_float(double value);
  NodeId add_string(std::string text);
  NodeId add_bytes(std::string bytes);
  NodeId add_list(std::vector<NodeId> items);
  NodeId add_tuple(std::vector<NodeId> items);
  NodeId add_dict(std::vector<NodeId> keys_and_values);
  NodeId add_tensor(TensorView view);
  NodeId add_global(std::string_view module, std::string_view name);
  NodeId add_object(ObjectParts parts);

  std::size_t size() const { return nodes_.size(); }
  const Node& operator[](NodeId id) const { return nodes_[id]; }
  Node& operator[](NodeId id) { return nodes_[id]; }
  /// Requires: kind is kTensor or kStorage.
  const TensorView& view(NodeId id) const { return views_[static_cast<std::size_t>(nodes_[id].integer)]; }
  TensorView& view(NodeId id) { return views_[static_cast<std::size_t>(nodes_[id].integer)]; }
  /// Requires: kind is kObject.
  const ObjectParts& object(NodeId id) const { return objects_[static_cast<std::size_t>(nodes_[id].integer)]; }
  ObjectParts& object(NodeId id) { return objects_[static_cast<std::size_t>(nodes_[id].integer)]; }

  /// True for a kGlobal node of that module and name.
  bool is_global(NodeId id, std::string_view module, std::string_view name) const;

  /// True for an object made by calling that global (collections.OrderedDict, torch.Size, …).
  bool is_instance(NodeId id, std::string_view module, std::string_view name) const;

 private:
  std::vector<Node> nodes_;
  std::vector<TensorView> views_;
  std::vector<ObjectParts> objects_;
};

/// A step on the way to a leaf: a dict key (text or integer) or a list index.
struct PathStep {
  bool is_index = false;  ///< integer key or list index
  std::int64_t index = 0;
  std::string key;

  friend bool operator==(const PathStep&, const PathStep&) = default;
};

/// A leaf of the tree in the sense of PyTorch DCP's flatten_state_dict: dicts are opened, lists and tuples only if a
/// tensor lies somewhere below. Its name joins the steps with '.': ("model", "layers", 0, "w") is "model.layers.0.w".
struct StateLeaf {
  std::string name;
  std::vector<PathStep> path;
  NodeId node = kNoNode;
};

/// Leaves in depth-first order. Errors: unsupported for a cycle, for a dict key that is neither text nor integer, and
/// for two leaves of the same name; the message names the path.
Result<std::vector<StateLeaf>> flatten(const StateGraph& graph);

/// True if two sub-graphs mean the same: equal kinds, values and structure; tensors by name of their leaf (TensorId is
/// not compared).
bool equal(const StateGraph& a, NodeId a_node, const StateGraph& b, NodeId b_node);

}  // namespace tenplex
