// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic of reflected 32-bit CRCs: polynomials over GF(2) modulo `polynomial`. Bit 31 of a word is the coefficient
// of x^0, bit 0 that of x^31; `polynomial` leaves out x^32.
//
// Source: M. Adler, crc32_combine() of zlib 1.2.12.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tenplex::internal {

inline constexpr std::uint32_t kCrc32Polynomial = 0xEDB88320;   // IEEE 802.3
inline constexpr std::uint32_t kCrc32cPolynomial = 0x82F63B78;  // Castagnoli

/// a · b mod polynomial.
constexpr std::uint32_t gf2_multiply(std::uint32_t a, std::uint32_t b, std::uint32_t polynomial) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = 0x80000000; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b & 1) != 0 ? (b >> 1) ^ polynomial : b >> 1;
  }
  return product;
}

/// x^exponent mod polynomial. Cost: O(log exponent).
constexpr std::uint32_t gf2_power_of_x(std::uint64_t exponent, std::uint32_t polynomial) {
  std::uint32_t result = 0x80000000;  // x^0
  std::uint32_t square = 0x40000000;  // x^(2^k)
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = gf2_multiply(square, result, polynomial);
    square = gf2_multiply(square, square, polynomial);
  }
  return result;
}

/// The CRC of a ++ b from the CRCs of a and b. Requires: 0 <= length_b < 2^60.
constexpr std::uint32_t crc_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::int64_t length_b,
                                    std::uint32_t polynomial) {
  const std::uint32_t shift = gf2_power_of_x(static_cast<std::uint64_t>(length_b) * 8, polynomial);
  return gf2_multiply(shift, crc_a, polynomial) ^ crc_b;
}

using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;

/// Table t, entry v: the CRC state after byte v and then t zero bytes ("slicing by 8").
constexpr CrcTables make_crc_tables(std::uint32_t polynomial) {
  CrcTables tables{};
  for (std::uint32_t value = 0; value < 256; ++value) {
    std::uint32_t state = value;
    for (int bit = 0; bit < 8; ++bit) state = (state & 1) != 0 ? (state >> 1) ^ polynomial : state >> 1;
    tables[0][value] = state;
  }
  for (std::size_t table = 1; table < tables.size(); ++table)
    for (std::size_t value = 0; value < 256; ++value) {
      const std::uint32_t before = tables[table - 1][value];
      tables[table][value] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  return tables;
}

}  // namespace tenplex::internal
