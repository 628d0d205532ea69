// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/reshard/space_check.h"

#include <fmt/format.h>

#include <cstdint>

#include "tenplex/base/bytes.h"
#include "tenplex/base/checked.h"
#include "tenplex/io/path.h"

namespace tenplex {
namespace {

struct Need {
  std::int64_t bytes = 0;
  std::int64_t files = 0;

  void add(std::int64_t more_bytes, std::int64_t more_files) {
    bytes = checked_add(bytes, more_bytes).value_or(INT64_MAX);
    files += more_files;
  }
};

void add_file(const OutputFile& file, Need* need) {
  need->add(0, 1);
  for (const Segment& segment : file.segments) need->add(segment.size_bytes, 0);
}

bool is_there(FileSystem& files, const std::string& folder, const OutputFile& file) {
  const auto path = checked_join(folder, file.path);
  return path && files.status(*path);
}

Result<void> compare(const Need& need, const FreeSpace& free, const std::string& where) {
  if (free.bytes && need.bytes > *free.bytes) {
    return resource_exhausted(
        fmt::format("not enough space in '{}': the target needs {} bytes ({}), {} bytes ({}) are free", where,
                    need.bytes, format_bytes(need.bytes), *free.bytes, format_bytes(*free.bytes)));
  }
  if (free.files && need.files > *free.files) {
    return resource_exhausted(
        fmt::format("not enough space in '{}': the target needs {} more files, the file system takes {}", where,
                    need.files, *free.files));
  }
  return {};
}

}  // namespace

Result<void> check_space(FileSystem& files, const OutputPlan& plan, const std::string& target,
                         const std::string& objects_folder) {
  const std::string folder = parent_path(without_trailing_slashes(target));
  Need in_target;
  Need in_objects;
  for (const OutputFile& file : plan.files) {
    if (!file.in_objects_folder) {
      add_file(file, &in_target);
    } else if (!is_there(files, objects_folder, file)) {
      add_file(file, &in_objects);
    }
  }
  if (plan.manifest) add_file(*plan.manifest, &in_target);
  if (plan.single_file) in_target.add(0, -1);  // there, and empty, since its name was claimed
  TENPLEX_ASSIGN_OR_RETURN(const FreeSpace target_space, files.free_space(folder));
  if (in_objects.files > 0) {
    const std::string objects =
        files.status(objects_folder) ? objects_folder : parent_path(without_trailing_slashes(objects_folder));
    TENPLEX_ASSIGN_OR_RETURN(const FreeSpace objects_space, files.free_space(objects));
    if (objects_space.file_system == target_space.file_system) {
      in_target.add(in_objects.bytes, in_objects.files);
    } else {
      TENPLEX_TRY(compare(in_objects, objects_space, objects));
    }
  }
  return compare(in_target, target_space, folder);
}

}  // namespace tenplex
