// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The input is the description of a model. What parses lists tensors with names of their own and shapes that fit.
// decoder: src/tenplex/ptc/model.cc
// decoder: src/tenplex/ptc/size_rules.cc
#include <cstdint>
#include <string_view>

#include "tenplex/base/check.h"
#include "tenplex/ptc/model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto model = tenplex::parse_model({reinterpret_cast<const char*>(data), size}, "fuzzed");
  if (!model) return 0;
  std::int64_t elements = 0;
  for (const tenplex::TensorInfo& tensor : model->tensors()) {
    TENPLEX_CHECK(tenplex::check_tensor(tensor));
    elements += tensor.name.empty() ? 1 : 0;
  }
  TENPLEX_CHECK(elements == 0 && model->parameter_count() >= 0);
  return 0;
}
