// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The models of the folder models/, compiled into the program. Threads: safe together.
#pragma once

#include <span>
#include <string_view>

#include "tenplex/base/result.h"
#include "tenplex/ptc/builtin_yaml.h"
#include "tenplex/ptc/model.h"

namespace tenplex {

/// In alphabetic order.
std::span<const BuiltinYaml> builtin_models();

/// The built-in model of that name. Errors: not_found, listing the names.
Result<Model> builtin_model(std::string_view name);

}  // namespace tenplex
