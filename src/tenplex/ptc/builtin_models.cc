// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The table itself is generated from models/*.yaml by embed_yaml.cmake.
#include "tenplex/ptc/builtin_models.h"

#include <fmt/format.h>

namespace tenplex {

Result<Model> builtin_model(std::string_view name) {
  const BuiltinYaml* found = find_builtin(builtin_models(), name);
  if (found != nullptr) return parse_model(found->text, name);
  return not_found(fmt::format("no built-in model '{}'; there are: {}", name, list_names(builtin_models())));
}

}  // namespace tenplex
