// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// What the decoders of cuSZp2 and AATROX share: planes to differences.
#pragma once

#include "codecs/blocks.h"
#include "quantizing.cuh"
#include "reading.cuh"

namespace h5lossy::H5L_TARGET::blocks {

// Undoes store_planes: `planes` of them, `stride` words apart, become the thread's 32 differences. All threads of a warp.
template <u32 max_planes, class W>
H5L_DEVICE void load_differences(const u32* from, u32 planes, u32 stride, W (&words)[32]) {
  constexpr u32 slices = (max_planes + 7) / 8;
  constexpr u32 halves = sizeof(W) / 4;
  H5L_UNROLL for (u32 half = 0; half < halves; ++half) {
    u32 bytes[4][8];
    H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
      const u32 s = 4 * half + i;
      if (s >= slices || !any_in_warp(planes > 8 * s)) {
        H5L_UNROLL for (u32 c = 0; c < 8; ++c) bytes[i][c] = 0;
        continue;
      }
      H5L_UNROLL for (u32 c = 0; c < 8; ++c) bytes[i][c] = 8 * s + c < planes ? load_constant(from + (8 * s + c) * stride) : 0;
      transpose_bytes(bytes[i]);
    }
    H5L_UNROLL for (u32 r = 0; r < 8; ++r) {
      const u32 low01 = permute(bytes[0][r], bytes[1][r], 0x5140), high01 = permute(bytes[0][r], bytes[1][r], 0x7362);
      const u32 low23 = permute(bytes[2][r], bytes[3][r], 0x5140), high23 = permute(bytes[2][r], bytes[3][r], 0x7362);
      const u32 four[4] = {permute(low01, low23, 0x5410), permute(low01, low23, 0x7632), permute(high01, high23, 0x5410),
                           permute(high01, high23, 0x7632)};
      H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
        W& word = words[8 * i + 7 - r];
        if constexpr (halves == 1) {
          word = four[i];
        } else {
          word = half == 0 ? W{four[i]} : word | static_cast<W>(four[i]) << 32;
        }
      }
    }
  }
  H5L_UNROLL for (u32 i = 0; i < 32; ++i) words[i] = from_sign_last(words[i]);
}

}  // namespace h5lossy::H5L_TARGET::blocks
