// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The format "safetensors" as an entry of formats(). Specification: docs/formats/safetensors.md.
#pragma once

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

Format safetensors_format();

}  // namespace tenplex
