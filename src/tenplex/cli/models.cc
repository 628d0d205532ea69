// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/models.h"

#include <fmt/format.h>

#include <memory>

#include "tenplex/cli/common_options.h"
#include "tenplex/cli/json_output.h"
#include "tenplex/cli/text_file.h"
#include "tenplex/ptc/builtin_models.h"

namespace tenplex::cli {
namespace {

Result<int> list_models(bool json) {
  Json entries = Json::array();
  std::string text;
  for (const BuiltinYaml& builtin : builtin_models()) {
    TENPLEX_ASSIGN_OR_RETURN(const Model model, parse_model(builtin.text, builtin.name));
    entries.push_back({{"name", builtin.name},
                       {"parameters", model.parameter_count()},
                       {"layout", model.rules().layout},
                       {"description", builtin.description}});
    text += fmt::format("{:<13} {:>14} parameters  {}\n", builtin.name, model.parameter_count(), builtin.description);
  }
  print(json ? dump(entries) : text);
  return kExitOk;
}

Result<int> show_model(const Context& context, const std::string& name, bool json) {
  TENPLEX_ASSIGN_OR_RETURN(const Model model, load_model(context.files, name));
  Json tensors = Json::array();
  if (json)
    for (const TensorInfo& tensor : model.tensors()) {
      Json shape = Json::array();
      for (const std::int64_t extent : tensor.shape) shape.push_back(extent);
      tensors.push_back({{"name", tensor.name}, {"dtype", to_string(tensor.dtype)}, {"shape", std::move(shape)}});
    }
  print(json ? dump({{"name", model.name()},
                     {"parameters", model.parameter_count()},
                     {"layout", model.rules().layout},
                     {"tensors", std::move(tensors)},
                     {"text", model.text()}})
             : model.text());
  return kExitOk;
}

}  // namespace

Result<Model> load_model(FileSystem& files, const std::string& name_or_path) {
  TENPLEX_ASSIGN_OR_RETURN(const std::string text, builtin_or_file(files, "model", builtin_models(), name_or_path,
                                                                   std::int64_t{kMaxModelBytes}));
  return parse_model(text, name_or_path);
}

std::vector<Command> models_commands(CLI::App& app) {
  CLI::App* parent = app.add_subcommand("models", "List and show models to plan for without a checkpoint");
  parent->require_subcommand(1);
  auto all_json = std::make_shared<bool>(false);
  CLI::App* all = parent->add_subcommand("list", "List the built-in models with their numbers of parameters");
  add_json_option(*all, *all_json);
  auto name = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* one = parent->add_subcommand("show", "Print the YAML of a model; with --json also all of its tensors");
  one->add_option("model", *name, "A built-in model or a file")->required()->type_name("NAME|FILE");
  add_json_option(*one, *json);
  std::vector<Command> commands;
  commands.push_back({all, all_json.get(), [all_json](const Context&) { return list_models(*all_json); }});
  commands.push_back(
      {one, json.get(), [name, json](const Context& context) { return show_model(context, *name, *json); }});
  return commands;
}

}  // namespace tenplex::cli
