// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Slopes and curvature at a point, of original and error, for numbers or vectors of them: one source for all backends, the
// GPU's too, so that all do the same operations. All is in units of the last axis' steps: slopes are over two of them,
// curvature over the square of one. It takes fused_multiply_add and roots of V from what stands before it.
#pragma once

#include "assess/kernels.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET {

// Of points.
template <class V>
struct Values {
  V x, e;
};

// Of a gradient's length: its square, and what tells which of two is larger, whatever its sign.
template <class V>
struct Change {
  V square, size;
};

template <class V>
struct Slopes {
  V slope, slope_error;       // along the axis that was added last
  V length, length_y, along;  // squares of the gradient's length in original and decoded, and their difference
  V bend, bend_error;         // Laplacian

  // An axis, by the points before and after. The last one comes first; a step of it is `finer` steps of another one. What
  // keep() makes 0 does not count.
  template <bool kIsFirst, class Keep>
  H5L_FN void add(const Values<V>& centre, const Values<V>& before, const Values<V>& after, double finer, Keep keep) {
    constexpr V none = {};
    slope = keep(after.x - before.x);
    slope_error = keep(after.e - before.e);
    const V own_bend = fused_multiply_add(none - 2.0, centre.x, after.x + before.x);
    const V own_error = fused_multiply_add(none - 2.0, centre.e, after.e + before.e);
    if constexpr (kIsFirst) {
      const V slope_y = slope + slope_error;
      length = slope * slope;
      length_y = slope_y * slope_y;
      along = slope_error * (slope + slope_y);
      bend = own_bend;
      bend_error = own_error;
    } else {
      slope *= finer;
      slope_error *= finer;
      const V slope_y = slope + slope_error;
      const V square = none + finer * finer;
      length = fused_multiply_add(slope, slope, length);
      length_y = fused_multiply_add(slope_y, slope_y, length_y);
      along = fused_multiply_add(slope_error, slope + slope_y, along);
      bend = fused_multiply_add(own_bend, square, bend);
      bend_error = fused_multiply_add(own_error, square, bend_error);
    }
  }

  // The difference of both lengths, without cancellation. kFits: as FieldPlan says.
  template <bool kFits>
  H5L_FN Change<V> change() const {
    constexpr V none = {};
    if constexpr (kFits) {
      constexpr double kTiny = 0x1p-960;  // next to any product but 0
      const V product = fused_multiply_add(length, length_y, none + kTiny);
      const V sum = fused_multiply_add(none + 2.0, square_root_of_normal(product), length + length_y);
      const V square = along * along * reciprocal_of_normal(sum);
      return {square, square};
    } else {
      // Where squares are infinite, and there is an error, it is beyond all measure.
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
