// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of sub-commands and how one is chosen and run.
#pragma once

#include "tenplex/cli/context.h"

namespace tenplex::cli {

/// Parses the command line and runs the sub-command; returns the exit status (context.h).
int run_program(int argc, char** argv, const Context& context);

}  // namespace tenplex::cli
