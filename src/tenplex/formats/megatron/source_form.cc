// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/source_form.h"

#include <fmt/format.h>

#include "tenplex/formats/megatron/backend_file.h"

namespace tenplex::megatron {
namespace {

constexpr std::string_view kFormPrefix = "megatron-dist.";
constexpr std::string_view kCommon = "megatron-dist.common";
constexpr std::string_view kIntegrity = "megatron-dist.integrity";
constexpr std::string_view kMetadata = "megatron-dist.metadata";

}  // namespace

bool is_form_key(std::string_view key) { return key.starts_with(kFormPrefix); }

JsonTexts encode_form(const SourceForm& form) {
  JsonTexts entries;
  if (!form.has_common_file) entries.emplace_back(kCommon, "common_state");
  if (form.has_integrity) entries.emplace_back(kIntegrity, "sha256");
  if (!form.others.empty()) entries.emplace_back(kMetadata, encode_others(form.others));
  return entries;
}

Result<SourceForm> decode_form(const JsonTexts& metadata) {
  SourceForm form;
  for (const auto& [key, value] : metadata) {
    if (key == kCommon) form.has_common_file = value != "common_state";
    if (key == kIntegrity) form.has_integrity = true;
    if (key != kMetadata) continue;
    auto others = decode_others(value);
    if (!others) return std::move(others).error().with_context(fmt::format("metadata '{}'", key));
    form.others = std::move(*others);
  }
  return form;
}

}  // namespace tenplex::megatron
