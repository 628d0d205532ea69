// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "tenplex/base/utf8.h"
#include "tenplex/formats/manifest/base64.h"
#include "tenplex/formats/manifest/json_writer.h"
#include "tenplex/formats/manifest/shared_parts.h"
#include "tenplex/formats/manifest/state_json.h"
#include "tenplex/formats/manifest/state_names.h"
#include "tenplex/formats/pickle/pickle_writer.h"
#include "tenplex/formats/state/view_numbers.h"

namespace tenplex {
namespace {

constexpr std::int64_t kExactInDouble = std::int64_t{1}
                                        << 53;           // larger integers are text, for readers that use doubles
constexpr std::size_t kLongText = std::size_t{1} << 20;  // bytes; longer texts become files
constexpr std::size_t kLongestPath = 64;                 // steps shown in an error

class StateEncoder {
 public:
  StateEncoder(const StateGraph& graph, std::span<const TensorInfo> tensors, const StateJsonOptions& options)
      : graph_(graph),
        tensors_(tensors),
        options_(options),
        order_(graph.size(), kNoNode),
        call_parts_(graph.size()),
        numbers_(graph),
        json_(&encoded_.json) {}

  Result<EncodedState> run() && {
    number_below({graph_.root, kNoNode});
    number_shared_parts();
    json_.begin_object();
    json_.member("root", std::int64_t{order_[graph_.root]});
    json_.key("nodes");
    json_.begin_array();
    for (const Visit& visit : visits_) TENPLEX_TRY(node(visit.node));
    json_.end_array();
    objects();
    json_.end_object();
    return std::move(encoded_);
  }

 private:
  struct Visit {
    NodeId node;
    NodeId parent;
  };

  /// True if the node is written as a file of its own.
  bool is_opaque(NodeId id) const {
    const Node& node = graph_[id];
    if (node.kind == NodeKind::kObject) return !is_plain_object(graph_, graph_.object(id));
    if (node.kind == NodeKind::kGlobal) return !is_plain_global(node.text);
    return node.text.size() > kLongText;
  }

  void number_below(const Visit& first_visit) {
    std::vector<Visit> stack = {first_visit};
    while (!stack.empty()) {
      const Visit visit = stack.back();
      stack.pop_back();
      if (visit.node == kNoNode || order_[visit.node] != kNoNode) continue;
      order_[visit.node] = static_cast<NodeId>(visits_.size());
      visits_.push_back(visit);
      if (is_opaque(visit.node)) continue;
      const std::size_t first = stack.size();
      graph_.for_each_edge(visit.node, [&](NodeId below) { stack.push_back({below, visit.node}); });
      std::reverse(stack.begin() + static_cast<std::ptrdiff_t>(first), stack.end());
    }
  }

  /// What two object files hold gets a position for both to refer to.
  void number_shared_parts() {
    std::vector<NodeId> files;
    for (const Visit& visit : visits_)
      if (is_opaque(visit.node)) files.push_back(visit.node);
    for (NodeId id = 0; !files.empty() && id < graph_.size(); ++id) {
      if (graph_[id].kind != NodeKind::kObject) continue;
      for (const NodeId part : {graph_.object(id).arguments, graph_.object(id).keyword_arguments})
        if (part != kNoNode) call_parts_[part] = true;
    }
    const auto parts = find_shared_parts(
        graph_, files, [this](NodeId id) { return order_[id] != kNoNode; }, [this](NodeId id) { return is_part(id); });
    for (const SharedPart& part : parts) number_below({part.node, part.root});
  }

  /// True for what an object file may refer to instead of holding it. What an object is called with is no value of its
  /// own.
  bool is_part(NodeId id) const {
    const Node& node = graph_[id];
    if (node.kind == NodeKind::kTensor || node.kind == NodeKind::kStorage || call_parts_[id]) return false;
    return has_identity(node.kind) || !node.children.empty();
  }

  Result<void> node(NodeId id) {
    const Node& node = graph_[id];
    if (is_opaque(id)) return object_file(id);
    switch (node.kind) {
      case NodeKind::kNone:
        json_.null();
        break;
      case NodeKind::kBool:
        json_.value(node.boolean);
        break;
      case NodeKind::kInt:
        integer(node.integer);
        break;
      case NodeKind::kFloat:
        real(node.real);
        break;
      case NodeKind::kString:
        if (find_invalid_utf8(node.text) == std::string_view::npos) {
          json_.value(node.text);
        } else {
          json_.list("s", to_base64(node.text));
        }
        break;
      case NodeKind::kBigInt:
      case NodeKind::kBytes:
      case NodeKind::kByteArray:
        json_.list(tag_of(node.kind), to_base64(node.text));
        break;
      case NodeKind::kGlobal:
        json_.list("g", node.text);
        break;
      case NodeKind::kTensor:
      case NodeKind::kStorage:
        return view(id);
      case NodeKind::kObject:
        object(graph_.object(id));
        break;
      default:
        container(node);
        break;
    }
    return {};
  }

  void integer(std::int64_t value) {
    if (value >= -kExactInDouble && value <= kExactInDouble) return json_.value(value);
    json_.list("i", fmt::format("{}", value));
  }

  void real(double value) {
    json_.begin_array();
    json_.value("f");
    if (std::isfinite(value) && !(value == 0 && std::signbit(value))) {
      json_.value(value);
    } else {
      json_.value(fmt::format("{:016x}", std::bit_cast<std::uint64_t>(value)));
    }
    json_.end_array();
  }

  void reference(NodeId id) {
    if (id == kNoNode) return json_.null();
    json_.value(std::int64_t{order_[id]});
  }

  void reference_list(const std::vector<NodeId>& ids) {
    json_.begin_array();
    for (const NodeId id : ids) reference(id);
    json_.end_array();
  }

  void container(const Node& node) {
    json_.begin_array();
    json_.value(tag_of(node.kind));
    for (const NodeId child : node.children) reference(child);
    json_.end_array();
  }

  void object(const ObjectParts& parts) {
    json_.begin_array();
    json_.value("o");
    reference(parts.callable);
    reference(parts.arguments);
    reference(parts.keyword_arguments);
    reference(parts.state);
    reference_list(parts.list_items);
    reference_list(parts.dict_items);
    json_.value(parts.new_object);
    json_.end_array();
  }

  /// ["T", name, flags?, storage, offset, strides, object?]: the last four only where they say something.
  Result<void> view(NodeId id) {
    const TensorView view = graph_.view(id);
    const TensorInfo& tensor = tensors_[view.tensor.index()];
    if (find_invalid_utf8(tensor.name) != std::string_view::npos)
      return unsupported(fmt::format("tensor '{}': the name is not UTF-8 text", tensor.name));
    if (auto fault = view_fault(view, tensor)) return unsupported(std::move(*fault));
    json_.begin_array();
    json_.value(tag_of(graph_[id].kind));
    json_.value(tensor.name);
    if (view.requires_grad || view.parameter)
      json_.value(fmt::format("{}{}", view.requires_grad ? "g" : "", view.parameter ? "p" : ""));
    const bool plain = view.offset == 0 && view.strides == row_major_strides(tensor.shape);
    if (!plain || view.object != 0 || numbers_.shares_storage(view)) {
      json_.value(std::int64_t{numbers_.storage(view)});
      json_.value(view.offset);
      json_.value(view.strides);
      if (view.object != 0) json_.value(std::int64_t{numbers_.object(view)});
    }
    json_.end_array();
    return {};
  }

  Result<void> object_file(NodeId id) {
    if (!options_.allow_objects)
      return unsupported(fmt::format("{}: {} has no place here{}", path_of(id), describe(id), options_.refusal_hint));
    PickleWriteOptions pickle;
    pickle.protocol = 4;
    pickle.one_value_per_object = false;  // each leaf has a name of its own
    pickle.is_elsewhere = [this](NodeId node) { return order_[node] != kNoNode && is_part(node); };
    pickle.tensor = [this](PickleWriter& writer, const StateGraph& graph, NodeId node) -> Result<void> {
      if (is_part(node)) {
        write_node_reference(writer, order_[node]);
        return {};
      }
      TensorView view = graph.view(node);
      const TensorInfo& tensor = tensors_[view.tensor.index()];
      if (auto fault = view_fault(view, tensor)) return unsupported(std::move(*fault));
      view.storage = numbers_.storage(view);
      view.object = numbers_.object(view);
      return write_tensor_reference(writer, graph[node].kind, view, tensor.name);
    };
    auto bytes = write_pickle(graph_, id, pickle);
    if (!bytes) return std::move(bytes).error().with_context(path_of(id));
    const auto index = encoded_.objects.size();
    Hasher hasher;
    hasher.add_raw(as_bytes(*bytes));
    encoded_.objects.push_back({fmt::format("{}object-{:05}.pkl", options_.object_prefix, index),
                                static_cast<std::int64_t>(bytes->size()), hasher.finish()});
    encoded_.pickles.push_back(std::move(*bytes));
    json_.list("x", static_cast<std::int64_t>(index));
    return {};
  }

  void objects() {
    if (encoded_.objects.empty()) return;
    json_.key("objects");
    json_.begin_array();
    for (const ObjectFile& file : encoded_.objects) json_.list(file.path, file.size_bytes, to_string(file.hash));
    json_.end_array();
  }

  std::string describe(NodeId id) const {
    const Node& node = graph_[id];
    if (node.kind == NodeKind::kGlobal) return fmt::format("the name {} of a class or function", dotted(node.text));
    if (node.kind != NodeKind::kObject) return fmt::format("a value of {} bytes", node.text.size());
    const NodeId callable = graph_.object(id).callable;
    if (callable == kNoNode || graph_[callable].kind != NodeKind::kGlobal) return "an opaque object";
    return fmt::format("an opaque object of {}", dotted(graph_[callable].text));
  }

  static std::string dotted(std::string name) {
    std::replace(name.begin(), name.end(), '\n', '.');
    return name;
  }

  /// "state 'optimizer.args'".
  std::string path_of(NodeId id) const {
    std::vector<std::string> steps;
    while (steps.size() < kLongestPath) {
      const NodeId parent = visits_[order_[id]].parent;
      if (parent == kNoNode) break;
      steps.push_back(step_name(graph_, parent, id));
      id = parent;
    }
    std::string path;
    for (std::size_t k = steps.size(); k-- > 0;) {
      if (!path.empty() && !steps[k].empty()) path += '.';
      path += steps[k];
    }
    return fmt::format("state '{}'", path);
  }

  const StateGraph& graph_;
  std::span<const TensorInfo> tensors_;
  const StateJsonOptions& options_;
  std::vector<NodeId> order_;     // position in the JSON, by node
  std::vector<bool> call_parts_;  // by node: tuples and dicts that objects are called with
  std::vector<Visit> visits_;     // by position
  ViewNumbers numbers_;
  EncodedState encoded_;
  JsonWriter json_;
};

}  // namespace

Result<EncodedState> encode_state(const StateGraph& graph, std::span<const TensorInfo> tensors,
                                  const StateJsonOptions& options) {
  return StateEncoder(graph, tensors, options).run();
}

}  // namespace tenplex
