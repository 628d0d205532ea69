// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/stored_ties.h"

#include <fmt/format.h>

#include <numeric>
#include <unordered_map>
#include <unordered_set>

namespace tenplex::dcp {
namespace {

class TieFinder {
 public:
  TieFinder(const CheckpointReader& reader, const JsonTexts& aliases) : reader_(reader), info_(reader.info()) {
    for (std::size_t index = 0; index < info_.tensors.size(); ++index)
      tensors_.emplace(info_.tensors[index].name, index);
    for (const auto& [name, stored] : aliases) second_names_.insert(name);
    first_chunk_.assign(info_.tensors.size() + 1, 0);
    for (std::size_t chunk = 0; chunk < info_.chunks.size(); ++chunk)
      ++first_chunk_[info_.chunks[chunk].tensor.index() + 1];
    std::partial_sum(first_chunk_.begin(), first_chunk_.end(), first_chunk_.begin());
  }

  /// Adds the tie to `*ties`, or returns what speaks against it.
  std::string add(const std::string& name, const std::string& stored,
                  std::vector<std::pair<TensorId, TensorId>>* ties) const {
    if (info_.state.root != kNoNode) return "the state is a tree, which says it itself";
    if (second_names_.contains(stored)) return fmt::format("'{}' is said to be another tensor itself", stored);
    const auto alias = tensors_.find(name);
    const auto first = tensors_.find(stored);
    if (alias == tensors_.end() || first == tensors_.end())
      return fmt::format("there is no tensor '{}'", alias == tensors_.end() ? name : stored);
    if (!is_stored_as(alias->second, first->second)) return "each has bytes of its own";
    ties->emplace_back(TensorId(alias->second), TensorId(first->second));
    return {};
  }

 private:
  bool is_stored_as(std::size_t alias, std::size_t stored) const {
    const TensorInfo& one = info_.tensors[alias];
    const TensorInfo& other = info_.tensors[stored];
    const std::size_t count = first_chunk_[alias + 1] - first_chunk_[alias];
    if (one.dtype != other.dtype || one.shape != other.shape ||
        count != first_chunk_[stored + 1] - first_chunk_[stored])
      return false;
    for (std::size_t i = 0; i < count; ++i)
      if (!in_same_place(reader_, first_chunk_[alias] + i, first_chunk_[stored] + i)) return false;
    return true;
  }

  const CheckpointReader& reader_;
  const CheckpointInfo& info_;
  std::unordered_map<std::string_view, std::size_t> tensors_;
  std::unordered_set<std::string_view> second_names_;
  std::vector<std::size_t> first_chunk_;  // per tensor and one past the end
};

}  // namespace

std::vector<std::pair<TensorId, TensorId>> find_stored_ties(const CheckpointReader& reader, const JsonTexts& aliases,
                                                            std::vector<std::string>* problems) {
  std::vector<std::pair<TensorId, TensorId>> ties;
  if (aliases.empty()) return ties;
  const TieFinder finder(reader, aliases);
  std::string first_objection;
  for (const auto& [name, stored] : aliases) {
    const std::string objection = finder.add(name, stored, &ties);
    if (!objection.empty() && first_objection.empty())
      first_objection = fmt::format("'{}' is not read as another name of '{}': {}", name, stored, objection);
  }
  if (!first_objection.empty())
    problems->push_back(fmt::format("tenplex.json: {} of {} tied names do not hold, the first: {}",
                                    aliases.size() - ties.size(), aliases.size(), first_objection));
  return ties;
}

}  // namespace tenplex::dcp
