// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// tenplex.json in a DCP folder: what DCP itself cannot hold. torch does not read it, and the folder is complete
// without. It belongs to one .metadata, whose checksum it has: when torch writes another one, it no longer counts.
//
//   {"format":"tenplex.dcp","version":1,"oldest_reader":1,"length":…,"checksum":"…","body":{"of":"…","devices":4,
//    "layout":{…},"metadata":{…},"pickles":{"object-00000.pkl":"…base64…"},"repeated":[…],"aliases":{…},"extra_files":[…],
//    "state":{…}}}
//
// `state` is there only for a tree that the names alone do not give back (tuples, OrderedDict, shared storages, …); its
// byte items are written ("tenplex.leaf", NAME). Source: docs/formats/dcp.md, "tenplex.json".
//
// Pure functions. Threads: safe together.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/formats/manifest/side_data.h"
#include "tenplex/formats/manifest/state_json.h"
#include "tenplex/formats/state/leaf_list.h"

namespace tenplex::dcp {

/// How a tensor inside an object lies in a storage that something outside of the object lies in too. DCP stores objects
/// apart from each other and so loses it.
struct InnerView {
  std::string name;
  TensorView view;  ///< without its tensor and flags
};

/// A node inside an object that has another place too: see shared_nodes.h.
struct SharedNode {
  std::vector<std::int64_t> place;
  std::vector<std::int64_t> first;

  friend bool operator==(const SharedNode&, const SharedNode&) = default;
};

struct SideFile {
  std::string of;  ///< the checksum of the .metadata beside it: to_string(Hash128) of its bytes
  int device_count = 1;
  LayoutNote layout;
  std::vector<std::pair<std::string, std::string>> metadata;  ///< CheckpointInfo::metadata
  /// Names that lead to what another name leads to, because they go through a container that the tree has twice. torch
  /// reads them; in `side.state_json` there is only the first name.
  std::vector<std::string> repeated;
  std::vector<InnerView> inner_views;
  std::vector<SharedNode> shared_nodes;
  SideData side;
  std::vector<std::pair<std::string, std::string>> pickles;  ///< path in side.state_json, bytes
};

/// Errors: unsupported for text that is not UTF-8.
Result<std::string> encode_side_file(const SideFile& side);

/// Errors: corrupt; unsupported for a newer version.
Result<SideFile> decode_side_file(std::string_view text);

/// The tensors inside objects of `leaves` that share their storage, or are one Python object, with one of another leaf.
std::vector<InnerView> shared_inner_views(const CheckpointInfo& info, const LeafList& leaves);

/// Names of `leaves` whose node an earlier leaf has.
std::vector<std::string> repeated_names(const LeafList& leaves);

/// True if names and planner_data alone give the tree back as it is. A dict of nothing but tensors is read as no tree
/// at all, so it is none of these.
bool is_plain_tree(const CheckpointInfo& info);

/// The tree without its byte items, for SideFile::side and SideFile::pickles. `leaves` is flatten(info.state).
Result<EncodedState> encode_skeleton(const CheckpointInfo& info, std::span<const TensorInfo> tensors,
                                     const LeafList& leaves);

/// A leaf of the tree that the names lead to, for restore_skeleton().
struct SkeletonLeaf {
  std::string_view name;
  NodeId node = kNoNode;
};

/// The skeleton with `leaves` (by name) put back: adds to `*graph`, returns the new root.
/// Errors: corrupt if the skeleton names a leaf that is not there.
Result<NodeId> restore_skeleton(const SideFile& side, std::span<const TensorInfo> tensors,
                                std::span<const SkeletonLeaf> leaves, StateGraph* graph);

/// Moves all nodes of `from` to `*graph`; node i becomes the returned id + i. Views are kept as they are, in `from`
/// too.
NodeId graft(StateGraph&& from, StateGraph* graph);

}  // namespace tenplex::dcp
