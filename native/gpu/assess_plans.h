// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// What the host tells the kernels of the assessment: plain data, compiled on both sides. Pointers are the device's.
#pragma once

#include "assess/kernels.h"
#include "codecs/portable.h"
#include "gpu/plans.h"

namespace h5lossy::gpu {

// A thread block counts errors in a table of its own: 64 bins an octave for eight octaves, so that the linear histogram
// can be had from them wherever its grid comes to be, and behind these the logarithmic bins of assess/kernels.h for what
// is smaller or larger.
inline constexpr u32 kFineOctaves = 8;
inline constexpr u32 kFineBins = 64 * kFineOctaves;  // for each sign
inline constexpr u32 kBlockBins = 2 * kFineBins + H5L_ASSESS_LOG_BINS;

// So many neighbours in the order of leaves or cells are added up on the device, as the state's tree would: its nodes of
// this level.
inline constexpr u32 kGroupLevel = 6;
inline constexpr u32 kGroup = u32{1} << kGroupLevel;

// What a thread block finds out, apart from the table: sums, the lowest numbers of special points, extrema.
struct BlockTotals {
  u64 valid, masked, zeros, zeros_changed, over_threshold, violations;
  u64 special[H5L_SPECIAL_KINDS];
  u64 flipped[H5L_ASSESS_MAX_FLIPS];
  u64 special_first[H5L_SPECIAL_KINDS];
  double x_min, y_min, e_min, e_min_abs, pointwise_min;
  double x_max, y_max, e_max, pointwise_max;
  double worst_size;  // the largest |e|; below 0: none
  u64 worst_leaf;     // the first leaf with it
};

// The first points of a warp that break the bound, in their order.
struct WarpList {
  u32 count, unused;
  h5l_assess_point point[H5L_ASSESS_LISTED];
};

// Ordered numbers (assess_points.cuh) of the largest error and |e / x|; and of the lowest error, the smallest |e| and
// |e / x|, complemented, so that all of them are maxima. 0: there is none.
struct Seeds {
  u64 e_min, e_min_abs, pointwise_min, e_max, pointwise_max;
};

// Whole leaves of points.
struct PointsPlan {
  h5l_assess_params params;
  const u8 *x, *y, *mask;  // of the first leaf; aligned to a value
  u64 first;               // the number of its first point
  u64 leaves;
  u32 blocks;      // of the launch that goes through all leaves
  u32 is_limited;  // the grid is known: grid_exponent
  i32 grid_exponent;
  // Of some leaves, as far as kernels have found: bits of the largest |e|, 0 at the start, which the bins come from; and
  // extrema, which most values are not beyond.
  u64* largest;
  Seeds* seeds;
  assess::Moments* moments;  // of each leaf
  BlockTotals* totals;       // of each thread block
  WarpList* lists;           // of each warp
  u32* tables;               // of each thread block: kBlockBins
  assess::PointsPart* part;  // what all leaves come to, without their moments; 0 at the start
  u32* too_narrow;           // set where the fine bins do not reach up to the largest error
};

// Neighbours in an order, kGroup of them each.
struct GroupPlan {
  const u8* parts;  // the first of the first group
  u8* sums;         // one for each group
  u64 groups;
};

// Up to so many lags, a cell and what its lags reach stand in shared memory.
inline constexpr u32 kMostTileLags = 10;

// A thread block's worst window. Below 0: it has none.
struct WorstWindow {
  double lost;
  u64 at[4];
};

// Cells of a field between `first` and `end`, numbered in C order: plane by plane, row of cells by row of cells.
struct CellsPlan {
  assess::View view;
  assess::Rules rules;
  assess::FieldPlan field;
  u64 first[4], end[4];
  u32 cell_rows, cell_columns;  // cells are cut at multiples of these
  u32 rows_of_cells, columns_of_cells;
  u64 cells;
  double per_step[4], per_square[4];  // of derivatives
  u8* results;                        // StencilCell or WindowSums of each cell
  u64 reach_end[4];                   // behind what cells and their lags reach
  double* errors;                     // of lags: see assess_lags.cuh
  double* column_sums;                // of windows: see assess_windows.cuh
  double* plane_sums;
  double* lost;
  WorstWindow* worst;  // of each thread block
};

}  // namespace h5lossy::gpu
