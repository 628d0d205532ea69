// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/safetensors/side_metadata.h"
#include "tenplex/base/counted.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/formats/manifest/envelope.h"
#include "tenplex/formats/member_file.h"
#include "tenplex/formats/stale_hint.h"

namespace tenplex::safetensors {
namespace {

constexpr std::int64_t kVersion = 1;

// The last member, of all bytes before it.
constexpr std::string_view kBeforeChecksum = R"(,"checksum":")";
constexpr std::size_t kChecksumDigits = 32;
constexpr std::string_view kAfterChecksum = R"("})";

/// A text that somebody wrote by hand may have none.
Result<void> check_checksum(std::string_view text) {
  constexpr std::size_t kTail = kBeforeChecksum.size() + kChecksumDigits + kAfterChecksum.size();
  if (text.size() < kTail) return {};
  const std::string_view tail = text.substr(text.size() - kTail);
  if (!tail.starts_with(kBeforeChecksum) || !tail.ends_with(kAfterChecksum)) return {};
  if (tail.substr(kBeforeChecksum.size(), kChecksumDigits) == checksum_of(text.substr(0, text.size() - kTail)))
    return {};
  return corrupt("its checksum is wrong");
}

/// Chunks of every alias, at the places of the tensor that it stands for.
void add_alias_chunks(const std::vector<TensorId>& sources, std::size_t first_alias, PlainReader* reader) {
  if (sources.empty()) return;
  std::vector<std::vector<TensorId>> aliases(first_alias);
  for (std::size_t k = 0; k < sources.size(); ++k) aliases[sources[k].index()].push_back(TensorId(first_alias + k));
  const std::size_t stored = reader->info().chunks.size();
  for (std::size_t index = 0; index < stored; ++index) {
    Chunk chunk = reader->info().chunks[index];
    const Dims strides = reader->strides_of(index);
    for (const TensorId alias : aliases[chunk.tensor.index()]) {
      chunk.tensor = alias;
      reader->add_box(chunk, strides);
    }
  }
}

Result<std::string> read_object_file(FileSystem& files, const ObjectsFolder& folder, const ObjectFile& file) {
  if (folder.path.empty())
    return invalid_argument("the checkpoint keeps objects in files of their own; --objects DIR says where they are");
  TENPLEX_ASSIGN_OR_RETURN(const auto source, open_member(files, folder.path, file.path, folder.follow_links));
  if (source->size() != file.size_bytes)
    return corrupt(fmt::format("expected {} bytes, found {}", file.size_bytes, source->size()));
  return read_string(*source, 0, source->size());
}

/// A tensor that the tree does not name would be lost in formats that keep the tree only.
void note_tensors_outside_state(CheckpointInfo* info) {
  std::vector<bool> named(info->tensors.size());
  for (NodeId id = 0; id < info->state.size(); ++id) {
    const NodeKind kind = info->state[id].kind;
    if (kind == NodeKind::kTensor || kind == NodeKind::kStorage) named[info->state.view(id).tensor.index()] = true;
  }
  const auto missing = std::count(named.begin(), named.end(), false);
  if (missing == 0) return;
  const auto first = static_cast<std::size_t>(std::find(named.begin(), named.end(), false) - named.begin());
  info->problems.push_back(fmt::format("{} {} not in the stored tree, the first is '{}'", counted(missing, "tensor"),
                                       missing == 1 ? "is" : "are", info->tensors[first].name));
}

/// The text of an object with the versions and what `append(json)` adds.
template <typename Append>
std::string encode(const Append& append) {
  std::string text;
  JsonWriter json(&text);
  json.begin_object();
  json.member("version", kVersion);
  json.member("oldest_reader", kVersion);
  append(json);
  const std::string checksum = checksum_of(text);
  text += fmt::format("{}{}{}", kBeforeChecksum, checksum, kAfterChecksum);
  return text;
}

/// read(json, key) takes the value of every member but the reader's version.
template <typename Read>
Result<void> decode(std::string_view text, const Read& read) {
  TENPLEX_TRY(check_checksum(text));
  std::int64_t oldest_reader = 0;
  JsonReader json(text);
  TENPLEX_TRY(for_each_member(json, [&](std::string_view key) {
    if (key == "oldest_reader") return read_value(json, &oldest_reader);
    return read(json, key);
  }));
  TENPLEX_TRY(json.finish());
  return check_oldest_reader(oldest_reader, kVersion);
}

}  // namespace

std::string encode_side_metadata(const SideData& side) {
  return encode([&](JsonWriter& json) { append_side_members(json, side); });
}

Result<SideData> decode_side_metadata(std::string_view text) {
  SideData side;
  TENPLEX_TRY(decode(text, [&](JsonReader& json, std::string_view key) { return read_side_member(json, key, &side); }));
  return side;
}

std::string encode_device_metadata(DeviceId device) {
  return encode([&](JsonWriter& json) { json.member("device", std::int64_t{device.value()}); });
}

Result<std::optional<std::int64_t>> decode_device_metadata(std::string_view text) {
  std::optional<std::int64_t> device;
  TENPLEX_TRY(decode(text, [&](JsonReader& json, std::string_view key) {
    return key == "device" ? read_value(json, &device.emplace()) : skip_value(json);
  }));
  return device;
}

Metadata outgoing_metadata(const CheckpointInfo& source) {
  Metadata metadata;
  bool has_format = false;
  for (const auto& [key, text] : source.metadata) {
    if (key == kSideKey || key.starts_with("DCP_")) continue;
    has_format = has_format || key == "format";
    metadata.emplace_back(key, text);
  }
  if (!has_format) metadata.emplace(metadata.begin(), "format", "pt");
  return metadata;
}

Result<void> apply_side_data(const SideData& side, FileSystem& files, const ObjectsFolder& objects,
                             PlainReader* reader) {
  CheckpointInfo& info = reader->mutable_info();
  const std::size_t first_alias = info.tensors.size();
  std::vector<TensorId> sources;
  TENPLEX_TRY(add_alias_tensors(side, &info.tensors, &sources));
  add_alias_chunks(sources, first_alias, reader);
  for (const ExtraFile& file : side.extra_files) info.extra_files.push_back(file);
  if (side.state_json.empty()) {
    for (std::size_t k = 0; k < sources.size(); ++k) info.aliases.emplace_back(TensorId(first_alias + k), sources[k]);
    return {};
  }
  JsonReader json(side.state_json);
  StateJsonSource source;
  source.tensors = info.tensors;
  source.read_object = [&](const ObjectFile& file) { return read_object_file(files, objects, file); };
  TENPLEX_ASSIGN_OR_RETURN(info.state, decode_state(json, source).with_context("the stored tree"));
  note_tensors_outside_state(&info);
  return {};
}

Result<void> apply_side_metadata(const SideData& side, FileSystem& files, const ObjectsFolder& objects,
                                 PlainReader* reader) {
  auto applied = apply_side_data(side, files, objects, reader);
  if (applied || applied.error().code() != ErrorCode::kCorrupt) return applied;
  const std::vector<std::string>& context = applied.error().context();
  const bool of_a_file = std::any_of(context.begin(), context.end(),
                                     [](const std::string& line) { return line.starts_with("object file"); });
  if (of_a_file) return applied;
  return corrupt(fmt::format("{}{}", applied.error().to_string(), kStaleHint));
}

void add_metadata(const Metadata& metadata, const std::string& file, CheckpointInfo* info) {
  for (const auto& [key, text] : metadata) {
    if (key == kSideKey) continue;
    const auto found = std::find_if(info->metadata.begin(), info->metadata.end(),
                                    [&](const auto& entry) { return entry.first == key; });
    if (found == info->metadata.end()) {
      info->metadata.emplace_back(key, text);
    } else if (found->second != text) {
      info->problems.push_back(
          fmt::format("{}: metadata '{}' differs from that of another file, which is kept", file, key));
    }
  }
}

}  // namespace tenplex::safetensors
