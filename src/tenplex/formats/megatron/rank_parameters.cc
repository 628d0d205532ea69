// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/rank_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "tenplex/formats/megatron/model_order.h"
#include "tenplex/formats/state/state_numbers.h"
#include "tenplex/ptc/builtin_layouts.h"

namespace tenplex::megatron {
namespace {

constexpr std::string_view kWords = "embedding.word_embeddings.weight";
constexpr std::string_view kHead = "output_layer.weight";
constexpr std::array<ModelForm, 4> kForms = {{{false, true}, {false, false}, {true, true}, {true, false}}};

std::optional<std::int64_t> argument(const CheckpointInfo& info, std::string_view name) {
  const std::array<std::string_view, 3> place = {"common", "args", name};
  return number_at(info.state, place);
}

Result<RankGrid> read_grid(const CheckpointInfo& info) {
  const auto tensor = argument(info, "tensor_model_parallel_size");
  const auto pipeline = argument(info, "pipeline_model_parallel_size");
  if (!tensor || !pipeline)
    return unsupported("'common.args' do not say 'tensor_model_parallel_size' and 'pipeline_model_parallel_size'");
  RankGrid grid;
  grid.tensor = *tensor;
  grid.pipeline = *pipeline;
  grid.expert = argument(info, "expert_model_parallel_size").value_or(1);
  grid.expert_tensor = argument(info, "expert_tensor_parallel_size").value_or(grid.tensor);
  grid.virtual_stages = argument(info, "virtual_pipeline_model_parallel_size").value_or(1);
  for (const std::int64_t size : {grid.tensor, grid.pipeline, grid.expert, grid.expert_tensor, grid.virtual_stages})
    if (size < 1 || size > kMaxDevices) return unsupported(fmt::format("'common.args' have a parallel size {}", size));
  return grid;
}

/// Tensors that an optimizer may have state of.
bool is_parameter(const TensorInfo& tensor) {
  const std::string_view name = tensor.name;
  if (name.starts_with("optimizer.") || name.starts_with("chained_") || name.starts_with("common.")) return false;
  return !name.ends_with(".expert_bias") && name.find("/shard_") == std::string_view::npos;
}

Dims coordinates(const Dims& strides, std::int64_t offset) {
  Dims index = Dims::filled(strides.rank(), 0);
  for (int dim = 0; dim < strides.rank(); ++dim) {
    index[dim] = offset / strides[dim];
    offset %= strides[dim];
  }
  return index;
}

/// The arrays of a shard's layers and experts, by their numbers: the shard's leading dimensions are taken apart.
std::map<std::pair<std::int64_t, std::int64_t>, LocalPart> take_apart(const SubTensor& shard, const StoredName& name) {
  const int stacked = name.stacked();
  Dims shape = shard.local_shape;
  for (int dim = 0; dim < stacked; ++dim) shape[dim] = 1;
  const Dims strides = row_major_strides(shard.local_shape);
  const int expert_dim = name.has_layer && !name.layer ? 1 : 0;
  std::map<std::pair<std::int64_t, std::int64_t>, LocalPart> parts;
  for (const Piece& piece : shard.pieces) {
    const Dims first = coordinates(strides, piece.local_offset);
    std::int64_t count = 1;
    for (int dim = 0; dim < stacked; ++dim) count *= piece.box.extent[dim];
    for (std::int64_t number = 0; number < count; ++number) {
      LocalPiece local = {{first, piece.box.extent}, piece.box.offset};
      std::int64_t rest = number;
      for (int dim = stacked - 1; dim >= 0; --dim) {
        local.start[dim] += rest % piece.box.extent[dim];
        rest /= piece.box.extent[dim];
        local.local.offset[dim] = 0;
        local.local.extent[dim] = 1;
      }
      const std::int64_t layer = name.has_layer ? name.layer.value_or(local.start[0]) : 0;
      const bool stacks_experts = name.has_expert && !name.expert;
      const std::int64_t expert = stacks_experts ? local.start[expert_dim] : name.expert.value_or(0);
      LocalPart& part = parts[{layer, expert}];
      part.shape = shape;
      part.pieces.push_back(std::move(local));
    }
  }
  return parts;
}

/// Gate and up are one array of the rank, gate first.
void join_halves(RankParameter* parameter, int dim) {
  if (parameter->parts.size() != 2) return;
  LocalPart& gate = parameter->parts[0].local;
  LocalPart& up = parameter->parts[1].local;
  for (LocalPiece& piece : up.pieces) piece.local.offset[dim] += gate.shape[dim];
  gate.shape[dim] += up.shape[dim];
  up.shape = gate.shape;
}

/// Puts them in the order of the model, or in that of the names.
class Sorter {
 public:
  explicit Sorter(std::span<const std::string> order) {
    for (std::size_t index = 0; index < order.size(); ++index) place_of_.emplace(order[index], index);
  }

  bool has_order() const { return !place_of_.empty(); }

  /// The place of the first of the names that has one.
  std::optional<std::size_t> place(std::span<const std::string> names) const {
    for (const std::string& name : names)
      if (const auto found = place_of_.find(name); found != place_of_.end()) return found->second;
    return std::nullopt;
  }

 private:
  std::unordered_map<std::string_view, std::size_t> place_of_;
};

}  // namespace

Result<RankParameters> RankParameters::make(const CheckpointInfo& info) {
  RankParameters made;
  TENPLEX_ASSIGN_OR_RETURN(made.grid_, read_grid(info));
  std::vector<TensorInfo> tensors;
  for (std::size_t index = 0; index < info.tensors.size(); ++index) {
    const TensorInfo& tensor = info.tensors[index];
    if (!is_parameter(tensor)) continue;
    made.stored_.emplace_back(index);
    made.names_.push_back(parse_stored_name(tensor.name));
    made.has_experts_ = made.has_experts_ || made.names_.back().has_expert;
    tensors.push_back(tensor);
  }
  TENPLEX_ASSIGN_OR_RETURN(const Layout builtin, builtin_layout("megatron-gpt"));
  // Rows of the vocabulary are taken as they are, padding or not.
  TENPLEX_ASSIGN_OR_RETURN(const Layout layout,
                           builtin.with_sizes({{"vocab", 0}, {"divisor", 1}},
                                              [&info](std::string_view key) { return argument(info, key); }));
  const RankGrid& grid = made.grid_;
  const std::int64_t devices = std::lcm(grid.tensor, grid.expert * grid.expert_tensor);
  const MeshSizes mesh = {{"tp", grid.tensor},
                          {"dp", devices / grid.tensor},
                          {"pp", grid.pipeline},
                          {"ep", grid.expert},
                          {"etp", grid.expert_tensor}};
  auto collection = RuleCollection::make(layout, mesh, std::move(tensors));
  if (!collection) return unsupported(collection.error().message());
  made.collection_ = std::move(*collection);
  made.is_tied_ = made.collection_->find(kWords) && !made.collection_->find(kHead);
  made.list_layers();
  return made;
}

std::int64_t RankParameters::rank_count(bool experts) const {
  return experts ? grid_.expert_tensor * grid_.expert * grid_.pipeline : grid_.tensor * grid_.pipeline;
}

DeviceId RankParameters::device(std::int64_t number, bool experts) const {
  const std::vector<std::pair<std::string_view, std::int64_t>> sizes =
      experts
          ? std::vector<std::pair<std::string_view, std::int64_t>>{{"etp", grid_.expert_tensor}, {"ep", grid_.expert}}
          : std::vector<std::pair<std::string_view, std::int64_t>>{{"tp", grid_.tensor}};
  const Mesh& mesh = collection_->meshes()[experts ? 1 : 0];
  std::vector<std::int64_t> at(mesh.axes().size(), 0);
  for (const auto& [axis, size] : sizes) {
    at[*mesh.find(axis)] = number % size;
    number /= size;
  }
  at[*mesh.find("pp")] = number;
  return mesh.device(at);
}

void RankParameters::list_layers() {
  layers_.resize(static_cast<std::size_t>(grid_.pipeline));
  SubTensor shard;
  std::vector<std::int64_t> shards;
  for (std::int64_t stage = 0; stage < grid_.pipeline; ++stage) {
    std::set<std::int64_t> layers;
    for (std::size_t index = 0; index < names_.size(); ++index) {
      const StoredName& name = names_[index];
      if (!name.has_layer) continue;
      const std::int64_t before = name.has_expert ? grid_.expert_tensor * grid_.expert : grid_.tensor;
      collection_->shards_of_device(TensorId(index), device(stage * before, name.has_expert), &shards);
      for (const std::int64_t number : shards) {
        if (name.layer) {
          layers.insert(*name.layer);
          continue;
        }
        collection_->shard(TensorId(index), number, &shard);
        for (const Piece& piece : shard.pieces)
          for (std::int64_t row = 0; row < piece.box.extent[0]; ++row) layers.insert(piece.box.offset[0] + row);
      }
    }
    layers_[static_cast<std::size_t>(stage)].assign(layers.begin(), layers.end());
  }
}

Result<std::vector<RankParameter>> RankParameters::of_rank(std::int64_t number, bool experts, const ModelForm& form,
                                                           std::span<const std::string> order) const {
  const DeviceId here = device(number, experts);
  const std::int64_t stage = number / (rank_count(experts) / grid_.pipeline);
  const std::vector<std::int64_t>& layers = layers_[static_cast<std::size_t>(stage)];
  const Sorter sorter(order);
  using Place = std::tuple<std::int64_t, std::size_t, ModelPlace, std::string>;
  std::map<Place, RankParameter> sorted;
  SubTensor shard;
  std::vector<std::int64_t> shards;
  for (std::size_t index = 0; index < names_.size(); ++index) {
    const StoredName& name = names_[index];
    if ((name.has_expert && has_experts_apart()) != experts) continue;
    const TensorInfo& info = collection_->tensors()[index];
    collection_->shards_of_device(TensorId(index), here, &shards);
    if (shards.empty()) continue;
    collection_->shard(TensorId(index), shards[0], &shard);
    const bool is_shared = is_tied_ && grid_.pipeline > 1 && info.name == kWords;
    for (auto& [numbers, local] : take_apart(shard, name)) {
      const auto& [layer, expert] = numbers;
      std::string module = name.of_module(form, layer, expert);
      if (is_shared && stage > 0) module = kHead;
      const ModelPlace place = place_in_model(split_numbers(module));
      std::size_t given = 0;
      if (sorter.has_order()) {
        std::vector<std::string> names = {info.name};
        for (const ModelForm& other : kForms) names.push_back(name.of_module(other, layer, expert));
        auto found = sorter.place(names);
        // The last stage has the word embeddings as its head: behind all others, where nothing else is said.
        if (found && is_shared && stage > 0)
          found = sorter.place(std::array{std::string(kHead)}).value_or(order.size());
        if (!found) continue;
        given = *found;
      } else if (!place.known) {
        return unsupported(fmt::format("where '{}' stands in the order of the parameters is not known", module));
      }
      std::int64_t chunk = place.section == kBehindLayers ? grid_.virtual_stages - 1 : 0;
      if (name.has_layer) {
        const auto at = std::lower_bound(layers.begin(), layers.end(), layer) - layers.begin();
        chunk = at * grid_.virtual_stages / static_cast<std::int64_t>(layers.size());
      }
      RankParameter& parameter = sorted[{chunk, given, sorter.has_order() ? ModelPlace{} : place, module}];
      parameter.name = std::move(module);
      parameter.dtype = info.dtype;
      parameter.chunk = chunk;
      parameter.given = given;
      parameter.elements += volume(local.shape);
      const auto where = name.half == Half::kGate ? parameter.parts.begin() : parameter.parts.end();
      parameter.parts.insert(where, {stored_[index], std::move(local)});
      if (name.half != Half::kWhole) join_halves(&parameter, name.stacked());
    }
  }
  std::vector<RankParameter> parameters;
  parameters.reserve(sorted.size());
  for (auto& [place, parameter] : sorted) parameters.push_back(std::move(parameter));
  return parameters;
}

}  // namespace tenplex::megatron
