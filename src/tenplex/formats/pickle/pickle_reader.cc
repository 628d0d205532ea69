// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/pickle/pickle_reader.h"

#include <fmt/format.h>

#include "tenplex/formats/pickle/pickle_input.h"
#include "tenplex/formats/pickle/pickle_machine.h"

namespace tenplex {

PickleReplacement PickleReplacement::token(std::uint32_t value) {
  TENPLEX_CHECK(value < (kFirstAtom - kFirstToken));
  PickleReplacement replacement;
  replacement.kind = Kind::kToken;
  replacement.token_value = value;
  return replacement;
}

PickleReplacement PickleReplacement::tensor(TensorView view) {
  PickleReplacement replacement;
  replacement.kind = Kind::kTensor;
  replacement.view = std::make_unique<TensorView>(std::move(view));
  return replacement;
}

Result<PickleDocument> read_pickle(const ByteSource& source, std::int64_t offset, std::int64_t size,
                                   const PickleOptions& options) {
  if (offset < 0 || size < 0 || offset > source.size() || size > source.size() - offset)
    return corrupt(fmt::format("a pickle at [{}, +{}) lies outside the {} bytes of '{}'", offset, size, source.size(),
                               source.name()));
  PickleInput input(source, offset, size);
  return PickleMachine(input, options).run();
}

Result<PickleDocument> read_pickle(ByteSpan bytes, const PickleOptions& options) {
  PickleInput input(bytes);
  return PickleMachine(input, options).run();
}

}  // namespace tenplex
