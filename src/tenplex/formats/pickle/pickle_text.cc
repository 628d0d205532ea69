// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/pickle/pickle_text.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace tenplex {
namespace {

unsigned byte_at(std::string_view bytes, std::size_t index) { return static_cast<unsigned char>(bytes[index]); }

// Length of the UTF-8 sequence at `index`, or 0 if there is none.
std::size_t sequence_length(std::string_view bytes, std::size_t index) {
  const unsigned lead = byte_at(bytes, index);
  std::size_t length = 1;
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) length = 2;
  if (lead >= 0xE0 && lead <= 0xEF) length = 3;
  if (lead >= 0xF0 && lead <= 0xF4) length = 4;
  if (length == 1 || index + length > bytes.size()) return 0;
  for (std::size_t next = 1; next < length; ++next)
    if ((byte_at(bytes, index + next) & 0xC0) != 0x80) return 0;
  const unsigned second = byte_at(bytes, index + 1);
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) return 0;
  return length;
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

std::optional<std::uint32_t> parse_hex(std::string_view digits) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.empty()) return std::nullopt;
  return value;
}

struct Renamed {
  std::string_view module, name, new_module, new_name;
};
constexpr std::array kRenamedGlobals = {
    Renamed{"__builtin__", "xrange", "builtins", "range"},
    Renamed{"__builtin__", "reduce", "functools", "reduce"},
    Renamed{"__builtin__", "intern", "sys", "intern"},
    Renamed{"__builtin__", "unichr", "builtins", "chr"},
    Renamed{"__builtin__", "unicode", "builtins", "str"},
    Renamed{"__builtin__", "basestring", "builtins", "str"},
    Renamed{"__builtin__", "long", "builtins", "int"},
    Renamed{"itertools", "izip", "builtins", "zip"},
    Renamed{"itertools", "imap", "builtins", "map"},
    Renamed{"itertools", "ifilter", "builtins", "filter"},
    Renamed{"itertools", "ifilterfalse", "itertools", "filterfalse"},
    Renamed{"itertools", "izip_longest", "itertools", "zip_longest"},
    Renamed{"UserDict", "IterableUserDict", "collections", "UserDict"},
    Renamed{"exceptions", "StandardError", "builtins", "Exception"},
};
constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kRenamedModules = {{
    {"__builtin__", "builtins"},
    {"copy_reg", "copyreg"},
    {"exceptions", "builtins"},
    {"cPickle", "pickle"},
    {"_abcoll", "collections.abc"},
    {"Queue", "queue"},
    {"thread", "_thread"},
    {"UserDict", "collections"},
    {"UserList", "collections"},
    {"UserString", "collections"},
    {"StringIO", "io"},
    {"cStringIO", "io"},
    {"ConfigParser", "configparser"},
    {"repr", "reprlib"},
}};

std::optional<char> simple_escape(char letter) {
  switch (letter) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case '\\':
    case '\'':
    case '"':
      return letter;
    default:
      return std::nullopt;
  }
}

/// Words between dots. Characters above ASCII are taken for letters.
bool is_dotted(std::string_view text, bool of_files) {
  bool first = true;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<signed char>(c) < 0;
    const bool digit = c >= '0' && c <= '9';
    if (c == '.' ? first : !letter && !(digit && (of_files || !first)) && !(c == '-' && of_files)) return false;
    first = c == '.';
  }
  return !first;
}

}  // namespace

bool is_pickle_utf8(std::string_view bytes) {
  for (std::size_t index = 0; index < bytes.size();) {
    const std::size_t length = sequence_length(bytes, index);
    if (length == 0) return false;
    index += length;
  }
  return true;
}

std::size_t utf8_size_of_latin1(std::string_view bytes) {
  const auto high = [](char byte) { return (static_cast<unsigned char>(byte) & 0x80U) != 0; };
  return bytes.size() + static_cast<std::size_t>(std::count_if(bytes.begin(), bytes.end(), high));
}

void append_utf8_of_latin1(std::string_view bytes, std::string* text) {
  for (const char byte : bytes) append_utf8(*text, static_cast<unsigned char>(byte));
}

std::optional<std::string> latin1_of_utf8(std::string_view text) {
  const auto starts = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; };
  std::string bytes;
  bytes.reserve(static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts)));
  for (std::size_t index = 0; index < text.size(); ++index) {
    const unsigned lead = byte_at(text, index);
    if (lead < 0x80) {
      bytes.push_back(text[index]);
    } else if ((lead == 0xC2 || lead == 0xC3) && index + 1 < text.size()) {
      bytes.push_back(static_cast<char>(((lead & 3) << 6) | (byte_at(text, ++index) & 0x3F)));
    } else {
      return std::nullopt;
    }
  }
  return bytes;
}

std::optional<std::string> decode_unicode_escape(std::string_view line) {
  std::string text;
  for (std::size_t index = 0; index < line.size(); ++index) {
    const bool escape =
        line[index] == '\\' && index + 1 < line.size() && (line[index + 1] == 'u' || line[index + 1] == 'U');
    if (!escape) {
      append_utf8(text, byte_at(line, index));
      continue;
    }
    const std::size_t digits = line[index + 1] == 'u' ? 4 : 8;
    if (index + 2 + digits > line.size()) return std::nullopt;
    const auto code = parse_hex(line.substr(index + 2, digits));
    if (!code || *code > 0x10FFFF) return std::nullopt;
    append_utf8(text, *code);
    index += 1 + digits;
  }
  return text;
}

std::optional<std::string> decode_quoted_bytes(std::string_view line) {
  if (line.size() < 2 || (line[0] != '\'' && line[0] != '"') || line.back() != line[0]) return std::nullopt;
  line = line.substr(1, line.size() - 2);
  std::string bytes;
  for (std::size_t index = 0; index < line.size(); ++index) {
    if (line[index] != '\\') {
      bytes.push_back(line[index]);
      continue;
    }
    if (++index == line.size()) return std::nullopt;
    if (line[index] == 'x') {
      if (index + 2 >= line.size()) return std::nullopt;
      const auto code = parse_hex(line.substr(index + 1, 2));
      if (!code) return std::nullopt;
      bytes.push_back(static_cast<char>(*code));
      index += 2;
    } else if (const auto plain = simple_escape(line[index])) {
      bytes.push_back(*plain);
    } else {
      return std::nullopt;
    }
  }
  return bytes;
}

Node integer_of_bytes(std::string_view bytes) {
  Node node;
  node.kind = NodeKind::kInt;
  const bool negative = !bytes.empty() && (byte_at(bytes, bytes.size() - 1) & 0x80) != 0;
  const char sign = negative ? '\xff' : '\0';
  // A last byte that only repeats the sign says nothing.
  while (bytes.size() > 1 && bytes.back() == sign && ((byte_at(bytes, bytes.size() - 2) & 0x80) != 0) == negative)
    bytes.remove_suffix(1);
  if (bytes.size() > 8) {
    node.kind = NodeKind::kBigInt;
    node.text = bytes;
    return node;
  }
  std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
  for (std::size_t index = bytes.size(); index-- > 0;) value = (value << 8) | byte_at(bytes, index);
  node.integer = static_cast<std::int64_t>(value);
  return node;
}

std::optional<Node> integer_of_decimal(std::string_view digits) {
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.empty() || digits.size() > 4300) return std::nullopt;
  std::string magnitude;  // little-endian base 256
  for (const char digit : digits) {
    if (digit < '0' || digit > '9') return std::nullopt;
    unsigned carry = static_cast<unsigned>(digit - '0');
    for (char& byte : magnitude) {
      carry += static_cast<unsigned>(static_cast<unsigned char>(byte)) * 10;
      byte = static_cast<char>(carry);
      carry >>= 8;
    }
    if (carry != 0) magnitude.push_back(static_cast<char>(carry));
  }
  magnitude.push_back('\0');
  if (negative) {
    unsigned carry = 1;
    for (char& byte : magnitude) {
      carry += static_cast<unsigned char>(~static_cast<unsigned char>(byte));
      byte = static_cast<char>(carry);
      carry >>= 8;
    }
  }
  return integer_of_bytes(magnitude);
}

std::pair<std::string, std::string> python3_global(std::string module, std::string name) {
  for (const Renamed& renamed : kRenamedGlobals)
    if (module == renamed.module && name == renamed.name)
      return {std::string(renamed.new_module), std::string(renamed.new_name)};
  for (const auto& [old_name, new_name] : kRenamedModules)
    if (module == old_name) return {std::string(new_name), std::move(name)};
  return {std::move(module), std::move(name)};
}

bool is_global_name(std::string_view text) {
  const std::size_t split = text.find('\n');
  if (split == std::string_view::npos || !is_pickle_utf8(text)) return false;
  return is_dotted(text.substr(0, split), true) && is_dotted(text.substr(split + 1), false);
}

std::string_view python2_module(std::string_view module) {
  if (module == "builtins") return "__builtin__";
  if (module == "copyreg") return "copy_reg";
  return module;
}

}  // namespace tenplex
