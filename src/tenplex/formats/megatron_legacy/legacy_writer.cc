// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Writing: a torch.save file for each model parallel rank of the target, and last the file that names the iteration.
// Only the layout of each file is kept; its tree is made again when its first literal part is asked for.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tenplex/formats/megatron/source_form.h"
#include "tenplex/formats/megatron_legacy/legacy_format.h"
#include "tenplex/formats/megatron_legacy/rank_tree.h"
#include "tenplex/formats/megatron_legacy/target_cut.h"
#include "tenplex/formats/state/lookup.h"
#include "tenplex/formats/target_notes.h"
#include "tenplex/formats/torch/torch_object.h"

namespace tenplex {
namespace megatron_legacy {
namespace {

constexpr std::string_view kRankFile = "model_optim_rng";
constexpr std::string_view kLatestFile = "latest_checkpointed_iteration.txt";

class LegacyWriter final : public CheckpointWriter, public NotedWriter {
 public:
  Result<OutputPlan> prepare(const WriteRequest& request) override;
  Result<std::string> literal(std::int32_t file, std::size_t segment,
                              std::span<const std::uint32_t> crcs) const override;
  const TargetNotes& notes() const override { return notes_; }
  bool needs_crcs() const override { return true; }
  std::size_t crcs_needed(std::int32_t file, std::size_t segment) const override {
    const bool last = file < 0 || segment + 1 == zips_[static_cast<std::size_t>(file)].part_count();
    return last ? segment : std::min<std::size_t>(segment, 1);
  }

 private:
  static Result<void> check_files(const WriteRequest& request);
  Result<void> check_all_held() const;
  void name_iteration();
  void note_changes();
  Result<OutputFile> lay_out(std::size_t rank);

  TargetModel model_;
  std::vector<ZipLayout> zips_;  // by rank
  std::string folder_;
  std::string latest_;
  TargetNotes notes_;
};

Result<void> LegacyWriter::check_files(const WriteRequest& request) {
  const CheckpointInfo& source = *request.source;
  if (!source.extra_files.empty() && request.keep_all_files)
    return unsupported(
        fmt::format("a legacy Megatron checkpoint has no place for '{}' and {} files in all beside the tensors; "
                    "--drop-extra-files leaves them out",
                    source.extra_files[0].path, source.extra_files.size()));
  for (const auto& [key, text] : source.metadata)
    if (key != "format" && !key.starts_with("DCP_") && !megatron::is_form_key(key))
      return unsupported(fmt::format("a legacy Megatron checkpoint has no place for the text '{}'", key));
  return {};
}

// What the ranks' devices have is all there is.
Result<void> LegacyWriter::check_all_held() const {
  const Collection& target = *model_.target;
  std::vector<DeviceId> holders;
  const auto check = [&](TensorId tensor) -> Result<void> {
    for (std::int64_t shard = 0; shard < target.shard_count(tensor); ++shard) {
      target.holders(tensor, shard, &holders);
      bool held = false;
      for (const DeviceId device : model_.grid.devices)
        held = held || std::binary_search(holders.begin(), holders.end(), device);
      if (!held)
        return unsupported(
            fmt::format("tensor '{}' is cut in the target layout over other ranks than tensor, pipeline and expert "
                        "parallel ones, and a legacy checkpoint has files of these alone",
                        target.tensors()[tensor.index()].name));
    }
    return {};
  };
  for (const TargetParameter& parameter : model_.state.model) {
    TENPLEX_TRY(check(parameter.tensor));
    for (const auto& [slot, tensor] : parameter.slots) TENPLEX_TRY(check(tensor));
  }
  return {};
}

// Weights without training state are a release, in Megatron-LM's words.
void LegacyWriter::name_iteration() {
  const StateGraph& graph = model_.source->state;
  const auto iteration = integer_of(graph, find_item(graph, model_.state.common, "iteration"));
  latest_ = iteration && *iteration >= 0 ? fmt::format("{}", *iteration) : "release";
  folder_ = iteration && *iteration >= 0 ? fmt::format("iter_{:07}", *iteration) : "release";
}

void LegacyWriter::note_changes() {
  const StateGraph& graph = model_.source->state;
  notes_.not_compared = {"common.args"};
  for (const std::string_view key : {"iteration", "checkpoint_version"})
    if (find_item(graph, model_.state.common, key) == kNoNode)
      notes_.not_compared.push_back(fmt::format("common.{}", key));
  if (model_.stages.experts > 0) notes_.not_compared.emplace_back("common.optimizer");
  const auto is_head = [](const TargetObject& object) { return object.name == kHeadState; };
  if (std::none_of(model_.state.objects.begin(), model_.state.objects.end(), is_head))
    notes_.not_compared.push_back(fmt::format("{}/", kHeadState));
  const RankFolders& folders = model_.grid.folders;
  std::size_t written = 0;
  for (const RankFolder& rank : folders.ranks) written += model_.state.random.count(random_state_key(folders, rank));
  if (written == model_.state.random.size() && (written == 0 || written == folders.ranks.size())) return;
  notes_.problems.push_back(
      fmt::format("the random states of {} other ranks are kept aside: Megatron-LM loads the target with --no-load-rng",
                  model_.state.random.size()));
}

Result<OutputFile> LegacyWriter::lay_out(std::size_t rank) {
  OutputFile file;
  file.path = fmt::format("{}/{}/{}.pt", folder_, model_.grid.folders.ranks[rank].name, kRankFile);
  auto tree = make_rank_tree(model_, rank);
  if (!tree) return std::move(tree).error().with_context(fmt::format("'{}'", file.path));
  TENPLEX_ASSIGN_OR_RETURN(TorchObject object,
                           make_torch_object(tree->graph, tree->graph.root, tree->tensors, kRankFile)
                               .with_context(fmt::format("'{}'", file.path)));
  for (std::size_t part = 0; part < object.zip.part_count(); ++part) {
    Segment segment;
    if (part % 2 == 1) {
      const StorageView& view = object.storages[object.zip.data_number(part)].front();
      const auto [tensor, shard] = tree->shards[view.tensor.index()];
      segment.kind = Segment::Kind::kShard;
      segment.tensor = tensor;
      segment.shard = shard;
    }
    segment.size_bytes = object.zip.part_size(part);
    file.segments.push_back(segment);
  }
  object.zip.take_pickle();
  zips_.push_back(std::move(object.zip));
  return file;
}

Result<OutputPlan> LegacyWriter::prepare(const WriteRequest& request) {
  TENPLEX_TRY(check_files(request));
  model_.source = request.source;
  model_.target = request.target;
  TENPLEX_ASSIGN_OR_RETURN(model_.grid, make_target_grid(request.layout, request.target->device_count()));
  TENPLEX_ASSIGN_OR_RETURN(model_.state, sort_state(*request.source, *request.target));
  TENPLEX_TRY(check_cut(model_));
  TENPLEX_TRY(check_all_held());
  TENPLEX_ASSIGN_OR_RETURN(model_.stages, number_stages(model_.state, model_.grid, *request.target));
  name_iteration();
  OutputPlan plan;
  note_changes();
  for (std::size_t rank = 0; rank < model_.grid.folders.ranks.size(); ++rank) {
    TENPLEX_ASSIGN_OR_RETURN(OutputFile file, lay_out(rank));
    plan.files.push_back(std::move(file));
  }
  OutputFile& latest = plan.manifest.emplace();
  latest.path = kLatestFile;
  latest.segments.emplace_back().size_bytes = static_cast<std::int64_t>(latest_.size());
  return plan;
}

Result<std::string> LegacyWriter::literal(std::int32_t file, std::size_t segment,
                                          std::span<const std::uint32_t> crcs) const {
  if (file < 0) return latest_;
  const auto rank = static_cast<std::size_t>(file);
  const ZipLayout& zip = zips_[rank];
  TENPLEX_CHECK(segment % 2 == 0 && segment < zip.part_count());
  std::vector<std::uint32_t> data_crcs;
  const bool is_last = segment + 1 == zip.part_count();
  for (std::size_t data = is_last || segment == 0 ? 1 : segment - 1; data < segment; data += 2)
    data_crcs.push_back(crcs[data]);
  if (segment > 0) return zip.literal(segment, data_crcs);
  TENPLEX_ASSIGN_OR_RETURN(const RankTree tree, make_rank_tree(model_, rank));
  TENPLEX_ASSIGN_OR_RETURN(const TorchObject object,
                           make_torch_object(tree.graph, tree.graph.root, tree.tensors, kRankFile));
  return object.zip.literal(0, data_crcs);
}

}  // namespace
}  // namespace megatron_legacy

std::unique_ptr<CheckpointWriter> make_megatron_legacy_writer() {
  return std::make_unique<megatron_legacy::LegacyWriter>();
}

}  // namespace tenplex
