// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The functions of each backend, and of the one that this process uses.
#pragma once

#include <span>

#include "assess/kernels.h"
#include "frame/message.h"

namespace h5lossy::assess {

struct BackendKernels {
  const char* name;
  bool (*runs_here)();
  const Kernels& kernels;
};

// All backends, best first.
std::span<const BackendKernels> all_kernels();

// Chosen once per process.
[[nodiscard]] h5l_status choose_kernels(const Kernels*& kernels, const Message& why);

}  // namespace h5lossy::assess
