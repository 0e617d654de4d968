// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Slopes and curvature of original and error at a point, for numbers or vectors. Shared by all backends and the GPU, so
// that all perform the same operations. Units are the last axis' spacing: slopes are over two steps, the Laplacian over
// the square of one. The including file must first define fused_multiply_add and the roots of V.
#pragma once

#include "assess/kernels.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET {

// Original and error of points.
template <class V>
struct Values {
  V x, e;
};

// The change of a gradient's length: its square, and a number whose magnitude orders changes by size.
template <class V>
struct Change {
  V square, size;
};

template <class V>
struct Slopes {
  V slope, slope_error;          // along the axis that was added last
  V curvature, curvature_error;  // along it, too, over the square of its own spacing
  V length, length_y, along;     // squares of the gradient's length in original and decoded, and their difference
  V laplacian, laplacian_error;

  // Adds an axis, given the points before and after. The last axis is added first; `finer` is its spacing divided by
  // that of the added axis. keep() replaces excluded points by 0.
  template <bool kIsFirst, class Keep>
  H5L_FN void add(const Values<V>& centre, const Values<V>& before, const Values<V>& after, double finer, Keep keep) {
    constexpr V none = {};
    slope = keep(after.x - before.x);
    slope_error = keep(after.e - before.e);
    curvature = keep(fused_multiply_add(none - 2.0, centre.x, after.x + before.x));
    curvature_error = keep(fused_multiply_add(none - 2.0, centre.e, after.e + before.e));
    if constexpr (kIsFirst) {
      const V slope_y = slope + slope_error;
      length = slope * slope;
      length_y = slope_y * slope_y;
      along = slope_error * (slope + slope_y);
      laplacian = curvature;
      laplacian_error = curvature_error;
    } else {
      slope *= finer;
      slope_error *= finer;
      const V slope_y = slope + slope_error;
      const V square = none + finer * finer;
      length = fused_multiply_add(slope, slope, length);
      length_y = fused_multiply_add(slope_y, slope_y, length_y);
      along = fused_multiply_add(slope_error, slope + slope_y, along);
      laplacian = fused_multiply_add(curvature, square, laplacian);
      laplacian_error = fused_multiply_add(curvature_error, square, laplacian_error);
    }
  }

  // The difference of both lengths, without cancellation. kFits is FieldPlan::squares_fit.
  template <bool kFits>
  H5L_FN Change<V> change() const {
    constexpr V none = {};
    if constexpr (kFits) {
      constexpr double kTiny = 0x1p-960;  // negligible next to any product except 0
      const V product = fused_multiply_add(length, length_y, none + kTiny);
      const V sum = fused_multiply_add(none + 2.0, square_root_of_normal(product), length + length_y);
      const V square = along * along * reciprocal_of_normal(sum);
      return {square, square};
    } else {
      // If squares overflow, any error counts as infinite.
      constexpr double kInfinite = __builtin_bit_cast(double, 0x7FF0000000000000ull);
      const V both = square_root(length) + square_root(length_y);
      const V beyond = along == 0.0 ? none : none + kInfinite;
      const V off = both > 0.0 ? along / both : none;
      const V found = both < kInfinite ? off : beyond;
      return {found * found, found};
    }
  }
};

}  // namespace h5lossy::H5L_TARGET
