// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "emulated_codecs.h"

#include <algorithm>

#include "kernels/codecs/all.cuh"
#include "kernels/common/frame_header.cuh"

namespace h5lossy::test {

void list_codec_kernels() {
  using namespace H5L_TARGET;
#define H5L_KERNEL(name, Plan, Shared, blocks, function) \
  kernels<gpu::Plan>()[#name] = {sizeof(Shared), kThreadsWith<Shared>, [](const gpu::Plan& plan) { function(plan); }};
#include "kernels/codecs/all.def"
#include "kernels/common/kernels.def"
#undef H5L_KERNEL
}

void launch_codec_kernel(const std::string& name, std::uint32_t blocks, std::uint32_t rows, const void* plan,
                         bool together) {
  // Thread blocks do not wait for each other, so fewer do the same; except in decoders, where each has its own tile.
  const bool is_decoder = name.find("decode") != std::string::npos || name.find("unpack") != std::string::npos;
  if (!together && !is_decoder) blocks = std::min(blocks, 3u);
  with_codec_kernel(name, [&]<class Plan>(const Kernel<Plan>& kernel) {
    emulation::launch(blocks, rows, kernel.block_threads, kernel.shared_bytes,
                      [&] { kernel.run(*static_cast<const Plan*>(plan)); });
  });
}

DraftedTiles count_drafts(const gpu::StagedPlan& plan) {
  DraftedTiles tiles;
  for (std::uint32_t chunk = 0; chunk < plan.finish.encode.chunks; ++chunk) {
    for (std::uint32_t tile = 0; tile < plan.forms[chunk].tiles; ++tile) {
      const H5L_TARGET::interp::TileStage<float> stage(plan, chunk, tile);
      tiles.drafted += stage.record().is_drafted != 0 ? 1 : 0;
      ++tiles.all;
    }
  }
  return tiles;
}

}  // namespace h5lossy::test
