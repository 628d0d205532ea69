// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Archives of torch.save around a pickle that a fuzzer changes, so that it need not find checksums.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tenplex/base/crc32.h"
#include "tenplex/formats/torch/zip_layout.h"

namespace tenplex {

/// With `storages` storages of 64 bytes each.
inline std::string archive_around(std::string pickle, std::string side, int storages) {
  constexpr std::int64_t kStorageBytes = 64;
  ZipLayout layout("f");
  layout.begin(std::move(pickle), std::move(side));
  for (int storage = 0; storage < storages; ++storage) layout.add_data(kStorageBytes);
  layout.close();
  std::string file;
  std::vector<std::uint32_t> crcs;
  const std::string data(kStorageBytes, '\1');
  for (std::size_t part = 0; part < layout.part_count(); ++part) {
    if (part % 2 == 1) {
      file += data;
      crcs.push_back(crc32(0, as_bytes(data)));
    } else {
      file += layout.literal(part, crcs);
    }
  }
  return file;
}

}  // namespace tenplex
