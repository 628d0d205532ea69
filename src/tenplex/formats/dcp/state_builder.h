// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The state tree of a DCP folder: tensors and decoded objects at the places that planner_data give them, or as
// tenplex.json says. Objects may hold tensors themselves (a tuple of tensors is one object to DCP).
//
// A folder of tensors only, each at the top under its own name, has no tree; an empty dict of a dialect's common things
// does not count. With a dialect that has such a dict, tenplex.json says the whole tree or nothing of it. Pure but for
// reading the objects. Threads: safe together.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/dcp/catalog.h"
#include "tenplex/formats/dcp/metadata.h"
#include "tenplex/formats/dcp/read_dialect.h"
#include "tenplex/formats/dcp/side_file.h"

namespace tenplex::dcp {

struct StateInput {
  const MetadataTables& tables;
  const Catalog& catalog;
  const FilePool& pool;
  const SideFile& side;
  const ReadDialect& dialect;
  std::optional<ItemRange> common_file;  ///< the whole of ReadDialect::common_file
  std::int64_t max_pickle_bytes = 0;
};

/// A tensor inside an object; its TensorId follows those of the catalog.
struct InnerTensor {
  TensorInfo tensor;
  Chunk chunk;
  ChunkLocation location;
};

struct BuiltState {
  StateGraph graph;
  std::vector<InnerTensor> inner;
};

/// Errors: corrupt naming the object or the name; unsupported, io.
Result<BuiltState> build_state(const StateInput& input);

}  // namespace tenplex::dcp
