// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes Python pickles, protocol 2 (torch.save) or 4 (DCP's .metadata), readable by Python's pickle and torch.load.
//
//   PickleWriter   opcodes, one call each, with a memo for text and globals: for large output that is not a StateGraph
//   write_pickle   a StateGraph node and all below it; shared nodes and cycles go through the memo
//
// Bytes, sets and the like that protocol 2 lacks are written as the calls that Python's own pickler uses. Text must be
// UTF-8 as Node says. Resource. Threads: one at a time. Source: Python's pickle.py.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tenplex/base/result.h"
#include "tenplex/formats/state/state_graph.h"

namespace tenplex {

/// Opcodes in a growing string that the caller may take away piece by piece.
class PickleWriter {
 public:
  /// Requires: protocol is 2 or 4. Starts with PROTO.
  explicit PickleWriter(int protocol);
  PickleWriter(const PickleWriter&) = delete;
  PickleWriter& operator=(const PickleWriter&) = delete;

  int protocol() const { return protocol_; }
  /// What was written since the last take().
  const std::string& bytes() const { return out_; }
  std::string take();
  /// Makes room for that many bytes, so that large output is not moved while it grows.
  void expect(std::size_t bytes) { out_.reserve(out_.size() + bytes); }

  void none() { op('N'); }
  void boolean(bool value) { op(value ? '\x88' : '\x89'); }
  void integer(std::int64_t value);
  /// Two's complement, little-endian, any length.
  void big_integer(std::string_view bytes);
  void real(double value);
  /// Text, memoized: the second time it is a reference.
  void text(std::string_view value);
  /// Text that will hardly come again: written out, not remembered.
  void text_once(std::string_view value);
  void bytes_value(std::string_view value);
  void byte_array(std::string_view value);
  /// A class or function, memoized. Protocol 2 gets Python 2's module names, as Python writes them.
  /// Requires: is_global_name(module "\n" name).
  void global(std::string_view module, std::string_view name);

  void empty_dict() { op('}'); }
  void empty_list() { op(']'); }
  void empty_tuple() { op(')'); }
  void empty_set() { op('\x8f'); }  ///< protocol 4
  void mark() { op('('); }
  void append() { op('a'); }
  void appends() { op('e'); }  ///< items since mark() go to the list below it
  void set_item() { op('s'); }
  void set_items() { op('u'); }
  void add_items() { op('\x90'); }   ///< protocol 4
  void frozen_set() { op('\x91'); }  ///< protocol 4: items since mark()
  /// The top `items` values (1 to 3), or all since mark() with tuple().
  void tuple(int items);
  void tuple() { op('t'); }
  void reduce() { op('R'); }         ///< callable, arguments tuple
  void new_object() { op('\x81'); }  ///< class, arguments tuple
  void new_object_ex() { op('\x92'); }
  void build() { op('b'); }
  void pop() { op('0'); }
  void pop_mark() { op('1'); }
  void persistent_id() { op('Q'); }
  void stop() { op('.'); }

  /// Remembers the value on top; the index is for get().
  std::uint32_t put();
  void get(std::uint32_t index);

 private:
  void op(char code) { out_.push_back(code); }
  void op_with(char code, std::uint64_t argument, int bytes);
  void little_endian(std::uint64_t value, int bytes);
  void begin_unicode(std::size_t size_bytes);
  void unicode(std::string_view value);

  int protocol_;
  std::string out_;
  std::uint32_t memo_size_ = 0;
  std::unordered_map<std::string, std::uint32_t> texts_;
  std::unordered_map<std::string, std::uint32_t> globals_;
};

struct PickleWriteOptions {
  int protocol = 2;
  /// Writes the opcodes for a kTensor or kStorage node, or one that is_elsewhere, leaving exactly one value on the
  /// pickle's stack. The value is memoized by the caller. Without it such nodes are unsupported.
  std::function<Result<void>(PickleWriter& writer, const StateGraph& graph, NodeId node)> tensor;
  /// kTensor nodes of one object number are one value, written once. false: options.tensor is asked for each of them.
  bool one_value_per_object = true;
  /// True for nodes below the first one whose content is not of this pickle. Without it none are.
  std::function<bool(NodeId node)> is_elsewhere;
};

/// The whole pickle of `node`, with PROTO and STOP.
/// Errors: unsupported for a tensor without options.tensor, for a name that is no is_global_name() and for a cycle
/// through a tuple's or call's arguments that no pickle can express; what options.tensor returned.
Result<std::string> write_pickle(const StateGraph& graph, NodeId node, const PickleWriteOptions& options = {});

/// Writes `node` into an open pickle.
Result<void> write_node(PickleWriter& writer, const StateGraph& graph, NodeId node, const PickleWriteOptions& options);

}  // namespace tenplex
