// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/io/testing/crash_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tenplex/base/check.h"
#include "tenplex/io/path.h"

namespace tenplex {

// A folder keeps every state that its entries had since they were last durable; a file its durable and current bytes.
struct CrashModel::Node {
  bool is_folder = false;
  std::vector<std::map<std::string, NodePointer>> states = {{}};  // the first is durable, the last is current
  std::string durable;
  std::string current;

  std::map<std::string, NodePointer>& entries() { return states.back(); }
};

namespace {

constexpr std::size_t kBlockBytes = 512;

// xorshift64*; enough to choose.
std::uint64_t next_random(std::uint64_t* state) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (*state * 0x2545f4914f6cdd1dULL) >> 16;
}

std::string torn(const std::string& durable, const std::string& current, std::uint64_t* random) {
  const std::size_t shorter = std::min(durable.size(), current.size());
  const std::size_t longer = std::max(durable.size(), current.size());
  std::string bytes = durable;
  bytes.resize(shorter + next_random(random) % (longer - shorter + 1));
  for (std::size_t begin = 0; begin < bytes.size(); begin += kBlockBytes) {
    if (next_random(random) % 2 == 0 || begin >= current.size()) continue;
    const std::size_t length = std::min({kBlockBytes, bytes.size() - begin, current.size() - begin});
    bytes.replace(begin, length, current, begin, length);
  }
  return bytes;
}

}  // namespace

CrashModel::CrashModel() : root_(std::make_shared<Node>()) { root_->is_folder = true; }

CrashModel::NodePointer CrashModel::folder_of(const std::string& path) const {
  NodePointer node = root_;
  for (const std::string& name : path_components(parent_path(path))) {
    const auto entry = node->entries().find(name);
    TENPLEX_CHECK(entry != node->entries().end());
    node = entry->second;
  }
  return node;
}

void CrashModel::put_folder(const std::string& path) {
  NodePointer node = root_;
  for (const std::string& name : path_components(path)) {
    NodePointer& entry = node->states.front()[name];
    if (!entry) entry = std::make_shared<Node>();
    entry->is_folder = true;
    node = entry;
  }
}

void CrashModel::put_file(const std::string& path, std::string content) {
  put_folder(parent_path(path));
  auto node = std::make_shared<Node>();
  node->durable = content;
  node->current = std::move(content);
  folder_of(path)->states.front()[last_component(path)] = std::move(node);
}

void CrashModel::change_entries(const NodePointer& folder, std::map<std::string, NodePointer> entries) {
  folder->states.push_back(std::move(entries));
}

void CrashModel::apply(const FileOperation& operation) {
  using Kind = FileOperation::Kind;
  const NodePointer folder = folder_of(operation.path);
  const std::string name = last_component(operation.path);
  std::map<std::string, NodePointer> entries = folder->entries();
  switch (operation.kind) {
    case Kind::kCreate:
    case Kind::kMakeFolder:
      entries[name] = std::make_shared<Node>();
      entries[name]->is_folder = operation.kind == Kind::kMakeFolder;
      return change_entries(folder, std::move(entries));
    case Kind::kRename:
    case Kind::kExchange: {
      // Names move inside one folder; that is all that a commit needs.
      TENPLEX_CHECK(folder == folder_of(operation.other));
      std::swap(entries[name], entries[last_component(operation.other)]);
      if (operation.kind == Kind::kRename) entries.erase(name);
      return change_entries(folder, std::move(entries));
    }
    case Kind::kRemove:
      entries.erase(name);
      return change_entries(folder, std::move(entries));
    case Kind::kSyncFolder: {
      Node& synced = *entries.at(name);
      synced.states = {synced.states.back()};
      return;
    }
    case Kind::kFinish:
    case Kind::kSyncFile: {
      Node& file = *entries.at(name);
      file.durable = file.current;
      return;
    }
    case Kind::kWrite: {
      std::string& bytes = entries.at(name)->current;
      const auto begin = static_cast<std::size_t>(operation.offset);
      bytes.resize(std::max(bytes.size(), begin + operation.bytes.size()));
      bytes.replace(begin, operation.bytes.size(), operation.bytes);
      return;
    }
    case Kind::kClose:
      return;
  }
}

void CrashModel::restore(const Node& folder, const std::string& path, Survivors survivors, std::uint64_t* random,
                         MemoryFileSystem* files) const {
  std::size_t state = 0;
  if (survivors == Survivors::kEverything || survivors == Survivors::kNamesOnly) state = folder.states.size() - 1;
  if (survivors == Survivors::kSome) state = next_random(random) % folder.states.size();
  files->put_folder(path);
  for (const auto& [name, node] : folder.states[state]) {
    const std::string below = fmt::format("{}/{}", path, name);
    if (node->is_folder) {
      restore(*node, below, survivors, random, files);
    } else if (survivors == Survivors::kEverything || survivors == Survivors::kDataOnly) {
      files->put_file(below, node->current);
    } else if (survivors == Survivors::kSome) {
      files->put_file(below, torn(node->durable, node->current, random));
    } else {
      files->put_file(below, node->durable);
    }
  }
}

std::unique_ptr<MemoryFileSystem> CrashModel::crash(Survivors survivors, std::uint64_t seed) const {
  auto files = std::make_unique<MemoryFileSystem>();
  std::uint64_t random = seed * 0x9e3779b97f4a7c15ULL + 0x1234567;
  restore(*root_, "", survivors, &random, files.get());
  return files;
}

}  // namespace tenplex
