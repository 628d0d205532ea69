// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The sub-command `tenplex inspect`.
#pragma once

#include "tenplex/cli/command.h"

namespace tenplex::cli {

Command inspect_command(CLI::App& app);

}  // namespace tenplex::cli
