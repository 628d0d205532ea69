// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/yaml_document.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <unordered_set>

#include "tenplex/base/utf8.h"

namespace tenplex {
namespace {

constexpr std::size_t kMaxDepth = 16;

struct Problem {
  int line;
  std::string message;
};

/// Builds the tree from yaml-cpp's events; the first problem stops it (later events are ignored).
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::size_t max_values) : max_values_(max_values) {}
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    begin(mark, anchor, YamlNode::Kind::kNull);
    end();
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(mark.line + 1, "anchors and aliases are not allowed");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (!begin(mark, anchor, YamlNode::Kind::kScalar)) return;
    open_.back().node.text = value;
    open_.back().node.quoted = tag == "!";
    end();
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(mark, anchor, YamlNode::Kind::kSequence);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(mark, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { end(); }

  const std::optional<Problem>& problem() const { return problem_; }
  YamlNode take_root() { return std::move(root_); }

 private:
  struct Frame {
    YamlNode node;
    bool expects_value = false;
    std::unordered_set<std::string> keys;
  };

  void fail(int line, std::string message) {
    if (!problem_) problem_ = Problem{line, std::move(message)};
  }

  bool begin(const YAML::Mark& mark, YAML::anchor_t anchor, YamlNode::Kind kind) {
    if (problem_) return false;
    const int line = mark.line + 1;
    if (anchor != 0) fail(line, "anchors and aliases are not allowed");
    if (open_.size() >= kMaxDepth) fail(line, fmt::format("nested deeper than {} levels", kMaxDepth));
    if (++values_ > max_values_) fail(line, fmt::format("more than {} values", max_values_));
    if (problem_) return false;
    open_.emplace_back().node.kind = kind;
    open_.back().node.line = line;
    return true;
  }

  void end() {
    if (problem_ || open_.empty()) return;
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::kSequence) {
      parent.node.items.push_back(std::move(node));
    } else if (parent.expects_value) {
      parent.node.entries.back().value = std::move(node);
      parent.expects_value = false;
    } else {
      add_key(node, &parent);
    }
  }

  void add_key(const YamlNode& key, Frame* parent) {
    if (key.kind != YamlNode::Kind::kScalar) return fail(key.line, "a key is not a plain word");
    if (!parent->keys.insert(key.text).second) return fail(key.line, fmt::format("key '{}' occurs twice", key.text));
    parent->node.entries.push_back({key.text, key.line, {}});
    parent->expects_value = true;
  }

  std::vector<Frame> open_;
  YamlNode root_;
  std::size_t max_values_;
  std::size_t values_ = 0;
  std::optional<Problem> problem_;
};

int line_of(std::string_view text, std::size_t position) {
  return static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(position), '\n')) + 1;
}

/// Its number, or 0.
int first_indented_with_tab(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t first = std::min(text.find_first_not_of(' ', at), text.size());
    if (first < text.size() && text[first] == '\t') return line_of(text, at);
    at = std::min(text.find('\n', at), text.size() - 1) + 1;
  }
  return 0;
}

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool parse_integer(std::string_view text, std::int64_t* value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return code == std::errc{} && end == text.data() + text.size() && !text.empty();
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (const Entry& entry : entries)
    if (entry.key == key) return &entry.value;
  return nullptr;
}

Error YamlReader::error(int line, std::string_view message) const {
  return invalid_argument(fmt::format("{} line {}: {}", document_, line, message));
}

Result<void> YamlReader::check_characters(std::string_view text) const {
  if (const std::size_t at = find_invalid_utf8(text); at != std::string_view::npos)
    return error(line_of(text, at), "it is not UTF-8 text");
  const auto found = std::find_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7f;
  });
  if (found == text.end()) return {};
  return error(line_of(text, static_cast<std::size_t>(found - text.begin())),
               fmt::format("it has a control character (0x{:02x})", static_cast<unsigned char>(*found)));
}

Result<YamlNode> YamlReader::parse(std::string_view text) const {
  if (text.size() > form_.max_bytes)
    return out_of_range(fmt::format("{} has {} bytes, at most {} are read", document_, text.size(), form_.max_bytes));
  TENPLEX_TRY(check_characters(text));
  TreeBuilder builder(form_.max_values);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return error(1, "the document is empty");
    TreeBuilder rest(form_.max_values);
    if (!builder.problem() && parser.HandleNextDocument(rest)) return error(1, "there is more than one YAML document");
  } catch (const YAML::Exception& exception) {
    if (builder.problem()) return error(builder.problem()->line, builder.problem()->message);
    const int tab = first_indented_with_tab(text);
    if (tab != 0) return error(tab, "it is indented with a tab, which YAML does not allow: use spaces");
    return error(exception.mark.line + 1, exception.msg);
  } catch (const std::exception& exception) {
    return error(1, exception.what());
  }
  if (builder.problem()) return error(builder.problem()->line, builder.problem()->message);
  return builder.take_root();
}

Result<void> YamlReader::check_keys(const YamlNode& node, std::string_view what,
                                    std::span<const std::string_view> keys) const {
  if (node.kind != YamlNode::Kind::kMap) return error(node, fmt::format("{} must be a map of keys and values", what));
  for (const YamlNode::Entry& entry : node.entries)
    if (std::find(keys.begin(), keys.end(), entry.key) == keys.end())
      return error(entry.line,
                   fmt::format("unknown key '{}' in {}; known keys: {}", entry.key, what, fmt::join(keys, ", ")));
  return {};
}

Result<void> YamlReader::check_sequence(const YamlNode& node, std::string_view what) const {
  if (node.kind != YamlNode::Kind::kSequence) return error(node, fmt::format("{} must be a list", what));
  return {};
}

Result<std::string> YamlReader::text(const YamlNode& node, std::string_view what) const {
  if (node.kind != YamlNode::Kind::kScalar || node.text.empty())
    return error(node, fmt::format("{} must be a text", what));
  return node.text;
}

Result<std::string> YamlReader::word(const YamlNode& node, std::string_view what) const {
  TENPLEX_ASSIGN_OR_RETURN(std::string word, text(node, what));
  if (!is_word(word))
    return error(node, fmt::format("{} must be a word of letters, digits, '_' and '-', found '{}'", what, word));
  return word;
}

Result<std::int64_t> YamlReader::integer(const YamlNode& node, std::string_view what, std::int64_t low,
                                         std::int64_t high) const {
  std::int64_t value = 0;
  if (node.kind != YamlNode::Kind::kScalar || !parse_integer(node.text, &value)) {
    const bool too_large = node.kind == YamlNode::Kind::kScalar && is_digits(node.text);
    return error(node, fmt::format("{} must be {}, found '{}'", what,
                                   too_large ? fmt::format("in {}..{}", low, high) : "a whole number", node.text));
  }
  if (value < low || value > high)
    return error(node, fmt::format("{} must be in {}..{}, found {}", what, low, high, value));
  return value;
}

Result<bool> YamlReader::boolean(const YamlNode& node, std::string_view what) const {
  if (node.kind == YamlNode::Kind::kScalar && node.text == "true") return true;
  if (node.kind == YamlNode::Kind::kScalar && node.text == "false") return false;
  return error(node, fmt::format("{} must be true or false, found '{}'", what, node.text));
}

bool YamlReader::is_integer(const YamlNode& node) {
  std::int64_t value = 0;
  return node.kind == YamlNode::Kind::kScalar && (is_digits(node.text) || parse_integer(node.text, &value));
}

}  // namespace tenplex
