// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Lists of integers in JSON. Pure functions.
#pragma once

#include "tenplex/base/result.h"
#include "tenplex/formats/manifest/json_reader.h"
#include "tenplex/ptc/dims.h"

namespace tenplex {

/// Reads an array of at most kMaxRank integers. Errors: corrupt; unsupported for a longer one.
Result<Dims> read_dims(JsonReader& json);

}  // namespace tenplex
