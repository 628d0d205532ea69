// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/formats/safetensors/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tenplex/base/checked.h"
#include "tenplex/base/utf8.h"
#include "tenplex/formats/manifest/json_values.h"

namespace tenplex::safetensors {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::size_t kAlignment = 8;

struct DTypeName {
  DType dtype;
  std::string_view name;
};

constexpr std::array kNames = {
    DTypeName{DType::kFloat32, "F32"},
    DTypeName{DType::kBFloat16, "BF16"},
    DTypeName{DType::kFloat16, "F16"},
    DTypeName{DType::kInt64, "I64"},
    DTypeName{DType::kInt32, "I32"},
    DTypeName{DType::kUInt8, "U8"},
    DTypeName{DType::kBool, "BOOL"},
    DTypeName{DType::kFloat64, "F64"},
    DTypeName{DType::kInt8, "I8"},
    DTypeName{DType::kInt16, "I16"},
    DTypeName{DType::kUInt16, "U16"},
    DTypeName{DType::kUInt32, "U32"},
    DTypeName{DType::kUInt64, "U64"},
    DTypeName{DType::kComplex64, "C64"},
    DTypeName{DType::kFloat8E4M3FN, "F8_E4M3"},
    DTypeName{DType::kFloat8E5M2, "F8_E5M2"},
    DTypeName{DType::kFloat8E4M3FNUZ, "F8_E4M3FNUZ"},
    DTypeName{DType::kFloat8E5M2FNUZ, "F8_E5M2FNUZ"},
    DTypeName{DType::kFloat8E8M0FNU, "F8_E8M0"},
    DTypeName{DType::kFloat6E2M3FN, "F6_E2M3"},
    DTypeName{DType::kFloat6E3M2FN, "F6_E3M2"},
    DTypeName{DType::kFloat4E2M1FN, "F4"},
};

Result<void> read_offsets(JsonReader& json, HeaderTensor* tensor) {
  TENPLEX_TRY(read_list(json, &tensor->begin, &tensor->end));
  if (tensor->begin < 0 || tensor->end < 0) return json.fail("a negative offset");
  return {};
}

Result<void> read_dtype(JsonReader& json, DType* dtype) {
  TENPLEX_ASSIGN_OR_RETURN(const std::string_view name, json.string());
  const auto known = parse_dtype_name(name);
  if (!known) return unsupported(fmt::format("unknown dtype '{}'", name));
  *dtype = *known;
  return {};
}

Result<void> read_tensor(JsonReader& json, HeaderTensor* tensor) {
  int members = 0;
  TENPLEX_TRY(for_each_member(json, [&](std::string_view key) {
    ++members;
    if (key == "dtype") return read_dtype(json, &tensor->info.dtype);
    if (key == "shape") return read_value(json, &tensor->info.shape);
    if (key == "data_offsets") return read_offsets(json, tensor);
    return Result<void>(json.fail(fmt::format("unknown member '{}'", key)));
  }));
  if (members != 3) return json.fail("dtype, shape or data_offsets is missing");
  for (const std::int64_t length : tensor->info.shape)
    if (length < 0) return json.fail("a negative extent");
  return {};
}

Result<void> read_metadata(JsonReader& json, Metadata* metadata) {
  TENPLEX_ASSIGN_OR_RETURN(const JsonKind kind, json.peek());
  return kind == JsonKind::kNull ? json.null() : read_value(json, metadata);
}

Result<void> check_size(const HeaderTensor& tensor) {
  const TensorInfo& info = tensor.info;
  const auto checked = check_tensor(info);
  if (!checked && checked.error().code() == ErrorCode::kOutOfRange) return corrupt(checked.error().message());
  const std::int64_t elements = volume(info.shape);
  const auto bytes = packed_bytes(info.dtype, elements);
  if (!bytes)
    return corrupt(fmt::format("tensor '{}': {} elements of {} bits are not whole bytes", info.name, elements,
                               bit_width(info.dtype)));
  if (*bytes != tensor.end - tensor.begin)
    return corrupt(fmt::format("tensor '{}': {} {} needs {} bytes, data_offsets [{}, {}] hold {}", info.name,
                               to_string(info.dtype), to_string(info.shape), *bytes, tensor.begin, tensor.end,
                               tensor.end - tensor.begin));
  if (!checked) return unsupported(checked.error().message());
  return {};
}

/// Sorts by offset and checks that the data follows without holes, overlaps or a tail.
Result<void> check_layout(std::vector<HeaderTensor>* tensors, std::int64_t data_bytes) {
  const auto before = [](const HeaderTensor& a, const HeaderTensor& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  };
  if (!std::is_sorted(tensors->begin(), tensors->end(), before))
    std::sort(tensors->begin(), tensors->end(), [&](const HeaderTensor& a, const HeaderTensor& b) {
      return before(a, b) || (!before(b, a) && a.info.name < b.info.name);
    });
  std::int64_t end = 0;
  for (const HeaderTensor& tensor : *tensors) {
    if (tensor.begin != end)
      return corrupt(fmt::format("tensor '{}': data starts at {}, expected {} ({})", tensor.info.name, tensor.begin,
                                 end, tensor.begin > end ? "a hole" : "an overlap"));
    if (tensor.end < tensor.begin)
      return corrupt(
          fmt::format("tensor '{}': data_offsets [{}, {}] run backwards", tensor.info.name, tensor.begin, tensor.end));
    TENPLEX_TRY(check_size(tensor));
    end = tensor.end;
  }
  if (end != data_bytes)
    return corrupt(fmt::format("the header describes {} bytes of data, the file has {}", end, data_bytes));
  return {};
}

std::int64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t k = bytes.size(); k-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[k]);
  return value > std::uint64_t{INT64_MAX} ? INT64_MAX : static_cast<std::int64_t>(value);
}

void append_entry(JsonWriter& json, std::string_view dtype, const TensorInfo& tensor, std::int64_t begin,
                  std::int64_t end) {
  json.begin_object();
  json.member("dtype", dtype);
  json.member("shape", tensor.shape);
  json.key("data_offsets");
  json.list(begin, end);
  json.end_object();
}

Result<void> append_metadata(JsonWriter& json, const Metadata& metadata) {
  for (const auto& [key, text] : metadata)
    if (find_invalid_utf8(key) != std::string_view::npos || find_invalid_utf8(text) != std::string_view::npos)
      return unsupported("safetensors metadata holds UTF-8 text only, and a key or text is not");
  json.key(kMetadataKey);
  append_texts(json, metadata);
  return {};
}

}  // namespace

std::optional<std::string_view> Header::find_metadata(std::string_view key) const {
  for (const auto& [name, text] : metadata)
    if (name == key) return text;
  return std::nullopt;
}

std::optional<std::string_view> dtype_name(DType dtype) {
  for (const DTypeName& entry : kNames)
    if (entry.dtype == dtype) return entry.name;
  return std::nullopt;
}

std::optional<DType> parse_dtype_name(std::string_view name) {
  for (const DTypeName& entry : kNames)
    if (entry.name == name) return entry.dtype;
  return std::nullopt;
}

Result<Header> parse_header(std::string_view json_text, std::int64_t data_bytes) {
  if (json_text.empty() || json_text.front() != '{') return corrupt("the header does not start with '{'");
  Header header;
  JsonReader json(json_text);
  TENPLEX_TRY(for_each_member(json, [&](std::string_view key) -> Result<void> {
    if (key == kMetadataKey) return read_metadata(json, &header.metadata);
    HeaderTensor& tensor = header.tensors.emplace_back();
    tensor.info.name = key;
    auto read = read_tensor(json, &tensor);
    if (!read) return std::move(read).with_context(fmt::format("tensor '{}'", tensor.info.name));
    return {};
  }));
  TENPLEX_TRY(json.finish());
  TENPLEX_TRY(check_layout(&header.tensors, data_bytes));
  header.data_start = kLengthBytes + static_cast<std::int64_t>(json_text.size());
  return header;
}

Result<Header> read_header(const ByteSource& source, std::int64_t max_bytes) {
  const auto in_file = [&](Error error) { return std::move(error).with_context(source.name()); };
  if (source.size() < kLengthBytes)
    return in_file(corrupt(fmt::format("a safetensors file has at least 8 bytes, this one {}", source.size())));
  TENPLEX_ASSIGN_OR_RETURN(const std::string length_text, read_string(source, 0, kLengthBytes));
  const std::int64_t length = little_endian(length_text);
  if (length > kMaxHeaderBytes)
    return in_file(corrupt(fmt::format("the header length {} exceeds {}", length, kMaxHeaderBytes)));
  if (length > source.size() - kLengthBytes)
    return in_file(corrupt(
        fmt::format("the header length {} exceeds the {} bytes that follow it", length, source.size() - kLengthBytes)));
  if (length > max_bytes)
    return in_file(resource_exhausted(fmt::format("the header has {} bytes, the limit is {}", length, max_bytes)));
  TENPLEX_ASSIGN_OR_RETURN(const std::string text, read_string(source, kLengthBytes, length));
  auto header = parse_header(text, source.size() - kLengthBytes - length);
  if (!header) return in_file(std::move(header).error());
  return header;
}

Result<std::string> build_header(const std::vector<TensorInfo>& tensors, const Metadata& metadata) {
  std::string text(static_cast<std::size_t>(kLengthBytes), '\0');
  JsonWriter json(&text);
  json.begin_object();
  if (!metadata.empty()) TENPLEX_TRY(append_metadata(json, metadata));
  std::int64_t end = 0;
  for (const TensorInfo& tensor : tensors) {
    const auto dtype = dtype_name(tensor.dtype);
    if (!dtype)
      return unsupported(fmt::format("tensor '{}': safetensors has no dtype {}", tensor.name, to_string(tensor.dtype)));
    if (tensor.name == kMetadataKey) return invalid_argument("safetensors reserves the name '__metadata__'");
    if (find_invalid_utf8(tensor.name) != std::string_view::npos)
      return unsupported(fmt::format("tensor '{}': the name is not UTF-8 text", tensor.name));
    TENPLEX_TRY(check_tensor(tensor));
    const auto next = checked_add(end, size_bytes(tensor));
    if (!next)
      return out_of_range(
          fmt::format("tensor '{}': its {} bytes after {} others reach 2^63", tensor.name, size_bytes(tensor), end));
    json.key(tensor.name);
    append_entry(json, *dtype, tensor, end, *next);
    end = *next;
  }
  json.end_object();
  while (text.size() % kAlignment != 0) text.push_back(' ');
  const std::size_t length = text.size() - kAlignment;
  if (length > static_cast<std::size_t>(kMaxHeaderBytes))
    return unsupported(fmt::format("the header would have {} bytes, the format allows {}", length, kMaxHeaderBytes));
  for (std::size_t k = 0; k < kAlignment; ++k) text[k] = static_cast<char>(length >> (8 * k) & 0xFF);
  return text;
}

}  // namespace tenplex::safetensors
