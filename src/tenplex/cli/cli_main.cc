// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The program `tenplex`: builds what the sub-commands need and passes it down.
#include "tenplex/cli/program.h"
#include "tenplex/cli/signals.h"
#include "tenplex/io/open_file_limit.h"

int main(int argc, char** argv) {
  tenplex::raise_open_file_limit();  // all files of a target are open at once
  tenplex::cli::Signals signals;
  const auto files = tenplex::local_file_system();
  return tenplex::cli::run_program(argc, argv, {*files, signals});
}
