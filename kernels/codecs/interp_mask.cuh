// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The fifth kernel of Interp's encoder: a warp per tile writes the masks of its exceptions to their place in its
// payload. Each mask is a chain of steps, so all tiles of many chunks run at once.
#pragma once

#include "kernels/codecs/interp_masks.cuh"
#include "kernels/codecs/interp_tile.cuh"

namespace h5lossy::H5L_TARGET {
namespace interp {

struct MaskTileShared {
  u32 mask[kMaxMaskWords];
  MaskShared masks;
};

}  // namespace interp

template <>
inline constexpr u32 kThreadsWith<interp::MaskTileShared> = kWarpThreads;

namespace interp {

template <class T>
H5L_DEVICE void write_masks(const TileStage<T>& stage, const Shape& shape, const TileValues<T>& values) {
  auto& shared = *reinterpret_cast<MaskTileShared*>(shared_memory());
  TileRecord& record = stage.record();
  const MaskNeighbours neighbours = mask_neighbours_of(shape.extents);
  const u32 words = mask_words(shape.count);
  u8* const scratch = stage.symbols(record.slot);  // symbols are written later
  u8* out = stage.payload() + kMasksAt;
  const auto write = [&] {
    sync_warp();
    out = write_mask_by_warp(neighbours, shape.count, shared.mask, shared.masks, scratch, out);
  };
  for (u32 w = lane(); w < words; w += kWarpThreads) shared.mask[w] = stage.mask()[w];
  write();
  if ((record.exception_flags & kHasOthers) != 0) {
    const Word<T> common = static_cast<Word<T>>(record.common);
    H5L_NO_UNROLL for (u32 w = 0; w < words; ++w) {
      const u32 word = shared.mask[w];
      if (word == 0) continue;
      const bool is_other = (word >> lane() & 1) != 0 && values.bits(w * kMaskBits + lane()) != common;
      const u32 others = ballot(is_other);
      sync_warp();  // the mask has been read
      if (lane() == 0) shared.mask[w] = others;
    }
    sync_warp();
    for (u32 w = lane(); w < words; w += kWarpThreads) stage.others()[w] = shared.mask[w];
    write();
  }
  if (lane() == 0) record.masks_end = static_cast<u32>(out - stage.payload());
}

template <class T, bool has_words>
H5L_DEVICE void mask_tiles(const StagedPlan& plan) {
  for_tiles<has_words>(plan, [&](u32 chunk, u32 tile, const TilePlace& place, const Quantizer&, u32) {
    const TileStage<T> stage(plan, chunk, tile);
    const TileRecord& record = stage.record();
    if (record.kind != TileKind::coded || !record.head.has_exceptions) return;
    const TileValues<T> values(encoded_of<has_words>(plan, chunk), plan.finish.encode.shape.dims, place);
    write_masks(stage, place.shape, values);
  });
}

}  // namespace interp
}  // namespace h5lossy::H5L_TARGET
