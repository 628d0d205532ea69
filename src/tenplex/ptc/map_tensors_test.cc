// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenplex/ptc/map_tensors.h"
#include "tenplex/ptc/testing/tensor_infos.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tenplex {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kHead =
    "sides: [hf, megatron]\nsizes: {heads: n_head, groups: {default: heads}}\ntensors:\n";

NamingMap map_of(const std::string& rules) {
  auto map = parse_naming_map(std::string(kHead) + rules, "m");
  EXPECT_TRUE(map) << map.error().to_string();
  return std::move(map).value();
}

NamedSizes sizes(std::int64_t heads, std::int64_t groups) { return {{"heads", heads}, {"groups", groups}}; }

/// "qkv [8, 1]: q[0:2, 0:1] as [0:2, 0:1] axes 0 1; …" for every target.
std::vector<std::string> mapped(const std::string& rules, const std::vector<TensorInfo>& tensors,
                                const NamedSizes& given = sizes(4, 2)) {
  const auto result = map_tensors(map_of(rules), tensors, given);
  if (!result) return {result.error().to_string()};
  std::vector<std::string> texts;
  for (std::size_t target = 0; target < result->map.targets.size(); ++target) {
    const TensorInfo& tensor = result->map.targets[target];
    std::string text = fmt::format("{} {}:", tensor.name, to_string(tensor.shape));
    for (const MapPiece& piece : result->map.pieces_of(target)) {
      const std::string numbered = to_string(piece);
      text += fmt::format(" {}{};", tensors[piece.source.index()].name, numbered.substr(numbered.find('[')));
    }
    texts.push_back(text);
  }
  return texts;
}

const std::string kQkv =
    "  - hf: ['{layer}.q', '{layer}.k', '{layer}.v']\n"
    "    megatron: {name: '{layer}.qkv', blocks: groups}\n"
    "    widths: [heads, groups, groups]\n";

TEST(MapTensors, InterleavesHeadsByGroup) {
  // Four heads of one row, two groups: q0 q1 k0 v0 q2 q3 k1 v1.
  EXPECT_THAT(mapped(kQkv, {f32("0.v", {2, 3}), f32("0.q", {4, 3}), f32("0.k", {2, 3})}),
              ElementsAre("0.qkv [8, 3]: 0.q[0:2, 0:3] as [0:2, 0:3] axes 0 1; 0.q[2:4, 0:3] as [4:6, 0:3] axes 0 1; "
                          "0.k[0:1, 0:3] as [2:3, 0:3] axes 0 1; 0.k[1:2, 0:3] as [6:7, 0:3] axes 0 1; "
                          "0.v[0:1, 0:3] as [3:4, 0:3] axes 0 1; 0.v[1:2, 0:3] as [7:8, 0:3] axes 0 1;"));
}

TEST(MapTensors, TakesGroupsApart) {
  EXPECT_THAT(mapped(kQkv, {f32("0.qkv", {8})}),
              ElementsAre("0.q [4]: 0.qkv[0:2] as [0:2] axes 0; 0.qkv[4:6] as [2:4] axes 0;",
                          "0.k [2]: 0.qkv[2:3] as [0:1] axes 0; 0.qkv[6:7] as [1:2] axes 0;",
                          "0.v [2]: 0.qkv[3:4] as [0:1] axes 0; 0.qkv[7:8] as [1:2] axes 0;"));
}

const std::string kGated = "  - hf: [gate, up]\n    megatron: fc1\n    widths: [1, 1]\n";

TEST(MapTensors, JoinsGateAndUp) {
  EXPECT_THAT(mapped(kGated, {f32("gate", {3, 2}), f32("up", {3, 2})}),
              ElementsAre("fc1 [6, 2]: gate[0:3, 0:2] as [0:3, 0:2] axes 0 1; up[0:3, 0:2] as [3:6, 0:2] axes 0 1;"));
  EXPECT_THAT(mapped(kGated, {f32("fc1", {6})}),
              ElementsAre("gate [3]: fc1[0:3] as [0:3] axes 0;", "up [3]: fc1[3:6] as [0:3] axes 0;"));
}

TEST(MapTensors, TransposesAndDealsOut) {
  // c_attn [2, 6] of two heads has columns q0 q1 k0 k1 v0 v1, qkv [6, 2] has rows q0 k0 v0 q1 k1 v1.
  const std::string rules =
      "  - hf: {name: c_attn, transpose: true}\n    megatron: {name: qkv, blocks: heads}\n    widths: [1, 1, 1]\n";
  EXPECT_THAT(
      mapped(rules, {f32("c_attn", {2, 6})}, sizes(2, 2)),
      ElementsAre("qkv [6, 2]: c_attn[0:2, 0:1] as [0:1, 0:2] axes 1 0; c_attn[0:2, 1:2] as [3:4, 0:2] axes 1 0; "
                  "c_attn[0:2, 2:3] as [1:2, 0:2] axes 1 0; c_attn[0:2, 3:4] as [4:5, 0:2] axes 1 0; "
                  "c_attn[0:2, 4:5] as [2:3, 0:2] axes 1 0; c_attn[0:2, 5:6] as [5:6, 0:2] axes 1 0;"));
  EXPECT_THAT(mapped(rules, {f32("qkv", {6, 2})}, sizes(1, 1)),
              ElementsAre("c_attn [2, 6]: qkv[0:6, 0:2] as [0:2, 0:6] axes 1 0;"));
}

const std::string kStacked = "  - hf: '{layer}.{expert}.w'\n    megatron: {name: w, stack: [layer, expert]}\n";

TEST(MapTensors, StacksLayersAndExperts) {
  EXPECT_THAT(mapped(kStacked, {f32("1.0.w", {5}), f32("0.0.w", {5}), f32("0.1.w", {5}), f32("1.1.w", {5})}),
              ElementsAre("w [2, 2, 5]: 0.0.w[0:5] as [0:1, 0:1, 0:5] axes -1 -1 0; "
                          "1.0.w[0:5] as [1:2, 0:1, 0:5] axes -1 -1 0; 0.1.w[0:5] as [0:1, 1:2, 0:5] axes -1 -1 0; "
                          "1.1.w[0:5] as [1:2, 1:2, 0:5] axes -1 -1 0;"));
  EXPECT_THAT(mapped(kStacked, {f32("w", {1, 2})}),
              ElementsAre("0.0.w []: w[0:1, 0:1] as [] axes;", "0.1.w []: w[0:1, 1:2] as [] axes;"));
}

TEST(MapTensors, KeepsAnAxisThatBothSidesStack) {
  const std::string rules =
      "  - hf: {name: '{layer}.w', stack: expert}\n    megatron: {name: w, stack: [layer, expert]}\n";
  EXPECT_THAT(mapped(rules, {f32("0.w", {3, 5}), f32("1.w", {3, 5})}),
              ElementsAre("w [2, 3, 5]: 0.w[0:3, 0:5] as [0:1, 0:3, 0:5] axes -1 0 1; "
                          "1.w[0:3, 0:5] as [1:2, 0:3, 0:5] axes -1 0 1;"));
  EXPECT_THAT(mapped(rules, {f32("w", {1, 3, 5})}),
              ElementsAre("0.w [3, 5]: w[0:1, 0:3, 0:5] as [0:3, 0:5] axes 1 2;"));
}

TEST(MapTensors, ReadsEveryNameAndWritesTheFirst) {
  const std::string rules = "  - {hf: a, megatron: x}\n  - {hf: a, megatron: y}\n";
  EXPECT_THAT(mapped(rules, {f32("a", {2})}), ElementsAre("x [2]: a[0:2] as [0:2] axes 0;"));
  EXPECT_THAT(mapped(rules, {f32("y", {2})}), ElementsAre("a [2]: y[0:2] as [0:2] axes 0;"));
  EXPECT_THAT(mapped(rules, {f32("y", {2}), f32("x", {2})}),
              ElementsAre("'y' (map 'm' line 5) and 'x' (map 'm' line 4) both become 'a'"));
}

/// There and back must be the identity: follows random elements through both maps.
void expect_identity(const std::string& rules, const std::vector<TensorInfo>& tensors, const NamedSizes& given) {
  const auto there = map_tensors(map_of(rules), tensors, given);
  ASSERT_TRUE(there) << there.error().to_string();
  const auto back = map_tensors(map_of(rules), there->map.targets, given);
  ASSERT_TRUE(back) << back.error().to_string();
  ASSERT_EQ(back->map.targets.size(), tensors.size());
  std::map<std::string, std::size_t> index;
  for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) index[tensors[tensor].name] = tensor;
  const auto follow = [](const TensorMap& map, std::size_t target, const Dims& at) {
    for (const MapPiece& piece : map.pieces_of(target)) {
      if (!contains(piece.target_box, {at, Dims::filled(at.rank(), 1)})) continue;
      Dims from = piece.source_box.offset;
      for (int axis = 0; axis < at.rank(); ++axis)
        if (const int source = piece.axes[static_cast<std::size_t>(axis)]; source != kNewAxis)
          from[source] += at[axis] - piece.target_box.offset[axis];
      return std::pair(piece.source.index(), from);
    }
    ADD_FAILURE() << "no piece";
    return std::pair(std::size_t{0}, Dims{});
  };
  std::mt19937 random(7);
  for (std::size_t target = 0; target < tensors.size(); ++target) {
    const TensorInfo& tensor = back->map.targets[target];
    const std::size_t original = index.at(tensor.name);
    ASSERT_EQ(tensor, tensors[original]);
    for (int repeat = 0; repeat < 200; ++repeat) {
      Dims at = tensor.shape;
      for (std::int64_t& coordinate : at) coordinate = static_cast<std::int64_t>(random()) % coordinate;
      const auto [middle, place] = follow(back->map, target, at);
      EXPECT_EQ(follow(there->map, middle, place), std::pair(original, at)) << tensor.name << to_string(at);
    }
  }
}

TEST(MapTensors, ThereAndBackIsTheIdentity) {
  std::mt19937 random(3);
  for (int repeat = 0; repeat < 40; ++repeat) {
    const std::int64_t groups = 1 + static_cast<std::int64_t>(random() % 4);
    const std::int64_t heads = groups * (1 + static_cast<std::int64_t>(random() % 4));
    const std::int64_t rows = 1 + static_cast<std::int64_t>(random() % 3);
    const NamedSizes given = sizes(heads, groups);
    expect_identity(
        kQkv, {f32("0.q", {heads * rows, 3}), f32("0.k", {groups * rows, 3}), f32("0.v", {groups * rows, 3})}, given);
    expect_identity(
        "  - hf: {name: c_attn, transpose: true, blocks: groups}\n    megatron: {name: qkv, blocks: heads}\n"
        "    widths: [1, 2]\n",
        {f32("c_attn", {5, 3 * heads * rows})}, given);
    expect_identity(
        "  - hf: ['{layer}.{expert}.w1', '{layer}.{expert}.w3']\n"
        "    megatron: {name: fc1, stack: [expert, layer], blocks: heads, transpose: true}\n"
        "    widths: [1, 1]\n",
        {f32("0.0.w1", {heads, rows}), f32("0.0.w3", {heads, rows}), f32("0.1.w1", {heads, rows}),
         f32("0.1.w3", {heads, rows})},
        given);
  }
}

std::string error_of(const std::string& rules, const std::vector<TensorInfo>& tensors,
                     const NamedSizes& given = sizes(4, 2)) {
  const auto result = map_tensors(map_of(rules), tensors, given);
  return result ? "no error" : result.error().to_string();
}

TEST(MapTensors, NamesWhatDoesNotFit) {
  EXPECT_EQ(error_of(kQkv, {f32("0.q", {4}), f32("0.k", {2}), f32("0.v", {2})}, sizes(8, 2)),
            "map 'm' line 4: tensors '0.q', '0.k', '0.v' of 4, 2, 2 in dimension 0: expected extents like [8, 2, 2] "
            "(heads 8, groups 2)");
  EXPECT_EQ(error_of(kQkv, {f32("0.qkv", {8, 3})}, sizes(5, 2)),
            "map 'm' line 4: tensor '0.qkv' of shape [8, 3]: parts of widths [5, 2, 2] do not divide an extent of 8 "
            "(heads 5, groups 2)");
  EXPECT_EQ(error_of(kQkv, {f32("0.qkv", {9})}, sizes(3, 3)), "no error");
  EXPECT_EQ(error_of(kQkv, {f32("0.q", {3}), f32("0.k", {1}), f32("0.v", {1})}, sizes(6, 2)),
            "map 'm' line 4: tensors '0.q', '0.k', '0.v': parts of [3, 1, 1] cannot be dealt out over 2 blocks: 2 does "
            "not divide 3 (heads 6, groups 2)");
  EXPECT_EQ(error_of(kQkv, {f32("0.qkv", {8})}, {}),
            "size 'heads' of map 'm' has no value: --sizes does not give it, and there is no config.json with n_head");
  EXPECT_EQ(error_of(kQkv, {f32("0.q", {4}), f32("0.v", {2})}),
            "map 'm' line 4: tensor '0.k' is missing, '0.q' is there; together they are '{layer}.qkv'");
  EXPECT_EQ(
      error_of(kQkv, {f32("0.q", {4, 3}), f32("0.k", {2, 4}), f32("0.v", {2, 3})}),
      "map 'm' line 4: tensors '0.q' of shape [4, 3] and '0.k' of shape [2, 4] cannot be joined along dimension 0");
  EXPECT_EQ(error_of(kQkv, {f32("0.qkv", {})}),
            "map 'm' line 4: tensor '0.qkv' of shape [] has no dimension 0 to join along");
  EXPECT_EQ(error_of(kGated, {f32("gate", {3}), {"up", DType::kBFloat16, {3}}}),
            "map 'm' line 4: tensors 'gate' of float32 [3] and 'up' of bfloat16 [3] do not fit together");
  EXPECT_EQ(error_of(kQkv, {f32("0.qkv", {8}), f32("0.qkv", {8})}), "two tensors are called '0.qkv'");
}

TEST(MapTensors, NamesTensorsThatItDoesNotKnow) {
  EXPECT_EQ(error_of(kGated, {f32("gate", {3}), f32("up", {3}), f32("other", {2, 3})}),
            "tensor 'other' of shape [2, 3]: no rule of map 'm' has this name for 'hf' (to read it as 'megatron')");
  EXPECT_EQ(error_of(kGated, {f32("gate", {3}), f32("up", {3}), f32("fc1", {6})}),
            "tensor 'fc1' of shape [6]: no rule of map 'm' has this name for 'hf' (one has it for 'megatron')");
  EXPECT_EQ(error_of(kQkv, {f32("00.qkv", {8})}),
            "map 'm' has names for 'hf' and 'megatron', and none of them is a tensor's (as '00.qkv')");
  EXPECT_EQ(error_of(kQkv, {}), "map 'm' has names for 'hf' and 'megatron', and none of them is a tensor's");
  EXPECT_EQ(error_of("  - {hf: a, megatron: b}\n  - {hf: b, megatron: a}\n", {f32("a", {})}),
            "the tensors may be named for 'hf' or for 'megatron': map 'm' cannot tell which");
}

TEST(MapTensors, RefusesGaps) {
  EXPECT_EQ(error_of(kQkv, {f32("0.qkv", {8}), f32("2.qkv", {8})}),
            "no tensor has layer 1, but one has layer 2: map 'm' is for whole models");
  EXPECT_EQ(error_of(kStacked, {f32("0.0.w", {5}), f32("0.1.w", {5}), f32("1.0.w", {5})}),
            "map 'm' line 4: tensor '1.1.w' is missing, '0.0.w' is there; together they are 'w'");
  EXPECT_EQ(error_of(kStacked, {f32("0.0.w", {5}), f32("1.0.w", {4})}),
            "map 'm' line 4: tensors '0.0.w' of float32 [5] and '1.0.w' of float32 [4] do not fit together");
  EXPECT_EQ(error_of(kStacked, {f32("w", {2})}),
            "map 'm' line 4: tensor 'w' of shape [2] must have at least 2 dimensions");
  EXPECT_EQ(error_of(kStacked, {f32("w", {0, 2})}), "map 'm' line 4: tensor 'w' of shape [0, 2] stacks nothing");
}

TEST(MapTensors, RefusesWhatIsTooLarge) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  EXPECT_THAT(error_of(kStacked, {f32("w", {kHuge, 1, 0})}), HasSubstr("map 'm' line 4: more than 1048576 tensors"));
  EXPECT_THAT(error_of(kStacked, {f32("w", {kHuge, kHuge, 0})}), HasSubstr("more than 1048576 tensors"));
  EXPECT_THAT(
      error_of("  - hf: {name: '{layer}.a', transpose: true}\n    megatron: {name: '{layer}.b', blocks: heads}\n"
               "    widths: [1, 1, 1, 1, 1, 1, 1, 1, 1]\n",
               {f32("0.a", {1, 9 * 65536})}, sizes(65536, 1)),
      HasSubstr("map 'm' line 4: more than 524288 pieces"));
  EXPECT_THAT(error_of(kQkv, {f32("0.qkv", {3 * kHuge})}, sizes(kHuge, kHuge)), HasSubstr("blocks, at most 65536"));
  EXPECT_THAT(error_of(kGated, {f32("gate", {std::int64_t{1} << 62, 0}), f32("up", {std::int64_t{1} << 62, 0})}),
              HasSubstr("too large"));
  EXPECT_THAT(
      error_of("  - hf: '{layer}.w'\n    megatron: {name: w, stack: layer}\n", {f32("0.w", {1, 1, 1, 1, 1, 1, 1, 1})}),
      HasSubstr("'w' would have more than 8 dimensions"));
}

TEST(MapTensors, KeepsSubByteElementsTogether) {
  const auto f4 = [](const char* name, const Dims& shape) { return TensorInfo{name, DType::kFloat4E2M1FN, shape}; };
  EXPECT_THAT(mapped(kGated, {f4("fc1", {6, 2})}), ElementsAre("gate [3, 2]: fc1[0:3, 0:2] as [0:3, 0:2] axes 0 1;",
                                                               "up [3, 2]: fc1[3:6, 0:2] as [0:3, 0:2] axes 0 1;"));
  EXPECT_THAT(error_of("  - hf: [gate, up]\n    megatron: fc1\n    widths: [1, 1]\n    dim: 1\n", {f4("fc1", {2, 6})}),
              HasSubstr("map 'm' line 4"));
  EXPECT_EQ(error_of("  - hf: {name: a, transpose: true}\n    megatron: b\n", {f4("a", {2, 4})}),
            "map 'm' line 4: tensor 'a' of float4_e2m1fn [2, 4] would be cut inside of a byte");
}

TEST(MapSizes, OfTheCallerDoNotTellOthersThatTheConfigGives) {
  const NamingMap map = parse_naming_map(
                            "sides: [a, b]\nsizes:\n  heads: n_head\n  groups: {config: n_kv, default: heads}\n"
                            "  blocks: {default: heads}\n  kin: {config: n_kin, default: blocks}\ntensors: []\n",
                            "m")
                            .value();
  const auto config_of = [](NamedSizes known) -> ConfigNumber {
    return [known](std::string_view key) { return find_size(known, key); };
  };
  using Pair = std::pair<std::string, std::int64_t>;
  EXPECT_THAT(map_sizes(map, {{"heads", 4}}, config_of({})).value(), ElementsAre(Pair("heads", 4), Pair("blocks", 4)));
  EXPECT_THAT(map_sizes(map, {{"heads", 4}}, config_of({{"n_kv", 2}})).value(),
              ElementsAre(Pair("heads", 4), Pair("groups", 2), Pair("blocks", 4)));
  EXPECT_THAT(map_sizes(map, {{"heads", 4}}, config_of({{"n_head", 8}})).value(),
              ElementsAre(Pair("heads", 4), Pair("blocks", 4)));
  EXPECT_THAT(map_sizes(map, {{"heads", 4}}, config_of({{"n_head", 4}})).value(),
              ElementsAre(Pair("heads", 4), Pair("groups", 4), Pair("blocks", 4), Pair("kin", 4)));
  EXPECT_THAT(map_sizes(map, {}, config_of({{"n_head", 4}})).value(),
              ElementsAre(Pair("heads", 4), Pair("groups", 4), Pair("blocks", 4), Pair("kin", 4)));
}

TEST(MapSizes, ComeFromTheCallerTheConfigAndTheDefault) {
  const NamingMap map = map_of(kGated);
  const auto config = [](std::string_view key) -> std::optional<std::int64_t> {
    if (key == "n_head") return 12;
    return std::nullopt;
  };
  const auto none = [](std::string_view) -> std::optional<std::int64_t> { return std::nullopt; };
  using Pair = std::pair<std::string, std::int64_t>;
  EXPECT_THAT(map_sizes(map, {}, config).value(), ElementsAre(Pair("heads", 12), Pair("groups", 12)));
  EXPECT_THAT(map_sizes(map, {{"heads", 3}}, config).value(), ElementsAre(Pair("heads", 3), Pair("groups", 3)));
  EXPECT_THAT(map_sizes(map, {{"groups", 4}}, config).value(), ElementsAre(Pair("heads", 12), Pair("groups", 4)));
  EXPECT_THAT(map_sizes(map, {}, none).value(), ElementsAre());
  EXPECT_EQ(map_sizes(map, {{"head", 3}}, none).error().message(),
            "map 'm' has no size 'head'; its sizes are: heads, groups");
  EXPECT_EQ(map_sizes(map, {{"heads", 0}}, none).error().message(),
            "map 'm' line 2: size 'heads' must be at least 1, found 0");
  EXPECT_EQ(map_sizes(map, {{"heads", 2}, {"heads", 3}}, none).error().message(), "size 'heads' is given twice");
}

}  // namespace
}  // namespace tenplex
