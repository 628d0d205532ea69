// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/dcp/side_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "tenplex/base/hash.h"
#include "tenplex/formats/manifest/base64.h"
#include "tenplex/formats/manifest/json_dims.h"

namespace tenplex::dcp {
namespace {

constexpr std::string_view kFormat = "tenplex.dcp";
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMaxSideNumber = 0x7fffffff;  // of storages and objects
constexpr std::int64_t kMaxDevices = std::int64_t{1} << 20;

std::string checksum(std::string_view body) {
  Hasher hasher;
  hasher.add_raw(as_bytes(body));
  return to_string(hasher.finish());
}

void append_layout(JsonWriter& json, const LayoutNote& layout) {
  json.key("layout");
  json.begin_object();
  json.key("name");
  json.value(layout.name);
  json.key("text");
  json.value(layout.text);
  json.key("mesh");
  json.begin_array();
  for (const auto& [axis, size] : layout.mesh) {
    json.begin_array();
    json.value(axis);
    json.value(size);
    json.end_array();
  }
  json.end_array();
  json.end_object();
}

Result<void> read_mesh(JsonReader& json, LayoutNote* layout) {
  TENPLEX_TRY(json.begin_array());
  for (;;) {
    TENPLEX_ASSIGN_OR_RETURN(bool more, json.next_element());
    if (!more) return {};
    TENPLEX_TRY(json.begin_array());
    TENPLEX_ASSIGN_OR_RETURN(more, json.next_element());
    if (!more) return json.fail("a mesh axis is a name and a size");
    TENPLEX_ASSIGN_OR_RETURN(const std::string_view axis, json.string());
    std::string name(axis);
    TENPLEX_ASSIGN_OR_RETURN(more, json.next_element());
    if (!more) return json.fail("a mesh axis is a name and a size");
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t size, json.integer());
    TENPLEX_ASSIGN_OR_RETURN(more, json.next_element());
    if (more || size < 1) return json.fail("a mesh axis is a name and a size");
    layout->mesh.emplace_back(std::move(name), size);
  }
}

Result<void> read_layout(JsonReader& json, LayoutNote* layout) {
  TENPLEX_TRY(json.begin_object());
  for (;;) {
    std::string_view key;
    TENPLEX_ASSIGN_OR_RETURN(const bool more, json.next_member(&key));
    if (!more) return {};
    if (key == "name") {
      TENPLEX_ASSIGN_OR_RETURN(layout->name, json.string());
    } else if (key == "text") {
      TENPLEX_ASSIGN_OR_RETURN(layout->text, json.string());
    } else if (key == "mesh") {
      TENPLEX_TRY(read_mesh(json, layout));
    } else {
      TENPLEX_TRY(json.skip());
    }
  }
}

Result<void> read_pickles(JsonReader& json, SideFile* side) {
  TENPLEX_TRY(json.begin_object());
  for (;;) {
    std::string_view key;
    TENPLEX_ASSIGN_OR_RETURN(const bool more, json.next_member(&key));
    if (!more) return {};
    std::string path(key);
    TENPLEX_ASSIGN_OR_RETURN(const std::string_view text, json.string());
    std::optional<std::string> bytes = from_base64(text);
    if (!bytes) return json.fail("bytes that are no base64");
    side->pickles.emplace_back(std::move(path), std::move(*bytes));
  }
}

Result<void> read_metadata_texts(JsonReader& json, SideFile* side) {
  TENPLEX_TRY(json.begin_object());
  for (;;) {
    std::string_view key;
    TENPLEX_ASSIGN_OR_RETURN(const bool more, json.next_member(&key));
    if (!more) return {};
    std::string name(key);
    TENPLEX_ASSIGN_OR_RETURN(const std::string_view text, json.string());
    side->metadata.emplace_back(std::move(name), text);
  }
}

Result<void> read_repeated(JsonReader& json, SideFile* side) {
  TENPLEX_TRY(json.begin_array());
  for (;;) {
    TENPLEX_ASSIGN_OR_RETURN(const bool more, json.next_element());
    if (!more) return {};
    TENPLEX_ASSIGN_OR_RETURN(const std::string_view name, json.string());
    side->repeated.emplace_back(name);
  }
}

// [name, storage, offset, strides, object]
Result<InnerView> read_inner_view(JsonReader& json) {
  InnerView inner;
  std::int64_t storage = 0;
  std::int64_t object = 0;
  const auto next = [&]() -> Result<void> {
    TENPLEX_ASSIGN_OR_RETURN(const bool more, json.next_element());
    return more ? Result<void>() : Result<void>(json.fail("an inner view lacks a part"));
  };
  TENPLEX_TRY(json.begin_array());
  TENPLEX_TRY(next());
  TENPLEX_ASSIGN_OR_RETURN(inner.name, json.string());
  TENPLEX_TRY(next());
  TENPLEX_ASSIGN_OR_RETURN(storage, json.integer());
  TENPLEX_TRY(next());
  TENPLEX_ASSIGN_OR_RETURN(inner.view.offset, json.integer());
  TENPLEX_TRY(next());
  TENPLEX_ASSIGN_OR_RETURN(inner.view.strides, read_dims(json));
  TENPLEX_TRY(next());
  TENPLEX_ASSIGN_OR_RETURN(object, json.integer());
  TENPLEX_ASSIGN_OR_RETURN(const bool more, json.next_element());
  const bool natural = std::all_of(inner.view.strides.begin(), inner.view.strides.end(),
                                   [](std::int64_t stride) { return stride >= 0; });
  if (more || storage < 0 || storage > kMaxSideNumber || object < 0 || object > kMaxSideNumber ||
      inner.view.offset < 0 || !natural)
    return json.fail("an inner view that cannot be");
  inner.view.storage = static_cast<std::uint32_t>(storage);
  inner.view.object = static_cast<std::uint32_t>(object);
  return inner;
}

Result<void> read_inner_views(JsonReader& json, SideFile* side) {
  TENPLEX_TRY(json.begin_array());
  for (;;) {
    TENPLEX_ASSIGN_OR_RETURN(const bool more, json.next_element());
    if (!more) return {};
    TENPLEX_ASSIGN_OR_RETURN(InnerView inner, read_inner_view(json));
    side->inner_views.push_back(std::move(inner));
  }
}

void append_inner_views(JsonWriter& json, const std::vector<InnerView>& views) {
  json.key("inner_views");
  json.begin_array();
  for (const InnerView& inner : views) {
    json.begin_array();
    json.value(inner.name);
    json.value(std::int64_t{inner.view.storage});
    json.value(inner.view.offset);
    json.value(inner.view.strides);
    json.value(std::int64_t{inner.view.object});
    json.end_array();
  }
  json.end_array();
}

Result<SideFile> decode_body(std::string_view body) {
  SideFile side;
  JsonReader json(body);
  TENPLEX_TRY(json.begin_object());
  for (;;) {
    std::string_view key;
    TENPLEX_ASSIGN_OR_RETURN(const bool more, json.next_member(&key));
    if (!more) break;
    if (key == "devices") {
      TENPLEX_ASSIGN_OR_RETURN(const std::int64_t devices, json.integer());
      if (devices < 1 || devices > kMaxDevices) return json.fail("a number of devices that cannot be");
      side.device_count = static_cast<int>(devices);
    } else if (key == "layout") {
      TENPLEX_TRY(read_layout(json, &side.layout));
    } else if (key == "metadata") {
      TENPLEX_TRY(read_metadata_texts(json, &side));
    } else if (key == "inner_views") {
      TENPLEX_TRY(read_inner_views(json, &side));
    } else if (key == "repeated") {
      TENPLEX_TRY(read_repeated(json, &side));
    } else if (key == "pickles") {
      TENPLEX_TRY(read_pickles(json, &side));
    } else {
      TENPLEX_ASSIGN_OR_RETURN(const bool known, read_side_member(json, key, &side.side));
      if (!known) TENPLEX_TRY(json.skip());  // written by a newer version that lets this one read
    }
  }
  TENPLEX_TRY(json.finish());
  return side;
}

struct Envelope {
  std::string format;
  std::int64_t oldest_reader = 0;
  std::int64_t length = -1;
  std::string checksum;
  std::string_view body;
};

Result<Envelope> read_envelope(std::string_view text) {
  Envelope envelope;
  JsonReader json(text);
  TENPLEX_TRY(json.begin_object());
  for (;;) {
    std::string_view key;
    TENPLEX_ASSIGN_OR_RETURN(const bool more, json.next_member(&key));
    if (!more) break;
    if (key == "format") {
      TENPLEX_ASSIGN_OR_RETURN(envelope.format, json.string());
    } else if (key == "oldest_reader") {
      TENPLEX_ASSIGN_OR_RETURN(envelope.oldest_reader, json.integer());
    } else if (key == "length") {
      TENPLEX_ASSIGN_OR_RETURN(envelope.length, json.integer());
    } else if (key == "checksum") {
      TENPLEX_ASSIGN_OR_RETURN(envelope.checksum, json.string());
    } else if (key == "body") {
      TENPLEX_ASSIGN_OR_RETURN(envelope.body, json.skip());
    } else {
      TENPLEX_TRY(json.skip());
    }
  }
  TENPLEX_TRY(json.finish());
  return envelope;
}

}  // namespace

Result<std::string> encode_side_file(const SideFile& side) {
  for (const std::string& text : {side.layout.name, side.layout.text}) {
    if (find_invalid_utf8(text) != std::string_view::npos) return unsupported("the layout's text is not UTF-8");
  }
  for (const std::string& name : side.repeated) {
    if (find_invalid_utf8(name) != std::string_view::npos)
      return unsupported(fmt::format("name '{}' is not UTF-8", name));
  }
  for (const InnerView& inner : side.inner_views) {
    if (find_invalid_utf8(inner.name) != std::string_view::npos)
      return unsupported(fmt::format("name '{}' is not UTF-8", inner.name));
  }
  std::string body;
  JsonWriter json(&body);
  json.begin_object();
  json.key("devices");
  json.value(std::int64_t{side.device_count});
  if (side.layout != LayoutNote{}) append_layout(json, side.layout);
  if (!side.metadata.empty()) {
    json.key("metadata");
    json.begin_object();
    for (const auto& [key, text] : side.metadata) {
      json.key(key);
      json.value(text);
    }
    json.end_object();
  }
  if (!side.inner_views.empty()) append_inner_views(json, side.inner_views);
  if (!side.repeated.empty()) {
    json.key("repeated");
    json.begin_array();
    for (const std::string& name : side.repeated) json.value(name);
    json.end_array();
  }
  if (!side.pickles.empty()) {
    json.key("pickles");
    json.begin_object();
    for (const auto& [path, bytes] : side.pickles) {
      json.key(path);
      json.value(to_base64(bytes));
    }
    json.end_object();
  }
  append_side_members(json, side.side);
  json.end_object();
  return fmt::format(R"({{"format":"{}","version":{},"oldest_reader":1,"length":{},"checksum":"{}","body":{}}})"
                     "\n",
                     kFormat, kVersion, body.size(), checksum(body), body);
}

Result<SideFile> decode_side_file(std::string_view text) {
  TENPLEX_ASSIGN_OR_RETURN(const Envelope envelope, read_envelope(text));
  if (envelope.format != kFormat) {
    return corrupt(fmt::format("expected format '{}', found '{}'", kFormat, envelope.format));
  }
  if (envelope.oldest_reader > kVersion) {
    return unsupported(
        fmt::format("needs a reader of version {}, this is version {}", envelope.oldest_reader, kVersion));
  }
  if (envelope.length != static_cast<std::int64_t>(envelope.body.size()) ||
      envelope.checksum != checksum(envelope.body)) {
    return corrupt("its length or checksum is wrong");
  }
  return decode_body(envelope.body);
}

}  // namespace tenplex::dcp
