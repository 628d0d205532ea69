// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads a Python pickle (protocols 0 to 5) without running anything: globals are names, calls become kObject nodes,
// except the calls that spell bytes in protocols below 3 and a bytearray below 5: _codecs.encode(text, 'latin1'),
// bytes() and bytearray(…) are kBytes and kByteArray.
//
//   bytes ─► opcodes ─► stack and memo of NodeIds ─► PickleDocument
//
// Hostile input: no recursion; every opcode costs O(its own bytes + what it consumes from the stack); shared objects
// stay shared; nodes ≤ 1024 + input bytes / 2; memo indexes < offset; unknown opcodes are errors.
//
// Hooks keep memory small where a pickle holds millions of objects of a few known classes (DCP's .metadata):
//
//   PickleOptions options;
//   options.hooks.push_back({"torch", "Size", PickleHook::When::kCall,
//       [&](const PickleDocument& document, const ObjectParts& object) -> Result<PickleReplacement> {
//         …read object.arguments, append to a table of the caller…
//         return PickleReplacement::token(index); }});
//
// The hook runs when the object is complete. Its token takes the object's place on the stack, in the memo and so in
// every container that refers to it, and all nodes made since its class was named are dropped (atoms stay). Inner
// objects are complete before outer ones, so a hook sees the tokens of the objects inside its own. NodeIds of nodes are
// valid during the call only; ids of atoms and tokens stay valid, and equal text has one atom, so an atom id can stand
// for a name in the caller's table. A pickle that later refers to a dropped part of a replaced object is refused
// (pickles made by Python never do). Cost left behind per replaced object: 4 B for each of its memo entries, plus the
// caller's own.
//
// Threads: functions without shared state. Source: Python's pickletools.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenplex/base/bytes.h"
#include "tenplex/base/result.h"
#include "tenplex/formats/pickle/pickle_document.h"
#include "tenplex/io/byte_source.h"

namespace tenplex {

/// What takes the place of a completed object.
struct PickleReplacement {
  enum class Kind : std::uint8_t { kKeep, kToken, kTensor };
  Kind kind = Kind::kKeep;
  std::uint32_t token_value = 0;
  std::unique_ptr<TensorView> view;  ///< of kTensor; apart, because tokens are made by the million

  /// The object stays a kObject node.
  static PickleReplacement keep() { return {}; }
  /// Requires: value < 2^30.
  static PickleReplacement token(std::uint32_t value);
  /// A kTensor node.
  static PickleReplacement tensor(TensorView view);
};

struct PickleHook {
  enum class When : std::uint8_t {
    kCall,   ///< complete with REDUCE or NEWOBJ: all is in object.arguments
    kState,  ///< complete with BUILD: object.state is set; an object that gets no state is left as it is
  };
  std::string module;
  std::string name;
  When when = When::kCall;
  std::function<Result<PickleReplacement>(const PickleDocument& document, const ObjectParts& object)> complete;
};

struct PickleOptions {
  std::vector<PickleHook> hooks;
  /// Turns a persistent id (any node) into the node that it stands for. Without it, persistent ids are unsupported.
  std::function<Result<NodeId>(PickleDocument& document, NodeId id)> persistent_id;
  /// Text of more bytes is no atom but a node of its own, which into_graph() need not copy.
  std::size_t max_atom_text = SIZE_MAX;
};

/// Reads the pickle at [offset, offset + size) through a small window; bytes after STOP are left alone.
/// Errors: corrupt (with the byte offset in the pickle) for what is no pickle, corrupt for a dict or set that is given
/// one key twice, unsupported for opcodes and object
/// shapes that Python's own pickler does not produce, what a hook or `persistent_id` returned, io.
Result<PickleDocument> read_pickle(const ByteSource& source, std::int64_t offset, std::int64_t size,
                                   const PickleOptions& options = {});
Result<PickleDocument> read_pickle(ByteSpan bytes, const PickleOptions& options = {});

}  // namespace tenplex
