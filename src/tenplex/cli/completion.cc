// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/completion.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "tenplex/formats/checkpoint.h"
#include "tenplex/ptc/builtin_layouts.h"
#include "tenplex/ptc/builtin_models.h"

namespace tenplex::cli {
namespace {

/// A command line so far ("tenplex layouts show") and the words that may follow.
struct Words {
  std::string command;
  std::string next;
};

/// What may follow an option, or stand as the argument of a command.
struct Values {
  std::string after;  ///< "--format", or "tenplex completion"
  std::string words;
};

/// The names of a table's entries, with spaces between them.
template <typename Entries>
std::string names_of(const Entries& entries) {
  std::string names;
  for (const auto& entry : entries) names += fmt::format("{}{}", names.empty() ? "" : " ", entry.name);
  return names;
}

std::vector<Values> known_values() {
  const std::string layouts = names_of(builtin_layouts());
  std::vector<Format> written(formats().begin(), formats().end());
  std::erase_if(written, [](const Format& format) { return format.make_writer == nullptr; });
  const std::string models = names_of(builtin_models());
  return {{"--format", names_of(written)},
          {"--layout", layouts},
          {"--model", models},
          {"tenplex models show", models},
          {"--from-layout", layouts},
          {"--placement", "keep rank-order"},
          {"--baseline", "central full"},
          {"--dtype-policy", "error cast:bf16 cast:fp16 cast:fp32 cast:fp64"},
          {"tenplex layouts show", layouts},
          {"tenplex layouts check", layouts},
          {"tenplex completion", "bash zsh fish"}};
}

void collect(const CLI::App& app, std::vector<Words>* found) {
  Words words{full_name(app), ""};
  for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; }))
    words.next += child->get_name() + " ";
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) words.next += "--" + name + " ";
  for (const Values& values : known_values())
    if (values.after == words.command) words.next += values.words + " ";
  found->push_back(words);
  for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; })) collect(*child, found);
}

std::string bash_script(const std::vector<Words>& all) {
  std::string cases;
  for (const Words& words : all) cases += fmt::format("    '{}') next='{}' ;;\n", words.command, words.next);
  return "_tenplex() {\n"
         "  local word command=tenplex next=''\n"
         "  local current=${COMP_WORDS[COMP_CWORD]}\n"
         "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
         "    [[ $word == -* ]] && continue\n"
         "    case \"$command $word\" in\n" +
         [&] {
           std::string known;
           for (const Words& words : all) known += fmt::format("{}'{}'", known.empty() ? "" : "|", words.command);
           return fmt::format("      {}) command=\"$command $word\" ;;\n", known);
         }() +
         "    esac\n"
         "  done\n"
         "  case \"$command\" in\n" +
         cases +
         "  esac\n"
         "  case \"${COMP_WORDS[COMP_CWORD-1]}\" in\n" +
         [] {
           std::string values;
           for (const Values& known : known_values())
             if (known.after.starts_with("-"))
               values += fmt::format("    {}) next='{}' ;;\n", known.after, known.words);
           return values;
         }() +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$next\" -- \"$current\"))\n"
         "  [[ $current == -* ]] || COMPREPLY+=($(compgen -f -- \"$current\"))\n"
         "}\n"
         "complete -o filenames -F _tenplex tenplex\n";
}

std::string zsh_script(const std::vector<Words>& all) {
  return "#compdef tenplex\nautoload -U +X bashcompinit && bashcompinit\n" + bash_script(all);
}

std::string fish_script(const std::vector<Words>& all) {
  std::string script;
  for (const Words& words : all) {
    const std::string below = words.command == "tenplex" ? "" : words.command.substr(sizeof("tenplex"));
    const std::string condition =
        below.empty() ? "__fish_use_subcommand" : fmt::format("__fish_seen_subcommand_from {}", below);
    script += fmt::format("complete -c tenplex -n '{}' -a '{}'\n", condition, words.next);
  }
  for (const Values& values : known_values())
    if (values.after.starts_with("--"))
      script += fmt::format("complete -c tenplex -l {} -x -a '{}'\n", values.after.substr(2), values.words);
  return script;
}

}  // namespace

Command completion_command(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("completion", "Print a completion script; for bash: source <(tenplex completion bash)");
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->type_name("SHELL")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  return {command, nullptr, [shell, &app](const Context&) -> Result<int> {
            std::vector<Words> words;
            collect(app, &words);
            print(*shell == "bash" ? bash_script(words) : *shell == "zsh" ? zsh_script(words) : fish_script(words));
            return kExitOk;
          }};
}

}  // namespace tenplex::cli
