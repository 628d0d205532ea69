// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// StateGraph as JSON and back, exactly: for `__metadata__` of safetensors files and for manifests.
//
//   {"root":4,"nodes":["w",["T","w"],"step",7,["d",0,1,2,3]],"objects":[…]}
//
// Nodes are listed and refer to each other by position, so shared objects, cycles and any depth need no recursion.
// Objects of known plain classes (OrderedDict, torch.Size, …) are JSON; all others, and very long texts, become
// pickles of their own, which the caller stores as files. Format: docs/formats/manifest.md, "State".
//
// Pure functions. Threads: safe together.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenplex/base/hash.h"
#include "tenplex/base/result.h"
#include "tenplex/formats/manifest/json_reader.h"
#include "tenplex/formats/state/state_graph.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex {

/// A pickle that stands beside the JSON.
struct ObjectFile {
  std::string path;
  std::int64_t size_bytes = 0;
  Hash128 hash;  ///< of its bytes, as Hasher::add_raw
};

struct EncodedState {
  std::string json;
  std::vector<ObjectFile> objects;
  std::vector<std::string> pickles;  ///< bytes of objects[i]
};

struct StateJsonOptions {
  bool allow_objects = false;  ///< false: an opaque object is an error
  std::string object_prefix;   ///< before the names "object-00000.pkl", …
  std::string refusal_hint;    ///< ends the message of that error: what to do
};

/// Requires: graph.root != kNoNode. `tensors` gives names and shapes.
/// Errors: unsupported naming the path of the first object that needs a file, if those are not allowed; unsupported
/// for what no pickle can express.
Result<EncodedState> encode_state(const StateGraph& graph, std::span<const TensorInfo> tensors,
                                  const StateJsonOptions& options);

struct StateJsonSource {
  std::span<const TensorInfo> tensors;
  std::function<Result<std::string>(const ObjectFile& file)> read_object;  ///< bytes; checked by decode_state()
  /// Storages that the JSON does not number get numbers from here on, above those that it gives.
  std::uint32_t first_unnamed_storage = 0;
};

/// Reads one JSON value from `json`. Errors: corrupt, with what is wrong; what `read_object` returned.
Result<StateGraph> decode_state(JsonReader& json, const StateJsonSource& source);

}  // namespace tenplex
