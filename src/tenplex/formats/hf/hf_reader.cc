// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/hf/hf_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "tenplex/base/checked.h"
#include "tenplex/base/counted.h"
#include "tenplex/formats/hf/hf_folder.h"
#include "tenplex/formats/hf/hf_index.h"
#include "tenplex/formats/member_file.h"
#include "tenplex/formats/safetensors/natural_order.h"
#include "tenplex/formats/safetensors/plain_reader.h"
#include "tenplex/formats/safetensors/side_metadata.h"

namespace tenplex::hf {
namespace {

class ModelFolder {
 public:
  ModelFolder(FileSystem& files, const std::string& path, const ReadOptions& options)
      : files_(files),
        path_(path),
        options_(options),
        reader_(std::make_unique<safetensors::PlainReader>(files, path, options.follow_links)) {}

  Result<std::unique_ptr<CheckpointReader>> run() && {
    TENPLEX_ASSIGN_OR_RETURN(Folder folder, list_folder(files_, path_, options_.follow_links));
    std::vector<std::string> weights = std::move(folder.weights);
    if (!folder.index.empty()) TENPLEX_TRY(read_index(folder.index, &weights));
    if (!folder.beside_index.empty() && (weights.size() != 1 || weights.front() != folder.beside_index))
      return two_models(folder.beside_index, folder.index);
    CheckpointInfo& info = reader_->mutable_info();
    info.format = "hf";
    info.detail = fmt::format("Hugging Face model, {}", counted(weights.size(), "file"));
    info.problems = std::move(folder.problems);
    for (const std::string& name : weights) TENPLEX_TRY(add_file(name));
    if (index_) TENPLEX_TRY(check_index());
    keep_extra_files(std::move(folder.extra_files), folder.index);
    side_.extra_files.clear();
    TENPLEX_TRY(safetensors::apply_side_metadata(side_, files_, {options_.objects_folder, options_.follow_links},
                                                 reader_.get()));
    return Result<std::unique_ptr<CheckpointReader>>(std::move(reader_));
  }

 private:
  CheckpointInfo& info() { return reader_->mutable_info(); }

  Result<void> read_index(const std::string& name, std::vector<std::string>* weights) {
    TENPLEX_ASSIGN_OR_RETURN(const auto source, open_member(files_, path_, name, options_.follow_links));
    if (source->size() > options_.max_metadata_bytes)
      return resource_exhausted(
          fmt::format("'{}' has {} bytes, the limit is {}", name, source->size(), options_.max_metadata_bytes));
    TENPLEX_ASSIGN_OR_RETURN(const std::string text, read_string(*source, 0, source->size()));
    auto index = parse_index(text);
    if (!index) return std::move(index).error().with_context(fmt::format("'{}'", name));
    index_ = std::move(*index);
    if (index_->weight_map.empty()) return corrupt(fmt::format("'{}' names no tensor", name));
    for (const auto& [tensor, file] : index_->weight_map) weights->push_back(file);
    std::sort(weights->begin(), weights->end(), natural_less);
    weights->erase(std::unique(weights->begin(), weights->end()), weights->end());
    return {};
  }

  Result<void> add_file(const std::string& name) {
    auto header = reader_->add_file(name, options_.max_metadata_bytes);
    if (!header && header.error().code() == ErrorCode::kNotFound)
      return not_found(fmt::format("'{}' is missing", name));
    if (!header) return std::move(header).error();
    const auto file = static_cast<std::int32_t>(info().files.size() - 1);
    safetensors::add_metadata(header->metadata, name, &info());
    if (const auto text = header->find_metadata(safetensors::kSideKey)) {
      auto side = safetensors::decode_side_metadata(*text);
      if (!side) return std::move(side).error().with_context(fmt::format("'{}': metadata", name));
      side_.aliases.insert(side_.aliases.end(), side->aliases.begin(), side->aliases.end());
      if (!side->state_json.empty()) side_.state_json = std::move(side->state_json);
    }
    info().chunks.reserve(info().chunks.size() + header->tensors.size());
    for (safetensors::HeaderTensor& stored : header->tensors) {
      const TensorId tensor(info().tensors.size());
      const auto [entry, is_new] = places_.emplace(stored.info.name, Place{tensor, file});
      if (!is_new)
        return corrupt(fmt::format(
            "tensor '{}' is in '{}' and in '{}'{}", stored.info.name,
            info().files[static_cast<std::size_t>(entry->second.file)], name,
            index_ ? "" : "; if each file is one rank's part, --from and --from-layout say how the tensors are cut"));
      total_bytes_ = checked_add(total_bytes_, stored.end - stored.begin).value_or(INT64_MAX);
      info().tensors.push_back(std::move(stored.info));
      reader_->add_whole(tensor, DeviceId(0), file, header->data_start + stored.begin);
    }
    return {};
  }

  Result<void> check_index() {
    for (const auto& [tensor, file] : index_->weight_map) {
      const auto place = places_.find(tensor);
      if (place == places_.end())
        return corrupt(fmt::format("the index says that '{}' holds tensor '{}', which no file does", file, tensor));
      const std::string& found = info().files[static_cast<std::size_t>(place->second.file)];
      if (found != file)
        return corrupt(fmt::format("the index says that '{}' holds tensor '{}', it is in '{}'", file, tensor, found));
    }
    for (const std::string& key : index_->passed_over)
      info().problems.push_back(fmt::format("the index's metadata '{}' is not carried to another checkpoint", key));
    // Every name of the index is a tensor by now.
    if (const std::size_t more = places_.size() - index_->weight_map.size(); more > 0)
      info().problems.push_back(
          fmt::format("{} {} not in the index", counted(more, "tensor"), more == 1 ? "is" : "are"));
    if (index_->total_size && *index_->total_size != total_bytes_)
      info().problems.push_back(fmt::format("the index gives {} bytes as total_size, the tensors have {}",
                                            *index_->total_size, total_bytes_));
    return {};
  }

  void keep_extra_files(std::vector<ExtraFile> all, const std::string& index) {
    const std::vector<std::string>& weights = info().files;
    for (ExtraFile& file : all) {
      if (file.path == index || std::find(weights.begin(), weights.end(), file.path) != weights.end()) continue;
      info().extra_files.push_back(std::move(file));
    }
  }

  struct Place {
    TensorId tensor;
    std::int32_t file;
  };

  FileSystem& files_;
  const std::string& path_;
  const ReadOptions& options_;
  std::unique_ptr<safetensors::PlainReader> reader_;
  std::optional<Index> index_;
  SideData side_;
  std::unordered_map<std::string, Place> places_;
  std::int64_t total_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<CheckpointReader>> open_hf(FileSystem& files, const std::string& path,
                                                  const ReadOptions& options) {
  return ModelFolder(files, path, options).run().with_context(path);
}

}  // namespace tenplex::hf
