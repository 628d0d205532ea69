// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Opening the files of a checkpoint's folder. What their names lead to stays in the folder: a symbolic link that leaves
// it is refused, unless the person who reads it asked for links to be followed (folders of the Hugging Face cache hold
// such links).
//
// Pure but for the file system. Threads: safe together.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tenplex/formats/checkpoint.h"

namespace tenplex {

/// Opens `relative` below `folder`. Errors: as FileSystem::open_below(); for a link that leaves the folder the message
/// names the option that allows it.
Result<std::unique_ptr<ByteSource>> open_member(FileSystem& files, const std::string& folder,
                                                const std::string& relative, bool follow_links);

/// Every file below `folder`, also in sub-folders, sorted by path. Hidden folders and what is no file are left out,
/// with a line in `problems`. Errors: as open_member() for links; invalid_argument for folders nested deeper than 16;
/// io.
Result<void> list_members(FileSystem& files, const std::string& folder, bool follow_links,
                          std::vector<ExtraFile>* members, std::vector<std::string>* problems);

/// One line in `info->problems` if the folder holds more than info->files, info->extra_files and `known`: what is not
/// listed is not carried. Only names directly in the folder are looked at.
void note_other_files(FileSystem& files, const std::string& folder, const std::vector<std::string>& known,
                      CheckpointInfo* info);

}  // namespace tenplex
