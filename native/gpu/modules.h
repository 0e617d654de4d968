// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The kernels' machine code: either built with the library by nvcc, or compiled on first use by NVRTC from the sources
// embedded in the library, and cached (in H5LOSSY_CACHE_DIR, XDG_CACHE_HOME or ~/.cache).
#pragma once

#include <string>
#include <vector>

namespace h5lossy::gpu {

struct Code {
  const void* image = nullptr;  // for the driver; null if there is none
  std::vector<char> memory;     // holds the image unless it is embedded in the library
  std::string how;              // "built in", "compiled by NVRTC 13.0", or the reason why there is none
  // Whether its results were compared with the CPU's when it was compiled; true if they never are. If false, `path` is
  // where it belongs in the cache once they have been; "" if it is there, or if there is no cache.
  bool is_checked = true;
  std::string path;
};

// The kernel that this library loads when it opens a device, to find out whether it can load any.
const char* first_kernel();

// The unit that contains a kernel: "codecs" or "assess".
const char* unit_of(const char* kernel);

// Whether a unit is built in, with all its kernels in one image.
bool is_built_in(const char* unit);

// Whether a unit is compiled on this machine, and its results are compared with the CPU's before they are used
// (offload/kernel_check.h). Those of the assessment are not.
bool needs_check(const char* unit);

// The code of one kernel, or of all kernels of its unit if that is built in, for a device of this compute capability.
Code find_code(const char* unit, const char* kernel, int major, int minor);

// Stores code in the cache.
void keep_code(const std::string& path, const std::vector<char>& image);

}  // namespace h5lossy::gpu
