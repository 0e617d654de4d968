// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Every codec kernel (kernels.def) as the driver finds it.

#include "kernels/codecs/aatrox_decode.cuh"
#include "kernels/codecs/aatrox_encode.cuh"
#include "kernels/codecs/cuszp2_decode.cuh"
#include "kernels/codecs/cuszp2_encode.cuh"
#include "kernels/codecs/pfpl_decode.cuh"
#include "kernels/codecs/pfpl_encode.cuh"
#include "kernels/common/entry_points.cuh"
#include "kernels/common/frame_header.cuh"

namespace h5lossy::H5L_TARGET {

#include "kernels/codecs/kernels.def"

}  // namespace h5lossy::H5L_TARGET
