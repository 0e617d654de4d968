// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Shared by the stencil and window kernels: the cells of a field and its points, for any rank, strides, byte order and
// mask.
#pragma once

#include "assess/gpu/plans.h"
#include "assess/values.h"
#include "kernels/common/device_primitives.cuh"

namespace h5lossy::H5L_TARGET {

using assess::StencilCell;
using gpu::CellsPlan;

enum Axis : u32 { kW, kZ, kY, kX };

// A cell: some rows and columns of one plane.
struct CellPlace {
  u64 w, z, first_row, end_row, first_column, end_column;
};

H5L_DEVICE CellPlace place_of(const CellsPlan& plan, u64 cell) {
  const auto cut = [](u64 first, u64 i, u64 length) { return i == 0 ? first : (first / length + i) * length; };
  const u64 x = cell % plan.columns_of_cells;
  const u64 rest = cell / plan.columns_of_cells;
  const u64 y = rest % plan.rows_of_cells;
  const u64 plane = rest / plan.rows_of_cells;
  const u64 planes = plan.end[kZ] - plan.first[kZ];
  CellPlace place;
  place.w = plan.first[kW] + plane / planes;
  place.z = plan.first[kZ] + plane % planes;
  place.first_row = cut(plan.first[kY], y, plan.cell_rows);
  place.end_row = y + 1 == plan.rows_of_cells ? plan.end[kY] : cut(plan.first[kY], y + 1, plan.cell_rows);
  place.first_column = cut(plan.first[kX], x, plan.cell_columns);
  place.end_column = x + 1 == plan.columns_of_cells ? plan.end[kX] : cut(plan.first[kX], x + 1, plan.cell_columns);
  return place;
}

// Invalid points are all zeros.
struct FieldPoint {
  double x, e, valid;
};

H5L_DEVICE const u8* address(const u8* base, const i64 (&strides)[4], const u64 (&origin)[4], const u64 (&at)[4]) {
  i64 offset = 0;
  H5L_UNROLL for (u32 axis = 0; axis < 4; ++axis) offset += strides[axis] * static_cast<i64>(at[axis] - origin[axis]);
  return base + offset;
}

template <class T>
H5L_DEVICE FieldPoint point_at(const CellsPlan& plan, const u64 (&at)[4]) {
  const assess::View& view = plan.view;
  const assess::Rules& rules = plan.rules;
  auto a = *reinterpret_cast<const Word<T>*>(address(view.original, view.original_strides, view.origin, at));
  auto b = *reinterpret_cast<const Word<T>*>(address(view.decoded, view.decoded_strides, view.origin, at));
  if (rules.original_big_endian) a = swapped(a);
  if (rules.decoded_big_endian) b = swapped(b);
  const bool counts =
      rules.all_valid || (is_finite<T>(a) && is_finite<T>(b) && !(rules.has_fill && a == rules.fill_bits) &&
                          (view.mask == nullptr || *address(view.mask, view.mask_strides, view.origin, at) == 0));
  if (!counts) return {0.0, 0.0, 0.0};
  const double x = static_cast<double>(bit_cast<T>(a));
  return {x, static_cast<double>(bit_cast<T>(b)) - x, 1.0};
}

// The same, with the pivot subtracted from the error.
template <class T>
H5L_DEVICE FieldPoint pivoted_at(const CellsPlan& plan, const u64 (&at)[4]) {
  FieldPoint point = point_at<T>(plan, at);
  if (point.valid != 0) point.e -= plan.rules.pivot_e;
  return point;
}

// Adds up kGroup cells in the order of the state's tree, one thread per double of the sums; `rest` then combines the
// other members.
template <class Cell, u32 kSums, class Rest>
H5L_DEVICE void group_cells(const gpu::GroupPlan& plan, Rest rest) {
  constexpr u32 kDoubles = sizeof(Cell) / 8;
  const auto* const parts = reinterpret_cast<const double*>(plan.parts);
  auto* const groups = reinterpret_cast<double*>(plan.sums);
  const u64 all = plan.groups * kDoubles;
  for (u64 i = u64{block_number()} * kThreads + thread(); i < all; i += u64{grid_blocks()} * kThreads) {
    const u64 group = i / kDoubles;
    const u32 which = static_cast<u32>(i % kDoubles);
    const double* const from = parts + group * gpu::kGroup * kDoubles + which;
    if (which >= kSums) {
      groups[i] = rest(from, which);
      continue;
    }
    double node[gpu::kGroupLevel + 1];
    H5L_UNROLL for (u32 cell = 0; cell < gpu::kGroup; ++cell) {
      double sum = from[cell * kDoubles];
      u32 level = 0;
      H5L_UNROLL for (u32 bits = cell; (bits & 1) != 0; bits >>= 1) sum = node[level++] + sum;
      node[level] = sum;
    }
    groups[i] = node[gpu::kGroupLevel];
  }
}

}  // namespace h5lossy::H5L_TARGET
