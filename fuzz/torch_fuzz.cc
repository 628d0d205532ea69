// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a torch file; read all of it that its metadata promises. If it starts with the byte 0x80, it is a
// data.pkl, and an archive is made around it; if with '{', it is a tenplex.json, in an archive of nothing else.
// decoder: src/tenplex/formats/torch/torch_reader.cc
// decoder: src/tenplex/formats/torch/torch_pickle_reader.cc
// decoder: src/tenplex/formats/torch/torch_side.cc
// decoder: src/tenplex/formats/torch/zip_archive.cc
// decoder: src/tenplex/formats/torch/zip_record.cc
#include <cstdint>
#include <string>

#include "checkpoint_use.h"
#include "tenplex/base/check.h"
#include "tenplex/formats/torch/torch_format.h"
#include "tenplex/formats/torch/torch_side.h"
#include "tenplex/io/testing/memory_file_system.h"
#include "torch_archive.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (size > 0 && data[0] == 0x80) bytes = tenplex::archive_around(std::move(bytes), "", 4);
  if (bytes.starts_with('{')) bytes = tenplex::archive_around("\x80\x02N.", std::move(bytes), 4);
  tenplex::MemoryFileSystem files;
  files.put_file("/f.pt", std::move(bytes));
  (void)tenplex::detect_torch(files, "/f.pt");
  const auto reader = tenplex::open_torch(files, "/f.pt", {});
  if (!reader) return 0;
  const auto& info = (*reader)->info();
  if (const std::string side = tenplex::encode_torch_side(info.metadata); !side.empty())
    TENPLEX_CHECK(tenplex::decode_torch_side(side).has_value());
  tenplex::check_chunks(**reader);
  return 0;
}
