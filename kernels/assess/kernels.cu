// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Every assessment kernel (kernels.def) as the driver finds it.

#include "kernels/assess/lags.cuh"
#include "kernels/assess/points.cuh"
#include "kernels/assess/sliding.cuh"
#include "kernels/assess/stencils.cuh"
#include "kernels/assess/windows.cuh"
#include "kernels/common/entry_points.cuh"

namespace h5lossy::H5L_TARGET {

#include "kernels/assess/kernels.def"

}  // namespace h5lossy::H5L_TARGET
