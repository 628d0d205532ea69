// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// `tenplex models list`, `show`: what there is to plan for without a checkpoint.
#pragma once

#include <vector>

#include "tenplex/cli/command.h"
#include "tenplex/ptc/model.h"

namespace tenplex::cli {

std::vector<Command> models_commands(CLI::App& app);

/// A model by the name of a built-in one, or from a file. Errors: not_found lists the built-in ones.
Result<Model> load_model(FileSystem& files, const std::string& name_or_path);

}  // namespace tenplex::cli
