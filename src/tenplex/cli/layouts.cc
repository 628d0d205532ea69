// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/layouts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "tenplex/base/counted.h"
#include "tenplex/base/printable.h"
#include "tenplex/cli/common_options.h"
#include "tenplex/cli/json_output.h"
#include "tenplex/cli/layout_choice.h"
#include "tenplex/cli/mesh_text.h"
#include "tenplex/cli/source.h"
#include "tenplex/ptc/builtin_layouts.h"

namespace tenplex::cli {
namespace {

struct CheckOptions {
  LayoutChoice layout;
  SourceOptions checkpoint;
  bool json = false;
};

Result<int> list_layouts(bool json) {
  Json entries = Json::array();
  std::string text;
  for (const BuiltinYaml& builtin : builtin_layouts()) {
    TENPLEX_ASSIGN_OR_RETURN(const Layout layout, parse_layout(builtin.text, builtin.name));
    entries.push_back({{"name", builtin.name}, {"axes", layout.axes()}, {"description", builtin.description}});
    const std::string axes = fmt::format("{}", fmt::join(layout.axes(), ", "));
    text += fmt::format("{:<12} {:<18} {}\n", builtin.name, axes, builtin.description);
  }
  print(json ? dump(entries) : text);
  return kExitOk;
}

Result<int> show_layout(const Context& context, const std::string& name, bool json) {
  TENPLEX_ASSIGN_OR_RETURN(const Layout layout, load_layout(context.files, name));
  print(json ? dump({{"name", layout.name()}, {"axes", layout.axes()}, {"text", layout.text()}}) : layout.text());
  return kExitOk;
}

/// Number of sub-tensors and bytes that each device holds, padding included.
std::pair<std::int64_t, std::int64_t> held_by(const Collection& collection, DeviceId device) {
  std::int64_t count = 0;
  std::int64_t bytes = 0;
  std::vector<std::int64_t> shards;
  SubTensor shard;
  for (std::size_t tensor = 0; tensor < collection.tensors().size(); ++tensor) {
    collection.shards_of_device(TensorId(tensor), device, &shards);
    for (const std::int64_t index : shards) {
      collection.shard(TensorId(tensor), index, &shard);
      ++count;
      bytes += packed_bytes(collection.tensors()[tensor].dtype, volume(shard.local_shape)).value_or(0);
    }
  }
  return {count, bytes};
}

Result<int> check(const Context& context, const CheckOptions& options) {
  TENPLEX_ASSIGN_OR_RETURN(const Layout layout, load_layout(context.files, options.layout.layout));
  Json json = {{"name", layout.name()}, {"axes", layout.axes()}, {"rules", layout.rules().tensors.size()}};
  std::string text =
      fmt::format("{}: {}, axes {}\n", printable_name(layout.name()), counted(layout.rules().tensors.size(), "rule"),
                  printable(fmt::format("{}", fmt::join(layout.axes(), ", "))));
  if (!options.checkpoint.path.empty()) {
    TENPLEX_ASSIGN_OR_RETURN(const std::shared_ptr<const CheckpointReader> reader,
                             open_source(context, options.checkpoint, FromMeans::kError, options.layout.layout));
    TENPLEX_ASSIGN_OR_RETURN(const LayoutChoice choice,
                             with_numbers(context, options.checkpoint, *reader, options.layout));
    TENPLEX_ASSIGN_OR_RETURN(const CutCollection fitted,
                             cut(context.files, reader->info(), tensors_of(reader), choice));
    text += fmt::format("fits {} ({}) on {}\n", printable_name(options.checkpoint.path),
                        counted(reader->info().tensors.size(), "tensor"), mesh_text(fitted.note.mesh));
    json["devices"] = Json::array();
    for (int device = 0; device < fitted.collection->device_count(); ++device) {
      const auto [count, bytes] = held_by(*fitted.collection, DeviceId(device));
      text += fmt::format("device {:<5} {:>6} sub-tensor{}   {}\n", device, count, count == 1 ? " " : "s",
                          format_bytes(bytes));
      json["devices"].push_back({{"sub_tensors", count}, {"bytes", bytes}});
    }
  }
  print(options.json ? dump(json) : text);
  return kExitOk;
}

Command list_command(CLI::App& parent) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = parent.add_subcommand("list", "List the built-in layouts with their mesh axes");
  add_json_option(*command, *json);
  return {command, json.get(), [json](const Context&) { return list_layouts(*json); }};
}

Command show_command(CLI::App& parent) {
  auto name = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command = parent.add_subcommand("show", "Print the YAML of a layout");
  command->add_option("layout", *name, "A built-in layout or a file")->required()->type_name("NAME|FILE");
  add_json_option(*command, *json);
  return {command, json.get(), [name, json](const Context& context) { return show_layout(context, *name, *json); }};
}

Command check_command(CLI::App& parent) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* command =
      parent.add_subcommand("check", "Check a layout file; with --checkpoint also that it fits that checkpoint");
  command->add_option("layout", options->layout.layout, "A built-in layout or a file")
      ->required()
      ->type_name("NAME|FILE");
  CLI::Option* checkpoint =
      command->add_option("--checkpoint", options->checkpoint.path, "Checkpoint whose tensors it must cut")
          ->type_name("PATH");
  add_mesh_option(*command, "--to", options->layout.sizes, "Sizes of the mesh axes; left out means 1");
  add_reading_options(*command, options->checkpoint);
  for (const char* option :
       {"--to", "--from", "--from-layout", "--map", "--sizes", "--param-order", "--objects", "--follow-links"})
    command->get_option(option)->needs(checkpoint);  // without effect on the layout alone
  add_json_option(*command, options->json);
  return {command, &options->json, [options](const Context& context) { return check(context, *options); }};
}

}  // namespace

std::vector<Command> layouts_commands(CLI::App& app) {
  CLI::App* parent = app.add_subcommand("layouts", "List, show and check layouts");
  parent->require_subcommand(1);
  std::vector<Command> commands;
  commands.push_back(list_command(*parent));
  commands.push_back(show_command(*parent));
  commands.push_back(check_command(*parent));
  return commands;
}

}  // namespace tenplex::cli
