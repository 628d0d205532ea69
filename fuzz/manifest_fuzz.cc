// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The input is the body of a manifest; the target puts the right length and checksum around it, so that the fuzzer
// gets past them. It is also read as it is. States are decoded with the manifest's own tensors and those that aliases
// add; the path of an object is its pickle in base64.
// decoder: src/tenplex/formats/manifest/manifest_reader.cc
// decoder: src/tenplex/formats/manifest/envelope.cc
// decoder: src/tenplex/formats/manifest/json_reader.cc
// decoder: src/tenplex/formats/manifest/json_values.cc
// decoder: src/tenplex/formats/manifest/state_json_decode.cc
// decoder: src/tenplex/formats/manifest/base64.cc
#include <cstdint>
#include <string>

#include "tenplex/base/check.h"
#include "tenplex/formats/manifest/base64.h"
#include "tenplex/formats/manifest/envelope.h"
#include "tenplex/formats/manifest/manifest.h"
#include "tenplex/formats/manifest/state_json.h"

namespace {

void read(std::string_view text) {
  std::vector<tenplex::TensorInfo> tensors;
  tenplex::SideData side;
  tenplex::ManifestVisitor visitor;
  visitor.head = [&](const tenplex::ManifestHead& head) {
    side = head.side;
    return tenplex::Result<void>();
  };
  visitor.tensor = [&](const tenplex::TensorInfo& tensor) {
    tensors.push_back(tensor);
    return tenplex::Result<void>();
  };
  visitor.shard = [&](const tenplex::ManifestShard& shard) {
    for (const tenplex::Piece& piece : shard.shard.pieces)
      TENPLEX_CHECK(tenplex::contains(tenplex::Box::whole(tensors.back().shape), piece.box));
    return tenplex::Result<void>();
  };
  if (!tenplex::decode_manifest(text, visitor)) return;
  std::vector<tenplex::TensorId> stored;
  if (!tenplex::add_alias_tensors(side, &tensors, &stored) || side.state_json.empty()) return;
  tenplex::JsonReader json(side.state_json);
  tenplex::StateJsonSource source;
  source.tensors = tensors;
  source.read_object = [](const tenplex::ObjectFile& file) -> tenplex::Result<std::string> {
    if (auto pickle = tenplex::from_base64(file.path)) return std::move(*pickle);
    return tenplex::not_found("no such object");
  };
  const auto graph = tenplex::decode_state(json, source);
  if (!graph) return;
  tenplex::StateJsonOptions options;
  options.allow_objects = true;
  const auto encoded = tenplex::encode_state(*graph, tensors, options);
  if (!encoded || !encoded->objects.empty()) return;
  tenplex::JsonReader again(encoded->json);
  TENPLEX_CHECK(tenplex::decode_state(again, source).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string body(reinterpret_cast<const char*>(data), size);
  read(tenplex::write_envelope(tenplex::kManifestFormat, tenplex::kManifestVersion, body));
  read(body);
  return 0;
}
