// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/file_pool.h"

#include <utility>

#include "tenplex/formats/member_file.h"

namespace tenplex {

Result<std::unique_ptr<ByteSource>> FilePool::open(const std::string& relative) const {
  return folder_.empty() ? files_.open(relative) : open_member(files_, folder_, relative, follow_links_);
}

Result<std::int32_t> FilePool::add(std::string_view relative) {
  TENPLEX_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, open(std::string(relative)));
  const std::size_t index = sources_.size();
  sources_.emplace_back(*this, index, std::string(relative), source->name(), source->size());
  const std::scoped_lock lock(mutex_);
  keep_open(index, std::move(source));
  return static_cast<std::int32_t>(index);
}

void FilePool::keep_open(std::size_t index, std::shared_ptr<ByteSource> source) const {
  sources_[index].open_ = std::move(source);
  open_order_.push_back(index);
  if (open_order_.size() <= kMaxOpen) return;
  sources_[open_order_.front()].open_.reset();
  open_order_.pop_front();
}

Result<std::shared_ptr<ByteSource>> FilePool::acquire(std::size_t index) const {
  const std::scoped_lock lock(mutex_);
  const Source& source = sources_[index];
  if (source.open_) return std::shared_ptr<ByteSource>(source.open_);
  TENPLEX_ASSIGN_OR_RETURN(std::shared_ptr<ByteSource> opened, open(source.relative_));
  keep_open(index, opened);
  return opened;
}

Result<void> FilePool::Source::read_at(std::int64_t offset, MutableByteSpan buffer) const {
  TENPLEX_ASSIGN_OR_RETURN(const std::shared_ptr<ByteSource> source, pool_.acquire(index_));
  return source->read_at(offset, buffer);
}

}  // namespace tenplex
