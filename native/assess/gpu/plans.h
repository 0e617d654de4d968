// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Parameters of the assessment kernels: plain data, compiled for host and device. Pointers are device pointers.
#pragma once

#include "assess/kernels.h"
#include "codecs/portable.h"
#include "gpu/plans.h"

namespace h5lossy::gpu {

// Each thread block counts errors in its own table: fine bins, 64 per octave for some octaves, from which the linear
// histogram follows for any grid, then the logarithmic bins of assess/kernels.h for smaller and larger errors. The last
// bits of an octave's exponent give the position of its fine bins.
inline constexpr u32 kFineOctaves = 16;
inline constexpr u32 kFineBins = 64 * kFineOctaves;  // for each sign
inline constexpr u32 kBlockBins = 2 * kFineBins + H5L_ASSESS_LOG_BINS;
inline constexpr u32 kBinBlocks = (kBlockBins + kThreads - 1) / kThreads;  // a thread for each

// The number of consecutive leaves or cells that the device adds up, in the order of the state's tree: a node of this
// level.
inline constexpr u32 kGroupLevel = 6;
inline constexpr u32 kGroup = u32{1} << kGroupLevel;
// The same for the leaves that all warps of a thread block add up.
inline constexpr u32 kLeafGroupLevel = 8;
inline constexpr u32 kLeafGroup = u32{1} << kLeafGroupLevel;

// Results apart from the table: sums, then maxima of ordered numbers (kernels/assess/points.cuh), which are
// complemented for minima. 0: there is none.
struct PointsTotals {
  u64 valid, masked, zeros, zeros_changed, over_threshold, violations;
  u64 special[H5L_SPECIAL_KINDS];
  u64 threshold_crossings[H5L_ASSESS_MAX_THRESHOLDS];
  u64 special_first[H5L_SPECIAL_KINDS];  // lowest numbers of points
  u64 x_min, y_min, e_min, e_min_abs, pointwise_min;
  u64 x_max, y_max, e_max, pointwise_max;
};

// The largest |e| of a thread block's points, and its first leaf with that error. Negative if there is none.
struct BlockWorst {
  double size;
  u64 leaf;
};

// The first points of a warp that violate the bound, in order.
struct WarpList {
  u32 count, unused;
  h5l_assess_point point[H5L_ASSESS_LISTED];
};

// Extrema of some points, stored in the same way.
struct Seeds {
  u64 e_min, e_min_abs, pointwise_min, e_max, pointwise_max;
};

// Results of points for the host, apart from moments.
struct PointsOutcome {
  assess::PointsPart part;
  h5l_assess_point first;  // the first valid point, if there is one
  u64 too_narrow;          // set if the fine bins do not cover the largest error
};

// Whole leaves of points.
struct PointsPlan {
  h5l_assess_params params;
  const u8 *x, *y, *mask;  // of the first leaf; aligned to a value
  u64 first;               // the number of its first point
  u64 leaves;
  u32 blocks;      // of the launch that processes all leaves
  u32 is_limited;  // 1 if grid_exponent is given
  u32 is_simple;   // values are native and aligned to 16 bytes; no mask, fill value or thresholds
  i32 grid_exponent;
  Seeds* seeds;  // extrema of sampled leaves; most values do not exceed them
  u32 samples;
  // The bits of the largest |e| so far, which determines the bins. It and the `cleared` words after it, including the
  // totals, the table and the outcome, are 0 at the start.
  u64* largest;
  u64 cleared;
  u64 head, groups;          // the leaves before the first whole group, and the whole groups
  assess::Moments* moments;  // of the leaves of groups
  assess::Moments* rest;     // of the other leaves
  assess::Moments* sums;     // of groups
  BlockWorst* worst;         // of each thread block
  WarpList* lists;           // of each warp
  PointsTotals* totals;
  u32* table;  // kBlockBins
  PointsOutcome* outcome;
};

// Copies words to the host.
struct CopyPlan {
  const u64* from;
  u64* to;
  u64 words;
};

// Adds up groups of kGroup consecutive parts.
struct GroupPlan {
  const u8* parts;  // the first of the first group
  u8* sums;         // one for each group
  u64 groups;
};

// Up to this number of lags, there are kernels for fields whose points are all valid.
inline constexpr u32 kMostPlainLags = 10;

// Passed from one kernel of lags to the other for each cell: the sums of its points with a tail along the last axis,
// for each lag (heads[0]: of all its points), and sums for the mean over all axes. Index i is lag i + 1, except in
// heads.
struct LagNotes {
  double heads[kMostPlainLags + 1], heads_x[kMostPlainLags];
  double products_x[kMostPlainLags], tails_x[kMostPlainLags], products_y[kMostPlainLags], tails_y[kMostPlainLags];
};

// A thread block's worst window. Negative if it has none.
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
  u8* results;          // StencilCell or WindowSums of each cell
  u64* extrema;         // of stencils, shared by warps; 0 at the start
  u64 reach_end[4];     // the end of the cells and the halo of their lags
  double* errors;       // for lags: see kernels/assess/lags.cuh
  LagNotes* notes;      // of each cell
  u64 own_cells;        // the cells without those in the halo's planes
  double* column_sums;  // of windows: see kernels/assess/windows.cuh
  double* plane_sums;
  double* lost;
  WorstWindow* worst;  // of each thread block
  u64 sweep_planes;    // planes, or rows of cells, in one sweep of a thread block
};

}  // namespace h5lossy::gpu
