// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/hf/config_dtype.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tenplex/formats/manifest/json_values.h"

namespace tenplex::hf {
namespace {

constexpr std::string_view kConfig = "config.json";
constexpr std::string_view kPrefix = "torch.";  // of some older files

/// Finds the names of element types in the text.
class DTypeNames {
 public:
  explicit DTypeNames(std::string_view text) : text_(text), json_(text) {}

  Result<std::vector<std::string_view>> find() && {
    TENPLEX_TRY(object());
    TENPLEX_TRY(json_.finish());
    return std::move(found_);
  }

 private:
  // As deep as JsonReader lets objects be.
  Result<void> object() {
    return for_each_member(json_, [&](std::string_view key) -> Result<void> {
      TENPLEX_ASSIGN_OR_RETURN(const JsonKind kind, json_.peek());
      if (kind == JsonKind::kString && (key == "dtype" || key == "torch_dtype")) return name();
      if (kind == JsonKind::kObject && key != "quantization_config") return object();
      return skip_value(json_);
    });
  }

  Result<void> name() {
    TENPLEX_ASSIGN_OR_RETURN(std::string_view name, json_.string());
    if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
    const auto dtype = parse_dtype(name);
    const bool is_float =
        dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 || dtype == DType::kFloat64;
    // A name with escapes is not of the text itself; nobody writes one.
    const bool plain = name.data() >= text_.data() && name.data() < text_.data() + text_.size();
    if (is_float && plain) found_.push_back(name);
    return {};
  }

  std::string_view text_;
  JsonReader json_;
  std::vector<std::string_view> found_;  // parts of text_, in its order
};

class ConfigReader final : public CheckpointReader {
 public:
  ConfigReader(std::shared_ptr<const CheckpointReader> stored, std::string config)
      : stored_(std::move(stored)), info_(stored_->info()), config_(std::move(config)) {
    for (ExtraFile& file : info_.extra_files)
      if (file.path == kConfig) file.size_bytes = std::int64_t(config_.size());
  }

  const CheckpointInfo& info() const override { return info_; }
  Result<const ByteSource*> file(std::int32_t index) const override { return stored_->file(index); }
  Result<ChunkLocation> locate(std::size_t index) const override { return stored_->locate(index); }
  Result<std::string> read_extra_file(const ExtraFile& file) const override {
    if (file.path == kConfig) return std::string(config_);
    return stored_->read_extra_file(file);
  }
  Result<void> check_unchanged() const override { return stored_->check_unchanged(); }
  Result<void> check_files(Progress& progress) const override { return stored_->check_files(progress); }

 private:
  const std::shared_ptr<const CheckpointReader> stored_;
  CheckpointInfo info_;
  const std::string config_;
};

}  // namespace

Result<std::string> with_dtype(std::string_view config, DType dtype) {
  TENPLEX_ASSIGN_OR_RETURN(const std::vector<std::string_view> names, DTypeNames(config).find());
  std::string out;
  std::size_t next = 0;
  for (const std::string_view name : names) {
    const auto at = static_cast<std::size_t>(name.data() - config.data());
    out += config.substr(next, at - next);
    out += to_string(dtype);
    next = at + name.size();
  }
  out += config.substr(next);
  return out;
}

Result<std::shared_ptr<const CheckpointReader>> with_config_dtype(std::shared_ptr<const CheckpointReader> reader,
                                                                  DType dtype) {
  const std::vector<ExtraFile>& extra = reader->info().extra_files;
  const auto file = std::find_if(extra.begin(), extra.end(), [](const auto& entry) { return entry.path == kConfig; });
  if (file == extra.end()) return reader;
  TENPLEX_ASSIGN_OR_RETURN(const std::string config, reader->read_extra_file(*file));
  auto changed = with_dtype(config, dtype);
  if (!changed) return std::move(changed).error().with_context("'config.json'");
  return std::shared_ptr<const CheckpointReader>(
      std::make_shared<const ConfigReader>(std::move(reader), std::move(*changed)));
}

}  // namespace tenplex::hf
