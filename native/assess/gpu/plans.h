// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Parameters of the assessment kernels: plain data, compiled on both sides. Pointers are the device's.
#pragma once

#include "assess/kernels.h"
#include "codecs/portable.h"
#include "gpu/plans.h"

namespace h5lossy::gpu {

// A thread block counts errors in a table of its own: 64 bins an octave for some octaves, so that the linear histogram can
// be had from them wherever its grid comes to be, and behind these the logarithmic bins of assess/kernels.h for what is
// smaller or larger. An octave's fine bins stand where the last bits of its exponent say.
inline constexpr u32 kFineOctaves = 16;
inline constexpr u32 kFineBins = 64 * kFineOctaves;  // for each sign
inline constexpr u32 kBlockBins = 2 * kFineBins + H5L_ASSESS_LOG_BINS;
inline constexpr u32 kBinBlocks = (kBlockBins + kThreads - 1) / kThreads;  // a thread for each

// So many neighbours in the order of leaves or cells are added up on the device, as the state's tree would: its nodes of
// this level.
inline constexpr u32 kGroupLevel = 6;
inline constexpr u32 kGroup = u32{1} << kGroupLevel;
// Of leaves, what all warps of a thread block add up.
inline constexpr u32 kLeafGroupLevel = 8;
inline constexpr u32 kLeafGroup = u32{1} << kLeafGroupLevel;

// What is found out, apart from the table: sums, and behind them numbers of which the highest counts: ordered numbers
// (assess_points.cuh), complemented where the lowest is wanted. 0: there is none.
struct PointsTotals {
  u64 valid, masked, zeros, zeros_changed, over_threshold, violations;
  u64 special[H5L_SPECIAL_KINDS];
  u64 threshold_crossings[H5L_ASSESS_MAX_THRESHOLDS];
  u64 special_first[H5L_SPECIAL_KINDS];  // lowest numbers of points
  u64 x_min, y_min, e_min, e_min_abs, pointwise_min;
  u64 x_max, y_max, e_max, pointwise_max;
};

// The largest |e| of a thread block's points, and the first of its leaves that has it. Below 0: none.
struct BlockWorst {
  double size;
  u64 leaf;
};

// The first points of a warp that break the bound, in their order.
struct WarpList {
  u32 count, unused;
  h5l_assess_point point[H5L_ASSESS_LISTED];
};

// Extrema of some points, in the same way.
struct Seeds {
  u64 e_min, e_min_abs, pointwise_min, e_max, pointwise_max;
};

// Results of points for the host, apart from moments.
struct PointsOutcome {
  assess::PointsPart part;
  h5l_assess_point first;  // that counts, if one does
  u64 too_narrow;          // set where the fine bins do not reach up to the largest error
};

// Whole leaves of points.
struct PointsPlan {
  h5l_assess_params params;
  const u8 *x, *y, *mask;  // of the first leaf; aligned to a value
  u64 first;               // the number of its first point
  u64 leaves;
  u32 blocks;      // of the launch that goes through all leaves
  u32 is_limited;  // the grid is known: grid_exponent
  u32 is_simple;   // values are native and aligned to 16 bytes; no mask, fill value or thresholds
  i32 grid_exponent;
  Seeds* seeds;  // extrema of some leaves, which most values are not beyond: so many
  u32 samples;
  // Bits of the largest |e| that is known, which the bins come from. It and the `cleared` words behind it, of which are the
  // totals, the table and the outcome, are 0 at the start.
  u64* largest;
  u64 cleared;
  u64 head, groups;          // leaves before whole groups, and groups
  assess::Moments* moments;  // of the leaves of groups
  assess::Moments* rest;     // of the others, one behind the other
  assess::Moments* sums;     // of groups
  BlockWorst* worst;         // of each thread block
  WarpList* lists;           // of each warp
  PointsTotals* totals;
  u32* table;  // kBlockBins
  PointsOutcome* outcome;
};

// Words for the host.
struct CopyPlan {
  const u64* from;
  u64* to;
  u64 words;
};

// Neighbours in an order, kGroup of them each.
struct GroupPlan {
  const u8* parts;  // the first of the first group
  u8* sums;         // one for each group
  u64 groups;
};

// Up to so many lags, there are kernels for fields of which all points count.
inline constexpr u32 kMostPlainLags = 10;

// What one kernel of lags passes to the other for a cell: the sum of its points with a tail along the last axis, for each lag (0:
// of all its points); and sums for the mean of all axes. Index i stands for lag i + 1 but for heads.
struct LagNotes {
  double heads[kMostPlainLags + 1], heads_x[kMostPlainLags];
  double products_x[kMostPlainLags], tails_x[kMostPlainLags], products_y[kMostPlainLags], tails_y[kMostPlainLags];
};

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
  u8* results;          // StencilCell or WindowSums of each cell
  u64* extrema;         // of stencils, shared by warps; 0 at the start
  u64 reach_end[4];     // behind what cells and their lags reach
  double* errors;       // of lags: see assess_lags.cuh
  LagNotes* notes;      // of each cell
  u64 own_cells;        // before those in planes that only lags reach
  double* column_sums;  // of windows: see assess_windows.cuh
  double* plane_sums;
  double* lost;
  WorstWindow* worst;  // of each thread block
  u64 sweep_planes;    // planes, or rows of cells, that a thread block slides over at once
};

}  // namespace h5lossy::gpu
