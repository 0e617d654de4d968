// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Entry points of the codecs' kernels (<codec>.def) and of the kernels that all codecs share. native/CMakeLists.txt
// generates the includes of the codecs' files.

#include "kernels/codecs/all.cuh"
#include "kernels/common/entry_points.cuh"
#include "kernels/common/frame_header.cuh"

namespace h5lossy::H5L_TARGET {

#include "kernels/codecs/all.def"
#include "kernels/common/kernels.def"

}  // namespace h5lossy::H5L_TARGET
