// Copyright The Tenplex Authors
// SPDX-License-Identifier: Apache-2.0
//
// A plan as one self-contained HTML page: no script, no outside resource, every name escaped.
//
//   devices    a strip per device (many devices: per worker, or per run of workers), before and after; along it the
//              state in the order of its tensors, the colour says which part, its depth how much of that part is held
//   traffic    who sends how much to whom
//   links      the busiest ones, beside the least possible
//
// Pure function. Threads: any.
#pragma once

#include <string>
#include <string_view>

#include "tenplex/plan/explain.h"

namespace tenplex {

/// The first bytes of every page, by which one is told from other files.
inline constexpr std::string_view kPlanPageStart =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"generator\" content=\"tenplex "
    "plan\">";

/// `title` is shown as it is given. `placement` may be null.
std::string explain_html(const Plan& plan, const PlanInput& input, const PlacementResult* placement,
                         const std::string& title);

}  // namespace tenplex
