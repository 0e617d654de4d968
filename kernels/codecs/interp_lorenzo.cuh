// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Lorenzo differences of a tile whose integers are known, by a thread block (docs/format/interp.md, "Lorenzo
// prediction").
#pragma once

#include "codecs/interp/format.h"
#include "kernels/codecs/interp_passes.cuh"

namespace h5lossy::H5L_TARGET::interp {

// Exceptions without an integer are marked by `none`, and get the integer of the value before them along x; at the
// start of a row, that of the value before them along y, then z, then w. Ends with a barrier.
template <u32 warps, class Integers, class I>
H5L_DEVICE void fill_exceptions(const Shape& shape, Integers integers, I none) {
  constexpr u32 threads = warps * kWarpThreads;
  const u32(&strides)[kAxes] = shape.strides;
  const u32(&extents)[kAxes] = shape.extents;
  const auto fill = [&](u32 at, u32 before) {
    if (integers[at] == none) integers[at] = integers[before];
  };
  if (thread() == 0) {
    if (integers[0] == none) put(integers[0], I{0});
    for (u32 w = 1; w < extents[0]; ++w) fill(w * strides[0], (w - 1) * strides[0]);
  }
  sync_block();
  for (u32 w = thread(); w < extents[0]; w += threads) {
    for (u32 z = 1; z < extents[1]; ++z) fill(w * strides[0] + z * strides[1], w * strides[0] + (z - 1) * strides[1]);
  }
  sync_block();
  for (u32 slice = thread(); slice < extents[0] * extents[1]; slice += threads) {
    for (u32 y = 1; y < extents[2]; ++y) {
      fill(slice * strides[1] + y * strides[2], slice * strides[1] + (y - 1) * strides[2]);
    }
  }
  sync_block();
  H5L_NO_UNROLL for (u32 row = warp() * strides[2]; row < shape.count; row += warps * strides[2]) {
    I before = integers[row];
    for (u32 first = 0; first < extents[3]; first += kWarpThreads) {
      const bool is_there = first + lane() < extents[3];
      const I own = is_there ? integers[row + first + lane()] : none;
      const u32 present = ballot(own != none), up_to = present & (lanes_below() | 1u << lane());
      const I last = shuffle(own, up_to == 0 ? 0 : 31 - count_leading_zeros(up_to));
      const I integer = up_to == 0 ? before : last;
      if (is_there) put(integers[row + first + lane()], integer);
      before = shuffle(integer, kWarpThreads - 1);
    }
  }
  sync_block();
}

// Calls give(number in coding order, code, place) for all integers, as numbers of I. The table belongs to the thread
// block. Begins and ends with a barrier.
template <u32 warps, class I, class Table, class Integers, class Give>
H5L_DEVICE void code_lorenzo(const Shape& shape, u32 axes, Table& table, Integers integers, Give give) {
  using U = Unsigned<I>;
  sync_block();
  if (thread() == 0) table.make_for_box(shape);
  sync_block();
  const auto integer_at = [&](u32 i) { return static_cast<U>(static_cast<I>(integers[i])); };
  for_quads<warps>(table, 0, 1, [&](const Pass& pass, u32 number) {
    PassQuad quad;
    if (!find_quad(pass, number, quad)) return;
    // The values of a quad are neighbours, unless the quad lies along x. So the sum over those corners of a value that
    // share its coordinate along the quad also serves the next value, for the corners one step back.
    const u32 along = pass.along, own_axis = along == 3 ? 0 : axes & axis_bit(along);
    const u32 step = along == 1 ? shape.strides[1] : along == 2 ? shape.strides[2] : 0;
    u32 inside = 0;  // axes along which the first value is not at the start of the box
    H5L_UNROLL for (u32 a = 0; a < kAxes; ++a) inside |= quad.entries[a] != 0 ? axis_bit(a) : 0;
    const u32 set = axes & ~own_axis;
    const u32 before = own_axis != 0 && (inside & own_axis) != 0 ? step : 0;
    U sums[1 + kQuad] = {};
    H5L_NO_UNROLL for (u32 part = set;; part = (part - 1) & set) {
      u32 back = 0;
      H5L_UNROLL for (u32 a = 0; a < kAxes; ++a) back += (part & axis_bit(a)) != 0 ? shape.strides[a] : 0;
      const U sign = (ones(part) & 1) != 0 ? ~U{0} : U{1};
      const u32 missing = part & ~inside;
      if (missing == 0) {
        if (own_axis != 0) sums[0] += sign * integer_at(quad.places[0] - before - back);
        H5L_UNROLL for (u32 j = 0; j < kQuad; ++j) sums[1 + j] += sign * integer_at(quad.places[j] - back);
      } else if (along == 3 && (part & ~(inside | axis_bit(3))) == 0) {
        // Only the first value of the quad is at the start of its row.
        H5L_UNROLL for (u32 j = 1; j < kQuad; ++j) {
          sums[1 + j] += sign * integer_at(quad.places[j] - (quad.has(j) ? back : 0));
        }
      }
      if (part == 0) break;
    }
    H5L_UNROLL for (u32 j = 0; j < kQuad; ++j) {
      if (!quad.has(j)) break;
      const u32 own_inside = j == 0 ? inside : inside | axis_bit(along);
      U code = sums[1 + j] - ((own_inside & own_axis) != 0 ? sums[j] : 0);
      if ((axes & own_inside) == 0) {
        u32 last = 0;
        H5L_UNROLL for (u32 a = 0; a < kAxes; ++a) last = (own_inside & axis_bit(a)) != 0 ? shape.strides[a] : last;
        code -= integer_at(quad.places[j] - last);
      }
      give(quad.codes[j], static_cast<I>(code), quad.places[j]);
    }
  });
}

}  // namespace h5lossy::H5L_TARGET::interp
