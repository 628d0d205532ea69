// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// The text that pickles contain: UTF-8 checks, the escapes and decimals of protocol 0, and the module names that
// protocols below 3 spell as Python 2 did. Threads: functions without state. Source: pickle.py, _compat_pickle.py.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tenplex/formats/state/state_graph.h"

namespace tenplex {

/// True for UTF-8 in which surrogates may stand for themselves (Python's "surrogatepass").
bool is_pickle_utf8(std::string_view bytes);

/// Latin-1 to UTF-8, and back (nothing if a character lies above U+00FF).
void append_utf8_of_latin1(std::string_view bytes, std::string* text);
std::size_t utf8_size_of_latin1(std::string_view bytes);
std::optional<std::string> latin1_of_utf8(std::string_view text);

/// The raw-unicode-escape of opcode UNICODE, as UTF-8.
std::optional<std::string> decode_unicode_escape(std::string_view line);

/// The quoted, backslash-escaped bytes of opcode STRING.
std::optional<std::string> decode_quoted_bytes(std::string_view line);

/// A kInt or kBigInt of the two's complement little-endian bytes, or of a decimal of at most 4300 digits.
Node integer_of_bytes(std::string_view bytes);
std::optional<Node> integer_of_decimal(std::string_view digits);

/// Module and name in Python 3 of a global that a protocol below 3 names.
std::pair<std::string, std::string> python3_global(std::string module, std::string name);

/// True for "module\nname" as Python can spell it: dotted words without blanks, line ends or other control characters,
/// so that no text can end a name early. Words of a module may hold '-' and start with digits, as folders may.
bool is_global_name(std::string_view text);

/// Module as Python's pickler writes it in protocol 2.
std::string_view python2_module(std::string_view module);

}  // namespace tenplex
