// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Topology::parse: the YAML form of a roster.
#include <fmt/format.h>

#include <array>
#include <unordered_set>
#include <utility>

#include "tenplex/base/bytes.h"
#include "tenplex/plan/topology.h"
#include "tenplex/ptc/yaml_document.h"

namespace tenplex {
namespace {

constexpr std::int64_t kMaxSlots = std::int64_t{1} << 20;
/// No roster of at most kMaxSlots devices has more values than this in 16 MiB.
constexpr YamlForm kForm{std::size_t{16} << 20, std::size_t{6} << 20};

class TopologyReader {
 public:
  explicit TopologyReader(const std::string& file_name) : yaml_(fmt::format("topology '{}'", file_name), kForm) {}

  Result<Topology> read(std::string_view text) {
    constexpr std::array<std::string_view, 3> kKeys = {"workers", "devices_per_worker", "bandwidth"};
    TENPLEX_ASSIGN_OR_RETURN(const YamlNode root, yaml_.parse(text));
    TENPLEX_TRY(yaml_.check_keys(root, "a topology", kKeys));
    if (const YamlNode* devices = root.find("devices_per_worker")) {
      TENPLEX_ASSIGN_OR_RETURN(defaults_.devices, count(*devices, "devices_per_worker", 1));
    }
    if (const YamlNode* node = root.find("bandwidth")) {
      TENPLEX_ASSIGN_OR_RETURN(defaults_.in_bytes_per_second, bandwidth(*node, "bandwidth"));
      defaults_.out_bytes_per_second = defaults_.in_bytes_per_second;
    }
    const YamlNode* workers = root.find("workers");
    if (workers == nullptr) return yaml_.error(root, "expected key 'workers'");
    return workers->kind == YamlNode::Kind::kSequence ? listed(*workers) : counted(*workers);
  }

 private:
  Result<int> count(const YamlNode& node, std::string_view key, std::int64_t least) const {
    TENPLEX_ASSIGN_OR_RETURN(const std::int64_t value, yaml_.integer(node, fmt::format("'{}'", key), least, kMaxSlots));
    return static_cast<int>(value);
  }

  Result<std::int64_t> bandwidth(const YamlNode& node, std::string_view key) const {
    TENPLEX_ASSIGN_OR_RETURN(const std::string size, yaml_.text(node, fmt::format("'{}'", key)));
    const auto bytes = parse_bytes(size);
    if (!bytes || *bytes <= 0)
      return yaml_.error(node, fmt::format("'{}' must be bytes per second such as 12.5GB, found '{}'", key, size));
    return *bytes;
  }

  /// Unlike YamlReader::text(), "" is allowed: it says that there is none.
  Result<std::string> label(const YamlNode& node, std::string_view key) const {
    if (node.kind != YamlNode::Kind::kScalar) return yaml_.error(node, fmt::format("'{}' must be a text", key));
    return node.text;
  }

  Result<Topology> counted(const YamlNode& node) const {
    TENPLEX_ASSIGN_OR_RETURN(const int workers, count(node, "workers", 1));
    if (std::int64_t{workers} * defaults_.devices > kMaxSlots) return too_many_devices(node);
    std::vector<Worker> list(static_cast<std::size_t>(workers), defaults_);
    for (std::size_t index = 0; index < list.size(); ++index) list[index].name = fmt::format("worker{}", index);
    return Topology(std::move(list));
  }

  Result<Topology> listed(const YamlNode& nodes) const {
    if (nodes.items.empty()) return yaml_.error(nodes, "'workers' must have at least one");
    std::vector<Worker> list;
    list.reserve(nodes.items.size());
    std::unordered_set<std::string_view> names;  // of what `list` holds, which stays where it is
    std::int64_t devices = 0;
    for (const YamlNode& node : nodes.items) {
      TENPLEX_ASSIGN_OR_RETURN(Worker worker, read_worker(node));
      if (worker.name.empty()) worker.name = fmt::format("worker{}", list.size());
      devices += worker.devices;
      if (devices > kMaxSlots) return too_many_devices(node);
      list.push_back(std::move(worker));
      const std::string& name = list.back().name;
      if (!names.insert(name).second) return yaml_.error(node, fmt::format("worker '{}' occurs twice", name));
    }
    return Topology(std::move(list));
  }

  Error too_many_devices(const YamlNode& node) const {
    return yaml_.error(node, fmt::format("expected at most {} devices in all", kMaxSlots));
  }

  Result<Worker> read_worker(const YamlNode& node) const {
    constexpr std::array<std::string_view, 5> kKeys = {"name", "devices", "in", "out", "group"};
    TENPLEX_TRY(yaml_.check_keys(node, "a worker", kKeys));
    Worker worker = defaults_;
    if (const YamlNode* name = node.find("name")) {
      TENPLEX_ASSIGN_OR_RETURN(worker.name, label(*name, "name"));
    }
    if (const YamlNode* devices = node.find("devices")) {
      TENPLEX_ASSIGN_OR_RETURN(worker.devices, count(*devices, "devices", 0));
    }
    if (const YamlNode* in = node.find("in")) {
      TENPLEX_ASSIGN_OR_RETURN(worker.in_bytes_per_second, bandwidth(*in, "in"));
    }
    if (const YamlNode* out = node.find("out")) {
      TENPLEX_ASSIGN_OR_RETURN(worker.out_bytes_per_second, bandwidth(*out, "out"));
    }
    if (const YamlNode* group = node.find("group")) {
      TENPLEX_ASSIGN_OR_RETURN(worker.group, label(*group, "group"));
    }
    return worker;
  }

  YamlReader yaml_;
  Worker defaults_;
};

}  // namespace

Result<Topology> Topology::parse(std::string_view yaml, const std::string& file_name) {
  return TopologyReader(file_name).read(yaml);
}

}  // namespace tenplex
