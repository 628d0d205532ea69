// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/cli/source.h"

#include "tenplex/cli/common_options.h"

namespace tenplex::cli {

void add_source_options(CLI::App& command, SourceOptions& options) {
  command.add_option("source", options.path, "Checkpoint: a file or a folder")->required()->type_name("SRC");
  add_mesh_option(command, "--from", options.from.sizes,
                  "Sizes of the source's mesh axes, where it does not say how it is cut");
  add_layout_option(command, "--from-layout", options.from.layout,
                    "Layout of the source, if it differs from the target's");
  add_objects_option(command, options.objects_folder);
}

Result<std::unique_ptr<CheckpointReader>> open_source(const Context& context, const SourceOptions& options) {
  return open_checkpoint(context.files, options.path, ReadOptions{options.objects_folder});
}

}  // namespace tenplex::cli
