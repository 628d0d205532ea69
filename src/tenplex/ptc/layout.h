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
#include "tenplex/ptc/size_rules.h"
#include "tenplex/ptc/split.h"

namespace tenplex {

/// {like: NAME, dim: D}: a dimension has as many equal segments as it is times longer than that dimension of the tensor
/// of that name, which has the captures of the tensor that is cut in it.
struct SegmentsLike {
  NamePattern name;
  int dim = 0;
};

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
  bool by_stages = false;  ///< split: stages. The dimension numbers layers, a part has those of its stage
  std::vector<Size> segments;
  std::optional<SegmentsLike> segments_like;
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
  bool zero = true;         ///< zero: of the layout is for these tensors too
  std::string without;      ///< not empty: only where no tensor has this name
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
  std::optional<Size> first;        ///< layers of the first stage, with all its chunks; 0 = as the others
  std::optional<Size> last;         ///< of the last stage
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
    bool layer = false;  ///< the stage of the captured {layer}
    std::string word;    ///< else, not empty: the captured number, modulo the size of the axis
    std::string of;      ///< not empty: `word` is one of this captured number, dealt out as by {over: …, by: axis}
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
  std::vector<AxisDefault> axes;
  std::vector<SizeRule> size_rules;
  NamedSizes values;  ///< `values:`
  NamedSizes sizes;   ///< those of size_rules that have a value
  /// Which tensors are cut once more, in flat ranges over dp (edp in a mesh that has no dp): 1 and 2 optimizer slots,
  /// 3 all that are no scalars.
  int zero = 0;
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

  /// The same layout with numbers for its sizes: those in `given` (where the layout has the name), else its own
  /// `values:`, else those of the configuration, else the defaults. They are part of its text, so that it says the same
  /// wherever it is read again. Errors: as resolve_sizes().
  Result<Layout> with_sizes(const NamedSizes& given, const ConfigNumber& config) const;

  /// The same layout with `zero: N`, called NAME+zeroN. Errors: invalid_argument if it has one, or has a mesh without
  /// the axes dp and edp.
  Result<Layout> with_zero(int zero) const;

  /// The meshes with these sizes; axes that are left out have what `axes:` says, else 1. Errors: as make_meshes().
  Result<std::vector<Mesh>> make_meshes(const MeshSizes& sizes) const;

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
