// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// Global shapes from local ones: needed to read files that each hold one device's arrays and no manifest.
//
//   device 0: w [4, 8]    device 1: w [4, 8]    rule: dim 0 by tp   ──►   w [8, 8]
//
// A global extent is guessed as the sum of the local extents along the axes that cut it; the guess counts only if the
// layout gives every device exactly the local shapes that were found. Threads: safe together.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tenplex/ptc/layout.h"
#include "tenplex/ptc/tensor.h"

namespace tenplex {

struct LocalTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  Dims shape;  ///< of the device's local array
};

/// `devices[i]` lists what device i holds. The result is in the order in which names first occur; padding that the
/// layout declares with `data` is not part of the shapes.
/// Errors: invalid_argument if the number of devices is not the mesh's, dtypes differ between devices, a device lacks a
/// tensor that the layout gives it or has one that it does not, local shapes that the rule cannot have made, or a
/// tensor that is cut flat and is no slot of a parameter in the list (flat ranges do not tell the shape). They name the
/// tensor, the device, both shapes, and the rule with its line.
Result<std::vector<TensorInfo>> global_shapes_from_locals(const Layout& layout, const MeshSizes& mesh,
                                                          std::span<const std::vector<LocalTensor>> devices,
                                                          const NamedSizes& sizes = {});

}  // namespace tenplex
