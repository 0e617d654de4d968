/* SPDX-FileCopyrightText: The h5lossy authors
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Assessment: compares decoded data with the original (docs/assess.md defines each number).
 *
 * A field is assessed in pieces of any size. Results are accumulated in a state: h5l_assess_state_bytes bytes,
 * allocated by the caller, which may be copied, stored and merged on machines of the same byte order. Counts,
 * extrema and histograms do not depend on the pieces. Sums do not, either, if the pieces are passed in C order;
 * otherwise their last digits may differ. Results do not depend on the backend or the number of threads.
 *
 * Python reads the part between the two "cffi" lines, so it holds plain declarations only.
 */
#ifndef H5LOSSY_ASSESS_H
#define H5LOSSY_ASSESS_H

#include "h5lossy.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* cffi: begin */

/* Limits: rank of a field with stencils and windows, lags, side of a window, thresholds, and listed points. */
#define H5L_ASSESS_MAX_RANK 4
#define H5L_ASSESS_MAX_LAGS 16
#define H5L_ASSESS_MAX_WINDOW 16
#define H5L_ASSESS_MAX_THRESHOLDS 8
#define H5L_ASSESS_LISTED 16
#define H5L_ASSESS_LOG_BINS 4096
#define H5L_ASSESS_LINEAR_BINS 258

/* Instead of H5L_BOUND_*: no bound is checked. */
#define H5L_BOUND_NONE 4

/* Kinds of values that are not compared as numbers; an index of h5l_assess_points_result.special. A point is
 * classified by its original value. */
#define H5L_SPECIAL_NAN_KEPT 0       /* every bit is kept */
#define H5L_SPECIAL_NAN_CHANGED 1    /* still a NaN, but with other bits */
#define H5L_SPECIAL_NAN_LOST 2       /* became a number or infinite */
#define H5L_SPECIAL_NAN_INTRODUCED 3 /* a finite value became NaN */
#define H5L_SPECIAL_INF_KEPT 4
#define H5L_SPECIAL_INF_CHANGED 5    /* became anything else */
#define H5L_SPECIAL_INF_INTRODUCED 6 /* a finite value became infinite */
#define H5L_SPECIAL_FILL_KEPT 7
#define H5L_SPECIAL_FILL_LOST 8       /* became anything else */
#define H5L_SPECIAL_FILL_INTRODUCED 9 /* a valid value became the fill value (and counts as valid) */
#define H5L_SPECIAL_KINDS 10

/* What to assess. Zero-initialize it, then set the fields that apply. Use the same parameters in all calls for one
 * state. */
typedef struct h5l_assess_params {
  uint32_t value_bytes;         /* of both fields: 4 float32, 8 float64 */
  uint32_t original_big_endian; /* 1: the original's values are big-endian in memory */
  uint32_t decoded_big_endian;
  uint32_t has_fill; /* 1: values with the bits fill_bits are missing */
  uint64_t fill_bits;
  uint32_t bound_kind; /* H5L_BOUND_ABSOLUTE, _POINTWISE_RELATIVE, _LOSSLESS, _NONE; for range-relative give absolute */
  uint32_t threads;    /* at most this many; 0 is h5l_default_threads */
  /* The bound is the exact sum of limit[0] and limit[1]: the nearest float64, and the remainder, rounded down.
   * half_limit is the same for half the bound, since a range-relative bound may overflow. Pointwise-relative:
   * limit[0]. */
  double limit[2];
  double half_limit[2];
  double histogram_limit; /* the linear histogram covers errors up to it, and counts larger ones apart; 0: all errors */
  double pointwise_threshold; /* counts |y - x| > threshold |x|; 0: no count */
  uint32_t threshold_count;
  uint32_t lags; /* of the autocorrelation, at most H5L_ASSESS_MAX_LAGS; 0: none */
  double
      thresholds[H5L_ASSESS_MAX_THRESHOLDS]; /* counts points that change from one side of a threshold to the other */
  uint32_t stencils;                         /* 1: first and second differences */
  uint32_t window[H5L_ASSESS_MAX_RANK];      /* sides of SSIM's windows, 2 to H5L_ASSESS_MAX_WINDOW; 0: no SSIM */
  uint32_t step;                             /* distance between windows, from 1 up */
  uint32_t rank; /* of the field for stencils, lags and windows: 1 to 4; extents of 1 only if rank is 1 */
  uint64_t shape[H5L_ASSESS_MAX_RANK];
  double spacing[H5L_ASSESS_MAX_RANK]; /* distance between points along each axis */
  double value_range;                  /* SSIM's range, above 0 and finite; otherwise SSIM is not computed */
  uint32_t on_device; /* 1: values and masks are in the memory of one GPU, and all work on them has finished */
} h5l_assess_params;

/* One point of the field, identified by its index in C order. */
typedef struct h5l_assess_point {
  uint64_t at;
  double original;
  double decoded;
} h5l_assess_point;

/* Reductions over all points. Sums of squares are about the means. If there is no valid point, everything except
 * counts is 0. */
typedef struct h5l_assess_points_result {
  uint64_t count; /* points seen */
  uint64_t valid; /* finite in both, not the fill value, not masked */
  uint64_t masked;
  uint64_t special[H5L_SPECIAL_KINDS];
  uint64_t special_first[H5L_SPECIAL_KINDS]; /* the lowest index of such a point */
  double original_min, original_max, decoded_min, decoded_max;
  double error_min, error_max, error_min_abs;
  h5l_assess_point worst;              /* the first with the largest |y - x| */
  double pointwise_min, pointwise_max; /* of |y - x| / |x|, over original values other than 0 */
  double mean_original, mean_error;
  double squares_original, squares_error, products; /* sums about the means; products of original and error */
  double sum_abs_error, sum_pointwise;
  uint64_t zeros, zeros_changed; /* original values that are 0, and those of them that changed */
  uint64_t over_threshold;
  uint64_t threshold_crossings[H5L_ASSESS_MAX_THRESHOLDS];
  uint64_t violations;
  uint32_t listed;       /* number of entries of violation */
  int32_t grid_exponent; /* bins of the linear histogram are 2^this wide; INT32_MIN: all errors are 0 */
  h5l_assess_point violation[H5L_ASSESS_LISTED]; /* the first ones */
  /* Errors from 0 up, then negative ones, each in eighths of octaves from 2^-127 up: bin i begins at
   * 2^(i / 8 - 127) (1 + i % 8 / 8), except that the first one begins at 0; the last one is unbounded. */
  uint64_t log_bins[H5L_ASSESS_LOG_BINS];
  uint64_t linear_bins
      [H5L_ASSESS_LINEAR_BINS]; /* 128 bins from 0 up, 128 from 0 down, and larger errors: positive, negative */
} h5l_assess_points_result;

/* Stencils at points with all neighbours, autocorrelation of pairs, and windows. Index a is the field's axis a. Sums
 * of the autocorrelation are of errors minus pivot_error. */
typedef struct h5l_assess_field_result {
  uint64_t interior;
  double slope_max[H5L_ASSESS_MAX_RANK], slope_error_max[H5L_ASSESS_MAX_RANK], slope_error_squares[H5L_ASSESS_MAX_RANK];
  /* Second differences along each axis. */
  double curvature_max[H5L_ASSESS_MAX_RANK], curvature_error_max[H5L_ASSESS_MAX_RANK],
      curvature_error_squares[H5L_ASSESS_MAX_RANK];
  double gradient_min, gradient_max, gradient_error_max, gradient_error_squares;
  double laplacian_squares, laplacian_error_max, laplacian_error_squares;
  double error_squares; /* of the error itself, at the same points */
  double pivot_error;
  /* For lag k + 1: number of pairs, sum of products, sum of both values. Index H5L_ASSESS_MAX_RANK is the paper's
   * mean over the axes (its equation 2). */
  double lag_pairs[H5L_ASSESS_MAX_RANK + 1][H5L_ASSESS_MAX_LAGS],
      lag_products[H5L_ASSESS_MAX_RANK + 1][H5L_ASSESS_MAX_LAGS],
      lag_sums[H5L_ASSESS_MAX_RANK + 1][H5L_ASSESS_MAX_LAGS];
  uint64_t windows;
  double window_sum;                       /* of 1 - SSIM */
  double window_worst;                     /* largest 1 - SSIM */
  uint64_t window_at[H5L_ASSESS_MAX_RANK]; /* lowest corner of the worst window, the first of several */
} h5l_assess_field_result;

/* Statistics of one box of a grid (h5l_assess_boxes). */
typedef struct h5l_assess_box {
  uint64_t valid;
  uint64_t special_failures; /* NaN, infinite and fill values that were changed, lost or introduced */
  double error_max_abs;
  double error_squares; /* sum, not about the mean */
} h5l_assess_box;

/* The data SSIM of one slice (h5l_assess_ranges, h5l_assess_dssim). Initialize with low = HUGE_VAL, high =
 * -HUGE_VAL. */
typedef struct h5l_assess_slice {
  double low, high; /* the range of the valid values of both fields */
  double sum;       /* of the data SSIM at `points` points; 0 if the range is empty, one number or infinite */
  uint64_t points;
} h5l_assess_slice;

/* What h5l_assess_slices finds in one slice: as in the results above. */
typedef struct h5l_assess_slice_result {
  double value_range; /* SSIM's range; if NaN, it becomes that of the original's valid values, NaN without one */
  uint64_t valid;
  double original_min, original_max, decoded_min, decoded_max, error_min, error_max;
  double mean_error, squares_original, squares_error, products;
  uint64_t interior;
  double gradient_error_max, gradient_error_squares, laplacian_error_max, laplacian_error_squares;
  uint64_t windows;
  double window_sum, window_worst;
  uint64_t window_at[H5L_ASSESS_MAX_RANK];
} h5l_assess_slice_result;

/* A part of the field in memory, and the points that it owns. A stencil, pair or window belongs to its lowest
 * corner, so a piece extends beyond its own points by a halo of max(lags, largest window - 1, 2) along each axis, or
 * to the end of the field. Values may have any alignment; along the last axis they are adjacent. */
typedef struct h5l_assess_piece {
  const void* original;
  const void* decoded;
  const uint8_t* mask; /* points where it is not 0 are excluded; may be NULL */
  int64_t original_strides[H5L_ASSESS_MAX_RANK], decoded_strides[H5L_ASSESS_MAX_RANK],
      mask_strides[H5L_ASSESS_MAX_RANK]; /* in bytes; the last is the size of a value */
  uint64_t origin[H5L_ASSESS_MAX_RANK], extent[H5L_ASSESS_MAX_RANK];
  uint64_t own_origin[H5L_ASSESS_MAX_RANK], own_extent[H5L_ASSESS_MAX_RANK];
} h5l_assess_piece;

/* Size of a state. */
size_t h5l_assess_state_bytes(void);

/* Initializes an empty state; its address must be a multiple of 8. */
h5l_status h5l_assess_begin(void* state, h5l_message* message);

/* Adds the points first, first + 1, ... in C order; `mask` may be NULL. */
h5l_status h5l_assess_points(const h5l_assess_params* params, void* state, uint64_t first, uint64_t count,
                             const void* original, const void* decoded, const uint8_t* mask, h5l_message* message);

/* Adds the stencils, lags and windows of the points that a piece owns. All points of the piece, including the halo,
 * must have been passed to h5l_assess_points before: if all points so far are valid, those of the piece are assumed
 * to be valid. */
h5l_status h5l_assess_field(const h5l_assess_params* params, void* state, const h5l_assess_piece* piece,
                            h5l_message* message);

/* Adds the points that a piece owns to the boxes of a grid, which starts at the field's origin. Boxes have
 * box_extent along each axis and are in C order. */
h5l_status h5l_assess_boxes(const h5l_assess_params* params, const h5l_assess_piece* piece,
                            const uint64_t box_extent[H5L_ASSESS_MAX_RANK], h5l_assess_box* boxes, size_t box_count,
                            h5l_message* message);

/* The data SSIM of Baker, Pinard and Hammerling (doi 10.1109/TVCG.2023.3332843) of the slices along the last two
 * axes. A piece holds the full extent of the last axis and of all axes before these two. Pass all pieces first to
 * h5l_assess_ranges, then to h5l_assess_dssim. A point belongs to the lowest corner of the 11 x 11 points around it,
 * so for h5l_assess_dssim a piece extends 10 points beyond those that it owns; it begins at a multiple of 64 rows.
 * `slices` are in C order. */
h5l_status h5l_assess_ranges(const h5l_assess_params* params, const h5l_assess_piece* piece, h5l_assess_slice* slices,
                             size_t slice_count, h5l_message* message);
h5l_status h5l_assess_dssim(const h5l_assess_params* params, const h5l_assess_piece* piece, h5l_assess_slice* slices,
                            size_t slice_count, h5l_message* message);

/* Assesses the slices of a larger field: fields of one shape that follow each other in host memory, each in C order.
 * Their sums of stencils, lags and windows are added to the state in this order. */
h5l_status h5l_assess_slices(const h5l_assess_params* params, void* state, const void* original, const void* decoded,
                             const uint8_t* mask, h5l_assess_slice_result* slices, size_t slice_count,
                             h5l_message* message);

/* Adds another state, of other points of the same field, to this one. `params` are those of the other state. */
h5l_status h5l_assess_merge(const h5l_assess_params* params, void* state, const void* other, h5l_message* message);

/* Computes the results so far, without changing the state. Either result may be NULL. */
h5l_status h5l_assess_result(const h5l_assess_params* params, const void* state, h5l_assess_points_result* points,
                             h5l_assess_field_result* field, h5l_message* message);

/* cffi: end */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
