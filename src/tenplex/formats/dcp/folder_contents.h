// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What a DCP folder holds if it is not simply the leaves of a state tree:
//
//   tensors   ─► chunks in the data files, under their own names
//   objects   ─► items in the data files, each under its name, whole
//   own_file  ─► one object as a file of torch.save beside them, which .metadata does not list
//
// Value type; borrows the graph. Threads: as any value.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenplex/base/ids.h"
#include "tenplex/formats/state/state_graph.h"

namespace tenplex::dcp {

struct NamedObject {
  std::string name;
  NodeId node = kNoNode;
  DeviceId owner;  ///< whose file holds it
};

struct FolderContents {
  struct OwnFile {
    std::string path;
    std::string top_folder;  ///< of the archive
    NodeId node = kNoNode;
  };

  const StateGraph* graph = nullptr;  ///< of all nodes here; its views are of the target's tensors
  std::vector<TensorId> tensors;
  std::vector<NamedObject> objects;
  std::optional<OwnFile> own_file;
  /// For tenplex.json, as SideData::state_json: the whole tree, where the folder does not give it back; else empty.
  std::string state_json;
  std::vector<std::pair<std::string, std::string>> pickles;
  std::vector<std::pair<std::string, std::string>> metadata;  ///< CheckpointInfo::metadata that goes there
};

}  // namespace tenplex::dcp
