// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/common_options.h"

#include <fmt/format.h>

#include "tenplex/base/bytes.h"
#include "tenplex/ptc/mesh.h"
#include "tenplex/reshard/reshard.h"

namespace tenplex::cli {

namespace {

/// Turns a check that returns a Result into what CLI11 expects: the message, or nothing.
template <typename Check>
CLI::Validator validator(Check check) {
  return CLI::Validator(
      [check](std::string& text) {
        const auto checked = check(text);
        return checked ? std::string() : checked.error().to_string();
      },
      "");
}

Result<std::int64_t> parse_max_memory(const std::string& text) {
  TENPLEX_ASSIGN_OR_RETURN(const std::int64_t bytes, parse_bytes(text));
  if (bytes < kMinMemoryBytes)
    return invalid_argument(
        fmt::format("expected at least {}, found {}", format_bytes(kMinMemoryBytes), format_bytes(bytes)));
  return bytes;
}

}  // namespace

Result<std::int64_t> WorkOptions::max_memory_bytes() const {
  return parse_max_memory(max_memory).with_context("--max-memory");
}

CLI::Validator size_validator() { return validator(parse_bytes); }

void add_mesh_option(CLI::App& command, const std::string& name, std::string& sizes, const std::string& description) {
  command.add_option(name, sizes, description)->type_name("AXIS=N,…")->check(validator(parse_mesh_sizes));
}

void add_layout_option(CLI::App& command, const std::string& name, std::string& layout,
                       const std::string& description) {
  command.add_option(name, layout, description)->type_name("NAME|FILE");
}

void add_work_options(CLI::App& command, WorkOptions& options) {
  command.add_option("--max-memory", options.max_memory, "Tensor data held at any time, at least 1MiB")
      ->type_name("SIZE")
      ->check(validator(parse_max_memory))
      ->capture_default_str();
  command.add_option("--threads", options.threads, "Threads; default: one per core")
      ->type_name("N")
      ->check(CLI::Validator(CLI::Range(1, 1024)).description(""));
}

void add_follow_links_option(CLI::App& command, bool& follow_links) {
  command.add_flag(
      "--follow-links", follow_links,
      "Read also what symbolic links out of the checkpoint's folder lead to, as in the Hugging Face cache");
}

void add_objects_option(CLI::App& command, std::string& folder) {
  command.add_option("--objects", folder, "Folder for objects that a safetensors checkpoint cannot hold itself")
      ->type_name("DIR");
}

void add_json_option(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "Print JSON; sizes are in bytes");
}

}  // namespace tenplex::cli
