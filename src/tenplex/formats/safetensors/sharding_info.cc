// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/safetensors/sharding_info.h"

#include "tenplex/formats/manifest/json_values.h"

namespace tenplex::safetensors {
namespace {

Result<Dims> read_saved_offsets(JsonReader& json) {
  std::optional<Dims> offsets;
  TENPLEX_TRY(for_each_member(json, [&](std::string_view key) {
    return key == "saved_offsets" ? read_value(json, &offsets.emplace()) : skip_value(json);
  }));
  if (!offsets) return json.fail("'saved_offsets' is missing");
  return *offsets;
}

Result<ShardingInfo> parse(std::string_view text) {
  ShardingInfo info;
  JsonReader json(text);
  TENPLEX_TRY(for_each_member(json, [&](std::string_view name) -> Result<void> {
    TENPLEX_ASSIGN_OR_RETURN(const Dims offsets, read_saved_offsets(json));
    info.emplace(name, offsets);
    return {};
  }));
  TENPLEX_TRY(json.finish());
  return info;
}

}  // namespace

Result<std::optional<ShardingInfo>> read_sharding_info(const Header& header) {
  const std::optional<std::string_view> text = header.find_metadata(kDcpShardingKey);
  if (!text) return std::optional<ShardingInfo>();
  TENPLEX_ASSIGN_OR_RETURN(ShardingInfo info, parse(*text).with_context(std::string(kDcpShardingKey)));
  return std::optional(std::move(info));
}

}  // namespace tenplex::safetensors
