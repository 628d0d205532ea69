// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/manifest/json_dims.h"

#include <fmt/format.h>

namespace tenplex {

Result<Dims> read_dims(JsonReader& json) {
  Dims dims;
  TENPLEX_TRY(json.begin_array());
  for (;;) {
    TENPLEX_ASSIGN_OR_RETURN(const bool more, json.next_element());
    if (!more) return dims;
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t value, json.integer());
    if (dims.rank() == kMaxRank) return unsupported(fmt::format("more than {} dimensions", kMaxRank));
    dims.push_back(value);
  }
}

}  // namespace tenplex
