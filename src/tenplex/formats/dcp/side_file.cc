// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/side_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/formats/manifest/base64.h"
#include "tenplex/formats/manifest/envelope.h"
#include "tenplex/formats/manifest/json_values.h"

namespace tenplex::dcp {
namespace {

constexpr std::string_view kFormat = "tenplex.dcp";
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMaxSideNumber = 0x7fffffff;  // of storages and objects
constexpr std::int64_t kMaxDevices = std::int64_t{1} << 20;

Result<void> read_pickles(JsonReader& json, SideFile* side) {
  return for_each_member(json, [&](std::string_view path) -> Result<void> {
    TENPLEX_ASSIGN_OR_RETURN(const std::string_view text, json.string());
    std::optional<std::string> bytes = from_base64(text);
    if (!bytes) return json.fail("bytes that are no base64");
    side->pickles.emplace_back(path, std::move(*bytes));
    return {};
  });
}

// [name, storage, offset, strides, object]
Result<void> read_inner_view(JsonReader& json, SideFile* side) {
  auto& [name, view] = side->inner_views.emplace_back();
  std::int64_t storage = 0;
  std::int64_t object = 0;
  TENPLEX_TRY(read_list(json, &name, &storage, &view.offset, &view.strides, &object));
  const bool natural =
      std::all_of(view.strides.begin(), view.strides.end(), [](std::int64_t stride) { return stride >= 0; });
  if (storage < 0 || storage > kMaxSideNumber || object < 0 || object > kMaxSideNumber || view.offset < 0 || !natural)
    return json.fail("an inner view that cannot be");
  view.storage = static_cast<std::uint32_t>(storage);
  view.object = static_cast<std::uint32_t>(object);
  return {};
}

Result<void> read_place(JsonReader& json, std::vector<std::int64_t>* place) {
  TENPLEX_ASSIGN_OR_RETURN(const bool more, json.next_element());
  if (!more) return json.fail("a shared node has two places");
  return for_each_element(json, [&] { return read_value(json, &place->emplace_back()); });
}

// [[edge, …], [edge, …]]
Result<void> read_shared_node(JsonReader& json, SideFile* side) {
  SharedNode& node = side->shared_nodes.emplace_back();
  TENPLEX_TRY(json.begin_array());
  TENPLEX_TRY(read_place(json, &node.place));
  TENPLEX_TRY(read_place(json, &node.first));
  return end_list(json);
}

Result<void> read_device_count(JsonReader& json, SideFile* side) {
  TENPLEX_ASSIGN_OR_RETURN(const std::int64_t devices, json.integer());
  if (devices < 1 || devices > kMaxDevices) return json.fail("a number of devices that cannot be");
  side->device_count = static_cast<int>(devices);
  return {};
}

void append_inner_views(JsonWriter& json, const std::vector<InnerView>& views) {
  json.key("inner_views");
  json.begin_array();
  for (const InnerView& inner : views)
    json.list(inner.name, std::int64_t{inner.view.storage}, inner.view.offset, inner.view.strides,
              std::int64_t{inner.view.object});
  json.end_array();
}

void append_shared_nodes(JsonWriter& json, const std::vector<SharedNode>& nodes) {
  json.key("shared_nodes");
  json.begin_array();
  for (const SharedNode& node : nodes) {
    json.begin_array();
    for (const std::vector<std::int64_t>* place : {&node.place, &node.first}) {
      json.begin_array();
      for (const std::int64_t edge : *place) json.value(edge);
      json.end_array();
    }
    json.end_array();
  }
  json.end_array();
}

Result<void> read_member(JsonReader& json, std::string_view key, SideFile* side) {
  if (key == "of") return read_value(json, &side->of);
  if (key == "devices") return read_device_count(json, side);
  if (key == "layout") return read_layout(json, &side->layout);
  if (key == "metadata") return read_value(json, &side->metadata);
  if (key == "inner_views") return for_each_element(json, [&] { return read_inner_view(json, side); });
  if (key == "shared_nodes") return for_each_element(json, [&] { return read_shared_node(json, side); });
  if (key == "repeated")
    return for_each_element(json, [&] { return read_value(json, &side->repeated.emplace_back()); });
  if (key == "pickles") return read_pickles(json, side);
  return read_side_member(json, key, &side->side);
}

}  // namespace

Result<std::string> encode_side_file(const SideFile& side) {
  std::string body;
  JsonWriter json(&body);
  json.begin_object();
  json.member("of", side.of);
  json.member("devices", std::int64_t{side.device_count});
  append_layout(json, side.layout);
  if (!side.metadata.empty()) {
    json.key("metadata");
    append_texts(json, side.metadata);
  }
  if (!side.inner_views.empty()) append_inner_views(json, side.inner_views);
  if (!side.shared_nodes.empty()) append_shared_nodes(json, side.shared_nodes);
  if (!side.repeated.empty()) {
    json.key("repeated");
    json.begin_array();
    for (const std::string& name : side.repeated) json.value(name);
    json.end_array();
  }
  if (!side.pickles.empty()) {
    json.key("pickles");
    json.begin_object();
    for (const auto& [path, bytes] : side.pickles) json.member(path, to_base64(bytes));
    json.end_object();
  }
  append_side_members(json, side.side);
  json.end_object();
  TENPLEX_TRY(json.check());
  return write_envelope(kFormat, kVersion, body);
}

Result<SideFile> decode_side_file(std::string_view text) {
  TENPLEX_ASSIGN_OR_RETURN(const std::string_view body, read_envelope(text, kFormat, kVersion));
  SideFile side;
  JsonReader json(body);
  TENPLEX_TRY(for_each_member(json, [&](std::string_view key) { return read_member(json, key, &side); }));
  TENPLEX_TRY(json.finish());
  return side;
}

}  // namespace tenplex::dcp
