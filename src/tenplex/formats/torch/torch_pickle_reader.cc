// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/torch/torch_pickle_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "tenplex/base/checked.h"
#include "tenplex/formats/pickle/pickle_reader.h"
#include "tenplex/formats/state/flatten.h"
#include "tenplex/formats/torch/torch_dtype.h"

namespace tenplex {
namespace {

constexpr std::size_t kMaxSharedText = 64 << 10;  // longer text hardly repeats

/// Functions that make a tensor we do not read, and why.
struct Refused {
  const char* module;
  const char* name;
  const char* reason;
};
constexpr Refused kRefused[] = {
    {"torch._utils", "_rebuild_qtensor", "is quantized; dequantize it before saving"},
    {"torch._utils", "_rebuild_sparse_tensor", "is sparse; save tensor.to_dense()"},
    {"torch._utils", "_rebuild_sparse_csr_tensor", "is sparse; save tensor.to_dense()"},
    {"torch._utils", "_rebuild_nested_tensor", "is a nested tensor; save its parts"},
    {"torch._utils", "_rebuild_wrapper_subclass", "is a tensor subclass; save the plain tensors in it"},
    {"torch._utils", "_rebuild_parameter_with_state",
     "is a parameter with Python attributes; delete them before saving"},
    {"torch._utils", "_rebuild_meta_tensor_no_storage", "is on the meta device and has no data"},
    {"torch._utils", "_rebuild_xla_tensor", "was saved from an accelerator as a NumPy array; save tensor.cpu()"},
    {"torch._utils", "_rebuild_device_tensor_from_numpy",
     "was saved from an accelerator as a NumPy array; save tensor.cpu()"},
    {"torch._utils", "_rebuild_device_tensor_from_cpu_tensor", "was saved from an accelerator; save tensor.cpu()"},
    {"torch._tensor", "_rebuild_from_type", "is a tensor subclass or has Python attributes; save the plain tensor"},
    {"torch.tensor", "_rebuild_from_type", "is a tensor subclass or has Python attributes; save the plain tensor"},
};

struct RawTensor {
  DType dtype = DType::kFloat32;
  Dims shape;
  std::string refused;  // why it cannot be read; empty = it can
};

struct RawStorage {
  TorchStorage public_part;
  std::optional<DType> dtype;  // nothing: UntypedStorage
  std::string refused;         // why it cannot be read; empty = it can
};

class TorchMachine {
 public:
  explicit TorchMachine(std::span<const std::string_view> ignored_attributes)
      : ignored_attributes_(ignored_attributes) {}

  PickleOptions options() {
    PickleOptions options;
    options.max_atom_text = kMaxSharedText;
    options.persistent_id = [this](PickleDocument& document, NodeId id) { return storage(document, id); };
    const auto add = [&](const char* module, const char* name, auto method) {
      options.hooks.push_back({module, name, PickleHook::When::kCall,
                               [this, method](const PickleDocument& document, const ObjectParts& object) {
                                 return (this->*method)(document, document.children(object.arguments));
                               }});
    };
    add("torch._utils", "_rebuild_tensor", &TorchMachine::tensor_v1);
    add("torch._utils", "_rebuild_tensor_v2", &TorchMachine::tensor_v2);
    add("torch._utils", "_rebuild_tensor_v3", &TorchMachine::tensor_v3);
    add("torch._utils", "_rebuild_parameter", &TorchMachine::parameter);
    add("torch._tensor", "_rebuild_from_type_v2", &TorchMachine::tensor_of_type);
    for (const Refused& refused : kRefused)
      options.hooks.push_back({refused.module, refused.name, PickleHook::When::kCall,
                               [this, reason = refused.reason](const PickleDocument&, const ObjectParts&) {
                                 return Result<PickleReplacement>(refuse(reason));
                               }});
    return options;
  }

  Result<TorchPickle> finish(PickleDocument document) {
    TorchPickle result;
    TENPLEX_ASSIGN_OR_RETURN(result.state, std::move(document).into_graph());
    split_shared_tensors(result.state);
    TENPLEX_ASSIGN_OR_RETURN(auto names, tensor_names(result.state));
    for (auto& [node, name] : names) {
      TensorView view = result.state.view(node);
      TensorInfo info{std::move(name), DType::kUInt8, {}};
      if (result.state[node].kind == NodeKind::kStorage) {
        const RawStorage& storage = storages_[view.storage];
        if (!storage.refused.empty()) return unsupported(fmt::format("storage '{}' {}", info.name, storage.refused));
        info.dtype = storage.dtype.value_or(DType::kUInt8);
        info.shape = {storage.public_part.size_bytes / size_bytes(info.dtype)};
        view.strides = {1};
      } else {
        RawTensor& raw = raw_tensors_[view.tensor.index()];
        if (!raw.refused.empty()) return unsupported(fmt::format("tensor '{}' {}", info.name, raw.refused));
        info.dtype = raw.dtype;
        info.shape = raw.shape;
      }
      view.tensor = TensorId(result.tensors.size());
      result.state.set_view(node, view);
      result.nodes.push_back(node);
      result.tensors.push_back(std::move(info));
    }
    for (RawStorage& storage : storages_) result.storages.push_back(std::move(storage.public_part));
    return result;
  }

 private:
  using Arguments = std::span<const NodeId>;

  PickleReplacement refuse(std::string reason) { return add_tensor({DType::kUInt8, {0}, std::move(reason)}, {}); }

  PickleReplacement add_tensor(RawTensor raw, TensorView view) {
    view.tensor = TensorId(raw_tensors_.size());
    raw_tensors_.push_back(std::move(raw));
    return PickleReplacement::tensor(std::move(view));
  }

  // ('storage', class, key, location, elements)
  Result<NodeId> storage(PickleDocument& document, NodeId id) {
    const Arguments parts = document.children(id);
    if (document.kind(id) != NodeKind::kTuple || parts.size() < 5 || document.text(parts[0]) != "storage")
      return unsupported("a persistent id that is no storage");
    const auto key = document.text(parts[2]);
    const auto location = document.text(parts[3]);
    const auto elements = document.integer(parts[4]);
    const auto global = document.global(parts[1]);
    if (!key || !location || !elements || *elements < 0 || !global)
      return corrupt("a storage's persistent id is malformed");
    const std::string_view name = global->substr(global->find('\n') + 1);
    const auto dtype = dtype_of_storage_class(name);
    const auto bytes = checked_mul(*elements, size_bytes(dtype.value_or(DType::kUInt8)));
    if (!bytes) return corrupt(fmt::format("storage '{}' has {} elements", *key, *elements));
    const auto [entry, added] = storage_of_key_.try_emplace(std::string(*key), storages_.size());
    if (added) storages_.push_back({{std::string(*key), std::string(*location), *bytes}, dtype, {}});
    RawStorage& known = storages_[entry->second];
    if (known.public_part.size_bytes != *bytes)
      return corrupt(
          fmt::format("storage '{}' has {} bytes here and {} bytes there", *key, known.public_part.size_bytes, *bytes));
    if (!known.dtype) known.dtype = dtype;
    if (!dtype && name != "UntypedStorage") known.refused = fmt::format("has the storage class '{}'", name);
    Node node;
    node.kind = NodeKind::kTensor;
    TensorView view;
    view.storage = static_cast<std::uint32_t>(entry->second);
    const NodeId made = document.graph().add_tensor(std::move(view));
    document.graph()[made].kind = NodeKind::kStorage;
    return made;
  }

  Result<PickleReplacement> tensor_v1(const PickleDocument& document, Arguments arguments) {
    if (arguments.size() != 4) return corrupt("_rebuild_tensor takes 4 arguments");
    return tensor(document, arguments, std::nullopt, kNoNode);
  }

  Result<PickleReplacement> tensor_v2(const PickleDocument& document, Arguments arguments) {
    if (arguments.size() != 6 && arguments.size() != 7) return corrupt("_rebuild_tensor_v2 takes 6 or 7 arguments");
    return tensor(document, arguments, std::nullopt, arguments.size() == 7 ? arguments[6] : kNoNode);
  }

  Result<PickleReplacement> tensor_v3(const PickleDocument& document, Arguments arguments) {
    if (arguments.size() != 7 && arguments.size() != 8) return corrupt("_rebuild_tensor_v3 takes 7 or 8 arguments");
    const auto global = document.global(arguments[6]);
    if (!global || !global->starts_with("torch\n")) return corrupt("the dtype of a tensor is no dtype");
    const std::string_view name = global->substr(6);
    const auto dtype = dtype_of_torch_name(name);
    if (!dtype) return refuse(fmt::format("has the dtype '{}', which is not supported", name));
    return tensor(document, arguments, dtype, arguments.size() == 8 ? arguments[7] : kNoNode);
  }

  // (function, class, its arguments, attributes)
  Result<PickleReplacement> tensor_of_type(const PickleDocument& document, Arguments arguments) {
    if (arguments.size() == 4 && document.global(arguments[0]) == "torch._utils\n_rebuild_tensor_v2" &&
        document.global(arguments[1]) == "torch\nTensor" && document.kind(arguments[2]) == NodeKind::kTuple &&
        has_ignored_attributes_only(document, arguments[3]))
      return tensor_v2(document, document.children(arguments[2]));
    return refuse("is a tensor subclass or has Python attributes; save the plain tensor");
  }

  bool has_ignored_attributes_only(const PickleDocument& document, NodeId attributes) const {
    if (document.kind(attributes) != NodeKind::kDict) return false;
    const Arguments items = document.children(attributes);
    for (std::size_t item = 0; item + 1 < items.size(); item += 2) {
      const auto name = document.text(items[item]);
      if (!name ||
          std::find(ignored_attributes_.begin(), ignored_attributes_.end(), *name) == ignored_attributes_.end())
        return false;
    }
    return true;
  }

  // (storage, offset, sizes, strides, requires_grad, hooks, …); `metadata` holds the conjugate and negative bits.
  Result<PickleReplacement> tensor(const PickleDocument& document, Arguments arguments, std::optional<DType> dtype,
                                   NodeId metadata) {
    if (document.kind(arguments[0]) != NodeKind::kStorage) return corrupt("a tensor has no storage");
    const RawStorage& storage = storages_[document.view(arguments[0]).storage];
    if (!storage.refused.empty()) return refuse(storage.refused);
    RawTensor raw;
    raw.dtype = dtype.value_or(storage.dtype.value_or(DType::kUInt8));
    TensorView view;
    view.storage = document.view(arguments[0]).storage;
    const auto offset = document.integer(arguments[1]);
    const auto size_nodes = dims_nodes(document, arguments[2]);
    const auto stride_nodes = dims_nodes(document, arguments[3]);
    if (!offset || *offset < 0 || !size_nodes || !stride_nodes || size_nodes->size() != stride_nodes->size())
      return corrupt("the offset, sizes or strides of a tensor are malformed");
    const Arguments sizes = *size_nodes;
    const Arguments strides = *stride_nodes;
    if (sizes.size() > static_cast<std::size_t>(kMaxRank))
      return refuse(fmt::format("has {} dimensions; at most {} are supported", sizes.size(), kMaxRank));
    view.offset = *offset;
    for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
      const auto size = document.integer(sizes[dim]);
      const auto stride = document.integer(strides[dim]);
      if (!size || !stride || *size < 0 || *stride < 0)
        return corrupt("the sizes or strides of a tensor are no natural numbers");
      raw.shape.push_back(*size);
      view.strides.push_back(*stride);
    }
    if (arguments.size() > 4) {
      const auto requires_grad = document.boolean(arguments[4]);
      if (!requires_grad) return corrupt("requires_grad is no bool");
      view.requires_grad = *requires_grad;
    }
    if (metadata != kNoNode && !document.children(metadata).empty())
      return refuse("is a lazily conjugated or negated view; save tensor.resolve_conj().resolve_neg()");
    TENPLEX_TRY(check_inside(raw, view, storage.public_part));
    return add_tensor(std::move(raw), std::move(view));
  }

  // Items of a tuple, or of the tuple in a torch.Size.
  static std::optional<Arguments> dims_nodes(const PickleDocument& document, NodeId id) {
    if (document.is_instance(id, "torch", "Size")) {
      const Arguments arguments = document.children(document.object(id).arguments);
      if (arguments.size() != 1) return std::nullopt;
      id = arguments[0];
    }
    if (document.kind(id) != NodeKind::kTuple) return std::nullopt;
    return document.children(id);
  }

  static Result<void> check_inside(const RawTensor& raw, const TensorView& view, const TorchStorage& storage) {
    if (auto checked = check_shape(raw.dtype, raw.shape); !checked)
      return std::move(checked).with_context(fmt::format("a tensor of storage '{}'", storage.key));
    if (volume(raw.shape) == 0) return {};
    std::optional<std::int64_t> end = checked_add(view.offset, 1);
    for (int dim = 0; end && dim < raw.shape.rank(); ++dim) {
      const auto step = checked_mul(raw.shape[dim] - 1, view.strides[dim]);
      end = step ? checked_add(*end, *step) : std::nullopt;
    }
    if (!end || *end > storage.size_bytes / size_bytes(raw.dtype))
      return corrupt(
          fmt::format("a tensor of shape {} with strides {} at element {} reaches past storage '{}' of {} "
                      "bytes",
                      to_string(raw.shape), to_string(view.strides), view.offset, storage.key, storage.size_bytes));
    return {};
  }

  // (data, requires_grad, hooks)
  Result<PickleReplacement> parameter(const PickleDocument& document, Arguments arguments) {
    const auto requires_grad = arguments.size() < 2 ? std::nullopt : document.boolean(arguments[1]);
    if (!requires_grad || document.kind(arguments[0]) != NodeKind::kTensor)
      return corrupt("the arguments of _rebuild_parameter are malformed");
    TensorView view = document.view(arguments[0]);
    view.parameter = true;
    view.requires_grad = *requires_grad;
    return PickleReplacement::tensor(std::move(view));
  }

  // One tensor object under several names: a node for each, so that each has a name; `object` says that they are one.
  static void split_shared_tensors(StateGraph& graph) {
    const auto size = static_cast<NodeId>(graph.size());
    std::unordered_map<NodeId, std::uint32_t> references;
    const auto for_each_tensor_edge = [&](auto visit) {
      for (NodeId node = 0; node < size; ++node)
        graph.for_each_edge(node, [&](NodeId& edge) {
          if (edge != kNoNode && edge < size && graph[edge].kind == NodeKind::kTensor) visit(edge);
        });
    };
    for_each_tensor_edge([&](NodeId& edge) { ++references[edge]; });
    std::unordered_map<NodeId, std::vector<NodeId>> copies;
    std::uint32_t group = 0;
    for (NodeId node = 0; node < size; ++node) {
      const auto found = references.find(node);
      if (found == references.end() || found->second < 2) continue;
      TensorView view = graph.view(node);
      view.object = ++group;
      graph.set_view(node, view);
      for (std::uint32_t copy = 1; copy < found->second; ++copy) copies[node].push_back(graph.add_tensor(view));
    }
    // The first edge keeps the node: copies are handed out from the back once they are one fewer than edges left.
    for_each_tensor_edge([&](NodeId& edge) {
      const auto found = copies.find(edge);
      if (found == copies.end()) return;
      if (references[edge]-- > found->second.size()) return;
      const NodeId copy = found->second.back();
      found->second.pop_back();
      edge = copy;
    });
  }

  std::span<const std::string_view> ignored_attributes_;
  std::vector<RawTensor> raw_tensors_;
  std::vector<RawStorage> storages_;
  std::unordered_map<std::string, std::size_t> storage_of_key_;
};

}  // namespace

Result<TorchPickle> read_torch_pickle(const ByteSource& source, std::int64_t offset, std::int64_t size,
                                      std::span<const std::string_view> ignored_attributes) {
  TorchMachine machine(ignored_attributes);
  TENPLEX_ASSIGN_OR_RETURN(PickleDocument document, read_pickle(source, offset, size, machine.options()));
  return machine.finish(std::move(document));
}

}  // namespace tenplex
