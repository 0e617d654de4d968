// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Stencils, lags and windows of a field, cell by cell.
#pragma once

#include <cstdint>

#include "assess/gpu/sequences.h"
#include "assess/kernels.h"
#include "assess/state.h"
#include "frame/message.h"
#include "h5lossy_assess.h"

namespace h5lossy::assess {

enum Axis : std::uint32_t { kW, kZ, kY, kX };

struct Placed {
  View view;
  std::uint64_t first[4], end[4];  // owned
};

h5l_status place(const h5l_assess_params& params, const h5l_assess_piece& piece, std::uint32_t halo, Placed& placed,
                 const Message& why);

// Without a state, points are looked at to see which are valid, and there are no pivots.
Rules make_rules(const h5l_assess_params& params, const State* state);

void add_field(const h5l_assess_params& params, const Kernels& kernels, std::uint32_t threads, const Placed& placed,
               const Rules& rules, gpu::AssessDevice* device, State& state);

// Both take the slices along y and x of the points that are owned. ranges() widens the slices' ranges, and dssim() adds
// the data SSIM of the points whose lowest corner is owned.
void add_ranges(const h5l_assess_params& params, const Kernels& kernels, std::uint32_t threads, const Placed& placed,
                const Rules& rules, h5l_assess_slice* slices);
void add_dssim(const h5l_assess_params& params, const Kernels& kernels, std::uint32_t threads, const Placed& placed,
               const Rules& rules, h5l_assess_slice* slices);

void finalize_field(const h5l_assess_params& params, const State& state, h5l_assess_field_result& result);

}  // namespace h5lossy::assess
