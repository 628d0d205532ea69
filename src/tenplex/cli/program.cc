// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <string_view>
#include <vector>

#include "tenplex/base/printable.h"
#include "tenplex/cli/completion.h"
#include "tenplex/cli/digest.h"
#include "tenplex/cli/inspect.h"
#include "tenplex/cli/layouts.h"
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
  commands.push_back(completion_command(app));
  return commands;
}

int report_usage(const CLI::App& app, const CLI::ParseError& error, bool json) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  if (json) {
    report(invalid_argument(error.what()), true);
    return kExitUsage;
  }
  const CLI::App* chosen = &app;
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  std::fputs(fmt::format("tenplex: error: {}\ntenplex: see '{} --help'\n", printable(error.what()),
                         chosen->get_help_ptr() == nullptr ? "tenplex" : full_name(*chosen))
                 .c_str(),
             stderr);
  return kExitUsage;
}

int run_command(const Command& command, const Context& context) {
  const bool json = command.json != nullptr && *command.json;
  try {
    auto status = command.run(context);
    if (!status) return report(status.error(), json);
    const auto written = finish_output();
    return written ? *status : report(written.error(), false);
  } catch (const std::bad_alloc&) {
    return report(resource_exhausted("out of memory"), json);
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
