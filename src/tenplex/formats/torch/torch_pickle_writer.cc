// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/torch/torch_pickle_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "tenplex/base/checked.h"
#include "tenplex/formats/torch/torch_dtype.h"

namespace tenplex {
namespace {

constexpr std::int64_t kMaxHoles = std::int64_t{1} << 30;  // bytes of a storage that no view touches, if most are such

void write_dims(PickleWriter& pickle, const Dims& dims) {
  if (dims.empty()) return pickle.empty_tuple();
  if (dims.rank() > 3) pickle.mark();
  for (const std::int64_t value : dims) pickle.integer(value);
  dims.rank() > 3 ? pickle.tuple() : pickle.tuple(dims.rank());
}

void write_hooks(PickleWriter& pickle) {
  pickle.global("collections", "OrderedDict");
  pickle.empty_tuple();
  pickle.reduce();
}

void write_storage_id(PickleWriter& pickle, DType dtype, bool untyped, std::int32_t number,
                      std::int64_t size_in_bytes) {
  const std::string_view storage_class = torch_storage_class(dtype);
  pickle.mark();
  pickle.text("storage");
  if (untyped) {
    pickle.global("torch.storage", "UntypedStorage");
  } else {
    pickle.global("torch", storage_class);
  }
  pickle.text_once(fmt::to_string(number));
  pickle.text("cpu");
  pickle.integer(untyped ? size_in_bytes : size_in_bytes / size_bytes(dtype));
  pickle.tuple();
  pickle.persistent_id();
}

struct TensorRecord {
  DType dtype;
  bool untyped;
  std::int32_t storage_number;
  std::int64_t storage_bytes;
  std::int64_t offset;
  const Dims& shape;
  const Dims& strides;
  bool requires_grad;
};

void write_tensor_record(PickleWriter& pickle, const TensorRecord& record) {
  pickle.global("torch._utils", record.untyped ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
  pickle.mark();
  write_storage_id(pickle, record.dtype, record.untyped, record.storage_number, record.storage_bytes);
  pickle.integer(record.offset);
  write_dims(pickle, record.shape);
  write_dims(pickle, record.strides);
  pickle.boolean(record.requires_grad);
  write_hooks(pickle);
  if (record.untyped) pickle.global("torch", to_string(record.dtype));
  pickle.tuple();
  pickle.reduce();
}

}  // namespace

Result<TorchPickleWriter> TorchPickleWriter::make(const StateGraph& graph, NodeId node,
                                                  std::span<const TensorInfo> tensors) {
  TorchPickleWriter writer(graph, node, tensors);
  std::vector<bool> seen(graph.size(), false);
  std::vector<NodeId> todo{node};
  seen[node] = true;
  while (!todo.empty()) {
    const NodeId next = todo.back();
    todo.pop_back();
    if (graph[next].kind == NodeKind::kTensor || graph[next].kind == NodeKind::kStorage) {
      TENPLEX_TRY(writer.add_view(next));
      continue;
    }
    graph.for_each_edge(next, [&](NodeId edge) {
      if (edge == kNoNode || seen[edge]) return;
      seen[edge] = true;
      todo.push_back(edge);
    });
  }
  TENPLEX_TRY(writer.trim());
  return writer;
}

Result<void> TorchPickleWriter::add_view(NodeId node) {
  const TensorView view = graph_->view(node);
  if (view.tensor.value() < 0 || view.tensor.index() >= tensors_.size())
    return corrupt(fmt::format("the state tree refers to tensor {} of {}", view.tensor.value(), tensors_.size()));
  const TensorInfo& tensor = info(node);
  if (!torch_has_dtype(tensor.dtype))
    return unsupported(fmt::format("tensor '{}': torch has no dtype for {}", tensor.name, to_string(tensor.dtype)));
  const auto natural = [](std::int64_t value) { return value >= 0; };
  if (view.strides.rank() != tensor.shape.rank() || view.offset < 0 ||
      !std::all_of(view.strides.begin(), view.strides.end(), natural))
    return corrupt(fmt::format("tensor '{}': strides {} do not fit its shape {}", tensor.name, to_string(view.strides),
                               to_string(tensor.shape)));
  const auto [entry, added] = index_.try_emplace(view.storage, storages_.size());
  if (added) storages_.emplace_back();
  OutputStorage& target = storages_[entry->second];
  target.views.push_back(node);
  target.untyped =
      target.untyped || torch_storage_class(tensor.dtype).empty() || info(target.views[0]).dtype != tensor.dtype;
  return {};
}

Result<void> TorchPickleWriter::trim() {
  for (OutputStorage& storage : storages_) {
    std::int64_t begin = std::numeric_limits<std::int64_t>::max();
    std::int64_t end = 0;
    std::int64_t touched = 0;
    for (const NodeId node : storage.views) {
      const TensorInfo& tensor = info(node);
      const TensorView view = graph_->view(node);
      const std::int64_t element = size_bytes(tensor.dtype);
      storage.alignment = std::max(storage.alignment, element);
      if (volume(tensor.shape) == 0) continue;
      std::optional<std::int64_t> last = view.offset;
      for (int dim = 0; last && dim < tensor.shape.rank(); ++dim) {
        const auto step = checked_mul(tensor.shape[dim] - 1, view.strides[dim]);
        last = step ? checked_add(*last, *step) : std::nullopt;
      }
      const auto view_end = last ? checked_mul(*last + 1, element) : std::nullopt;
      if (!view_end || *last == std::numeric_limits<std::int64_t>::max())
        return corrupt(fmt::format("tensor '{}': its strides reach too far", tensor.name));
      begin = std::min(begin, view.offset * element);
      end = std::max(end, *view_end);
      touched = checked_add(touched, size_bytes(tensor)).value_or(std::numeric_limits<std::int64_t>::max());
    }
    if (end == 0) continue;
    storage.begin_bytes = begin - begin % storage.alignment;
    storage.size_bytes = ceil_div(end - storage.begin_bytes, storage.alignment) * storage.alignment;
    if (storage.size_bytes - touched > kMaxHoles && storage.size_bytes / 64 > touched)
      return unsupported(fmt::format("tensor '{}': its strides leave {} bytes unused for {} that it holds",
                                     info(storage.views[0]).name, storage.size_bytes - touched, touched));
  }
  return {};
}

Result<std::string> TorchPickleWriter::write() {
  PickleWriteOptions options;
  options.tensor = [this](PickleWriter& pickle, const StateGraph&, NodeId node) { return write_tensor(pickle, node); };
  TENPLEX_ASSIGN_OR_RETURN(std::string pickle, write_pickle(*graph_, node_, options));
  for (const OutputStorage& storage : storages_)
    if (storage.number < 0)
      return corrupt(
          fmt::format("tensor '{}' is one object with a tensor of another storage", info(storage.views[0]).name));
  std::sort(storages_.begin(), storages_.end(),
            [](const OutputStorage& a, const OutputStorage& b) { return a.number < b.number; });
  for (std::size_t storage = 0; storage < storages_.size(); ++storage)
    for (const NodeId node : storages_[storage].views) index_[graph_->view(node).storage] = storage;
  return pickle;
}

std::int64_t TorchPickleWriter::offset_in_storage(NodeId node) const {
  if (volume(info(node).shape) == 0) return 0;
  return graph_->view(node).offset - storage(node).begin_bytes / size_bytes(info(node).dtype);
}

Result<void> TorchPickleWriter::write_tensor(PickleWriter& pickle, NodeId node) {
  OutputStorage& target = storage(node);
  if (target.number < 0) target.number = next_number_++;
  const TensorInfo& tensor = info(node);
  const TensorView view = graph_->view(node);
  if (graph_->operator[](node).kind == NodeKind::kStorage) {
    write_storage_id(pickle, tensor.dtype, target.untyped, target.number, target.size_bytes);
    return {};
  }
  if (view.parameter) {
    pickle.global("torch._utils", "_rebuild_parameter");
  }
  write_tensor_record(pickle, {tensor.dtype, target.untyped, target.number, target.size_bytes, offset_in_storage(node),
                               tensor.shape, view.strides, view.requires_grad && !view.parameter});
  if (view.parameter) {
    pickle.boolean(view.requires_grad);
    write_hooks(pickle);
    pickle.tuple(3);
    pickle.reduce();
  }
  return {};
}

std::string tensor_pickle(DType dtype, const Dims& shape) {
  PickleWriter pickle(2);
  const Dims strides = row_major_strides(shape);
  write_tensor_record(pickle, {dtype, torch_storage_class(dtype).empty(), 0, volume(shape) * size_bytes(dtype), 0,
                               shape, strides, false});
  pickle.stop();
  return pickle.take();
}

}  // namespace tenplex
