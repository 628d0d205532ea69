// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "tenplex/formats/manifest/base64.h"
#include "tenplex/formats/manifest/envelope.h"
#include "tenplex/formats/manifest/json_values.h"
#include "tenplex/formats/manifest/state_json.h"
#include "tenplex/formats/manifest/state_names.h"
#include "tenplex/formats/pickle/pickle_reader.h"
#include "tenplex/formats/state/object_groups.h"

namespace tenplex {
namespace {

/// Where a storage id that the file leaves out goes: above all ids that it gives.
constexpr std::uint32_t kUnnamedStorage = 0xffffffff;

/// Of the placeholders in an object file.
constexpr TensorId kNoTensor{std::int32_t{-1}};

std::string not_plain(std::string_view global) {
  std::string name(global);
  std::replace(name.begin(), name.end(), '\n', '.');
  return fmt::format("the state names '{}', which is none of the plain classes that may stand in JSON", name);
}

class StateDecoder {
 public:
  StateDecoder(JsonReader& json, const StateJsonSource& source) : json_(json), source_(source) {
    for (std::size_t index = 0; index < source.tensors.size(); ++index)
      tensors_.emplace(source.tensors[index].name, TensorId(index));
  }

  Result<StateGraph> run() && {
    std::int64_t root = -1;
    TENPLEX_TRY(for_each_member(json_, [&](std::string_view key) {
      if (key == "root") return read_value(json_, &root);
      if (key == "nodes") return nodes();
      if (key == "objects") return for_each_element(json_, [this] { return object_file(); });
      return Result<void>(json_.fail(fmt::format("unknown member '{}' of a state", key)));
    }));
    TENPLEX_TRY(load_objects());
    TENPLEX_TRY(link());
    if (root < 0 || root >= std::int64_t(ids_.size())) return json_.fail("the state has no root");
    graph_.root = ids_[static_cast<std::size_t>(root)];
    name_storages();
    split_unlike_objects(source_.tensors, &graph_);
    return std::move(graph_);
  }

 private:
  struct PendingObject {
    std::size_t position;  // in ids_
    std::int64_t file;
  };

  // In a pickle it is a tensor without a number, which no file can spell, at its position's offset.
  struct NodeReference {
    NodeId placeholder;
    std::int64_t position;  // in ids_
  };

  Result<void> nodes() {
    return for_each_element(json_, [this]() -> Result<void> {
      if (ids_.size() == kNoNode) return json_.fail("too many nodes");
      ids_.push_back(kNoNode);
      return node();
    });
  }

  void define(NodeId id) { ids_.back() = id; }

  Result<void> node() {
    TENPLEX_ASSIGN_OR_RETURN(const JsonKind kind, json_.peek());
    switch (kind) {
      case JsonKind::kNull:
        define(graph_.add_none());
        return json_.null();
      case JsonKind::kBool: {
        TENPLEX_ASSIGN_OR_RETURN(const bool value, json_.boolean());
        define(graph_.add_bool(value));
        return {};
      }
      case JsonKind::kNumber: {
        TENPLEX_ASSIGN_OR_RETURN(const std::int64_t value, json_.integer());
        define(graph_.add_int(value));
        return {};
      }
      case JsonKind::kString: {
        TENPLEX_ASSIGN_OR_RETURN(const std::string_view text, json_.string());
        define(graph_.add_string(std::string(text)));
        return {};
      }
      case JsonKind::kObject:
        return json_.fail("a node is no object");
      case JsonKind::kArray:
        return tagged();
    }
    return {};
  }

  Result<void> tagged() {
    std::string_view tag;
    TENPLEX_TRY(json_.begin_array());
    TENPLEX_TRY(next_value(json_, &tag));
    if (tag == "x") return object_reference();
    const auto kind = kind_of_tag(tag);
    if (!kind) return json_.fail(fmt::format("unknown tag '{}'", tag));
    switch (*kind) {
      case NodeKind::kInt:
      case NodeKind::kGlobal:
      case NodeKind::kString:
      case NodeKind::kBigInt:
      case NodeKind::kBytes:
      case NodeKind::kByteArray:
        return text(*kind);
      case NodeKind::kFloat:
        return real();
      case NodeKind::kTensor:
      case NodeKind::kStorage:
        return view(*kind);
      case NodeKind::kObject:
        return object();
      default:
        return container(*kind);
    }
  }

  /// The element must follow.
  Result<void> next() {
    TENPLEX_ASSIGN_OR_RETURN(const bool more, json_.next_element());
    if (!more) return json_.fail("a node is too short");
    return {};
  }

  Result<void> text(NodeKind kind) {
    std::string_view text;
    TENPLEX_TRY(next_value(json_, &text));
    Node node;
    node.kind = kind;
    if (kind == NodeKind::kGlobal) {
      if (!is_plain_global(text)) return json_.fail(not_plain(text));
      node.text = text;
    } else if (kind == NodeKind::kInt) {
      const char* last = text.data() + text.size();
      const auto [stop, status] = std::from_chars(text.data(), last, node.integer);
      if (status != std::errc() || stop != last) return json_.fail("an integer as text is none");
    } else {
      auto bytes = from_base64(text);
      if (!bytes) return json_.fail("invalid base64");
      node.text = std::move(*bytes);
    }
    define(graph_.add(std::move(node)));
    return end_list(json_);
  }

  Result<void> real() {
    TENPLEX_TRY(next());
    TENPLEX_ASSIGN_OR_RETURN(const JsonKind kind, json_.peek());
    if (kind == JsonKind::kNumber) {
      TENPLEX_ASSIGN_OR_RETURN(const double value, json_.number());
      define(graph_.add_float(value));
      return end_list(json_);
    }
    TENPLEX_ASSIGN_OR_RETURN(const std::string_view text, json_.string());
    std::uint64_t bits = 0;
    const char* last = text.data() + text.size();
    const auto [stop, status] = std::from_chars(text.data(), last, bits, 16);
    if (text.size() != 16 || status != std::errc() || stop != last) return json_.fail("a float is not 16 digits");
    define(graph_.add_float(std::bit_cast<double>(bits)));
    return end_list(json_);
  }

  Result<NodeId> reference() {
    TENPLEX_ASSIGN_OR_RETURN(const JsonKind kind, json_.peek());
    if (kind == JsonKind::kNull) {
      TENPLEX_TRY(json_.null());
      return kNoNode;
    }
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t index, json_.integer());
    if (index < 0 || index >= std::int64_t{kNoNode}) return json_.fail("a reference to no node");
    return static_cast<NodeId>(index);
  }

  Result<void> references_until_end(std::vector<NodeId>* out) {
    return for_each_further_element(json_, [&]() -> Result<void> {
      TENPLEX_ASSIGN_OR_RETURN(const NodeId index, reference());
      if (index == kNoNode) return json_.fail("an item is missing");
      out->push_back(index);
      return {};
    });
  }

  Result<void> container(NodeKind kind) {
    Node node;
    node.kind = kind;
    TENPLEX_TRY(references_until_end(&node.children));
    if (kind == NodeKind::kDict && node.children.size() % 2 != 0) return json_.fail("a dict key without a value");
    define(graph_.add(std::move(node)));
    linked_.push_back(ids_.back());
    return {};
  }

  Result<void> object() {
    ObjectParts parts;
    for (NodeId* part : {&parts.callable, &parts.arguments, &parts.keyword_arguments, &parts.state}) {
      TENPLEX_TRY(next());
      TENPLEX_ASSIGN_OR_RETURN(*part, reference());
    }
    for (std::vector<NodeId>* items : {&parts.list_items, &parts.dict_items}) {
      TENPLEX_TRY(next());
      TENPLEX_TRY(json_.begin_array());
      TENPLEX_TRY(references_until_end(items));
    }
    TENPLEX_TRY(next());
    TENPLEX_ASSIGN_OR_RETURN(parts.new_object, json_.boolean());
    if (parts.callable == kNoNode || parts.arguments == kNoNode) return json_.fail("an object without its class");
    if (parts.dict_items.size() % 2 != 0) return json_.fail("a dict key without a value");
    define(graph_.add_object(std::move(parts)));
    linked_.push_back(ids_.back());
    return end_list(json_);
  }

  Result<void> view(NodeKind kind) {
    std::string_view name;
    TENPLEX_TRY(next_value(json_, &name));
    TensorView view;
    TENPLEX_ASSIGN_OR_RETURN(view.tensor, find_tensor(name));
    const Dims& shape = source_.tensors[view.tensor.index()].shape;
    view.storage = kUnnamedStorage;
    view.strides = row_major_strides(shape);
    TENPLEX_ASSIGN_OR_RETURN(bool more, json_.next_element());
    if (more) {
      TENPLEX_ASSIGN_OR_RETURN(const JsonKind next_kind, json_.peek());
      if (next_kind == JsonKind::kString) {
        TENPLEX_ASSIGN_OR_RETURN(const std::string_view flags, json_.string());
        if (flags != "g" && flags != "p" && flags != "gp") return json_.fail("unknown flags of a tensor");
        view.requires_grad = flags.front() == 'g';
        view.parameter = flags.back() == 'p';
        TENPLEX_ASSIGN_OR_RETURN(more, json_.next_element());
      }
    }
    if (more) {
      TENPLEX_ASSIGN_OR_RETURN(const std::int64_t storage, json_.integer());
      if (storage < 0 || storage > kMaxStorageId) return json_.fail("a storage number is too large");
      view.storage = static_cast<std::uint32_t>(storage);
      TENPLEX_TRY(next_values(json_, &view.offset, &view.strides));
      TENPLEX_ASSIGN_OR_RETURN(more, json_.next_element());
    }
    if (more) {
      TENPLEX_ASSIGN_OR_RETURN(const std::int64_t object, json_.integer());
      if (object <= 0 || object > kMaxStorageId) return json_.fail("an object number is out of range");
      view.object = static_cast<std::uint32_t>(object);
      TENPLEX_TRY(end_list(json_));
    }
    TENPLEX_TRY(check_view(view));
    add_view(kind, view);
    return {};
  }

  void add_view(NodeKind kind, const TensorView& view) {
    define(graph_.add_tensor(view));
    graph_[ids_.back()].kind = kind;
    views_.push_back(ids_.back());
  }

  Result<TensorId> find_tensor(std::string_view name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end())
      return json_.fail(fmt::format("the state names a tensor '{}' that is not there", name));
    return found->second;
  }

  Result<void> check_view(const TensorView& view) const {
    const auto fault = view_fault(view, source_.tensors[view.tensor.index()]);
    if (fault) return json_.fail(*fault);
    return {};
  }

  Result<void> object_reference() {
    std::int64_t file = 0;
    TENPLEX_TRY(next_value(json_, &file));
    pending_.push_back({ids_.size() - 1, file});
    return end_list(json_);
  }

  Result<void> object_file() {
    ObjectFile& file = files_.emplace_back();
    return read_list(json_, &file.path, &file.size_bytes, &hashes_.emplace_back());
  }

  Result<void> load_objects() {
    first_of_files_ = static_cast<NodeId>(graph_.size());
    for (const PendingObject& pending : pending_) {
      if (pending.file < 0 || pending.file >= std::int64_t(files_.size()))
        return json_.fail("a reference to no object file");
      const auto index = static_cast<std::size_t>(pending.file);
      auto root = load_object(files_[index], hashes_[index]);
      if (!root) return std::move(root).error().with_context(fmt::format("object file '{}'", files_[index].path));
      ids_[pending.position] = *root;
    }
    return resolve_references();
  }

  Result<void> resolve_references() {
    std::unordered_map<NodeId, NodeId> targets;
    for (const NodeReference& reference : references_) {
      if (reference.position < 0 || reference.position >= std::int64_t(ids_.size()))
        return json_.fail("an object file refers to no node");
      targets.emplace(reference.placeholder, ids_[static_cast<std::size_t>(reference.position)]);
    }
    for (NodeId id = first_of_files_; !targets.empty() && id < graph_.size(); ++id) {
      graph_.for_each_edge(id, [&](NodeId& below) {
        if (const auto found = targets.find(below); found != targets.end()) below = found->second;
      });
    }
    return {};
  }

  Result<NodeId> load_object(const ObjectFile& file, std::string_view hash) {
    TENPLEX_ASSIGN_OR_RETURN(const std::string bytes, source_.read_object(file));
    if (std::int64_t(bytes.size()) != file.size_bytes)
      return corrupt(fmt::format("expected {} bytes, found {}", file.size_bytes, bytes.size()));
    if (const std::string found = checksum_of(bytes); found != hash)
      return corrupt(fmt::format("its checksum is {}, expected {}", found, hash));
    PickleOptions options;
    options.persistent_id = [this](PickleDocument& document, NodeId id) -> Result<NodeId> {
      if (const auto position = read_node_reference(document, id)) {
        TensorView placeholder;
        placeholder.tensor = kNoTensor;
        placeholder.offset = *position;
        return document.graph().add_tensor(placeholder);
      }
      TENPLEX_ASSIGN_OR_RETURN(TensorReference reference, read_tensor_reference(document, id));
      TENPLEX_ASSIGN_OR_RETURN(reference.view.tensor, find_tensor(reference.name));
      TENPLEX_TRY(check_view(reference.view));
      const NodeId added = document.graph().add_tensor(reference.view);
      document.graph()[added].kind = reference.kind;
      return added;
    };
    TENPLEX_ASSIGN_OR_RETURN(PickleDocument document, read_pickle(as_bytes(bytes), options));
    if (document.end_offset() != file.size_bytes) return corrupt("bytes after the end of the pickle");
    TENPLEX_ASSIGN_OR_RETURN(const StateGraph part, std::move(document).into_graph());
    if (is_reference(part, part.root)) return corrupt("it holds nothing but a reference");
    return append(part);
  }

  static bool is_reference(const StateGraph& part, NodeId id) {
    return part[id].kind == NodeKind::kTensor && part.view(id).tensor == kNoTensor;
  }

  /// Copies all nodes of `part` into the graph; the id of its root there.
  NodeId append(const StateGraph& part) {
    std::vector<NodeId> ids(part.size());
    for (NodeId id = 0; id < part.size(); ++id) {
      const Node& node = part[id];
      if (node.kind == NodeKind::kObject) {
        ids[id] = graph_.add_object({});
      } else if (is_reference(part, id)) {
        ids[id] = graph_.add_none();
        references_.push_back({ids[id], part.view(id).offset});
      } else if (node.kind == NodeKind::kTensor || node.kind == NodeKind::kStorage) {
        ids[id] = graph_.add_tensor(part.view(id));
        graph_[ids[id]].kind = node.kind;
        views_.push_back(ids[id]);
      } else {
        ids[id] = graph_.add(node);
      }
    }
    for (NodeId id = 0; id < part.size(); ++id) {
      if (part[id].kind == NodeKind::kObject) graph_.object(ids[id]) = part.object(id);
      graph_.for_each_edge(ids[id], [&](NodeId& below) { below = below == kNoNode ? kNoNode : ids[below]; });
    }
    return ids[part.root];
  }

  /// Turns positions in the JSON into node ids.
  Result<void> link() {
    bool missing = false;
    const auto move = [&](NodeId& id) {
      if (id == kNoNode) return;
      missing = missing || id >= ids_.size();
      id = missing ? kNoNode : ids_[id];
    };
    for (const NodeId id : linked_) graph_.for_each_edge(id, move);
    if (missing) return json_.fail("a reference to no node");
    return check_objects();
  }

  Result<void> check_objects() const {
    const auto is = [this](NodeId id, NodeKind kind) { return id == kNoNode || graph_[id].kind == kind; };
    for (const NodeId id : linked_) {
      if (graph_[id].kind != NodeKind::kObject) continue;
      const ObjectParts& parts = graph_.object(id);
      if (!is(parts.callable, NodeKind::kGlobal) || !is(parts.arguments, NodeKind::kTuple) ||
          !is(parts.keyword_arguments, NodeKind::kDict))
        return json_.fail("an object has no class or no arguments");
      // Whoever loads what is written from this calls the class: a name from the JSON must not choose what runs there.
      if (!is_plain_object(graph_, parts)) return json_.fail(not_plain(graph_[parts.callable].text));
    }
    return {};
  }

  void name_storages() {
    std::uint32_t next = source_.first_unnamed_storage;
    for (const NodeId id : views_)
      if (graph_.view(id).storage != kUnnamedStorage) next = std::max(next, graph_.view(id).storage + 1);
    for (const NodeId id : views_) {
      TensorView view = graph_.view(id);
      if (view.storage != kUnnamedStorage) continue;
      view.storage = next++;
      graph_.set_view(id, view);
    }
  }

  JsonReader& json_;
  const StateJsonSource& source_;
  std::unordered_map<std::string_view, TensorId> tensors_;
  StateGraph graph_;
  std::vector<NodeId> ids_;     // by position in the JSON
  std::vector<NodeId> linked_;  // nodes whose references are positions until link()
  std::vector<NodeId> views_;
  std::vector<PendingObject> pending_;
  std::vector<NodeReference> references_;
  NodeId first_of_files_ = 0;  // nodes from here on are of object files
  std::vector<ObjectFile> files_;
  std::vector<std::string> hashes_;
};

}  // namespace

Result<StateGraph> decode_state(JsonReader& json, const StateJsonSource& source) {
  return StateDecoder(json, source).run();
}

}  // namespace tenplex
