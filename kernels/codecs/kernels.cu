// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Every codec's kernels (<codec>.def) and those that all codecs share, as the driver finds them. What includes the codecs'
// files is made by native/CMakeLists.txt.

#include "kernels/codecs/all.cuh"
#include "kernels/common/entry_points.cuh"
#include "kernels/common/frame_header.cuh"

namespace h5lossy::H5L_TARGET {

#include "kernels/codecs/all.def"
#include "kernels/common/kernels.def"

}  // namespace h5lossy::H5L_TARGET
