// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/local_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "tenplex/base/checked.h"
#include "tenplex/ptc/layout_sizes.h"
#include "tenplex/ptc/rule_collection.h"
#include "tenplex/ptc/rule_matcher.h"

namespace tenplex {
namespace {

/// What all devices hold, by tensor.
class LocalShapes {
 public:
  static Result<LocalShapes> make(std::span<const std::vector<LocalTensor>> devices);

  /// The tensors, each with the local shape of the first device that holds it.
  std::span<const TensorInfo> first_shapes() const { return first_shapes_; }
  DeviceId first_device(std::size_t tensor) const { return holders_[tensor].front().device; }
  /// The local shape, or null if the device does not hold the tensor.
  const Dims* find(std::size_t tensor, DeviceId device) const;

 private:
  struct Holder {
    DeviceId device;
    const Dims* shape;
  };
  std::vector<TensorInfo> first_shapes_;
  std::vector<std::vector<Holder>> holders_;  // ascending by device
};

Result<LocalShapes> LocalShapes::make(std::span<const std::vector<LocalTensor>> devices) {
  LocalShapes shapes;
  std::unordered_map<std::string_view, std::size_t> by_name;
  for (std::size_t device = 0; device < devices.size(); ++device) {
    for (const LocalTensor& local : devices[device]) {
      const auto [found, is_new] = by_name.emplace(local.name, shapes.first_shapes_.size());
      if (is_new) {
        shapes.first_shapes_.push_back({local.name, local.dtype, local.shape});
        TENPLEX_TRY(check_tensor(shapes.first_shapes_.back()));
        shapes.holders_.emplace_back();
      }
      const TensorInfo& first = shapes.first_shapes_[found->second];
      std::vector<Holder>& holders = shapes.holders_[found->second];
      if (first.dtype != local.dtype || first.shape.rank() != local.shape.rank())
        return invalid_argument(
            fmt::format("tensor '{}': device {} holds {} of shape {}, device {} holds {} of shape {}", local.name,
                        holders.front().device.value(), to_string(first.dtype), to_string(first.shape), device,
                        to_string(local.dtype), to_string(local.shape)));
      if (!holders.empty() && holders.back().device == DeviceId(device))
        return invalid_argument(fmt::format("device {} holds two tensors named '{}'", device, local.name));
      holders.push_back({DeviceId(device), &local.shape});
    }
  }
  return shapes;
}

const Dims* LocalShapes::find(std::size_t tensor, DeviceId device) const {
  const std::vector<Holder>& holders = holders_[tensor];
  const auto at = std::lower_bound(holders.begin(), holders.end(), device,
                                   [](const Holder& holder, DeviceId value) { return holder.device < value; });
  return at != holders.end() && at->device == device ? at->shape : nullptr;
}

class ShapeGuesser {
 public:
  ShapeGuesser(const Layout& layout, std::span<const Mesh> meshes, const LocalShapes& locals, const NamedSizes& sizes)
      : layout_(layout), meshes_(meshes), locals_(locals), sizes_(layout, sizes) {}

  /// The global shape of a tensor whose rule has only slices of dims.
  Result<Dims> guess(std::size_t tensor, const TensorMatch& match) const;

 private:
  Result<std::int64_t> sum_along(std::size_t tensor, const Mesh& mesh, std::span<const std::size_t> axes,
                                 int dim) const;

  const Layout& layout_;
  std::span<const Mesh> meshes_;
  const LocalShapes& locals_;
  const LayoutSizes sizes_;
};

Result<Dims> ShapeGuesser::guess(std::size_t tensor, const TensorMatch& match) const {
  const Mesh& mesh = meshes_[match.rule->mesh];
  Dims shape = locals_.first_shapes()[tensor].shape;
  if (match.is_whole) return shape;
  std::vector<SliceRule> slices = match.rule->slices;
  if (match.slot != nullptr) {
    if (match.slot->base == SlotRule::Base::kWhole) slices.clear();
    slices.insert(slices.end(), match.slot->slices.begin(), match.slot->slices.end());
  }
  const bool zero1 = match.slot != nullptr && match.slot->zero1;
  std::vector<std::vector<std::size_t>> axes(kMaxRank);
  for (const SliceRule& slice : slices) {
    if (slice.kind == SliceRule::Kind::kPlace) continue;
    if (slice.kind == SliceRule::Kind::kFlat) return invalid_argument("it is cut flat, which does not tell its shape");
    for (const std::string& name : slice.by) {
      const auto axis = mesh.find(name);
      if (!axis) return invalid_argument(fmt::format("mesh '{}' has no axis '{}'", mesh.name(), name));
      axes[static_cast<std::size_t>(slice.dim)].push_back(*axis);
    }
  }
  if (zero1) return invalid_argument("it is cut flat (zero1), which does not tell its shape");
  if (const int zero = layout_.rules().zero; zero == 3 || (zero > 0 && match.is_slot))
    return invalid_argument(fmt::format("it is cut flat (zero: {}), which does not tell its shape", zero));
  for (int dim = 0; dim < shape.rank(); ++dim) {
    TENPLEX_ASSIGN_OR_RETURN(shape[dim], sum_along(tensor, mesh, axes[static_cast<std::size_t>(dim)], dim));
  }
  const auto& pad = match.rule->pad;
  if (!pad || !pad->data || pad->dim >= shape.rank() || !match.is_cut_by_rule()) return shape;
  TENPLEX_ASSIGN_OR_RETURN(const std::int64_t data, sizes_.value_of(*pad->data, nullptr));
  if (data != 0) shape[pad->dim] = data;
  return shape;
}

Result<std::int64_t> ShapeGuesser::sum_along(std::size_t tensor, const Mesh& mesh, std::span<const std::size_t> axes,
                                             int dim) const {
  const DeviceId first = locals_.first_device(tensor);
  std::int64_t base = first.value();
  std::int64_t count = 1;
  for (const std::size_t axis : axes) {
    base -= mesh.coordinate(first, axis) * mesh.axes()[axis].stride;
    count *= mesh.axes()[axis].size;
  }
  std::int64_t sum = 0;
  for (std::int64_t index = 0; index < count; ++index) {
    std::int64_t device = base;
    std::int64_t rest = index;
    for (const std::size_t axis : axes) {
      device += rest % mesh.axes()[axis].size * mesh.axes()[axis].stride;
      rest /= mesh.axes()[axis].size;
    }
    const Dims* local = locals_.find(tensor, DeviceId(static_cast<std::int32_t>(device)));
    if (local == nullptr) return invalid_argument(fmt::format("device {} does not hold its part", device));
    const auto next = checked_add(sum, (*local)[dim]);
    if (!next) return out_of_range("the global shape is too large");
    sum = *next;
  }
  return sum;
}

/// Local arrays hold the rows that the layout calls padding: what it expects is more than the global shape says.
std::string padding_text(const TensorMatch& match) {
  const auto& pad = match.rule->pad;
  return pad && pad->data && match.is_cut_by_rule() ? fmt::format(" with its padding in dim {}", pad->dim) : "";
}

/// Does the layout give every device exactly the local shapes that were found? `matches` are those of the tensors.
Result<void> check_locals(const RuleCollection& collection, std::span<const TensorMatch> matches,
                          const LocalShapes& locals) {
  std::vector<std::int64_t> shards;
  SubTensor shard;
  for (std::size_t index = 0; index < collection.tensors().size(); ++index) {
    const TensorId tensor(index);
    if (collection.alias_of(tensor)) continue;
    const TensorInfo& info = collection.tensors()[index];
    const auto where = [&](std::int32_t device) {
      return fmt::format("tensor '{}' on device {}, {}, global shape {}", info.name, device,
                         collection.layout().where(collection.rule_line(tensor)), to_string(info.shape));
    };
    for (std::int32_t device = 0; device < collection.device_count(); ++device) {
      collection.shards_of_device(tensor, DeviceId(device), &shards);
      const Dims* found = locals.find(index, DeviceId(device));
      if (shards.empty() && found == nullptr) continue;
      if (shards.empty())
        return invalid_argument(fmt::format("{}: expected nothing there, found {}", where(device), to_string(*found)));
      collection.shard(tensor, shards.front(), &shard);
      if (found == nullptr)
        return invalid_argument(
            fmt::format("{}: expected {}, found nothing", where(device), to_string(shard.local_shape)));
      if (shard.local_shape != *found)
        return invalid_argument(fmt::format("{}: expected {}{}, found {}", where(device), to_string(shard.local_shape),
                                            padding_text(matches[index]), to_string(*found)));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<TensorInfo>> global_shapes_from_locals(const Layout& layout, const MeshSizes& mesh,
                                                          std::span<const std::vector<LocalTensor>> devices,
                                                          const NamedSizes& sizes) {
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<Mesh> meshes, layout.make_meshes(mesh));
  if (meshes.front().device_count() != static_cast<std::int64_t>(devices.size()))
    return invalid_argument(
        fmt::format("the mesh has {} devices, but {} are given", meshes.front().device_count(), devices.size()));
  TENPLEX_ASSIGN_OR_RETURN(const LocalShapes locals, LocalShapes::make(devices));
  const RuleMatcher matcher(layout, locals.first_shapes(), true);
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<TensorMatch> matches, matcher.match_all());
  const ShapeGuesser guesser(layout, meshes, locals, sizes);
  std::vector<TensorInfo> tensors(locals.first_shapes().begin(), locals.first_shapes().end());
  const auto takes_parameters_shape = [&](const TensorMatch& match) {
    return match.is_slot && !match.is_whole && match.parameter >= 0 &&
           (match.slot == nullptr || match.slot->base == SlotRule::Base::kParameter);
  };
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    if (takes_parameters_shape(matches[index])) continue;
    auto shape = guesser.guess(index, matches[index]);
    if (!shape)
      return std::move(shape)
          .with_context(
              fmt::format("tensor '{}', {}", tensors[index].name, describe_rule(layout, *matches[index].rule)))
          .error();
    tensors[index].shape = *shape;
  }
  for (std::size_t index = 0; index < tensors.size(); ++index)
    if (takes_parameters_shape(matches[index]))
      tensors[index].shape = tensors[static_cast<std::size_t>(matches[index].parameter)].shape;
  TENPLEX_ASSIGN_OR_RETURN(const auto collection, RuleCollection::make(layout, mesh, std::move(tensors), {}, sizes));
  TENPLEX_TRY(check_locals(*collection, matches, locals));
  return std::vector<TensorInfo>(collection->tensors().begin(), collection->tensors().end());
}

}  // namespace tenplex
