// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The form in which a Megatron-Core checkpoint was stored, so that it can be written in the same one: entries of
// CheckpointInfo::metadata, which also travel through the other formats. What is not said is the form of 0.16.1.
//
//   megatron-dist.common     "common_state"   `common` is an object in the data files; else the file common.pt
//   megatron-dist.integrity  "sha256"         there is an integrity.json
//   megatron-dist.metadata   {"key": …}       members of metadata.json that Megatron-Core does not know
//
// Value type. Threads: as any value.
#pragma once

#include <string_view>

#include "tenplex/base/result.h"
#include "tenplex/formats/manifest/json_values.h"

namespace tenplex::megatron {

struct SourceForm {
  bool has_common_file = true;
  bool has_integrity = false;
  JsonTexts others;  ///< as BackendFile::others
};

JsonTexts encode_form(const SourceForm& form);

/// `metadata` is that of any source; entries of others are passed over. Errors: corrupt.
Result<SourceForm> decode_form(const JsonTexts& metadata);

/// True for the key of such an entry.
bool is_form_key(std::string_view key);

}  // namespace tenplex::megatron
