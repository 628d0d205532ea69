// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a checkpoint holds beside its tensors, as members of a JSON object: in the `tenplex` entry of a safetensors
// file's metadata and in manifests alike.
//
//   "aliases":{"lm_head.weight":"wte.weight"}, "extra_files":[["config.json",512]], "state":{…}
//
// An alias is a tensor that is another one: same bytes, stored once. How the whole is cut stands there too, for
// folders:
//
//   "layout":{"name":"fsdp","text":"…","mesh":[["fsdp",2]]}
//
// Pure functions. Threads: safe together. Source: docs/formats/manifest.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/manifest/json_values.h"

namespace tenplex {

struct SideData {
  JsonTexts aliases;  ///< name, name of the stored tensor
  std::vector<ExtraFile> extra_files;
  std::string state_json;  ///< for decode_state(); empty where there is no tree

  bool empty() const { return aliases.empty() && extra_files.empty() && state_json.empty(); }
};

void append_side_members(JsonWriter& json, const SideData& side);

/// Reads the value of member `key`. If it is none of these, a newer version wrote it, and it is passed over.
/// Errors: corrupt, also for an extra file whose path leaves its folder.
Result<void> read_side_member(JsonReader& json, std::string_view key, SideData* side);

/// The member "layout"; none for an empty note.
void append_layout(JsonWriter& json, const LayoutNote& layout);
/// Reads the value of that member. Errors: corrupt, also for an axis without devices.
Result<void> read_layout(JsonReader& json, LayoutNote* layout);

/// Reads [path, bytes]. Errors: corrupt, also for a path that leaves its folder and for a negative size.
Result<void> read_path_and_size(JsonReader& json, std::string* path, std::int64_t* size_bytes);

/// Appends the aliases' tensors to `tensors`, with the infos of those they stand for; `sources` gets one id per alias.
/// Errors: corrupt if a name is taken, or the tensor it stands for is not there or an alias itself.
Result<void> add_alias_tensors(const SideData& side, std::vector<TensorInfo>* tensors, std::vector<TensorId>* sources);

/// For every tensor of `target` the first tensor that it is the same view of, by the state or the aliases of the source
/// and with the same dtype, shape and cut in the target; itself for all others. Empty tensors stand for themselves.
std::vector<TensorId> find_aliases(const CheckpointInfo& source, const Collection& target);

/// Name and name of the stored tensor, for all that do not stand for themselves in `aliases`.
JsonTexts alias_names(const Collection& collection, const std::vector<TensorId>& aliases);

}  // namespace tenplex
