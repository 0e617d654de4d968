// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The codecs' kernels by their names. They are compiled once, for all programs that run them.
#pragma once

#include <string>

#include "emulated_kernels.h"
#include "gpu/plans.h"

namespace h5lossy::test {

// Must be called first.
void list_codec_kernels();

// Runs a kernel. With `together`, all thread blocks run at the same time.
void launch_codec_kernel(const std::string& name, std::uint32_t blocks, std::uint32_t rows, const void* plan,
                         bool together);

// Interp's tiles, and how many of them the kernels for usual tiles have coded.
struct DraftedTiles {
  std::size_t drafted = 0, all = 0;
};
DraftedTiles count_drafts(const gpu::StagedPlan& plan);

template <class Visit, class... Plans>
bool with_kernel_of(const std::string& name, const Visit& visit) {
  const auto visit_one = [&](auto& all) {
    const auto found = all.find(name);
    if (found == all.end()) return false;
    visit(found->second);
    return true;
  };
  return (visit_one(kernels<Plans>()) || ...);
}

// Calls visit(Kernel<Plan>) for the kernel of this name. False: there is none.
template <class Visit>
bool with_codec_kernel(const std::string& name, const Visit& visit) {
  using namespace gpu;
  return with_kernel_of<Visit, EncodePlan, StagedPlan, DecodePlan, FinishPlan, OpenPlan, RangePlan, IntegerPlan,
                        AutoPlan, PackPlan, SwapPlan, ChunkPlan>(name, visit);
}

}  // namespace h5lossy::test
