// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a pickle. What reads without hooks is written in both protocols, read again and compared. It is also
// read from a file, and if it starts with the byte 0xff, the rest is a pickle that follows texts of several windows of
// that file.
// decoder: src/tenplex/formats/pickle/pickle_reader.cc
// decoder: src/tenplex/formats/pickle/pickle_machine.cc
// decoder: src/tenplex/formats/pickle/pickle_values.cc
// decoder: src/tenplex/formats/pickle/pickle_objects.cc
// decoder: src/tenplex/formats/pickle/pickle_document.cc
// decoder: src/tenplex/formats/pickle/pickle_text.cc
// decoder: src/tenplex/formats/pickle/pickle_input.cc
#include <cstdint>
#include <string>

#include "tenplex/base/check.h"
#include "tenplex/formats/pickle/pickle_reader.h"
#include "tenplex/formats/pickle/pickle_writer.h"
#include "tenplex/formats/state/flatten.h"
#include "tenplex/io/testing/memory_file_system.h"

namespace {

using tenplex::ObjectParts;
using tenplex::PickleDocument;
using tenplex::PickleHook;
using tenplex::PickleReplacement;
using tenplex::Result;

// Every class that the seeds use is hooked, in turn as a token, a tensor and not at all.
tenplex::PickleOptions hooked() {
  tenplex::PickleOptions options;
  std::uint32_t turn = 0;
  for (const auto& [module, name, when] :
       {std::tuple{"torch", "Size", PickleHook::When::kCall},
        std::tuple{"collections", "OrderedDict", PickleHook::When::kCall},
        std::tuple{"argparse", "Namespace", PickleHook::When::kState}, std::tuple{"m", "C", PickleHook::When::kState}})
    options.hooks.push_back(
        {module, name, when,
         [turn](const PickleDocument& document, const ObjectParts& parts) mutable -> Result<PickleReplacement> {
           (void)document.find(parts.state, "x");
           (void)document.find_text("x");
           (void)document.is_instance(parts.state, "m", "C");
           if (++turn % 3 == 0) return PickleReplacement::keep();
           if (turn % 3 == 1) return PickleReplacement::token(turn);
           return PickleReplacement::tensor({});
         }});
  options.persistent_id = [](PickleDocument& document, tenplex::NodeId) -> Result<tenplex::NodeId> {
    return document.graph().add_float(0);
  };
  return options;
}

/// Texts, bytes and a line, all dropped again, of several windows of the input; then the pickle.
std::string behind_long_texts(std::string_view pickle) {
  const auto text = [](char code, std::uint32_t size) {
    std::string opcode = "?....0";
    opcode[0] = code;
    for (std::size_t byte = 0; byte < 4; ++byte) opcode[1 + byte] = static_cast<char>(size >> (8 * byte));
    return opcode.insert(5, size, 't');
  };
  const std::string line = "V" + std::string(100 << 10, 'l') + "\n0";
  return "\x80\x04" + text('X', 200 << 10) + line + text('B', 200 << 10) + text('X', 300 << 10) + std::string(pickle);
}

void read_from_file(std::string pickle) {
  tenplex::MemoryFileSystem files;
  files.put_file("/p", std::move(pickle));
  const auto source = files.open("/p").value();
  if (auto document = tenplex::read_pickle(*source, 0, source->size()))
    TENPLEX_CHECK(std::move(*document).into_graph().has_value());
  TENPLEX_CHECK(!tenplex::read_pickle(*source, 1, source->size()).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  read_from_file(input.starts_with('\xff') ? behind_long_texts(input.substr(1)) : std::string(input));
  const auto bytes = std::as_bytes(std::span(data, size));
  (void)tenplex::read_pickle(bytes, hooked());
  auto document = tenplex::read_pickle(bytes);
  if (!document) return 0;
  const auto graph = std::move(*document).into_graph();
  TENPLEX_CHECK(graph.has_value());
  for (const int protocol : {2, 4}) {
    tenplex::PickleWriteOptions options;
    options.protocol = protocol;
    const auto written = tenplex::write_pickle(*graph, graph->root, options);
    if (written) TENPLEX_CHECK(tenplex::read_pickle(tenplex::as_bytes(*written)).has_value());
  }
  (void)tenplex::tensor_names(*graph);
  return 0;
}
