// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Kernels by their names, as the driver finds them, for emulated_gpu.h to run. A table for each kind of plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "check.h"
#include "kernels/common/device_primitives.cuh"

namespace h5lossy::test {

template <class Plan>
struct Kernel {
  static constexpr std::size_t kPlanBytes = sizeof(Plan);
  std::size_t shared_bytes;
  std::uint32_t block_threads;
  std::function<void(const Plan&)> run;
};

template <class Plan>
std::map<std::string, Kernel<Plan>>& kernels() {
  static std::map<std::string, Kernel<Plan>> all;
  return all;
}

// False: there is none of this name that takes such a plan.
template <class Plan>
bool launch(const std::string& name, std::uint32_t blocks, std::uint32_t rows, const void* plan,
            std::size_t plan_bytes) {
  const auto found = kernels<Plan>().find(name);
  if (found == kernels<Plan>().end()) return false;
  CHECK(plan_bytes == sizeof(Plan), "%s", name.c_str());
  emulation::launch(blocks, rows, found->second.block_threads, found->second.shared_bytes,
                    [&] { found->second.run(*static_cast<const Plan*>(plan)); });
  return true;
}

}  // namespace h5lossy::test
