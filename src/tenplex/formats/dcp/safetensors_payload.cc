// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/safetensors_payload.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/formats/safetensors/sharding_info.h"

namespace tenplex::dcp {
namespace {

// A file from a position on.
class TailSource final : public ByteSource {
 public:
  TailSource(const ByteSource& file, std::int64_t begin) : file_(file), begin_(begin) {}
  std::int64_t size() const override { return file_.size() - begin_; }
  Result<void> read_at(std::int64_t offset, MutableByteSpan buffer) const override {
    return file_.read_at(begin_ + offset, buffer);
  }
  const std::string& name() const override { return file_.name(); }

 private:
  const ByteSource& file_;
  std::int64_t begin_;
};

}  // namespace

Result<SafetensorsPayload> SafetensorsPayload::open(const ByteSource& file, std::int64_t position,
                                                    std::int64_t max_bytes) {
  const TailSource source(file, position);
  TENPLEX_ASSIGN_OR_RETURN(safetensors::Header header, safetensors::read_header(source, max_bytes));
  SafetensorsPayload payload;
  payload.data_begin_ = position + header.data_start;
  TENPLEX_ASSIGN_OR_RETURN(const std::optional<safetensors::ShardingInfo> sharding,
                           safetensors::read_sharding_info(header));
  for (safetensors::HeaderTensor& tensor : header.tensors) {
    Entry& entry = payload.entries_.emplace_back();
    entry.tensor = std::move(tensor);
    if (!sharding) continue;
    if (const auto found = sharding->find(entry.tensor.info.name); found != sharding->end())
      entry.offsets = found->second;
  }
  std::sort(payload.entries_.begin(), payload.entries_.end(),
            [](const Entry& a, const Entry& b) { return a.tensor.info.name < b.tensor.info.name; });
  return payload;
}

Result<ChunkLocation> SafetensorsPayload::locate(std::string_view name, DType dtype, const Box& box) const {
  const auto found =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const Entry& entry, const auto& wanted) { return entry.tensor.info.name < wanted; });
  if (found == entries_.end() || found->tensor.info.name != name) {
    return corrupt("the safetensors payload has no tensor of that name");
  }
  const TensorInfo& stored = found->tensor.info;
  if (stored.dtype != dtype || stored.shape != box.extent) {
    return corrupt(fmt::format("expected {} {}, the safetensors payload has {} {}", to_string(dtype),
                               to_string(box.extent), to_string(stored.dtype), to_string(stored.shape)));
  }
  // Two chunks of one tensor in one file overwrite each other there.
  if (found->offsets && *found->offsets != box.offset) {
    return corrupt(fmt::format("expected the chunk at {}, the safetensors payload has that at {}",
                               to_string(box.offset), to_string(*found->offsets)));
  }
  return ChunkLocation{data_begin_ + found->tensor.begin, row_major_strides(box.extent), std::nullopt};
}

}  // namespace tenplex::dcp
