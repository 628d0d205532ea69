// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The source of `plan` and `reshard`: a checkpoint, and what to assume about its cut where it does not say.
#pragma once

#include <memory>
#include <string>

#include "tenplex/cli/command.h"
#include "tenplex/cli/layout_choice.h"
#include "tenplex/formats/checkpoint.h"

namespace tenplex::cli {

struct SourceOptions {
  std::string path;
  LayoutChoice from;  ///< --from-layout, --from
  std::string objects_folder;
};

/// Adds SRC, --from, --from-layout and --objects.
void add_source_options(CLI::App& command, SourceOptions& options);

/// Opens the checkpoint. Errors: as open_checkpoint().
Result<std::unique_ptr<CheckpointReader>> open_source(const Context& context, const SourceOptions& options);

}  // namespace tenplex::cli
