// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Kernels that were compiled on this machine are used only after their results were those of the CPU, because compilers
// for GPUs make errors, too. The first call that needs a kernel encodes or decodes built-in chunks, with its codec,
// type and kind of bound, on both. If one byte differs, the kernels are not used in this process.
#pragma once

#include <vector>

#include "gpu/chunks.h"
#include "gpu/device.h"
#include "gpu/sequences.h"
#include "h5lossy.h"

namespace h5lossy {

// Compiles and checks those kernels of a call that have not been used before. Returns `done` if all are right, `left`
// if one is wrong, which stderr says once, and `failed` if that could not be found out now.
template <class Call>
[[nodiscard]] gpu::Outcome check_kernels(gpu::Device& device, const Call& call);
struct CopyCall {};  // gather, scatter or pack
[[nodiscard]] gpu::Outcome check_kernels(gpu::Device& device, const CopyCall& call);

// Whether these kernels copy as they should.
[[nodiscard]] gpu::Outcome compare_copies(gpu::Device& device);

// The requests with which the kernels of a call are checked, and the kernels of each.
struct CheckRequest {
  h5l_params params;
  gpu::Names kernels;
};
template <class Call>
std::vector<CheckRequest> check_requests(const Call& call);

// Runs a call, again if its kernels had to be checked first. `run` returns an Outcome.
template <class Call, class Run>
[[nodiscard]] gpu::Outcome run_checked(gpu::Device& device, const Call& call, const Run& run) {
  const gpu::Outcome first = run();
  if (first != gpu::Outcome::unchecked) return first;
  const gpu::Outcome checked = check_kernels(device, call);
  return checked == gpu::Outcome::done ? run() : checked;
}

}  // namespace h5lossy
