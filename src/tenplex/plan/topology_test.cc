// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/plan/topology.h"

#include <gtest/gtest.h>

namespace tenplex {
namespace {

std::string error_of(std::string_view yaml) {
  const auto topology = Topology::parse(yaml, "roster.yaml");
  return topology ? "" : topology.error().to_string();
}

TEST(Topology, NumbersSlotsWorkerByWorker) {
  const auto topology = Topology::uniform(3, 2);
  EXPECT_EQ(topology.slot_count(), 6);
  EXPECT_EQ(topology.worker_of_slot(3), WorkerId(1));
  EXPECT_EQ(topology.first_slot(WorkerId(2)), 4);
  EXPECT_EQ(topology.worker(WorkerId(2)).name, "worker2");
}

TEST(Topology, ReadsDefaultsAndOverrides) {
  const auto topology = Topology::parse(
      "devices_per_worker: 8\nbandwidth: 25GB\nworkers:\n  - name: a\n    group: rack-1\n"
      "  - {name: b, devices: 4, in: 50GB, out: 10GB, group: rack-1}\n  - {}\n",
      "roster.yaml");
  ASSERT_TRUE(topology.has_value()) << topology.error().to_string();
  EXPECT_EQ(topology->worker(WorkerId(0)), (Worker{"a", 8, 25'000'000'000, 25'000'000'000, "rack-1"}));
  EXPECT_EQ(topology->worker(WorkerId(1)), (Worker{"b", 4, 50'000'000'000, 10'000'000'000, "rack-1"}));
  EXPECT_EQ(topology->worker(WorkerId(2)).name, "worker2");
  EXPECT_EQ(topology->group_of(WorkerId(0)), topology->group_of(WorkerId(1)));
  EXPECT_NE(topology->group_of(WorkerId(0)), topology->group_of(WorkerId(2)));
}

TEST(Topology, ReadsACountOfWorkers) {
  const auto topology = Topology::parse("workers: 4\ndevices_per_worker: 2\n", "roster.yaml");
  ASSERT_TRUE(topology.has_value()) << topology.error().to_string();
  EXPECT_EQ(*topology, Topology::uniform(4, 2));
}

TEST(Topology, HashesEveryField) {
  const Worker worker{"a", 1, 10, 20, "g"};
  const Hash128 hash = Topology({worker}).hash();
  for (const Worker& other : {Worker{"b", 1, 10, 20, "g"}, Worker{"a", 2, 10, 20, "g"}, Worker{"a", 1, 11, 20, "g"},
                              Worker{"a", 1, 10, 21, "g"}, Worker{"a", 1, 10, 20, "h"}})
    EXPECT_NE(Topology({other}).hash(), hash);
}

TEST(Topology, NamesTheLineThatIsWrong) {
  EXPECT_EQ(error_of("devices_per_worker: 8\nworker: 3\n"),
            "topology 'roster.yaml' line 2: unknown key 'worker' in a topology; known keys: workers, "
            "devices_per_worker, bandwidth");
  EXPECT_EQ(error_of("workers:\n  - name: a\n  - name: a\n"), "topology 'roster.yaml' line 3: worker 'a' occurs twice");
  EXPECT_EQ(error_of("workers:\n  - name: a\n    devices: -1\n"),
            "topology 'roster.yaml' line 3: 'devices' must be in 0..1048576, found -1");
  EXPECT_EQ(error_of("workers:\n  - name: a\n    in: fast\n"),
            "topology 'roster.yaml' line 3: 'in' must be bytes per second such as 12.5GB, found 'fast'");
  EXPECT_EQ(error_of("workers: 2000000\n"),
            "topology 'roster.yaml' line 1: 'workers' must be in 1..1048576, found 2000000");
  EXPECT_EQ(error_of("workers: 4096\ndevices_per_worker: 4096\n"),
            "topology 'roster.yaml' line 1: expected at most 1048576 devices in all");
  EXPECT_EQ(error_of("workers: []\n"), "topology 'roster.yaml' line 1: 'workers' must have at least one");
  EXPECT_EQ(error_of("workers: 1\nworkers: 2\n"), "topology 'roster.yaml' line 2: key 'workers' occurs twice");
  EXPECT_EQ(error_of("workers: four\n"),
            "topology 'roster.yaml' line 1: 'workers' must be a whole number, found 'four'");
  EXPECT_EQ(error_of("bandwidth: 1GB\n"), "topology 'roster.yaml' line 1: expected key 'workers'");
  EXPECT_EQ(error_of("workers:\n  - {name: a}\n  - b\n"),
            "topology 'roster.yaml' line 3: a worker must be a map of keys and values");
  EXPECT_EQ(error_of("workers:\n  - {name: a}\n  - {name: [b]}\n"),
            "topology 'roster.yaml' line 3: 'name' must be a text");
  EXPECT_NE(error_of("workers: [\n"), "");
  EXPECT_EQ(error_of(""), "topology 'roster.yaml' line 1: the document is empty");
}

TEST(Topology, RefusesYamlThatGrowsWhenItIsRead) {
  EXPECT_EQ(error_of("workers:\n  - &a {name: a}\n"),
            "topology 'roster.yaml' line 2: anchors and aliases are not allowed");
  EXPECT_EQ(error_of("workers: " + std::string(17, '[') + std::string(17, ']')),
            "topology 'roster.yaml' line 1: nested deeper than 16 levels");
  EXPECT_EQ(error_of("workers: 1\n---\nworkers: 2\n"),
            "topology 'roster.yaml' line 1: there is more than one YAML document");
  const std::string spaces(std::size_t{16} << 20, ' ');
  EXPECT_EQ(error_of("workers: 1" + spaces), "topology 'roster.yaml' has 16777226 bytes, at most 16777216 are read");
}

TEST(Topology, ReadsManyWorkers) {
  std::string yaml = "workers:\n";
  for (int worker = 0; worker < 50'000; ++worker) yaml += "- {in: 1, out: 2}\n";  // 5 values each, 250,000 in all
  const auto topology = Topology::parse(yaml, "roster.yaml");
  ASSERT_TRUE(topology.has_value()) << topology.error().to_string();
  EXPECT_EQ(topology->worker(WorkerId(49'999)), (Worker{"worker49999", 1, 1, 2, ""}));
}

TEST(Topology, TakesAnEmptyNameOrGroupAsNone) {
  const auto topology = Topology::parse("workers:\n  - {name: '', group: ''}\n", "roster.yaml");
  ASSERT_TRUE(topology.has_value()) << topology.error().to_string();
  EXPECT_EQ(topology->worker(WorkerId(0)), Topology::uniform(1, 1).worker(WorkerId(0)));
}

}  // namespace
}  // namespace tenplex
