// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/megatron/bucket_names.h"

#include "tenplex/base/decimal.h"

namespace tenplex::megatron {
namespace {

/// Takes `beginning` and the number behind it off, up to `end` and with it.
std::optional<std::int64_t> take_numbered_word(std::string_view* text, std::string_view beginning, char end) {
  if (!text->starts_with(beginning)) return std::nullopt;
  const std::size_t stop = text->find(end, beginning.size());
  if (stop == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text->substr(beginning.size(), stop - beginning.size());
  if (digits.size() > 1 && digits.front() == '0') return std::nullopt;
  const auto number = decimal_of(digits);
  if (number) text->remove_prefix(stop + 1);
  return number;
}

std::optional<OptimizerGroup> take_group(std::string_view* name) {
  OptimizerGroup group;
  group.optimizer = take_numbered_word(name, "chained_", '.').value_or(0);
  const auto number = take_numbered_word(name, "optimizer.distributed.dp_group_idx_", '.');
  if (!number) return std::nullopt;
  group.group = *number;
  return group;
}

}  // namespace

std::optional<BucketName> parse_bucket_name(std::string_view name) {
  constexpr std::string_view kTypes = "dtype_(torch.";
  const auto group = take_group(&name);
  const auto buffer = take_numbered_word(&name, "gbuf_idx_", '.');
  const std::size_t comma = name.find(", ");
  const std::size_t end = name.find(").");
  if (!group || !buffer || !name.starts_with(kTypes) || comma == std::string_view::npos || end < comma ||
      end == std::string_view::npos)
    return std::nullopt;
  const auto type = parse_dtype(name.substr(kTypes.size(), comma - kTypes.size()));
  name.remove_prefix(end + 2);
  const auto bucket = take_numbered_word(&name, "bucket_idx_", '.');
  if (!type || !bucket || name.empty()) return std::nullopt;
  return BucketName{*group, *buffer, *type, *bucket, name};
}

std::optional<BucketObject> parse_bucket_object(std::string_view name) {
  const auto group = take_group(&name);
  const std::size_t end = name.find("/shard_0_1");
  if (!group || end == std::string_view::npos) return std::nullopt;
  return BucketObject{*group, name.substr(0, end)};
}

bool is_of_bucket(std::string_view name) { return take_group(&name).has_value(); }

}  // namespace tenplex::megatron
