// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The format "hf" as an entry of formats(). Specification: docs/formats/hf.md.
#pragma once

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

Format hf_format();

}  // namespace tenplex
