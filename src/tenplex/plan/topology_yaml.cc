// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Topology::parse: the YAML form of a roster.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <set>
#include <utility>

#include "tenplex/base/bytes.h"
#include "tenplex/plan/topology.h"

namespace tenplex {
namespace {

constexpr std::int64_t kMaxSlots = std::int64_t{1} << 20;

class TopologyReader {
 public:
  explicit TopologyReader(std::string file_name) : file_(std::move(file_name)) {}

  Result<Topology> read(const YAML::Node& root) {
    if (!root.IsMap()) return error(root, "expected a map with 'workers'");
    YAML::Node workers;
    for (const auto& entry : root) {
      TENPLEX_ASSIGN_OR_RETURN(const std::string key, text(entry.first, "a key"));
      if (!seen_.insert(key).second) return error(entry.first, fmt::format("key '{}' appears twice", key));
      if (key == "workers") {
        workers = entry.second;
      } else if (key == "devices_per_worker") {
        TENPLEX_ASSIGN_OR_RETURN(defaults_.devices, count(entry.second, key, 1));
      } else if (key == "bandwidth") {
        TENPLEX_ASSIGN_OR_RETURN(defaults_.in_bytes_per_second, bandwidth(entry.second, key));
        defaults_.out_bytes_per_second = defaults_.in_bytes_per_second;
      } else {
        return error(entry.first,
                     fmt::format("unknown key '{}': expected workers, devices_per_worker or bandwidth", key));
      }
    }
    if (!workers.IsDefined()) return error(root, "expected key 'workers'");
    return workers.IsSequence() ? listed(workers) : counted(workers);
  }

  Error error(const YAML::Mark& mark, const std::string& message) const {
    return invalid_argument(fmt::format("{}:{}: {}", file_, mark.line + 1, message));
  }

 private:
  Error error(const YAML::Node& node, const std::string& message) const { return error(node.Mark(), message); }

  Result<std::string> text(const YAML::Node& node, std::string_view what) const {
    if (!node.IsScalar()) return error(node, fmt::format("expected {} that is plain text", what));
    return node.Scalar();
  }

  Result<int> count(const YAML::Node& node, const std::string& key, std::int64_t least) const {
    TENPLEX_ASSIGN_OR_RETURN(const std::string digits, text(node, fmt::format("a value of '{}'", key)));
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (code != std::errc{} || end != digits.data() + digits.size() || value < least || value > kMaxSlots)
      return error(node,
                   fmt::format("{}: expected a whole number from {} to {}, found '{}'", key, least, kMaxSlots, digits));
    return static_cast<int>(value);
  }

  Result<std::int64_t> bandwidth(const YAML::Node& node, const std::string& key) const {
    TENPLEX_ASSIGN_OR_RETURN(const std::string size, text(node, fmt::format("a value of '{}'", key)));
    const auto bytes = parse_bytes(size);
    if (!bytes || *bytes <= 0)
      return error(node, fmt::format("{}: expected bytes per second such as 12.5GB, found '{}'", key, size));
    return *bytes;
  }

  Result<Topology> counted(const YAML::Node& node) {
    TENPLEX_ASSIGN_OR_RETURN(const int workers, count(node, "workers", 1));
    if (std::int64_t{workers} * defaults_.devices > kMaxSlots)
      return error(node, fmt::format("expected at most {} devices in all", kMaxSlots));
    std::vector<Worker> list(static_cast<std::size_t>(workers), defaults_);
    for (std::size_t index = 0; index < list.size(); ++index) list[index].name = fmt::format("worker{}", index);
    return Topology(std::move(list));
  }

  Result<Topology> listed(const YAML::Node& nodes) {
    if (nodes.size() == 0) return error(nodes, "workers: expected at least one");
    std::vector<Worker> list;
    std::set<std::string> names;
    std::int64_t devices = 0;
    for (const YAML::Node& node : nodes) {
      TENPLEX_ASSIGN_OR_RETURN(Worker worker, read_worker(node));
      if (worker.name.empty()) worker.name = fmt::format("worker{}", list.size());
      if (!names.insert(worker.name).second) return error(node, fmt::format("worker '{}' appears twice", worker.name));
      devices += worker.devices;
      if (devices > kMaxSlots) return error(node, fmt::format("expected at most {} devices in all", kMaxSlots));
      list.push_back(std::move(worker));
    }
    return Topology(std::move(list));
  }

  Result<Worker> read_worker(const YAML::Node& node) {
    Worker worker = defaults_;
    if (!node.IsMap()) return error(node, "expected a worker as a map such as {name: node-a, devices: 8}");
    std::set<std::string> keys;
    for (const auto& entry : node) {
      TENPLEX_ASSIGN_OR_RETURN(const std::string key, text(entry.first, "a key"));
      if (!keys.insert(key).second) return error(entry.first, fmt::format("key '{}' appears twice", key));
      TENPLEX_TRY(set(key, entry.first, entry.second, &worker));
    }
    return worker;
  }

  Result<void> set(const std::string& key, const YAML::Node& key_node, const YAML::Node& value, Worker* worker) {
    if (key == "name") {
      TENPLEX_ASSIGN_OR_RETURN(worker->name, text(value, "a name"));
    } else if (key == "group") {
      TENPLEX_ASSIGN_OR_RETURN(worker->group, text(value, "a group"));
    } else if (key == "devices") {
      TENPLEX_ASSIGN_OR_RETURN(worker->devices, count(value, key, 0));
    } else if (key == "in") {
      TENPLEX_ASSIGN_OR_RETURN(worker->in_bytes_per_second, bandwidth(value, key));
    } else if (key == "out") {
      TENPLEX_ASSIGN_OR_RETURN(worker->out_bytes_per_second, bandwidth(value, key));
    } else {
      return error(key_node, fmt::format("unknown key '{}': expected name, devices, in, out or group", key));
    }
    return {};
  }

  std::string file_;
  Worker defaults_;
  std::set<std::string> seen_;
};

}  // namespace

Result<Topology> Topology::parse(std::string_view yaml, const std::string& file_name) {
  TopologyReader reader(file_name);
  constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
  if (yaml.size() > kMaxBytes) return invalid_argument(fmt::format("{}: larger than {} bytes", file_name, kMaxBytes));
  try {
    return reader.read(YAML::Load(std::string(yaml)));
  } catch (const YAML::Exception& exception) {
    return reader.error(exception.mark, exception.msg);
  }
}

}  // namespace tenplex
