// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Shared by decoders of fixed-length blocks: bit planes to differences.
#pragma once

#include "codecs/blocks.h"
#include "kernels/common/quantizing.cuh"
#include "kernels/common/tile_io.cuh"

namespace h5lossy::H5L_TARGET::blocks {

// Eight planes of a block of 32 differences, as load_differences passes them to see().
struct EightPlanes {
  u32 first;  // number of the first plane; plane 0 holds the signs
  u32 signs;
  u32 stored[8];    // planes of magnitudes, 0 above the block's planes
  u32 restored[8];  // planes of two's complements
  u32 above;        // the value of all higher planes, if are_last
  bool are_last;    // for all blocks of the warp
};

// Adds planes to the checksum; plane i of `planes` is word at + i * stride of the payload.
H5L_DEVICE void add_planes(PayloadSum& sum, const EightPlanes& eight, u32 planes, u32 at, u32 stride) {
  if (!sum.is_enabled()) return;
  if (eight.first == 1) sum.add(eight.signs, at, planes != 0);
  H5L_UNROLL for (u32 c = 0; c < 8; ++c) {
    sum.add(eight.stored[c], at + (eight.first + c) * stride, eight.first + c < planes);
  }
}

// The inverse of store_planes: `planes` planes become the thread's 32 differences. plane_of(i) loads plane i;
// see(EightPlanes) gets them in groups of eight. Called by all threads of a warp.
//
// Signs are applied before the planes are transposed, where one operation serves 32 values: a negative difference is
// the complement of its magnitude plus 1, with the carry going from plane to plane. Above the planes of a block, all
// bits of a difference are sign bits.
template <u32 max_planes, class PlaneOf, class See, class W>
H5L_DEVICE void load_differences(PlaneOf plane_of, u32 planes, See see, W (&words)[32]) {
  constexpr u32 slices = (max_planes + 7) / 8;  // bytes of a difference
  EightPlanes eight;
  eight.signs = planes == 0 ? 0 : plane_of(0);
  u32 carry = eight.signs;
  u32 bytes[slices][8];  // byte i of bytes[s][r] is byte s of difference 8 i + 7 - r
  u32 used = 0;
  H5L_UNROLL for (u32 s = 0; s < slices; ++s) {
    eight.first = 8 * s + 1;
    // All loads are issued before the first is used.
    H5L_UNROLL for (u32 c = 0; c < 8; ++c) eight.stored[c] = 8 * s + c + 1 < planes ? plane_of(8 * s + c + 1) : 0;
    H5L_UNROLL for (u32 c = 0; c < 8; ++c) {
      const u32 plane = eight.stored[c] ^ eight.signs;
      eight.restored[c] = plane ^ carry;
      carry &= plane;
    }
    eight.above = eight.signs ^ carry;
    eight.are_last = s + 1 == slices || !any_in_warp(planes > 8 * (s + 1));
    see(eight);
    H5L_UNROLL for (u32 c = 0; c < 8; ++c) bytes[s][c] = eight.restored[c];
    transpose_bytes(bytes[s]);
    used = s + 1;
    if (eight.are_last) break;
  }
  // The remaining bytes are sign extension.
  if (sizeof(W) == 4 && used <= 2) {
    if (used == 1) {
      H5L_UNROLL for (u32 r = 0; r < 8; ++r) {
        H5L_UNROLL for (u32 i = 0; i < 4; ++i) words[8 * i + 7 - r] =
            permute_signed(bytes[0][r], 0, i | (8 | i) * 0x1110);
      }
    } else {
      H5L_UNROLL for (u32 r = 0; r < 8; ++r) {
        H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
          words[8 * i + 7 - r] = permute_signed(bytes[0][r], bytes[1][r], i | (4 | i) << 4 | (12 | i) * 0x1100);
        }
      }
    }
    return;
  }
  constexpr u32 all_signs = 0xBA98;
  H5L_UNROLL for (u32 r = 0; r < 8; ++r) {
    u32 all[2 * sizeof(W)];
    H5L_UNROLL for (u32 s = 0; s < sizeof(W); ++s) {
      all[s] =
          s < slices && s < used ? bytes[s < slices ? s : 0][r] : permute_signed(all[s == 0 ? 0 : s - 1], 0, all_signs);
    }
    H5L_UNROLL for (u32 half = 0; half < sizeof(W) / 4; ++half) {
      const u32* const b = all + 4 * half;
      const u32 low01 = permute(b[0], b[1], 0x5140), high01 = permute(b[0], b[1], 0x7362);
      const u32 low23 = permute(b[2], b[3], 0x5140), high23 = permute(b[2], b[3], 0x7362);
      const u32 four[4] = {permute(low01, low23, 0x5410), permute(low01, low23, 0x7632),
                           permute(high01, high23, 0x5410), permute(high01, high23, 0x7632)};
      H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
        W& word = words[8 * i + 7 - r];
        if constexpr (sizeof(W) == 4) {
          word = four[i];
        } else {
          word = half == 0 ? W{four[i]} : word | static_cast<W>(four[i]) << 32;
        }
      }
    }
  }
}

}  // namespace h5lossy::H5L_TARGET::blocks
