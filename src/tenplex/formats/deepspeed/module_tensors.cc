// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/module_tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/base/checked.h"
#include "tenplex/formats/state/lookup.h"

namespace tenplex::deepspeed {

Result<std::vector<ModuleTensors::Shapes>> ModuleTensors::frozen_shapes() const {
  std::vector<Shapes> shapes;
  shapes.reserve(files_.rank_count());
  for (std::size_t rank = 0; rank < files_.rank_count(); ++rank) {
    const StateGraph& file = files_.graph(rank, 0);
    auto read = read_shapes(file, find_item(file, file.root, "frozen_param_shapes"))
                    .with_context("'frozen_param_shapes'")
                    .with_context(files_.quoted(rank, 0));
    if (!read) return std::move(read).error();
    shapes.push_back(std::move(*read));
    const auto same_name = [](const auto& a, const auto& b) { return a.first == b.first; };
    if (!std::equal(shapes[0].begin(), shapes[0].end(), shapes[rank].begin(), shapes[rank].end(), same_name))
      return corrupt(fmt::format("{}: 'frozen_param_shapes' has other names than in {}", files_.quoted(rank, 0),
                                 files_.quoted(0, 0)));
  }
  return shapes;
}

// ZeRO-3: like the trained ones, ceil(elements / ranks) on every rank.
Result<void> ModuleTensors::place_frozen() {
  if (!is_dict(files_.first().state, files_.item(kFrozenParts))) return {};
  TENPLEX_ASSIGN_OR_RETURN(const auto shapes, frozen_shapes());
  for (std::size_t index = 0; index < shapes[0].size(); ++index) {
    std::vector<Dims> local;
    local.reserve(shapes.size());
    for (const Shapes& rank : shapes) local.push_back(rank[index].second);
    TENPLEX_TRY(place_frozen(shapes[0][index].first, local));
  }
  return {};
}

Result<void> ModuleTensors::place_frozen(const std::string& name, const std::vector<Dims>& local) {
  TENPLEX_ASSIGN_OR_RETURN(const JoinedShape joined, parts_.join(name, local));
  const auto first = files_.tensor_in(kFrozenParts, name, 0, 0);
  if (!first)
    return corrupt(fmt::format("{}: frozen parameter '{}' of shape {} has no part here", files_.quoted(0, 0), name,
                               to_string(local[0])));
  TENPLEX_ASSIGN_OR_RETURN(const auto number,
                           joiner_.add_tensor(name, files_.first().tensors[first->index()].dtype, joined.shape));
  frozen_.emplace(name, number);
  for (std::size_t rank = 0; rank < files_.rank_count(); ++rank)
    TENPLEX_TRY(place_frozen_part(number, name, joined.parts[rank], rank));
  return {};
}

Result<void> ModuleTensors::place_frozen_part(CheckpointJoiner::Number number, const std::string& name,
                                              const LocalPart& local, std::size_t model_rank) {
  const Dims& shape = local.shape;
  const auto ranks = static_cast<std::int64_t>(files_.file_count(model_rank));
  const std::int64_t elements = volume(shape);
  const std::int64_t part = ceil_div(elements, ranks);
  for (std::size_t rank = 0; rank < files_.file_count(model_rank); ++rank) {
    const CheckpointJoiner::Part file = files_.part(model_rank, rank);
    const auto bad = [&](std::string_view why) {
      return corrupt(fmt::format("{}: frozen parameter '{}' of shape {} {}", files_.quoted(model_rank, rank), name,
                                 to_string(shape), why));
    };
    const auto stored = files_.tensor_in(kFrozenParts, name, model_rank, rank);
    if (!stored) return bad("has no part here");
    if (elements == 0) continue;
    const Dims& found = joiner_.stored(file).tensors[stored->index()].shape;
    const DeviceId device = files_.device(model_rank, rank);
    if (ranks == 1 && found == shape) {
      TENPLEX_TRY(joiner_.add_part(number, device, file, *stored, local));
      continue;
    }
    if (found != Dims{part}) return bad(fmt::format("has a part of shape {}, expected [{}]", to_string(found), part));
    const std::int64_t from = std::min(elements, static_cast<std::int64_t>(rank) * part);
    TENPLEX_TRY(joiner_.add_run(number, device, {file, *stored, 0, from, std::min(elements, from + part)}, local));
  }
  return {};
}

// What stands for an empty place in 'module'; kNoNode if it is truly empty.
Result<NodeId> ModuleTensors::whole_of(const std::string& name) {
  if (const Parameter* parameter = parts_.groups().find(name)) {
    if (parameter->slots.empty()) return corrupt(fmt::format("parameter '{}' is stored nowhere", name));
    return joiner_.tensor_node(parameter->slots[0].second);
  }
  const auto frozen = frozen_.find(name);
  return frozen == frozen_.end() ? kNoNode : joiner_.tensor_node(frozen->second);
}

Result<std::optional<CheckpointJoiner::Number>> ModuleTensors::tensor(const std::string& name) {
  if (const auto known = module_.find(name); known != module_.end()) return std::optional(known->second);
  const auto first = files_.tensor_in("module", name, 0, 0);
  if (!first || volume(files_.first().tensors[first->index()].shape) == 0)
    return std::optional<CheckpointJoiner::Number>();
  std::vector<Dims> local;
  local.reserve(files_.rank_count());
  for (std::size_t rank = 0; rank < files_.rank_count(); ++rank) {
    const auto stored = files_.tensor_in("module", name, rank, 0);
    if (!stored)
      return corrupt(fmt::format("{}: tensor '{}' is not in 'module', as it is in {}", files_.quoted(rank, 0), name,
                                 files_.quoted(0, 0)));
    local.push_back(joiner_.stored(files_.part(rank, 0)).tensors[stored->index()].shape);
  }
  TENPLEX_ASSIGN_OR_RETURN(JoinedShape joined, parts_.join(name, local));
  CheckpointJoiner::Number number = 0;
  if (files_.rank_count() == 1) {
    number = joiner_.stored_tensor(files_.part(0, 0), *first, DeviceId(0));
  } else {
    TENPLEX_ASSIGN_OR_RETURN(number,
                             joiner_.add_tensor(name, files_.first().tensors[first->index()].dtype, joined.shape));
  }
  joined_.emplace(name, std::move(joined));
  module_.emplace(name, number);
  TENPLEX_TRY(add_copies(name, number));
  return std::optional(number);
}

// Every data parallel rank has the buffers; who reads them compares.
Result<void> ModuleTensors::add_copies(const std::string& name, CheckpointJoiner::Number number) {
  const JoinedShape& joined = joined_.find(name)->second;
  for (std::size_t model_rank = 0; model_rank < files_.rank_count(); ++model_rank) {
    const LocalPart& local = joined.parts[model_rank];
    for (std::size_t rank = 0; rank < files_.file_count(model_rank); ++rank) {
      const CheckpointJoiner::Part file = files_.part(model_rank, rank);
      if (files_.rank_count() == 1 && rank == 0) continue;
      const auto stored = files_.tensor_in("module", name, model_rank, rank);
      if (!stored || joiner_.stored(file).tensors[stored->index()].shape != local.shape)
        return corrupt(fmt::format("{}: tensor '{}' of shape {} is not in 'module', as it is in {}",
                                   files_.quoted(model_rank, rank), name, to_string(local.shape),
                                   files_.quoted(model_rank, 0)));
      TENPLEX_TRY(joiner_.add_part(number, files_.device(model_rank, rank), file, *stored, local));
    }
    // ZeRO-2 stores frozen parameters a second time.
    if (const auto again = files_.tensor_in(kFrozenParts, name, model_rank, 0))
      TENPLEX_TRY(joiner_.add_part(number, files_.device(model_rank, 0), files_.part(model_rank, 0), *again, local));
  }
  return {};
}

// What was one tensor in the file is one still.
NodeId ModuleTensors::joined_node(CheckpointJoiner::Number number, TensorId first) {
  const auto [known, added] = nodes_.try_emplace(first, kNoNode);
  const NodeId node = joiner_.tensor_node(number);
  if (added) {
    known->second = node;
  } else if (joiner_.shape(number) ==
             joiner_.shape(static_cast<CheckpointJoiner::Number>(joiner_.state().view(known->second).tensor.index()))) {
    joiner_.state().set_view(node, joiner_.state().view(known->second));
  }
  return node;
}

Result<void> ModuleTensors::check_shape(const std::string& name) const {
  const Parameter* parameter = parts_.groups().find(name);
  if (parameter == nullptr) return {};
  const JoinedShape& joined = joined_.find(name)->second;
  for (std::size_t rank = 0; rank < files_.rank_count(); ++rank)
    if (joined.parts[rank].shape != parameter->parts[rank].shape)
      return corrupt(fmt::format("parameter '{}' has shape {} in 'module' and {} in 'param_shapes'", name,
                                 to_string(joined.parts[rank].shape), to_string(parameter->parts[rank].shape)));
  return {};
}

Result<void> ModuleTensors::add_to(std::vector<NamedNode>* top) {
  TENPLEX_TRY(place_frozen());
  StateGraph graph = files_.first().state;  // with a dict of the tensors that are really there
  const auto items = mapping_items(graph, files_.item("module"));
  std::vector<NodeId> real;
  std::vector<NamedNode> entries;  // value: place in `real`, or kNoNode
  std::vector<TensorId> firsts;
  for (std::size_t at = 0; at + 1 < items->size(); at += 2) {
    const auto name = text_of(graph, (*items)[at]);
    const NodeId value = (*items)[at + 1];
    if (!name) return corrupt("'module' has a key that is no text");
    if (!is_tensor(graph, value)) continue;  // stays in common.model_states
    if (is_own_name(*name)) return unsupported(fmt::format("a parameter is called '{}'", *name));
    const TensorId stored = graph.view(value).tensor;
    TENPLEX_ASSIGN_OR_RETURN(const auto number, tensor(std::string(*name)));
    if (number) TENPLEX_TRY(check_shape(std::string(*name)));
    entries.emplace_back(*name, number ? static_cast<NodeId>(real.size()) : kNoNode);
    firsts.push_back(stored);
    if (!number) continue;
    real.push_back((*items)[at]);
    real.push_back(value);
  }
  const bool one_rank = files_.rank_count() == 1;
  std::vector<NodeId> values;
  if (one_rank) {
    const NodeId dict = graph.add_dict(std::move(real));
    const NodeId copied = joiner_.copy_state(files_.part(0, 0), graph, dict, DeviceId(0));
    values = joiner_.state()[copied].children;
  }
  const NodeId shared = files_.item("shared_params");
  std::map<std::string, NodeId> done;
  top->reserve(top->size() + entries.size());
  for (std::size_t at = 0; at < entries.size(); ++at) {
    auto& [name, value] = entries[at];
    if (value != kNoNode) {
      value = one_rank ? values[value + 1] : joined_node(module_.at(name), firsts[at]);
    } else {
      const auto same = text_of(graph, find_item(graph, shared, name));
      TENPLEX_ASSIGN_OR_RETURN(value, whole_of(same ? std::string(*same) : name));
      if (const auto tied = same ? done.find(std::string(*same)) : done.end(); tied != done.end() && value != kNoNode)
        joiner_.state().set_view(value, joiner_.state().view(tied->second));
      if (value == kNoNode)
        value = joiner_.tensor_node(joiner_.stored_tensor(files_.part(0, 0), firsts[at], DeviceId(0)));
    }
    done.emplace(name, value);
    top->emplace_back(name, value);
  }
  return {};
}

std::optional<Dims> ModuleTensors::shape_of(const std::string& name) const {
  if (const auto joined = joined_.find(name); joined != joined_.end()) return joined->second.shape;
  if (const auto frozen = frozen_.find(name); frozen != frozen_.end()) return joiner_.shape(frozen->second);
  return std::nullopt;
}

Result<void> ModuleTensors::check_frozen(const std::set<std::string_view>& names) const {
  for (const auto& [name, number] : frozen_)
    if (!names.contains(name))
      return corrupt(fmt::format("{}: frozen parameter '{}' is not in 'module'", files_.quoted(0, 0), name));
  return {};
}

}  // namespace tenplex::deepspeed
