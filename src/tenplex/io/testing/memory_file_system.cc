// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/io/testing/memory_file_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "tenplex/base/check.h"
#include "tenplex/io/path.h"

namespace tenplex {

struct MemoryNode {
  explicit MemoryNode(FileKind node_kind) : kind(node_kind) {}

  const FileKind kind;
  std::map<std::string, std::shared_ptr<MemoryNode>> entries;  // kFolder
  std::string target;                                          // kLink
  bool locked = false;                                         // guarded by the file system's mutex, as the above
  std::uint64_t number = 0;                                    // kFile: its inode
  mutable std::mutex content_mutex;
  std::string content;       // kFile
  std::int64_t version = 0;  // kFile: writes so far; guarded by content_mutex
};

namespace {

constexpr int kMaxLinks = 40;

Error no_such(const std::string& path) { return errno_error(fmt::format("cannot open '{}'", path), ENOENT); }

class MemorySource : public ByteSource {
 public:
  MemorySource(std::shared_ptr<const MemoryNode> node, std::string name)
      : node_(std::move(node)),
        name_(std::move(name)),
        size_(static_cast<std::int64_t>(node_->content.size())),
        version_(node_->version) {}

  std::int64_t size() const override { return size_; }
  FileStamp stamp() const override { return {0, node_->number, size_, version_}; }
  const std::string& name() const override { return name_; }

  Result<void> read_at(std::int64_t offset, MutableByteSpan buffer) const override {
    const auto wanted = static_cast<std::int64_t>(buffer.size());
    if (offset < 0 || offset > size_ || wanted > size_ - offset) {
      return out_of_range(
          fmt::format("'{}': expected {} bytes at {}, found a file of {} bytes", name_, wanted, offset, size_));
    }
    if (buffer.empty()) return {};
    const std::lock_guard lock(node_->content_mutex);
    if (static_cast<std::int64_t>(node_->content.size()) < offset + wanted) {
      return corrupt(fmt::format("'{}' became shorter while it was read", name_));
    }
    std::memcpy(buffer.data(), node_->content.data() + offset, buffer.size());
    return {};
  }

 private:
  std::shared_ptr<const MemoryNode> node_;
  std::string name_;
  std::int64_t size_;
  std::int64_t version_;
};

class MemorySink : public ByteSink {
 public:
  MemorySink(std::shared_ptr<MemoryNode> node, std::string name) : node_(std::move(node)), name_(std::move(name)) {}

  Result<void> write_at(std::int64_t offset, ByteSpan bytes) override {
    if (bytes.empty()) return {};
    const std::lock_guard lock(node_->content_mutex);
    ++node_->version;
    const auto end = static_cast<std::size_t>(offset) + bytes.size();
    if (node_->content.size() < end) node_->content.resize(end);
    std::memcpy(node_->content.data() + offset, bytes.data(), bytes.size());
    return {};
  }
  Result<void> finish() override { return {}; }
  Result<void> close() override { return {}; }
  const std::string& name() const override { return name_; }

 private:
  std::shared_ptr<MemoryNode> node_;
  std::string name_;
};

class MemoryLock : public FileLock {
 public:
  MemoryLock(std::shared_ptr<MemoryNode> node, std::mutex& mutex) : node_(std::move(node)), mutex_(mutex) {}
  ~MemoryLock() override {
    const std::lock_guard lock(mutex_);
    node_->locked = false;
  }

 private:
  std::shared_ptr<MemoryNode> node_;
  std::mutex& mutex_;
};

FileStatus status_of(const MemoryNode& node) {
  const std::lock_guard lock(node.content_mutex);
  const auto size = static_cast<std::int64_t>(node.content.size());
  return {node.kind, size, {0, node.number, size, node.version}};
}

Result<std::unique_ptr<ByteSource>> open_node(const std::shared_ptr<MemoryNode>& node, const std::string& name) {
  if (node->kind != FileKind::kFile) return invalid_argument(fmt::format("'{}' is not a regular file", name));
  const std::lock_guard lock(node->content_mutex);
  return std::unique_ptr<ByteSource>(std::make_unique<MemorySource>(node, name));
}

void add_files(const MemoryNode& folder, const std::string& prefix, std::vector<std::string>* paths) {
  for (const auto& [name, node] : folder.entries) {
    if (node->kind == FileKind::kFolder) {
      add_files(*node, prefix + name + "/", paths);
    } else {
      paths->push_back(prefix + name);
    }
  }
}

}  // namespace

MemoryFileSystem::MemoryFileSystem() : root_(std::make_shared<MemoryNode>(FileKind::kFolder)) {}
MemoryFileSystem::~MemoryFileSystem() = default;

// ── Finding nodes (the caller holds mutex_) ──────────────────────────────────────────────────────────────────────────

Result<MemoryFileSystem::NodePointer> MemoryFileSystem::walk(NodePointer start, const std::string& path, bool may_climb,
                                                             bool follow_last) const {
  std::vector<NodePointer> open = {std::move(start)};
  const std::vector<std::string> parts = path_components(path);
  std::deque<std::string> rest(parts.begin(), parts.end());
  const auto leaves = [&] { return invalid_argument(fmt::format("'{}' leads out of its folder", path)); };
  for (int links = 0; !rest.empty();) {
    const std::string name = std::move(rest.front());
    rest.pop_front();
    if (name == ".") continue;
    if (name == "..") {
      if (open.size() == 1 && !may_climb) return leaves();
      if (open.size() > 1) open.pop_back();
      continue;
    }
    const auto entry = open.back()->entries.find(name);
    if (entry == open.back()->entries.end()) return no_such(path);
    const NodePointer& node = entry->second;
    if (node->kind != FileKind::kLink || (rest.empty() && !follow_last)) {
      open.push_back(node);
      continue;
    }
    if (++links > kMaxLinks) return errno_error(fmt::format("cannot open '{}'", path), ELOOP);
    if (node->target.starts_with('/')) {
      if (!may_climb) return leaves();
      open = {root_};
    }
    const std::vector<std::string> steps = path_components(node->target);
    rest.insert(rest.begin(), steps.begin(), steps.end());
  }
  return open.back();
}

Result<MemoryFileSystem::NodePointer> MemoryFileSystem::find(const std::string& path, bool follow_last) const {
  return walk(root_, path, true, follow_last);
}

Result<MemoryFileSystem::Place> MemoryFileSystem::place_of(const std::string& path) const {
  TENPLEX_ASSIGN_OR_RETURN(NodePointer folder, find(parent_path(path), true));
  if (folder->kind != FileKind::kFolder) return no_such(path);
  return Place{std::move(folder), last_component(path)};
}

Result<MemoryFileSystem::Place> MemoryFileSystem::free_place_of(const std::string& path) const {
  TENPLEX_ASSIGN_OR_RETURN(Place place, place_of(path));
  if (place.folder->entries.contains(place.name)) return errno_error(fmt::format("cannot create '{}'", path), EEXIST);
  return place;
}

// ── Test set-up ──────────────────────────────────────────────────────────────────────────────────────────────────────

MemoryFileSystem::NodePointer MemoryFileSystem::make_folders(const std::string& path) {
  NodePointer folder = root_;
  for (const std::string& name : path_components(path)) {
    if (name == ".") continue;
    NodePointer& entry = folder->entries[name];
    if (!entry) entry = std::make_shared<MemoryNode>(FileKind::kFolder);
    TENPLEX_CHECK(entry->kind == FileKind::kFolder);
    folder = entry;
  }
  return folder;
}

void MemoryFileSystem::put(const std::string& path, NodePointer node) {
  const std::lock_guard lock(mutex_);
  node->number = ++last_number_;
  make_folders(parent_path(path))->entries[last_component(path)] = std::move(node);
}

void MemoryFileSystem::put_file(const std::string& path, std::string content) {
  auto node = std::make_shared<MemoryNode>(FileKind::kFile);
  node->content = std::move(content);
  put(path, std::move(node));
}

void MemoryFileSystem::put_folder(const std::string& path) {
  const std::lock_guard lock(mutex_);
  make_folders(path);
}

void MemoryFileSystem::put_link(const std::string& path, std::string target) {
  auto node = std::make_shared<MemoryNode>(FileKind::kLink);
  node->target = std::move(target);
  put(path, std::move(node));
}

void MemoryFileSystem::put_free_space(const std::string& folder, const FreeSpace& space) {
  const std::lock_guard lock(mutex_);
  free_spaces_.emplace_back(folder, space);
}

Result<std::string> MemoryFileSystem::content(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  TENPLEX_ASSIGN_OR_RETURN(const NodePointer node, find(path, true));
  if (node->kind != FileKind::kFile) return invalid_argument(fmt::format("'{}' is not a regular file", path));
  const std::lock_guard content_lock(node->content_mutex);
  return node->content;
}

std::vector<std::string> MemoryFileSystem::files_below(const std::string& folder) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> paths;
  if (const auto node = find(folder, true)) add_files(**node, "", &paths);
  std::sort(paths.begin(), paths.end());
  return paths;
}

// ── FileSystem ───────────────────────────────────────────────────────────────────────────────────────────────────────

Result<std::unique_ptr<ByteSource>> MemoryFileSystem::open(const std::string& path) {
  const std::lock_guard lock(mutex_);
  TENPLEX_ASSIGN_OR_RETURN(const NodePointer node, find(path, true));
  return open_node(node, path);
}

Result<std::unique_ptr<ByteSource>> MemoryFileSystem::open_below(const std::string& folder,
                                                                 const std::string& relative) {
  TENPLEX_ASSIGN_OR_RETURN(const std::string name, checked_join(folder, relative));
  const std::lock_guard lock(mutex_);
  TENPLEX_ASSIGN_OR_RETURN(NodePointer start, find(folder, true));
  TENPLEX_ASSIGN_OR_RETURN(const NodePointer node, walk(std::move(start), relative, false, true));
  return open_node(node, name);
}

Result<std::unique_ptr<ByteSink>> MemoryFileSystem::create(const std::string& path) {
  const std::lock_guard lock(mutex_);
  TENPLEX_ASSIGN_OR_RETURN(const Place place, free_place_of(path));
  auto node = std::make_shared<MemoryNode>(FileKind::kFile);
  node->number = ++last_number_;
  place.folder->entries[place.name] = node;
  return std::unique_ptr<ByteSink>(std::make_unique<MemorySink>(std::move(node), path));
}

Result<void> MemoryFileSystem::make_folder(const std::string& path) {
  const std::lock_guard lock(mutex_);
  TENPLEX_ASSIGN_OR_RETURN(const Place place, free_place_of(path));
  place.folder->entries[place.name] = std::make_shared<MemoryNode>(FileKind::kFolder);
  return {};
}

Result<std::vector<FolderEntry>> MemoryFileSystem::list(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  TENPLEX_ASSIGN_OR_RETURN(const NodePointer node, find(folder, true));
  if (node->kind != FileKind::kFolder) return errno_error(fmt::format("cannot list folder '{}'", folder), ENOTDIR);
  std::vector<FolderEntry> entries;
  for (const auto& [name, entry] : node->entries) entries.push_back({name, status_of(*entry)});
  return entries;
}

Result<FileStatus> MemoryFileSystem::status(const std::string& path) {
  const std::lock_guard lock(mutex_);
  TENPLEX_ASSIGN_OR_RETURN(const NodePointer node, find(path, false));
  return status_of(*node);
}

Result<FreeSpace> MemoryFileSystem::free_space(const std::string& path) {
  const std::lock_guard lock(mutex_);
  TENPLEX_TRY(find(path, true));
  FreeSpace space;
  for (const auto& [folder, said] : free_spaces_)
    if (path == folder || path.starts_with(folder + "/")) space = said;
  return space;
}

Result<void> MemoryFileSystem::rename_new(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  TENPLEX_ASSIGN_OR_RETURN(const Place source, place_of(from));
  const auto entry = source.folder->entries.find(source.name);
  if (entry == source.folder->entries.end()) return no_such(from);
  TENPLEX_ASSIGN_OR_RETURN(const Place target, free_place_of(to));
  NodePointer node = entry->second;
  source.folder->entries.erase(entry);
  target.folder->entries[target.name] = std::move(node);
  return {};
}

Result<void> MemoryFileSystem::exchange(const std::string& a, const std::string& b) {
  const std::lock_guard lock(mutex_);
  TENPLEX_ASSIGN_OR_RETURN(const Place first, place_of(a));
  TENPLEX_ASSIGN_OR_RETURN(const Place second, place_of(b));
  if (!first.folder->entries.contains(first.name)) return no_such(a);
  if (!second.folder->entries.contains(second.name)) return no_such(b);
  std::swap(first.folder->entries[first.name], second.folder->entries[second.name]);
  return {};
}

Result<void> MemoryFileSystem::copy_permissions(const std::string& from, const std::string& path) {
  TENPLEX_TRY(status(from));
  TENPLEX_TRY(status(path));
  return {};
}

Result<void> MemoryFileSystem::sync_folder(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  TENPLEX_ASSIGN_OR_RETURN(const NodePointer node, find(folder, true));
  if (node->kind != FileKind::kFolder) return errno_error(fmt::format("cannot open folder '{}'", folder), ENOTDIR);
  return {};
}

Result<void> MemoryFileSystem::sync_file(const std::string& path) {
  const std::lock_guard lock(mutex_);
  TENPLEX_TRY(find(path, true));
  return {};
}

Result<std::unique_ptr<FileLock>> MemoryFileSystem::try_lock(const std::string& path) {
  const std::lock_guard lock(mutex_);
  TENPLEX_ASSIGN_OR_RETURN(NodePointer node, find(path, false));
  if (node->locked) return std::unique_ptr<FileLock>();
  node->locked = true;
  return std::unique_ptr<FileLock>(std::make_unique<MemoryLock>(std::move(node), mutex_));
}

Result<void> MemoryFileSystem::remove_all(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto place = place_of(path);
  if (place) place->folder->entries.erase(place->name);
  return {};
}

}  // namespace tenplex
