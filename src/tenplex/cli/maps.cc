// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/maps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "tenplex/base/counted.h"
#include "tenplex/base/printable.h"
#include "tenplex/cli/common_options.h"
#include "tenplex/cli/json_output.h"
#include "tenplex/cli/map_choice.h"
#include "tenplex/ptc/builtin_maps.h"

namespace tenplex::cli {
namespace {

Result<int> list_maps(bool json) {
  Json entries = Json::array();
  std::string text;
  for (const BuiltinYaml& builtin : builtin_maps()) {
    TENPLEX_ASSIGN_OR_RETURN(const NamingMap map, parse_naming_map(builtin.text, builtin.name));
    entries.push_back({{"name", builtin.name}, {"sides", map.rules().sides}, {"description", builtin.description}});
    const std::string sides = fmt::format("{}", fmt::join(map.rules().sides, ", "));
    text += fmt::format("{:<12} {:<18} {}\n", builtin.name, sides, builtin.description);
  }
  print(json ? dump(entries) : text);
  return kExitOk;
}

Result<int> show_map(const Context& context, const std::string& name, bool json) {
  TENPLEX_ASSIGN_OR_RETURN(const NamingMap map, load_map(context.files, name));
  print(json ? dump({{"name", map.name()}, {"sides", map.rules().sides}, {"text", map.text()}}) : map.text());
  return kExitOk;
}

Result<int> check_map(const Context& context, const std::string& name, bool json) {
  TENPLEX_ASSIGN_OR_RETURN(const NamingMap map, load_map(context.files, name));
  std::vector<std::string> sizes;
  for (const SizeRule& size : map.rules().sizes) sizes.push_back(size.name);
  print(json ? dump({{"name", map.name()},
                     {"sides", map.rules().sides},
                     {"sizes", sizes},
                     {"rules", map.rules().tensors.size()}})
             : fmt::format("{}: {}, sides {}{}\n", printable_name(map.name()),
                           counted(map.rules().tensors.size(), "rule"), fmt::join(map.rules().sides, ", "),
                           sizes.empty() ? "" : printable(fmt::format(", sizes {}", fmt::join(sizes, ", ")))));
  return kExitOk;
}

using RunOnMap = Result<int> (*)(const Context& context, const std::string& name, bool json);

Command command_on_map(CLI::App& parent, const char* name, const char* description, RunOnMap run) {
  auto map = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command = parent.add_subcommand(name, description);
  command->add_option("map", *map, "A built-in map or a file")->required()->type_name("NAME|FILE");
  add_json_option(*command, *json);
  return {command, json.get(), [map, json, run](const Context& context) { return run(context, *map, *json); }};
}

}  // namespace

std::vector<Command> maps_commands(CLI::App& app) {
  CLI::App* parent = app.add_subcommand("maps", "List, show and check naming maps");
  parent->require_subcommand(1);
  auto json = std::make_shared<bool>(false);
  CLI::App* all = parent->add_subcommand("list", "List the built-in maps with their two sides");
  add_json_option(*all, *json);
  std::vector<Command> commands;
  commands.push_back({all, json.get(), [json](const Context&) { return list_maps(*json); }});
  commands.push_back(command_on_map(*parent, "show", "Print the YAML of a map", show_map));
  commands.push_back(command_on_map(*parent, "check", "Check a map file", check_map));
  return commands;
}

}  // namespace tenplex::cli
