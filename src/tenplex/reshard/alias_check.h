// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Tensors that the target stores once for several names must be equal in the source. Where the source stores them in
// the same place they are; where it stores them apart, both are read and compared.
#pragma once

#include "tenplex/reshard/round.h"

namespace tenplex {

/// Errors: corrupt, naming both tensors, if a tensor differs from the one that `plan` stores it as; io.
Result<void> check_aliases(const RoundContext& context, const OutputPlan& plan);

}  // namespace tenplex
