// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a pickle. What reads without hooks is written in both protocols, read again and compared.
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
        {module, name, when, [turn](const PickleDocument&, const ObjectParts&) mutable -> Result<PickleReplacement> {
           if (++turn % 3 == 0) return PickleReplacement::keep();
           if (turn % 3 == 1) return PickleReplacement::token(turn);
           return PickleReplacement::tensor({});
         }});
  options.persistent_id = [](PickleDocument& document, tenplex::NodeId) -> Result<tenplex::NodeId> {
    return document.graph().add_float(0);
  };
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
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
