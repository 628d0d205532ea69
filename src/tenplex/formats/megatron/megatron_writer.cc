// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Writing: the writer of DCP folders lays out tensors and objects; here `.metadata` becomes a file like the others, and
// metadata.json the one that is written last:
//
//   __0_0.distcp … common.pt │ tenplex.json │ extra files │ .metadata │ integrity.json │ metadata.json
//   of the DCP writer ──────────────────────────────────────────────    sums of all     manifest
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "tenplex/base/sha256.h"
#include "tenplex/formats/dcp/folder.h"
#include "tenplex/formats/manifest/state_json.h"
#include "tenplex/formats/megatron/backend_file.h"
#include "tenplex/formats/megatron/bucket_check.h"
#include "tenplex/formats/megatron/common_state.h"
#include "tenplex/formats/megatron/integrity_file.h"
#include "tenplex/formats/megatron/megatron_format.h"
#include "tenplex/formats/megatron/source_form.h"

namespace tenplex {
namespace megatron {
namespace {

constexpr std::int32_t kNoFile = -2;

class MegatronWriter final : public CheckpointWriter {
 public:
  Result<OutputPlan> prepare(const WriteRequest& request) override;
  Result<std::string> literal(std::int32_t file, std::size_t segment,
                              std::span<const std::uint32_t> crcs) const override;
  Result<void> take_written(const OpenWritten& open, Progress& progress) override;
  bool needs_crcs() const override { return true; }
  std::size_t crcs_needed(std::int32_t file, std::size_t segment) const override {
    return file < metadata_file_ ? folder_->crcs_needed(file, segment) : 0;
  }
  std::vector<StorageView> storage_views(std::int64_t index) const override { return folder_->storage_views(index); }

 private:
  Result<dcp::FolderContents> contents_of(const WriteRequest& request, const SourceForm& form);
  void add_integrity(OutputPlan* plan);

  CommonState state_;
  std::unique_ptr<CheckpointWriter> folder_;
  std::string backend_text_;
  std::int32_t metadata_file_ = kNoFile;
  std::int32_t integrity_file_ = kNoFile;
  std::vector<std::pair<std::string, std::int32_t>> summed_;  // name, file; sorted
  std::string integrity_text_;
};

Segment literal_segment(std::string_view text) {
  Segment segment;
  segment.size_bytes = static_cast<std::int64_t>(text.size());
  return segment;
}

/// The whole tree, where the folder does not give it back.
Result<void> describe_state(const WriteRequest& request, dcp::FolderContents* contents) {
  StateJsonOptions options;
  options.allow_objects = true;
  TENPLEX_ASSIGN_OR_RETURN(EncodedState state, encode_state(request.source->state, request.target->tensors(), options));
  contents->state_json = std::move(state.json);
  for (std::size_t i = 0; i < state.objects.size(); ++i)
    contents->pickles.emplace_back(state.objects[i].path, std::move(state.pickles[i]));
  return {};
}

Result<dcp::FolderContents> MegatronWriter::contents_of(const WriteRequest& request, const SourceForm& form) {
  dcp::FolderContents contents;
  TENPLEX_ASSIGN_OR_RETURN(state_, split_state(*request.source, *request.target));
  contents.tensors = state_.tensors;
  contents.objects = std::move(state_.objects);
  if (form.has_common_file) {
    contents.own_file = {std::string(kCommonFileName), "common", state_.common};
  } else {
    const NodeId list = state_.graph.add_list({state_.common});
    contents.objects.insert(contents.objects.begin(), {std::string(kCommonItem), list, DeviceId(0)});
  }
  contents.graph = &state_.graph;
  if (!state_.is_whole) TENPLEX_TRY(describe_state(request, &contents));
  for (const auto& entry : request.source->metadata)
    if (!is_form_key(entry.first)) contents.metadata.push_back(entry);
  return contents;
}

Result<OutputPlan> MegatronWriter::prepare(const WriteRequest& request) {
  TENPLEX_TRY(check_buckets(*request.source, request.layout));
  TENPLEX_ASSIGN_OR_RETURN(const SourceForm form, decode_form(request.source->metadata));
  TENPLEX_ASSIGN_OR_RETURN(dcp::FolderContents contents, contents_of(request, form));
  folder_ = dcp::make_folder_writer(std::move(contents));
  TENPLEX_ASSIGN_OR_RETURN(OutputPlan plan, folder_->prepare(request));
  metadata_file_ = static_cast<std::int32_t>(plan.files.size());
  plan.files.push_back(std::move(*plan.manifest));
  backend_text_ = encode_backend_file(form.has_common_file, form.others);
  if (form.has_integrity) add_integrity(&plan);
  plan.manifest.emplace();
  plan.manifest->path = kBackendFileName;
  plan.manifest->segments.push_back(literal_segment(backend_text_));
  return plan;
}

// Its size is known before the sums are.
void MegatronWriter::add_integrity(OutputPlan* plan) {
  integrity_file_ = static_cast<std::int32_t>(plan->files.size());
  JsonTexts sums;
  for (std::int32_t file = 0; file < integrity_file_; ++file)
    summed_.emplace_back(plan->files[static_cast<std::size_t>(file)].path, file);
  summed_.emplace_back(kBackendFileName, kNoFile);
  // Megatron-Core lists the files of the folder itself, by name.
  std::erase_if(summed_, [](const auto& entry) { return entry.first.find('/') != std::string::npos; });
  std::sort(summed_.begin(), summed_.end());
  for (const auto& [name, file] : summed_) sums.emplace_back(name, std::string(kSha256Digits, '0'));
  OutputFile& out = plan->files.emplace_back();
  out.path = kIntegrityName;
  out.after_others = true;
  out.segments.push_back(literal_segment(encode_integrity(sums)));
}

Result<void> MegatronWriter::take_written(const OpenWritten& open, Progress& progress) {
  JsonTexts sums;
  for (const auto& [name, file] : summed_) {
    if (file == kNoFile) {
      Sha256 sum;
      sum.add(as_bytes(backend_text_));
      sums.emplace_back(name, sum.finish());
      continue;
    }
    TENPLEX_ASSIGN_OR_RETURN(const auto source, open(file));
    TENPLEX_ASSIGN_OR_RETURN(std::string sum, sum_of_file(*source, progress));
    sums.emplace_back(name, std::move(sum));
  }
  integrity_text_ = encode_integrity(sums);
  return {};
}

Result<std::string> MegatronWriter::literal(std::int32_t file, std::size_t segment,
                                            std::span<const std::uint32_t> crcs) const {
  if (file < 0) return std::string(backend_text_);
  if (file == integrity_file_) return std::string(integrity_text_);
  if (file == metadata_file_) return folder_->literal(-1, segment, {});
  return folder_->literal(file, segment, crcs);
}

}  // namespace
}  // namespace megatron

std::unique_ptr<CheckpointWriter> make_megatron_dist_writer() { return std::make_unique<megatron::MegatronWriter>(); }

}  // namespace tenplex
