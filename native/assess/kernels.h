// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The assessment's functions that are compiled for each backend. They compute partial results of a fixed size (a leaf
// of points, a cell of a field), which state.cpp combines in an order that does not depend on threads and devices. The
// types are plain data shared by all backends.
#pragma once

#include "codecs/portable.h"
#include "h5lossy_assess.h"

namespace h5lossy::assess {

// The points of a leaf, which are summed together. Leaf i starts at point i * kLeafValues in C order.
inline constexpr u32 kLeafValues = 4096;

// The leaves of one call make a part. Each part clears and fills one histogram.
inline constexpr u32 kPartLeaves = 64;

// Sums use this many lanes, value i in lane i % kSumLanes, and lanes are added as a tree, so that every machine
// performs the same additions.
inline constexpr u32 kSumLanes = 32;

// Count, means and sums about the means of some points; sums of |e| and of |e / x|.
struct Moments {
  double count;
  double mean_x, mean_e;
  double squares_x, squares_e, products;
  double sum_abs_error, sum_pointwise;
};

// One table counts each error once: in a linear bin if its size is 8 to 128 bin widths, else in a logarithmic bin. As
// both have edges at powers of two, both histograms follow from it. A linear bin is 2^grid_exponent wide; bins 0 to 127
// are for errors from 0 up, 128 to 255 for negative ones. The logarithmic bins follow: sign, exponent and three bits of
// the mantissa, 2^-127 to 2^128 in eighths of octaves. Smaller errors are in the first bin, larger ones in the last.
inline constexpr u32 kLinearBins = 256;
inline constexpr u32 kTableBins = kLinearBins + H5L_ASSESS_LOG_BINS;
inline constexpr u32 kFirstLinear = 8;  // of 128, counted in the linear part

// The grid exponent before any error, and the smallest and largest ones compatible with the logarithmic bins.
inline constexpr i32 kNoGrid = -2147483647 - 1;
inline constexpr i32 kFinestGrid = -126;
inline constexpr i32 kWidestGrid = 121;

// Errors are counted by sign, exponent (2^-127 and less to 2^129 and more) and six bits of the mantissa. Both
// histograms follow from these counts for any width of the linear bins. There are two tables, because incrementing the
// same counter twice in a row stalls.
inline constexpr u32 kCountersOfOctave = 64;
inline constexpr u32 kCounters = 256 * kCountersOfOctave;  // of one sign
inline constexpr u32 kNoCounter = 2 * kCounters;           // one that is never read
struct Counters {
  u32 count[2][2 * kCounters + 16];
};

// The results of up to kLeafValues * kPartLeaves points. What h5l_assess_points_result has, too, has its name.
struct PointsPart {
  Moments leaves[kPartLeaves];
  u32 leaf_count;
  u32 listed;
  u64 valid, masked;
  u64 special[H5L_SPECIAL_KINDS];
  u64 special_first[H5L_SPECIAL_KINDS];
  double original_min, original_max, decoded_min, decoded_max, error_min, error_max, error_min_abs;
  double pointwise_min, pointwise_max;
  h5l_assess_point worst;
  u64 zeros, zeros_changed, over_threshold, violations;
  u64 threshold_crossings[H5L_ASSESS_MAX_THRESHOLDS];
  h5l_assess_point violation[H5L_ASSESS_LISTED];
  i32 grid_exponent;
  u32 bins[kTableBins];
};

// A part of the field in memory. Axes are w, z, y, x; leading ones have extent 1 if the rank is lower.
struct View {
  const u8* original;
  const u8* decoded;
  const u8* mask;  // null if nothing is masked
  i64 original_strides[4], decoded_strides[4], mask_strides[4];
  u64 origin[4];  // the point that the pointers refer to
};

// How to read values, and which of them are valid.
struct Rules {
  bool original_big_endian, decoded_big_endian, has_fill;
  u64 fill_bits;
  double pivot_x, pivot_e;  // subtracted before squaring
  bool all_valid;           // nothing in the view is masked, the fill value, NaN or infinite
};

// A field and what to compute in it.
struct FieldPlan {
  u64 shape[4];
  bool present[4];  // axes of the field; others have the extent 1
  double finer[4];  // spacing of the last axis divided by that of each axis
  u32 rank;
  u32 lags;
  bool stencils;
  bool squares_fit;  // float32 data: squares of squares of slopes are normal numbers or 0
  u32 window[4];     // 1 along axes that are not present
  u32 step;
  double points;  // of a window
  double unit;    // a power of two, usually 1, by which values are multiplied for SSIM
  double c1, c2;  // SSIM's constants in these units, times 2 points^2
};

// Stencils and lags of one cell: sums, which are added up in the order of the cells, and extrema. Slopes are over two
// steps of the last axis, the Laplacian is over the square of one, and curvatures are over that of their own axis; see
// assess/slopes.h.
inline constexpr u32 kLagAxes = 5;  // the four axes, and the paper's mean over all of them
struct StencilSums {
  double interior;
  double slope_error[4], curvature_error[4], gradient_error, laplacian, laplacian_error, error;  // squares
  double lag_pairs[kLagAxes][H5L_ASSESS_MAX_LAGS];
  double lag_products[kLagAxes][H5L_ASSESS_MAX_LAGS];
  double lag_sums[kLagAxes][H5L_ASSESS_MAX_LAGS];
};
struct StencilExtrema {
  double slope[4], slope_error[4], curvature[4], curvature_error[4], laplacian_error;
  double gradient_min, gradient_max;  // squares
  double gradient_error;              // a square where squares_fit
};
struct StencilCell {
  StencilSums sums;
  StencilExtrema extrema;
};

// Windows of one cell.
struct WindowSums {
  double windows, sum;
};
struct WindowCell {
  WindowSums sums;
  double worst;  // negative if there is none
  u64 at[4];
};

// Cells are cut at multiples of these, along y and x; along w and z they have the extent 1.
inline constexpr u32 kCellRows = 16;
inline constexpr u32 kCellColumns = 256;
inline constexpr u32 kWindowRows = 7;
inline constexpr u32 kWindowColumns = 64;
inline constexpr u32 kWindowCellsDown = 3, kWindowCellsAcross = 1;  // cells that one sweep on a CPU covers
inline constexpr u32 kLineColumns = 4096;                           // columns of a cell in a field with one axis

// Cells of the data SSIM, cut at multiples of these, and the points of its Gaussian along an axis.
inline constexpr u32 kDssimRows = 64;
inline constexpr u32 kDssimColumns = 224;
inline constexpr u32 kDssimTaps = 11;

// A column of cells: ranges [first, end) along each axis.
struct Column {
  u64 first[4], end[4];
};

// Memory that a thread's sweeps use one after another: at first it is all zeros, later it has what the previous sweep
// left.
struct Scratch {
  double* values;
  u64 count;
  double worst;  // half of 1 - SSIM of the worst window so far: cells need not report better ones
};

// Returns memory of at least `count` values, whole cache lines from the start of one; null if out of memory.
double* reserve(Scratch& scratch, u64 count);

// A backend's functions. value_bytes chooses between float32 and float64.
struct Kernels {
  // Adds the leaves of `count` points of one part, in native byte order. `first` is the index of the first point. All
  // counters are 0, before and after.
  void (*points)(const h5l_assess_params& params, u64 first, const void* x, const void* y, const u8* mask, u32 count,
                 Counters& counters, PointsPart& part);
  // Computes the cells of a column in the order of w and z. False if out of memory.
  bool (*stencils)(u32 value_bytes, const View& view, const Rules& rules, const FieldPlan& plan, const Column& column,
                   Scratch& scratch, StencilCell* cells);
  bool (*windows)(u32 value_bytes, const View& view, const Rules& rules, const FieldPlan& plan, const Column& column,
                  Scratch& scratch, WindowCell* cells);
  // Adds a row of points to the boxes that it crosses.
  void (*boxes)(u32 value_bytes, const View& view, const Rules& rules, const u64 row[4], u64 count, u64 box_columns,
                h5l_assess_box* boxes);
  // Widens the range of a slice by a row of points.
  void (*range)(u32 value_bytes, const View& view, const Rules& rules, const u64 row[4], u64 count,
                h5l_assess_slice& slice);
  // Sets the sum and the number of points of one cell of a slice. `first` is the lowest corner of its first point.
  void (*dssim)(u32 value_bytes, const View& view, const Rules& rules, const u64 first[4], u32 rows, u32 columns,
                h5l_assess_slice& slice);
};

}  // namespace h5lossy::assess
