// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Layout: how a family of models is spread over devices, as rules read from YAML. The language is docs/layouts.md.
//
//   meshes:                       a rule per kind of tensor; the first that matches a name decides
//     dense: [tp, dp]
//   tensors:
//     - match: '*.up_proj.weight'
//       slice: [{dim: 0, by: tp}]
//
// A layout knows neither mesh sizes nor shapes; RuleCollection (rule_collection.h) brings the three together.
// Value type, immutable. Threads: as any value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/ptc/mesh.h"
#include "tenplex/ptc/name_pattern.h"
#include "tenplex/ptc/split.h"

namespace tenplex {

/// A whole number, or the name of one.
struct Size {
  std::int64_t value = 0;
  std::string name;  ///< empty: `value` counts

  friend bool operator==(const Size&, const Size&) = default;
};

/// Values of names, as in `sizes:`. Where a caller gives the same name, the caller's value counts.
using NamedSizes = std::vector<std::pair<std::string, std::int64_t>>;

struct SliceRule {
  enum class Kind : unsigned char {
    kDim,    ///< {dim: 0, by: tp}
    kFlat,   ///< {flat: true, by: dp}
    kPlace,  ///< {over: expert, by: ep}: whole tensors, placed by a number in their name
  };
  Kind kind = Kind::kDim;
  std::vector<std::string> by;  ///< axes; several are one cut over their product, fastest first
  Split::Kind split = Split::Kind::kChunk;
  std::vector<Size> widths;
  // kDim
  int dim = 0;
  std::vector<Size> segments;
  std::optional<Size> interleave;
  std::optional<Size> local_interleave;
  // kFlat
  bool padded = false;
  std::string bucket;             ///< may hold captures: "layer.{layer}"; empty = none
  std::vector<Size> multiple_of;  ///< of the bucket's size; names may be axes
  Size align{1, {}};              ///< of each tensor's start in the bucket
  // kPlace
  std::string over;           ///< a capture
  std::optional<Size> count;  ///< how many there are; default: the highest number seen, plus one
  int line = 0;
};

struct PadRule {
  int dim = 0;
  std::optional<Size> data;       ///< real extent; default: the tensor's
  std::vector<Size> multiple_of;  ///< product; names may be axes
  int line = 0;
};

/// A coordinate of a device along the stage axis.
struct StageRule {
  enum class Kind : unsigned char { kFirst, kLast, kLayer, kNumber };
  Kind kind = Kind::kFirst;
  std::int64_t number = 0;
};

struct TensorRule {
  std::vector<NamePattern> match;
  std::optional<int> rank;  ///< only tensors of this rank
  std::size_t mesh = 0;     ///< index into LayoutRules::meshes
  std::optional<PadRule> pad;
  std::vector<SliceRule> slices;
  std::vector<StageRule> stages;  ///< held by each of them; empty = by all
  int line = 0;

  /// True if it matches every tensor.
  bool is_catch_all() const;
};

/// What becomes of one optimizer slot of a parameter.
struct SlotRule {
  enum class Base : unsigned char {
    kParameter,  ///< cut as its parameter, then by `slices`
    kWhole,      ///< only by `slices`; without any, replicated where the parameter lives
  };
  std::string slot;  ///< "*" for all that have no rule of their own
  Base base = Base::kParameter;
  bool zero1 = false;  ///< a flat range over dp (edp in a mesh that has no dp)
  std::vector<SliceRule> slices;
  int line = 0;
};

/// How optimizer slots are named in a checkpoint.
struct SlotNames {
  std::vector<NamePattern> patterns;  ///< with {param} and {slot}
  std::vector<std::string> prefixes;  ///< of parameters, that slot names leave out
};

/// Which stage a layer belongs to.
struct StageTable {
  std::string axis = "pp";
  std::optional<Size> layers;  ///< default: the highest layer seen, plus one
  Size virtual_stages{1, {}};  ///< chunks per stage; chunk v of stage p comes v·stages + p-th
  Split::Kind split = Split::Kind::kBalanced;
  std::vector<Size> widths;         ///< layers per chunk
  std::vector<std::int64_t> table;  ///< stage of every layer; empty = none
  int line = 0;
};

/// Two names for one storage: only `to` is cut and stored.
struct TieRule {
  std::string alias;
  std::string to;
  int line = 0;
};

struct ObjectRule {
  struct Coordinate {
    std::string axis;
    bool last = false;
    std::int64_t index = 0;
  };
  NamePattern match;
  std::string capture;                  ///< the owner is this captured number, modulo the number of devices
  std::int64_t device = 0;              ///< else this device
  std::vector<Coordinate> coordinates;  ///< else the device at these, 0 elsewhere
  std::size_t mesh = 0;
  int line = 0;
};

struct LayoutRules {
  std::string family;
  std::vector<MeshAxes> meshes;  ///< at least one
  NamedSizes sizes;
  std::vector<TensorRule> tensors;
  std::vector<SlotRule> slots;
  SlotNames slot_names;
  StageTable stages;
  std::vector<TieRule> ties;
  std::vector<ObjectRule> objects;
};

class Layout {
 public:
  const std::string& name() const { return name_; }
  /// The YAML it was read from.
  const std::string& text() const { return text_; }
  const LayoutRules& rules() const { return rules_; }
  /// All axes of all meshes, each once, in the order of the file.
  std::vector<std::string> axes() const;

  /// "layout 'x' line 7".
  std::string where(int line) const;

 private:
  friend Result<Layout> parse_layout(std::string_view yaml, std::string_view name);

  std::string name_;
  std::string text_;
  LayoutRules rules_;
};

inline constexpr std::size_t kMaxLayoutBytes = std::size_t{1} << 20;

/// `name` is what messages call the layout. Errors: invalid_argument with the line for YAML that does not parse, a key
/// or word that does not exist, an axis, mesh or capture that is not declared; out_of_range for a text above
/// kMaxLayoutBytes, nesting or counts beyond what layouts need. YAML anchors and aliases are refused.
Result<Layout> parse_layout(std::string_view yaml, std::string_view name);

}  // namespace tenplex
