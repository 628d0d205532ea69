// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "tenplex/base/counted.h"
#include "tenplex/cli/common_options.h"
#include "tenplex/cli/layout_choice.h"
#include "tenplex/cli/mesh_text.h"
#include "tenplex/cli/models.h"
#include "tenplex/cli/source.h"
#include "tenplex/cli/text_file.h"
#include "tenplex/io/commit.h"
#include "tenplex/io/path.h"
#include "tenplex/plan/check.h"
#include "tenplex/plan/explain.h"
#include "tenplex/plan/explain_html.h"
#include "tenplex/plan/placement_search.h"
#include "tenplex/plan/planner.h"

namespace tenplex::cli {
namespace {

constexpr int kMostDevices = 1 << 16;  // more take minutes

struct PlanCommandOptions {
  SourceOptions source;
  std::string model;  ///< instead of a source
  LayoutChoice to;
  std::string topology;
  std::string placement = "keep";
  std::string baseline;
  std::string html;
  bool json = false;
};

constexpr std::int64_t kMaxTopologyBytes = std::int64_t{16} << 20;

/// The file, or one worker per device when none is given.
Result<Topology> load_topology(FileSystem& files, const std::string& path, int devices) {
  if (path.empty()) return Topology::uniform(devices, 1);
  TENPLEX_ASSIGN_OR_RETURN(const std::string text, read_text_file(files, "topology", path, kMaxTopologyBytes));
  return Topology::parse(text, path);
}

/// The source as --from says, as the checkpoint says, or as its chunks lie.
Result<std::unique_ptr<Collection>> source_collection(const Context& context, const PlanCommandOptions& options,
                                                      const std::shared_ptr<const CheckpointReader>& reader) {
  LayoutChoice from = options.source.from;
  if (!from.sizes.empty() || !from.layout.empty()) {
    if (from.layout.empty()) from.layout = options.to.layout;
    TENPLEX_ASSIGN_OR_RETURN(from, with_numbers(context, options.source, *reader, std::move(from)));
    TENPLEX_ASSIGN_OR_RETURN(CutCollection assumed, cut(context.files, reader->info(), tensors_of(reader), from));
    return std::move(assumed.collection);
  }
  return collection_of_checkpoint(reader->info());
}

/// Ranks that differ only in their tp coordinate, group by group.
std::vector<std::vector<DeviceId>> tensor_parallel_groups(const Mesh& mesh) {
  const auto axis = mesh.find("tp");
  std::map<std::int64_t, std::vector<DeviceId>> groups;
  for (std::int64_t rank = 0; rank < mesh.device_count(); ++rank) {
    const DeviceId device(static_cast<std::int32_t>(rank));
    const std::int64_t first = axis ? rank - mesh.coordinate(device, *axis) * mesh.axes()[*axis].stride : rank;
    groups[first].push_back(device);
  }
  std::vector<std::vector<DeviceId>> listed;
  listed.reserve(groups.size());
  for (auto& [first, group] : groups) listed.push_back(std::move(group));
  return listed;
}

Result<PlacementResult> choose_placement(const Collection& source, const CutCollection& target,
                                         const Topology& topology, PlacementPolicy policy) {
  const int needed = std::max(source.device_count(), target.collection->device_count());
  if (topology.slot_count() < needed)
    return invalid_argument(
        fmt::format("the topology has {}: the plan needs {}", counted(topology.slot_count(), "device"), needed));
  PlacementRequest request;
  request.source = &source;
  request.target = target.collection.get();
  request.topology = &topology;
  request.policy = policy;
  request.source_slots.resize(static_cast<std::size_t>(source.device_count()));
  std::iota(request.source_slots.begin(), request.source_slots.end(), 0);
  request.tp_groups = tensor_parallel_groups(target.mesh);
  return place(request);
}

Baseline baseline_of(const std::string& name) {
  if (name == "central") return Baseline::kCentral;
  return name == "full" ? Baseline::kFull : Baseline::kNone;
}

/// True if a page of a plan is there, which may be replaced; false if nothing is. Errors: already_exists for all else.
Result<bool> is_page_there(FileSystem& files, const std::string& path) {
  const auto status = files.status(path);
  if (!status && status.error().code() == ErrorCode::kNotFound) return false;
  if (!status) return status.error();
  constexpr auto kStartBytes = static_cast<std::int64_t>(kPlanPageStart.size());
  if (status->kind == FileKind::kFile && status->size_bytes >= kStartBytes) {
    TENPLEX_ASSIGN_OR_RETURN(const auto source, files.open(path));
    TENPLEX_ASSIGN_OR_RETURN(const std::string start, read_string(*source, 0, kStartBytes));
    if (start == kPlanPageStart) return true;
  }
  return already_exists(
      fmt::format("'{}' exists and is no page of tenplex plan: --html replaces nothing but such a page", path));
}

Result<void> write_page(FileSystem& files, const std::string& path, const std::string& page) {
  TENPLEX_ASSIGN_OR_RETURN(const bool replaces, is_page_there(files, path));
  TENPLEX_ASSIGN_OR_RETURN(const auto target,
                           AtomicTarget::begin(files, path, {.single_file = true, .overwrite = replaces}));
  TENPLEX_ASSIGN_OR_RETURN(const auto sink, target->create_file(""));
  TENPLEX_TRY(sink->write_at(0, as_bytes(page)));
  TENPLEX_TRY(target->finish_file(*sink));
  return target->commit();
}

/// What is planned: from where, to where.
struct Endpoints {
  std::unique_ptr<Collection> source;
  CutCollection target;
  std::string name;  ///< of the source
};

Result<Endpoints> endpoints_of_checkpoint(const Context& context, const PlanCommandOptions& options) {
  TENPLEX_ASSIGN_OR_RETURN(const std::shared_ptr<const CheckpointReader> reader,
                           open_source(context, options.source, FromMeans::kAssumption, options.to.layout));
  const CheckpointInfo& info = reader->info();
  TENPLEX_ASSIGN_OR_RETURN(auto source, source_collection(context, options, reader));
  TENPLEX_ASSIGN_OR_RETURN(const LayoutChoice to, with_numbers(context, options.source, *reader, options.to));
  auto target = cut(context.files, info, tensors_of(reader), to);
  if (!target) return std::move(target).with_context(recut_text(info, options.source.from, to)).error();
  return Endpoints{std::move(source), *std::move(target), options.source.path};
}

/// A model's layout that is a file lies where the model's file does.
std::string beside(FileSystem& files, const std::string& model, const std::string& layout) {
  const std::string path = fmt::format("{}/{}", parent_path(model), layout);
  return !layout.empty() && !layout.starts_with('/') && files.status(path) ? path : layout;
}

/// The tensors of a model, cut by --from and --to; with the model's own layout unless others are given.
Result<Endpoints> endpoints_of_model(const Context& context, const PlanCommandOptions& options) {
  TENPLEX_ASSIGN_OR_RETURN(const Model model, load_model(context.files, options.model));
  CheckpointInfo info;
  info.tensors = model.tensors();
  const auto tensors = std::make_shared<const std::vector<TensorInfo>>(info.tensors);
  LayoutChoice to = options.to;
  if (to.layout.empty()) to.layout = beside(context.files, options.model, model.rules().layout);
  TENPLEX_ASSIGN_OR_RETURN(to.numbers.given, parse_named_numbers(options.source.map.sizes, "sizes", "NAME=NUMBER"));
  LayoutChoice from{options.source.from.layout, options.source.from.sizes, to.numbers};
  if (from.layout.empty()) from.layout = to.layout;
  TENPLEX_TRY(check_size_names(context.files, {from.layout, to.layout}, options.source.map.sizes));
  TENPLEX_ASSIGN_OR_RETURN(CutCollection source, cut(context.files, info, tensors, from));
  TENPLEX_ASSIGN_OR_RETURN(CutCollection target, cut(context.files, info, tensors, to));
  return Endpoints{std::move(source.collection), std::move(target), options.model};
}

Result<int> run_plan(const Context& context, const PlanCommandOptions& options) {
  if (!options.html.empty()) TENPLEX_TRY(is_page_there(context.files, options.html));
  TENPLEX_ASSIGN_OR_RETURN(const Endpoints ends, options.model.empty() ? endpoints_of_checkpoint(context, options)
                                                                       : endpoints_of_model(context, options));
  const auto& [source, target, name] = ends;
  const int devices = std::max(source->device_count(), target.collection->device_count());
  if (devices > kMostDevices)
    return invalid_argument(fmt::format("a plan is for at most {} devices, found {}", kMostDevices, devices));
  TENPLEX_ASSIGN_OR_RETURN(const Topology topology, load_topology(context.files, options.topology, devices));
  TENPLEX_ASSIGN_OR_RETURN(const PlacementPolicy policy, parse_placement_policy(options.placement));
  TENPLEX_ASSIGN_OR_RETURN(const PlacementResult placed, choose_placement(*source, target, topology, policy));

  PlanInput input;
  input.source = source.get();
  input.target = target.collection.get();
  input.topology = &topology;
  input.placement = placed.placement;
  input.baseline = baseline_of(options.baseline);
  TENPLEX_ASSIGN_OR_RETURN(const Plan plan, make_plan(input));
  TENPLEX_TRY(check(plan, input));
  if (!options.html.empty()) {
    context.signals.watch();  // the page is written to its end
    const std::string title = fmt::format("{} → {}", name, target.note.name + " " + mesh_text(target.note.mesh));
    TENPLEX_TRY(write_page(context.files, options.html, explain_html(plan, input, &placed, title)));
  }
  print(options.json ? explain_json(plan, input, &placed) : explain_text(plan, input, &placed));
  return kExitOk;
}

}  // namespace

Command plan_command(CLI::App& app) {
  auto options = std::make_shared<PlanCommandOptions>();
  CLI::App* command =
      app.add_subcommand("plan", "Show what a re-cut would move, against its bounds; writes nothing but --html");
  CLI::Option* source = add_source_options(*command, options->source);
  command->add_option("--model", options->model, "Plan for a model without a checkpoint: a built-in one or a YAML file")
      ->type_name("NAME|FILE")
      ->excludes(source)
      ->each([source](const std::string&) { source->required(false); });
  add_mesh_option(*command, "--to", options->to.sizes, "Sizes of the target's mesh axes; left out means 1");
  add_layout_option(*command, "--layout", options->to.layout, "Layout of the target: a built-in one or a YAML file");
  command
      ->add_option("--topology", options->topology,
                   "YAML file of workers, devices and links; default: one worker per device")
      ->type_name("FILE");
  command
      ->add_option("--placement", options->placement,
                   "keep: search for the idlest busiest link; rank-order: rank i on device i")
      ->type_name("POLICY")
      ->check(CLI::IsMember({"keep", "rank-order"}).description(""))
      ->capture_default_str();
  command
      ->add_option("--baseline", options->baseline,
                   "Plan in another way, to compare: central (through one worker), full (move every byte)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"central", "full"}).description(""));
  command->add_option("--html", options->html, "Also write a page that shows the plan; replaces only such a page")
      ->type_name("FILE");
  add_json_option(*command, options->json);
  return {command, &options->json, [options](const Context& context) { return run_plan(context, *options); }};
}

}  // namespace tenplex::cli
