// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "tenplex/base/checked.h"
#include "tenplex/ptc/name_index.h"
#include "tenplex/ptc/yaml_document.h"

namespace tenplex {
namespace {

constexpr std::size_t kMaxSlots = 64;

/// Reads the YAML of a model. One reader per call.
class ModelReader {
 public:
  explicit ModelReader(std::string_view name) : yaml_("model '" + std::string(name) + "'") {}

  Result<ModelRules> read(std::string_view text) {
    constexpr std::array<std::string_view, 8> kSections = {"model",   "layout", "dtype",     "sizes",
                                                           "numbers", "slots",  "slot_name", "tensors"};
    TENPLEX_ASSIGN_OR_RETURN(const YamlNode root, yaml_.parse(text));
    TENPLEX_TRY(yaml_.check_keys(root, "a model", kSections));
    if (const YamlNode* layout = root.find("layout")) {
      TENPLEX_ASSIGN_OR_RETURN(rules_.layout, yaml_.text(*layout, "'layout'"));
    }
    if (const YamlNode* dtype = root.find("dtype")) {
      TENPLEX_ASSIGN_OR_RETURN(rules_.dtype, read_dtype(*dtype));
    }
    if (const YamlNode* sizes = root.find("sizes")) {
      TENPLEX_ASSIGN_OR_RETURN(rules_.sizes, read_size_rules(yaml_, *sizes, 0));
    }
    if (const YamlNode* numbers = root.find("numbers")) TENPLEX_TRY(read_numbers(*numbers));
    if (const YamlNode* slots = root.find("slots")) TENPLEX_TRY(read_slots(*slots));
    if (const YamlNode* slot_name = root.find("slot_name")) TENPLEX_TRY(read_slot_name(*slot_name));
    const YamlNode* tensors = root.find("tensors");
    if (tensors == nullptr) return yaml_.error(root, "expected a key 'tensors'");
    TENPLEX_TRY(yaml_.check_sequence(*tensors, "'tensors'"));
    if (tensors->items.size() > kMaxRules) return yaml_.error(*tensors, fmt::format("more than {} rules", kMaxRules));
    rules_.tensors.reserve(tensors->items.size());
    for (const YamlNode& item : tensors->items) {
      TENPLEX_ASSIGN_OR_RETURN(ModelTensor tensor, read_tensor(item));
      rules_.tensors.push_back(std::move(tensor));
    }
    return std::move(rules_);
  }

 private:
  Result<DType> read_dtype(const YamlNode& node) const {
    TENPLEX_ASSIGN_OR_RETURN(const std::string name, yaml_.word(node, "'dtype'"));
    const auto dtype = parse_dtype(name);
    if (!dtype) return yaml_.error(node, fmt::format("unknown element type '{}'", name));
    return *dtype;
  }

  Result<void> read_numbers(const YamlNode& node) {
    if (node.kind != YamlNode::Kind::kMap || node.entries.size() > kMaxSlots)
      return yaml_.error(node, "'numbers' must be a map of words and how many numbers they have");
    for (const YamlNode::Entry& entry : node.entries) {
      TENPLEX_ASSIGN_OR_RETURN(Size size, read_known_size(yaml_, entry.value, "a number", 0, rules_.sizes));
      rules_.numbers.emplace_back(entry.key, std::move(size));
    }
    return {};
  }

  Result<void> read_slots(const YamlNode& node) {
    if (node.kind != YamlNode::Kind::kMap || node.entries.size() > kMaxSlots)
      return yaml_.error(node, "'slots' must be a map of slot names and element types");
    for (const YamlNode::Entry& entry : node.entries) {
      TENPLEX_ASSIGN_OR_RETURN(const DType dtype, read_dtype(entry.value));
      rules_.slots.emplace_back(entry.key, dtype);
    }
    return {};
  }

  Result<void> read_slot_name(const YamlNode& node) {
    TENPLEX_ASSIGN_OR_RETURN(rules_.slot_name, yaml_.text(node, "'slot_name'"));
    for (const std::string_view word : {"{slot}", "{param}"})
      if (rules_.slot_name.find(word) == std::string::npos)
        return yaml_.error(node, fmt::format("'slot_name' needs {}", word));
    return {};
  }

  Result<ModelTensor> read_tensor(const YamlNode& node) const {
    constexpr std::array<std::string_view, 4> kKeys = {"name", "shape", "dtype", "slots"};
    TENPLEX_TRY(yaml_.check_keys(node, "a tensor", kKeys));
    const YamlNode* name = node.find("name");
    const YamlNode* shape = node.find("shape");
    if (name == nullptr || shape == nullptr) return yaml_.error(node, "a tensor needs 'name' and 'shape'");
    TENPLEX_ASSIGN_OR_RETURN(const std::string text, yaml_.text(*name, "'name'"));
    auto pattern = NamePattern::parse(text);
    if (!pattern) return yaml_.error(*name, pattern.error().message());
    if (!pattern->captures_only_numbers())
      return yaml_.error(*name, fmt::format("name '{}' may hold numbers like {{layer}}, no text of any kind", text));
    for (const std::string& word : pattern->words())
      if (std::none_of(rules_.numbers.begin(), rules_.numbers.end(), [&](const auto& n) { return n.first == word; }))
        return yaml_.error(*name, fmt::format("'{}' is not under 'numbers'", word));
    ModelTensor tensor{*std::move(pattern), {}, rules_.dtype, true, node.line};
    TENPLEX_TRY(yaml_.check_sequence(*shape, "'shape'"));
    if (shape->items.size() > kMaxRank)
      return yaml_.error(*shape, fmt::format("more than {} dimensions", std::int64_t{kMaxRank}));
    for (const YamlNode& item : shape->items) {
      TENPLEX_ASSIGN_OR_RETURN(Size size, read_known_size(yaml_, item, "an extent", 0, rules_.sizes));
      tensor.shape.push_back(std::move(size));
    }
    if (const YamlNode* dtype = node.find("dtype")) {
      TENPLEX_ASSIGN_OR_RETURN(tensor.dtype, read_dtype(*dtype));
    }
    if (const YamlNode* slots = node.find("slots")) {
      TENPLEX_ASSIGN_OR_RETURN(tensor.has_slots, yaml_.boolean(*slots, "'slots'"));
    }
    return tensor;
  }

  YamlReader yaml_;
  ModelRules rules_;
};

std::optional<std::int64_t> value_of(const Size& size, const NamedSizes& sizes) {
  return size.name.empty() ? size.value : find_size(sizes, size.name);
}

void replace(std::string* text, std::string_view what, std::string_view with) {
  const std::size_t at = text->find(what);
  if (at != std::string::npos) text->replace(at, what.size(), with);
}

}  // namespace

Result<void> Model::list_parameter(const ModelTensor& rule, const NamedSizes& sizes,
                                   std::vector<std::size_t>* with_slots) {
  const auto where = [&](std::string_view message) {
    return invalid_argument(fmt::format("model '{}' line {}: {}", name_, rule.line, message));
  };
  TensorInfo tensor{{}, rule.dtype, {}};
  for (const Size& extent : rule.shape) {
    const auto value = value_of(extent, sizes);
    if (!value) return where(fmt::format("size '{}' has no value", extent.name));
    tensor.shape.push_back(*value);
  }
  const std::vector<std::string> words = rule.name.words();
  std::vector<std::int64_t> counts;
  std::int64_t total = 1;
  for (const std::string& word : words) {
    const auto found = std::find_if(rules_.numbers.begin(), rules_.numbers.end(),
                                    [&](const auto& number) { return number.first == word; });
    const auto count = value_of(found->second, sizes);
    if (!count) return where(fmt::format("size '{}' has no value", found->second.name));
    if (*count == 0) return {};
    counts.push_back(*count);
    total = checked_mul(total, *count).value_or(kMaxTensors + 1);
  }
  if (total > kMaxTensors - static_cast<std::int64_t>(tensors_.size()))
    return out_of_range(fmt::format("model '{}' line {}: more than {} tensors", name_, rule.line, kMaxTensors));
  std::vector<std::int64_t> values(words.size(), 0);
  while (true) {
    tensor.name = rule.name.fill(words, values);
    TENPLEX_TRY(check_tensor(tensor).with_context(fmt::format("model '{}' line {}", name_, rule.line)));
    const auto sum = checked_add(parameter_count_, volume(tensor.shape));
    if (!sum) return out_of_range(fmt::format("model '{}' has too many parameters", name_));
    parameter_count_ = *sum;
    if (rule.has_slots) with_slots->push_back(tensors_.size());
    tensors_.push_back(tensor);
    std::size_t word = words.size();
    while (word > 0 && ++values[word - 1] == counts[word - 1]) values[--word] = 0;
    if (word == 0) return {};
  }
}

Result<void> Model::list_slots(const std::vector<std::size_t>& with_slots) {
  for (const auto& [slot, dtype] : rules_.slots)
    for (const std::size_t parameter : with_slots) {
      if (static_cast<std::int64_t>(tensors_.size()) >= kMaxTensors)
        return out_of_range(fmt::format("model '{}' has more than {} tensors with slots", name_, kMaxTensors));
      TensorInfo tensor{rules_.slot_name, dtype, tensors_[parameter].shape};
      replace(&tensor.name, "{slot}", slot);
      replace(&tensor.name, "{param}", tensors_[parameter].name);
      TENPLEX_TRY(check_tensor(tensor));
      tensors_.push_back(std::move(tensor));
    }
  return {};
}

Result<void> Model::list_tensors() {
  const auto nowhere = [](std::string_view) { return std::optional<std::int64_t>(); };
  const auto where = [this](int line) { return fmt::format("model '{}' line {}", name_, line); };
  TENPLEX_ASSIGN_OR_RETURN(const NamedSizes sizes, resolve_sizes(rules_.sizes, {}, nowhere, 0, where));
  std::vector<std::size_t> with_slots;
  for (const ModelTensor& rule : rules_.tensors) TENPLEX_TRY(list_parameter(rule, sizes, &with_slots));
  TENPLEX_TRY(list_slots(with_slots));
  const auto repeated = NameIndex(tensors_).repeated();
  if (!repeated) return {};
  return invalid_argument(fmt::format("model '{}' has two tensors '{}'", name_, tensors_[repeated->index()].name));
}

Result<Model> parse_model(std::string_view yaml, std::string_view name) {
  Model model;
  model.name_ = name;
  model.text_ = yaml;
  TENPLEX_ASSIGN_OR_RETURN(model.rules_, ModelReader(name).read(yaml));
  TENPLEX_TRY(model.list_tensors());
  return model;
}

}  // namespace tenplex
