// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/dtype.h"

#include <array>

#include "tenplex/base/checked.h"

namespace tenplex {
namespace {

struct DTypeFacts {
  std::string_view name;
  int bits;
};

constexpr std::array<DTypeFacts, kDTypeCount> kFacts = {{
    {"bool", 8},           {"uint8", 8},         {"int8", 8},          {"uint16", 16},         {"int16", 16},
    {"uint32", 32},        {"int32", 32},        {"uint64", 64},       {"int64", 64},          {"float16", 16},
    {"bfloat16", 16},      {"float32", 32},      {"float64", 64},      {"complex32", 32},      {"complex64", 64},
    {"complex128", 128},   {"float8_e4m3fn", 8}, {"float8_e5m2", 8},   {"float8_e4m3fnuz", 8}, {"float8_e5m2fnuz", 8},
    {"float8_e8m0fnu", 8}, {"float6_e2m3fn", 6}, {"float6_e3m2fn", 6}, {"float4_e2m1fn", 4},
}};

const DTypeFacts& facts(DType dtype) { return kFacts.at(static_cast<std::size_t>(dtype)); }

}  // namespace

int bit_width(DType dtype) { return facts(dtype).bits; }

std::int64_t size_bytes(DType dtype) {
  TENPLEX_CHECK(!is_sub_byte(dtype));
  return facts(dtype).bits / 8;
}

bool is_sub_byte(DType dtype) { return facts(dtype).bits % 8 != 0; }

std::optional<std::int64_t> packed_bytes(DType dtype, std::int64_t elements) {
  const auto bits = checked_mul(elements, facts(dtype).bits);
  if (!bits || *bits % 8 != 0) return std::nullopt;
  return *bits / 8;
}

std::string_view to_string(DType dtype) { return facts(dtype).name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (std::size_t index = 0; index < kFacts.size(); ++index)
    if (kFacts[index].name == name) return static_cast<DType>(index);
  return std::nullopt;
}

}  // namespace tenplex
