// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Reading: finds the folder, looks at its small files, and hands the rest to the reader of DCP folders.
#include <fmt/format.h>

#include "tenplex/formats/dcp/folder.h"
#include "tenplex/formats/megatron/backend_file.h"
#include "tenplex/formats/megatron/bucket_decoder.h"
#include "tenplex/formats/megatron/checkpoint_folder.h"
#include "tenplex/formats/megatron/common_state.h"
#include "tenplex/formats/megatron/integrity_file.h"
#include "tenplex/formats/megatron/integrity_reader.h"
#include "tenplex/formats/megatron/megatron_format.h"
#include "tenplex/formats/megatron/shard_name.h"
#include "tenplex/formats/megatron/source_form.h"
#include "tenplex/formats/megatron/unstacked_collection.h"
#include "tenplex/formats/member_file.h"

namespace tenplex {
namespace megatron {
namespace {

Result<BackendFile> read_backend(FileSystem& files, const std::string& folder, const ReadOptions& options) {
  const auto source = open_member(files, folder, std::string(kBackendFileName), options.follow_links);
  if (!source && source.error().code() == ErrorCode::kNotFound)
    return corrupt("incomplete: no metadata.json, the save did not finish");
  if (!source) return source.error();
  if ((*source)->size() > kMaxBackendBytes) return resource_exhausted("metadata.json is too large");
  TENPLEX_ASSIGN_OR_RETURN(const std::string text, read_string(**source, 0, (*source)->size()));
  return decode_backend_file(text).with_context(std::string(kBackendFileName));
}

Result<void> check_names(const dcp::MetadataTables& tables, bool has_common_file) {
  if (!tables.reformulated.empty())
    return unsupported(fmt::format(
        "tensor '{}' is stored as pieces of a flat array in another shape (nd_reformulated_orig_global_shape), as "
        "Megatron-Core did before 0.14 and cannot read since; load it there and save it with "
        "dist_checkpointing of 0.14 or later",
        tables.reformulated));
  std::vector<std::string_view> names;
  names.reserve(tables.byte_items.size());
  bool has_common = has_common_file;
  for (const dcp::ByteRecord& object : tables.byte_items) {
    names.push_back(tables.text(object.name));
    has_common = has_common || names.back() == kCommonItem;
  }
  if (!has_common)
    return corrupt(fmt::format("incomplete: neither a file '{}' nor an object '{}'", kCommonFileName, kCommonItem));
  return check_shard_names(names);
}

dcp::ReadDialect dialect_of(bool has_common_file, const SourceForm& form) {
  dcp::ReadDialect dialect;
  dialect.format = "megatron-dist";
  dialect.title = "Megatron-Core torch_dist";
  dialect.objects_in_lists = true;
  dialect.common_key = kCommonKey;
  if (has_common_file) dialect.common_file = kCommonFileName;
  dialect.common_item = kCommonItem;
  dialect.own_files = {std::string(kBackendFileName), std::string(kIntegrityName)};
  dialect.metadata = encode_form(form);
  dialect.check = [has_common_file](const dcp::MetadataTables& tables) { return check_names(tables, has_common_file); };
  return dialect;
}

Result<std::unique_ptr<CheckpointReader>> open_in(FileSystem& files, const std::string& folder,
                                                  const ReadOptions& options) {
  TENPLEX_ASSIGN_OR_RETURN(BackendFile backend, read_backend(files, folder, options));
  SourceForm form;
  form.has_common_file = files.status(fmt::format("{}/{}", folder, kCommonFileName)).has_value();
  form.has_integrity = has_integrity(files, folder);
  form.others = std::move(backend.others);
  auto reader = dcp::open_folder(files, folder, options, dialect_of(form.has_common_file, form));
  if (!reader) return reader;
  if (form.has_integrity) {
    reader = with_integrity(files, folder, options, *std::move(reader)).with_context(std::string(kIntegrityName));
    if (!reader) return reader;
  }
  if (options.model_only) return reader;
  return decode_buckets(*std::move(reader), options.parameter_order);
}

}  // namespace
}  // namespace megatron

bool detect_megatron_dist(FileSystem& files, const std::string& path) {
  const auto folder = megatron::find_checkpoint_folder(files, path);
  return !folder || megatron::is_torch_dist(files, *folder);
}

Result<std::unique_ptr<CheckpointReader>> open_megatron_dist(FileSystem& files, const std::string& path,
                                                             const ReadOptions& options) {
  auto folder = megatron::find_checkpoint_folder(files, path).with_context(fmt::format("'{}'", path));
  if (!folder) return std::move(folder).error();
  return megatron::open_in(files, *folder, options).with_context(fmt::format("'{}'", *folder));
}

Format megatron_dist_format() {
  return {"megatron-dist",
          "a folder of Megatron-Core's dist_checkpointing (torch_dist)",
          &detect_megatron_dist,
          &open_megatron_dist,
          &make_megatron_dist_writer,
          &megatron::unstacked};
}

}  // namespace tenplex
