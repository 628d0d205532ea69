// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/integrity_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/base/sha256.h"

namespace tenplex::megatron {
namespace {

constexpr std::string_view kAlgorithm = "sha256";
constexpr std::int64_t kBlockBytes = std::int64_t{1} << 20;

bool is_sum(std::string_view text) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == kSha256Digits && std::all_of(text.begin(), text.end(), is_digit);
}

}  // namespace

Result<JsonTexts> decode_integrity(std::string_view text) {
  std::string algorithm(kAlgorithm);
  JsonTexts sums;
  bool has_files = false;
  JsonReader json(text);
  TENPLEX_TRY(for_each_member(json, [&](std::string_view key) {
    if (key == "algorithm") return read_value(json, &algorithm);
    if (key != "files") return skip_value(json);
    has_files = true;
    return read_value(json, &sums);
  }));
  TENPLEX_TRY(json.finish());
  if (algorithm != kAlgorithm)
    return unsupported(fmt::format("algorithm '{}': only '{}' is supported", algorithm, kAlgorithm));
  if (!has_files) return corrupt("there are no 'files'");
  for (const auto& [name, sum] : sums)
    if (!is_sum(sum)) return corrupt(fmt::format("file '{}': '{}' is no SHA-256 sum", name, sum));
  return sums;
}

std::string encode_integrity(const JsonTexts& sums) {
  std::string text = fmt::format("{{\n  \"algorithm\": \"{}\",\n  \"files\": {{", kAlgorithm);
  std::string_view separator = "\n";
  for (const auto& [name, sum] : sums) {
    text += fmt::format("{}    ", separator);
    append_json_string(&text, name);
    text += fmt::format(": \"{}\"", sum);
    separator = ",\n";
  }
  return text + (sums.empty() ? "}\n}" : "\n  }\n}");
}

Result<std::string> sum_of_file(const ByteSource& source, Progress& progress) {
  std::vector<std::byte> block(static_cast<std::size_t>(std::min(kBlockBytes, source.size())));
  Sha256 sum;
  for (std::int64_t offset = 0; offset < source.size();) {
    TENPLEX_TRY(progress.check());
    const std::int64_t count = std::min(kBlockBytes, source.size() - offset);
    const MutableByteSpan part(block.data(), static_cast<std::size_t>(count));
    TENPLEX_TRY(source.read_at(offset, part));
    sum.add(part);
    offset += count;
    progress.add(count);
  }
  return sum.finish();
}

}  // namespace tenplex::megatron
