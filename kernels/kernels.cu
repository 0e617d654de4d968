// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Every kernel of kernels.def as the driver finds it.

#include "aatrox_decode.cuh"
#include "aatrox_encode.cuh"
#include "cuszp2_decode.cuh"
#include "cuszp2_encode.cuh"
#include "entry_points.cuh"
#include "finishing.cuh"
#include "pfpl_decode.cuh"
#include "pfpl_encode.cuh"

namespace h5lossy::H5L_TARGET {

#include "kernels.def"

}  // namespace h5lossy::H5L_TARGET
