// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The sub-command `tenplex verify`.
#pragma once

#include "tenplex/cli/command.h"

namespace tenplex::cli {

Command verify_command(CLI::App& app);

}  // namespace tenplex::cli
