// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The sub-commands `tenplex maps list`, `show` and `check`.
#pragma once

#include <vector>

#include "tenplex/cli/command.h"

namespace tenplex::cli {

std::vector<Command> maps_commands(CLI::App& app);

}  // namespace tenplex::cli
