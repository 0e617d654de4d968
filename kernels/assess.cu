// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Every kernel of assess.def as the driver finds it.

#include "assess_lags.cuh"
#include "assess_points.cuh"
#include "assess_sliding.cuh"
#include "assess_stencils.cuh"
#include "assess_windows.cuh"
#include "entry_points.cuh"

namespace h5lossy::H5L_TARGET {

#include "assess.def"

}  // namespace h5lossy::H5L_TARGET
