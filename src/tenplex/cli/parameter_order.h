// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// --param-order FILE: the names of the parameters that an optimizer has, in the order of the model, one per line, with
// the numbers that layers and experts have in the whole model. A "module." in front of a name, empty lines and what
// follows a "#" do not count.
#pragma once

#include <string>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/io/file_system.h"

namespace tenplex::cli {

/// Errors: as read_text_file(); invalid_argument for a name that is there twice, with its line, and for no names.
Result<std::vector<std::string>> read_parameter_order(FileSystem& files, const std::string& path);

}  // namespace tenplex::cli
