// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Format "torch": one file as torch.save writes it since PyTorch 1.6, a zip of a pickle and storages.
//
//   reading  tensors are named as DCP's flatten_state_dict would; a tensor is a strided view of its storage
//   writing  whole tensors on one device; storages are shared again as they were, cut to what their views touch
//
// Specification: docs/formats/torch.md. Threads: as Format says.
#pragma once

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

/// True for torch.save zips, and for the older torch files and TorchScript archives, which open_torch() then explains.
bool detect_torch(FileSystem& files, const std::string& path);

/// Errors: unsupported (older, big-endian and TorchScript files, tensors that are not plain), corrupt, io.
Result<std::unique_ptr<CheckpointReader>> open_torch(FileSystem& files, const std::string& path,
                                                     const ReadOptions& options);

/// The same for a file that is open already; `name` is what info().files calls it, and does not go into errors.
/// `ignored_attributes` as in read_torch_pickle().
Result<std::unique_ptr<CheckpointReader>> open_torch_source(std::unique_ptr<ByteSource> source, const std::string& name,
                                                            const ReadOptions& options,
                                                            std::span<const std::string_view> ignored_attributes = {});

std::unique_ptr<CheckpointWriter> make_torch_writer();

/// For the table of formats().
Format torch_format();

}  // namespace tenplex
