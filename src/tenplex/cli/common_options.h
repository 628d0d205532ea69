// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Options that several sub-commands share: memory, threads, objects, links, JSON.
#pragma once

#include <cstdint>
#include <string>

#include "tenplex/cli/command.h"

namespace tenplex::cli {

/// How much a streaming command may use. Value type.
struct WorkOptions {
  std::string max_memory = "256MiB";
  int threads = 0;  ///< 0: one per core, the default

  /// Errors: invalid_argument for a size that cannot be read, or one under 1 MiB.
  Result<std::int64_t> max_memory_bytes() const;
};

/// Adds --max-memory and --threads.
void add_work_options(CLI::App& command, WorkOptions& options);

/// Adds --follow-links.
void add_follow_links_option(CLI::App& command, bool& follow_links);

/// Adds --objects.
void add_objects_option(CLI::App& command, std::string& folder);

/// Adds an option for mesh sizes ("tp=2,pp=2"), checked while the command line is parsed.
void add_mesh_option(CLI::App& command, const std::string& name, std::string& sizes, const std::string& description);

/// Adds an option for a layout's name or file.
void add_layout_option(CLI::App& command, const std::string& name, std::string& layout, const std::string& description);

/// Accepts what parse_bytes() accepts.
CLI::Validator size_validator();

/// Adds --json.
void add_json_option(CLI::App& command, bool& json);

}  // namespace tenplex::cli
