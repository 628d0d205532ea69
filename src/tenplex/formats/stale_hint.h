// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What to do where the tree that a safetensors file keeps in its metadata does not fit its tensors: programs that read
// the tensors, change them and save them with the old metadata make such files. Threads: any.
#pragma once

#include <string_view>

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

inline constexpr std::string_view kStaleHint =
    "; if a program changed the tensors and kept the file's old metadata, save them without its key 'tenplex', which "
    "describes other tensors";

/// The hint, for formats whose files may be such; else nothing.
inline std::string_view stale_hint(const CheckpointInfo& info) {
  return info.format == "safetensors" || info.format == "hf" ? kStaleHint : std::string_view();
}

}  // namespace tenplex
