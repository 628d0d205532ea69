// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/deepspeed/optimizer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tenplex/formats/state/lookup.h"

namespace tenplex::deepspeed {
namespace {

constexpr std::int64_t kMaxPadding = std::int64_t{1} << 48;

class OptimizerParser {
 public:
  OptimizerParser(const CheckpointInfo& file, std::int64_t ranks) : info_(file), graph_(file.state), ranks_(ranks) {}

  Result<OptimizerFile> run() {
    found_.outer = find_item(graph_, graph_.root, "optimizer_state_dict");
    if (!is_dict(graph_, found_.outer)) return corrupt("there is no dict 'optimizer_state_dict'");
    if (const NodeId groups = outer("ds_zero_partition_groups"); groups != kNoNode && !is_none(graph_, groups))
      return unsupported("'ds_zero_partition_groups' says that groups are cut over ranks of their own, as experts are");
    const NodeId flat = outer("fp32_flat_groups");
    found_.whole_parameters = flat != kNoNode;
    const NodeId masters = found_.whole_parameters ? flat : outer("single_partition_of_fp32_groups");
    const auto groups = list_items(graph_, masters);
    if (!groups) return corrupt("there is neither 'single_partition_of_fp32_groups' nor 'fp32_flat_groups'");
    found_.base = outer(found_.whole_parameters ? "optimizer_state_dict" : "base_optimizer_state");
    if (is_list(graph_, found_.base))
      return unsupported("the optimizer's state is in the form of elastic checkpoints, which is not read");
    if (!is_dict(graph_, found_.base)) return corrupt("the optimizer's own state is no dict");
    TENPLEX_TRY(check_partition_count(groups->size()));
    for (std::size_t group = 0; group < groups->size(); ++group) {
      auto read = read_group(group, (*groups)[group]).with_context(fmt::format("group {}", group));
      if (!read) return std::move(read).error();
    }
    TENPLEX_TRY(check_state_keys());
    return std::move(found_);
  }

 private:
  NodeId outer(std::string_view key) const { return find_item(graph_, found_.outer, key); }

  /// A list with one number per group, or one for all. Groups of experts are cut over fewer ranks.
  Result<void> check_partition_count(std::size_t groups) const {
    const NodeId node = outer("partition_count");
    const auto items = list_items(graph_, node);
    const auto is_right = [&](NodeId count) {
      const auto found = integer_of(graph_, count);
      return found && *found > 0 && *found <= ranks_ && (items ? ranks_ % *found == 0 : *found == ranks_);
    };
    if (items ? items->size() == groups && std::all_of(items->begin(), items->end(), is_right) : is_right(node))
      return {};
    return corrupt(fmt::format("'partition_count' is not {}, which is the number of the optimizer's files", ranks_));
  }

  Result<void> check_state_keys() const {
    const auto items = mapping_items(graph_, find_item(graph_, found_.base, "state"));
    if (!items) return corrupt("the optimizer has no dict 'state'");
    for (std::size_t at = 0; at + 1 < items->size(); at += 2) {
      const auto key = integer_of(graph_, (*items)[at]);
      if (!key || *key < 0 || *key >= static_cast<std::int64_t>(found_.groups.size()))
        return corrupt(fmt::format("the optimizer has a state for more than its {} groups", found_.groups.size()));
    }
    return {};
  }

  const TensorInfo& tensor(NodeId node) const { return info_.tensors[graph_.view(node).tensor.index()]; }

  /// The item of a list with an entry per group; kNoNode where there is no such list.
  NodeId of_group(std::string_view list, std::size_t group) const {
    const auto items = list_items(graph_, outer(list));
    return items && group < items->size() ? (*items)[group] : kNoNode;
  }

  Result<void> read_group(std::size_t number, NodeId master) {
    FlatGroup group;
    group.ranks = integer_of(graph_, of_group("partition_count", number)).value_or(ranks_);
    if (!is_tensor(graph_, master) || tensor(master).shape.rank() != 1 || tensor(master).dtype != DType::kFloat32)
      return corrupt("its flat parameters are no float32 tensor of one dimension");
    group.master = graph_.view(master).tensor;
    const std::int64_t stored = tensor(master).shape[0];
    group.size = stored;
    if (!found_.whole_parameters) {
      TENPLEX_TRY(read_paddings(number, &group));
      TENPLEX_TRY(read_fragments(of_group("param_slice_mappings", number), stored, &group));
    }
    TENPLEX_TRY(read_slots(
        find_item(graph_, find_item(graph_, found_.base, "state"), static_cast<std::int64_t>(number)), stored, &group));
    found_.groups.push_back(std::move(group));
    return {};
  }

  Result<void> read_paddings(std::size_t number, FlatGroup* group) const {
    if (const NodeId node = of_group("group_paddings", number); node != kNoNode) {
      const auto padding = integer_of(graph_, node);
      if (!padding || *padding < 0 || *padding > kMaxPadding) return corrupt("its padding is no such number");
      group->padding = *padding;
    }
    const auto items = list_items(graph_, of_group("param_alignment_paddings", number));
    for (std::size_t at = 0; items && at < items->size(); ++at) {
      const auto padding = integer_of(graph_, (*items)[at]);
      if (!padding || *padding < 0 || *padding > kMaxPadding - group->alignment)
        return corrupt("an alignment padding is no such number");
      group->alignment += *padding;
    }
    return {};
  }

  Result<void> read_fragments(NodeId mapping, std::int64_t stored, FlatGroup* group) const {
    const auto items = mapping_items(graph_, mapping);
    if (!items) return corrupt("'param_slice_mappings' has no dict for it");
    for (std::size_t at = 0; at + 1 < items->size(); at += 2) {
      const auto name = text_of(graph_, (*items)[at]);
      const NodeId address = (*items)[at + 1];
      if (!name || !graph_.is_instance(address, "deepspeed.utils.tensor_fragment", "fragment_address"))
        return corrupt("'param_slice_mappings' holds something else than fragments of parameters");
      const NodeId state = graph_.object(address).state;
      const auto start = integer_of(graph_, find_item(graph_, state, "start"));
      const auto elements = integer_of(graph_, find_item(graph_, state, "numel"));
      if (!start || !elements || *start < 0 || *elements < 0 || *start > stored || *elements > stored - *start)
        return corrupt(fmt::format("the fragment of parameter '{}' does not lie in the {} elements", *name, stored));
      group->fragments.push_back({std::string(*name), *start, *elements});
    }
    std::sort(group->fragments.begin(), group->fragments.end(),
              [](const Fragment& a, const Fragment& b) { return a.start < b.start; });
    for (std::size_t at = 1; at < group->fragments.size(); ++at) {
      const Fragment& before = group->fragments[at - 1];
      if (before.start + before.elements > group->fragments[at].start)
        return corrupt(
            fmt::format("the fragments of parameters '{}' and '{}' overlap", before.name, group->fragments[at].name));
    }
    return {};
  }

  Result<void> read_slots(NodeId state, std::int64_t stored, FlatGroup* group) const {
    const auto items = mapping_items(graph_, state);
    bool first = true;
    for (std::size_t at = 0; items && at + 1 < items->size(); at += 2) {
      const auto name = text_of(graph_, (*items)[at]);
      const NodeId value = (*items)[at + 1];
      if (!name) return corrupt("the optimizer's state has a key that is no text");
      if (!is_tensor(graph_, value) || tensor(value).shape.rank() == 0) {
        group->rest.emplace_back(*name, value);
        continue;
      }
      const std::int64_t size = tensor(value).shape.rank() == 1 ? tensor(value).shape[0] : -1;
      if (std::exchange(first, false)) group->size = size;
      if (size != group->size)
        return corrupt(
            fmt::format("'{}' has the shape {}, expected [{}]", *name, to_string(tensor(value).shape), group->size));
      group->slots.emplace_back(*name, graph_.view(value).tensor);
    }
    // bf16_ files keep the padding in the master too.
    const bool trimmed = !found_.whole_parameters && group->size == stored + group->padding;
    if (first && !found_.whole_parameters) group->size = stored + group->padding;
    if (!first && !trimmed && group->size != stored)
      return corrupt(fmt::format("the optimizer has {} elements, the parameters {} and {} of padding", group->size,
                                 stored, group->padding));
    return {};
  }

  const CheckpointInfo& info_;
  const StateGraph& graph_;
  std::int64_t ranks_;
  OptimizerFile found_;
};

}  // namespace

Result<OptimizerFile> read_optimizer_file(const CheckpointInfo& file, std::int64_t ranks) {
  return OptimizerParser(file, ranks).run();
}

}  // namespace tenplex::deepspeed
