// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The kernels as machine code: built with the library where nvcc was there, or else compiled on first use by NVRTC from the
// sources in the library, and kept for the user (H5LOSSY_CACHE_DIR, XDG_CACHE_HOME or ~/.cache).
#pragma once

#include <string>
#include <vector>

namespace h5lossy::gpu {

struct Code {
  const void* image = nullptr;  // for the driver; null where there is none
  std::vector<char> memory;     // of the image, where it is not the library's own
  std::string how;              // "built in", "compiled by NVRTC 13.0", or why there is none
};

// Of a unit, "kernels" or "assess", for a device of this compute capability.
Code find_code(const char* unit, int major, int minor);

}  // namespace h5lossy::gpu
