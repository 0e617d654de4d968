// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Slices of a field, each assessed as a field of its own.
#pragma once

#include <cstdint>

#include "assess/fields.h"
#include "assess/points.h"
#include "assess/state.h"

namespace h5lossy::assess {

// Assesses `count` slices of so many points each, which follow each other in host memory, and adds their stencils, lags
// and windows to the state. `placed` is a whole slice.
void add_slices(const PointsCall& call, const Placed& placed, std::uint64_t points, h5l_assess_slice_result* slices,
                std::uint64_t count, State& state);

}  // namespace h5lossy::assess
