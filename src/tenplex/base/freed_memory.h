// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that was freed but that the C library keeps for later.
//
// Threads: safe together.
#pragma once

namespace tenplex {

/// Gives freed memory back to the operating system, where the C library can. For the end of a step whose small pieces
/// add up to much. Cost: grows with the number of free pieces.
void give_back_freed_memory();

}  // namespace tenplex
