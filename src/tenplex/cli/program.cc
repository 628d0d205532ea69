// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/cli/completion.h"
#include "tenplex/cli/digest.h"
#include "tenplex/cli/inspect.h"
#include "tenplex/cli/layouts.h"
#include "tenplex/cli/maps.h"
#include "tenplex/cli/models.h"
#include "tenplex/cli/plan.h"
#include "tenplex/cli/reshard.h"
#include "tenplex/cli/verify.h"

namespace tenplex::cli {
namespace {

std::vector<Command> add_commands(CLI::App& app) {
  std::vector<Command> commands;
  commands.push_back(inspect_command(app));
  commands.push_back(plan_command(app));
  commands.push_back(reshard_command(app));
  commands.push_back(verify_command(app));
  commands.push_back(digest_command(app));
  for (Command& command : layouts_commands(app)) commands.push_back(std::move(command));
  for (Command& command : maps_commands(app)) commands.push_back(std::move(command));
  for (Command& command : models_commands(app)) commands.push_back(std::move(command));
  commands.push_back(completion_command(app));
  return commands;
}

/// Where a command is missing because the word in its place is none: that word, and what could stand there.
std::string usage_text(const CLI::App& chosen, const CLI::ParseError& error) {
  const auto commands = chosen.get_subcommands([](const CLI::App*) { return true; });
  const std::vector<std::string> words = chosen.remaining();
  if (commands.empty() || words.empty() || words.front().starts_with("-")) return error.what();
  std::string names;
  for (const CLI::App* command : commands) names += fmt::format("{}{}", names.empty() ? "" : ", ", command->get_name());
  return fmt::format("unknown command '{}'; the commands are: {}", words.front(), names);
}

/// --help, --version
int print_help(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream text;
  const int status = app.exit(error, text, text);
  print(text.str());
  const auto written = finish_output();
  return written ? status : report(written.error(), false);
}

int report_usage(const CLI::App& app, const CLI::ParseError& error, bool json) {
  if (error.get_exit_code() == 0) return print_help(app, error);
  const CLI::App* chosen = &app;
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  report(invalid_argument(usage_text(*chosen, error)), json);
  std::fputs(
      fmt::format("tenplex: see '{} --help'\n", chosen->get_help_ptr() == nullptr ? "tenplex" : full_name(*chosen))
          .c_str(),
      stderr);
  return kExitUsage;
}

int run_command(const Command& command, const Context& context) {
  const bool json = command.json != nullptr && *command.json;
  const auto failed = [&](const Error& error, bool as_json) {
    const int status = report(error, as_json);
    return status == kExitFailed ? command.exit_on_error : status;
  };
  try {
    auto status = command.run(context);
    if (!status) return failed(status.error(), json);
    const auto written = finish_output();
    return written ? *status : failed(written.error(), false);
  } catch (const std::bad_alloc&) {
    return failed(resource_exhausted("out of memory"), json);
  }
}

}  // namespace

std::string full_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? "tenplex" : full_name(*app.get_parent()) + " " + app.get_name();
}

int run_program(int argc, char** argv, const Context& context) {
  CLI::App app("Re-cut and inspect the state of deep-learning jobs", "tenplex");
  app.set_version_flag("--version", fmt::format("tenplex {}", TENPLEX_VERSION));
  app.set_help_all_flag("--help-all", "Show the help of every command");
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  const std::vector<Command> commands = add_commands(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Nothing is parsed as it should be, so the words themselves say how to answer.
    const bool json = std::find(argv, argv + argc, std::string_view("--json")) != argv + argc;
    return report_usage(app, error, json);
  }
  for (const Command& command : commands)
    if (command.app->parsed()) return run_command(command, context);
  return kExitUsage;
}

}  // namespace tenplex::cli
