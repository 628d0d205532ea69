// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// LayerStages: which stage every layer of a model belongs to, as the section `stages:` of a layout says.
//
//   7 layers, 2 stages, split: balanced           0 0 0 0 1 1 1
//   8 layers, 2 stages, virtual: 2                0 0 1 1 0 0 1 1     chunk v of stage p comes v·stages + p-th
//   7 layers, 3 stages, first: 1, last: 2         0 1 1 1 1 2 2
//
// Value type. Threads: as any value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tenplex/base/result.h"
#include "tenplex/ptc/layout.h"
#include "tenplex/ptc/layout_sizes.h"

namespace tenplex {

class LayerStages {
 public:
  static constexpr std::int64_t kMaxLayers = std::int64_t{1} << 20;

  LayerStages() = default;

  /// `found` is the number of layers that the tensors have; the layout may say another one. Errors: invalid_argument
  /// or out_of_range, naming the layout's line, if the layers cannot be dealt out so.
  static Result<LayerStages> make(const Layout& layout, const LayoutSizes& sizes, std::int64_t found,
                                  std::int64_t stages);

  /// How many layers there are.
  std::int64_t layers() const { return static_cast<std::int64_t>(stage_of_.size()); }

  /// Requires: 0 <= layer < layers().
  std::int64_t operator[](std::int64_t layer) const { return stage_of_[static_cast<std::size_t>(layer)]; }

  const std::vector<std::int64_t>& all() const { return stage_of_; }

 private:
  std::vector<std::int64_t> stage_of_;
};

/// "layout 'x' line 7", the line of `stages:`, or "stages" where there is none.
std::string where_stages(const Layout& layout);

}  // namespace tenplex
