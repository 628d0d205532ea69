// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// What fuzz targets do with a checkpoint that could be opened.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tenplex/base/check.h"
#include "tenplex/formats/checkpoint.h"
#include "tenplex/ptc/explicit_collection.h"

namespace tenplex {

/// The next `count` bytes of the input, or what is left of it.
inline std::string take(std::string_view* rest, std::size_t count) {
  count = std::min(count, rest->size());
  std::string part(rest->substr(0, count));
  rest->remove_prefix(count);
  return part;
}

/// Locates every chunk and checks that its elements lie inside the file, as locate() promises.
inline void check_chunks(const CheckpointReader& reader) {
  for (std::size_t i = 0; i < reader.info().chunks.size(); ++i) {
    const Chunk chunk = reader.info().chunks[i];
    const TensorInfo& tensor = reader.info().tensors[chunk.tensor.index()];
    TENPLEX_CHECK(contains(Box::whole(tensor.shape), chunk.box));
    const auto location = reader.locate(i);
    if (!location || chunk.box.empty()) continue;
    std::int64_t last = 0;
    for (int dim = 0; dim < chunk.box.rank(); ++dim) last += (chunk.box.extent[dim] - 1) * location->strides[dim];
    const ByteSource& file = **reader.file(chunk.file);
    const std::int64_t end = location->offset_bytes + (last + 1) * size_bytes(tensor.dtype);
    TENPLEX_CHECK(location->offset_bytes >= 0 && end <= file.size());
  }
}

/// All tensors whole on one device, to be written again; null if one of them is large.
inline std::unique_ptr<Collection> whole_target(const CheckpointInfo& info) {
  constexpr std::int64_t kMaxElements = 4096;
  ExplicitCollectionBuilder builder(info.tensors, 1, {});
  for (std::size_t i = 0; i < info.tensors.size(); ++i) {
    if (volume(info.tensors[i].shape) > kMaxElements) return nullptr;
    if (!builder.add(DeviceId(0), TensorId(i), whole_tensor(info.tensors[i].shape))) return nullptr;
  }
  auto target = std::move(builder).finish();
  return target ? *std::move(target) : nullptr;
}

}  // namespace tenplex
