// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a topology file. What parses must be consistent.
// decoder: src/tenplex/plan/topology_yaml.cc
#include <cstdint>
#include <string_view>

#include "tenplex/base/check.h"
#include "tenplex/plan/topology.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto topology = tenplex::Topology::parse(text, "fuzzed");
  if (!topology) return 0;
  int slots = 0;
  for (int w = 0; w < topology->worker_count(); ++w) {
    TENPLEX_CHECK(topology->first_slot(tenplex::WorkerId(w)) == slots);
    slots += topology->worker(tenplex::WorkerId(w)).devices;
  }
  TENPLEX_CHECK(slots == topology->slot_count());
  return 0;
}
