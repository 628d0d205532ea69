// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// DoubledKeys: finds dicts and sets that a pickle fills with one key twice. Python keeps the last value at the place of
// the first, and its pickler never writes such a thing; here it is an error.
//
// Keys are compared as Python compares them: 1, True and 1.0 are one key, and so are tuples of equal items. Objects,
// frozensets and tuples nested deeper than 16 are equal only to themselves, and floats of 2^63 and more only to floats.
//
// Cost of a document: O(items + bytes of keys that are no atoms), sorting aside. Resource. Threads: one at a time.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tenplex/formats/pickle/pickle_document.h"

namespace tenplex {

class DoubledKeys {
 public:
  /// Looks at the nodes of the document from `first` on; keys that are older nodes are equal only to themselves.
  /// Errors: corrupt, naming the key, and the class whose field it is.
  Result<void> check(const PickleDocument& document, NodeId first);

 private:
  Result<void> check_keys(const PickleDocument& document, NodeId node, std::span<const NodeId> items, std::size_t step);
  NodeId same_key(const PickleDocument& document, NodeId key, int depth);
  NodeId first_with(const std::string& value, NodeId key);

  NodeId first_ = 0;
  std::vector<NodeId> keys_;
  std::unordered_map<std::string, NodeId> by_value_;  // the first key of that value
  std::unordered_map<NodeId, NodeId> known_;          // what same_key() said of nodes
};

}  // namespace tenplex
