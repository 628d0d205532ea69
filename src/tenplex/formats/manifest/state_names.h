// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What the two directions of state_json.h share: tags, known classes, and how a pickle beside the JSON names a tensor:
// as the persistent id ("tensor" or "storage", name, storage, offset, strides, requires_grad, parameter, object).
//
// Pure functions. Threads: safe together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/pickle/pickle_document.h"
#include "tenplex/formats/pickle/pickle_writer.h"
#include "tenplex/formats/state/state_graph.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex {

/// Larger storage numbers in a file are refused, so that numbers are left for storages that the file does not name.
inline constexpr std::int64_t kMaxStorageId = 0x7fffffff;

/// The first element of a node's JSON array; "" for kinds that have none.
std::string_view tag_of(NodeKind kind);
std::optional<NodeKind> kind_of_tag(std::string_view tag);

/// True for the classes whose objects JSON may hold, plain containers and values, and for names that are plain values
/// themselves: element types of torch and builtin types. No other name may stand in JSON, where nobody expects code.
bool is_plain_global(std::string_view name);

/// True if the object's class is one of those that JSON may hold: a plain container or value.
bool is_plain_object(const StateGraph& graph, const ObjectParts& parts);

/// How `child` is reached from `parent`: a key, an index, or nothing for the parts of an object.
std::string step_name(const StateGraph& graph, NodeId parent, NodeId child);

/// What is wrong with a view that no storage can hold: strides of another rank, negative ones, or elements at addresses
/// beyond an int64, also in bytes. Such views are neither written nor read.
std::optional<std::string> view_fault(const TensorView& view, const TensorInfo& tensor);

Result<void> write_tensor_reference(PickleWriter& writer, NodeKind kind, const TensorView& view, std::string_view name);

struct TensorReference {
  NodeKind kind = NodeKind::kTensor;
  std::string_view name;  ///< borrowed from the document
  TensorView view;        ///< without its tensor
};

/// Errors: corrupt if the persistent id is none of ours.
Result<TensorReference> read_tensor_reference(const PickleDocument& document, NodeId id);

/// ("node", position): the node at that position of the JSON.
void write_node_reference(PickleWriter& writer, std::int64_t position);

/// That position; nothing for any other persistent id.
std::optional<std::int64_t> read_node_reference(const PickleDocument& document, NodeId id);

}  // namespace tenplex
