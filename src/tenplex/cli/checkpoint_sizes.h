// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the numbers of layouts and naming maps come from:
//
//   --sizes heads=32                 counts most
//   config.json                      among the checkpoint's files, or beside it
//   common.args, args                the arguments of Megatron in the checkpoint's state
//
// Value type.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "tenplex/cli/command.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/ptc/size_rules.h"

namespace tenplex::cli {

struct SizeSource {
  NamedSizes given;     ///< --sizes
  ConfigNumber config;  ///< null: no configuration is known
  /// What is wrong with the configuration: an error for those who need a number of it.
  std::optional<Error> problem;
  /// Keys whose value is there and no whole number, with what is there.
  std::map<std::string, std::string, std::less<>> odd;

  /// config, or a function that knows nothing.
  ConfigNumber numbers() const;
  /// Errors: the problem, if one of the rules asks for a key of the configuration; corrupt, naming key and value, if a
  /// rule asks for one of the odd keys and `given` does not have the size. Warns where `given` says something else than
  /// the configuration.
  Result<void> check(std::span<const SizeRule> rules) const;

 private:
  void warn_of_other(const SizeRule& rule, std::int64_t size) const;
};

/// The numbers of the checkpoint at `path`, which `reader` reads (null: only what lies beside it counts); `text` is
/// --sizes. A config.json that is none, or too large, is a problem of the answer. Errors: invalid_argument for `text`.
Result<SizeSource> checkpoint_sizes(FileSystem& files, const std::string& path, const CheckpointReader* reader,
                                    const std::string& text);

}  // namespace tenplex::cli
