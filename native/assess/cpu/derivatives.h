// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Gradient and Laplacian in a cell, computed row by row for vectors of columns.
#pragma once

#include "assess/cpu/lanes.h"

#include "assess/slopes.h"  // after the functions that it calls

namespace h5lossy::H5L_TARGET {

enum Axis : u32 { kW, kZ, kY, kX };

// Pointers to the original, error and validity of points.
struct Points {
  const double* x;
  const double* e;
  const double* valid;

  [[nodiscard]] Values<Vector<double>> at(i64 i) const { return {load_doubles(x + i), load_doubles(e + i)}; }
  [[nodiscard]] Points operator+(i64 by) const { return {x + by, e + by, valid + by}; }
};

// Pointers to the points of a cell's first stencil; those of the other stencils follow. Neighbours along y and x are
// addressed from the centre.
struct CellPoints {
  Points centre, before[kY], after[kY];
  i64 stride;  // of rows
  u32 rows, columns;
  bool all_valid;  // if true, validity is not stored
};

// Sums of a cell. Lane i adds columns i, i + 32, ... in order.
struct StencilLanes {
  Lanes slope_error[4], curvature_error[4], gradient_error, laplacian, laplacian_error, error, interior;
};

// Extrema in the lanes of a vector.
struct StencilVectors {
  Vector<double> slope[4] = {}, slope_error[4] = {}, curvature[4] = {}, curvature_error[4] = {};
  Vector<double> gradient_max = {}, gradient_error = {}, laplacian_error = {};
  Vector<double> gradient_min = Vector<double>{} + HUGE_VAL;
};

inline Vector<double> larger_size(Vector<double> value, Vector<double> most) { return larger(magnitude(value), most); }

// Adds columns [first, end). With kPlain, all vectors are whole and all points valid. kFirst is the field's first axis.
template <u32 kFirst, bool kPlain, bool kFits>
inline void add_columns(const CellPoints& points, const double* finer, u32 first, u32 end, StencilLanes& lanes,
                        StencilVectors& extrema) {
  using V = Vector<double>;
  constexpr V none = {};
  StencilVectors found = extrema;
  for (u32 column = first; column < end; column += kDoubles) {
    const auto sum = [column](const Lanes& all) { return load_doubles(all.lane + column % kSumLanes); };
    const auto give = [column](V value, Lanes& all) { store_doubles(all.lane + column % kSumLanes, value); };
    V slope_errors[4] = {};
    V curvature_errors[4] = {};
    for (u32 axis = kFirst; axis <= kX; ++axis) {
      slope_errors[axis] = sum(lanes.slope_error[axis]);
      curvature_errors[axis] = sum(lanes.curvature_error[axis]);
    }
    V gradient_errors = sum(lanes.gradient_error), laplacians = sum(lanes.laplacian),
      laplacian_errors = sum(lanes.laplacian_error), errors = sum(lanes.error), interior = none;
    i64 at = column;
    Values<V> before_y = {}, centre = points.centre.at(at), after_y = {};
    if constexpr (kFirst <= kY) before_y = points.centre.at(at - points.stride);
    for (u32 row = 0; row < points.rows; ++row, at += points.stride) {
      V valid = none + 1.0;
      if (!kPlain && !points.all_valid) {
        const auto limit = [&](const Points& by, i64 there) { valid *= load_doubles(by.valid + there); };
        limit(points.centre, at);
        limit(points.centre, at - 1);
        limit(points.centre, at + 1);
        if constexpr (kFirst <= kY) limit(points.centre, at - points.stride);
        if constexpr (kFirst <= kY) limit(points.centre, at + points.stride);
        for (u32 axis = kFirst; axis < kY; ++axis) limit(points.before[axis], at);
        for (u32 axis = kFirst; axis < kY; ++axis) limit(points.after[axis], at);
      }
      // Must come last: memory beyond the cell's columns may hold NaN or be uninitialized.
      if constexpr (!kPlain) valid = columns_below(points.columns, column, valid);
      const auto keep = [valid](V value) {
        if constexpr (kPlain) return value;
        return valid != 0.0 ? value : none;
      };
      Slopes<V> slopes;
      const auto note = [&](u32 axis) {
        slope_errors[axis] = fused_multiply_add(slopes.slope_error, slopes.slope_error, slope_errors[axis]);
        curvature_errors[axis] =
            fused_multiply_add(slopes.curvature_error, slopes.curvature_error, curvature_errors[axis]);
        found.slope[axis] = larger_size(slopes.slope, found.slope[axis]);
        found.slope_error[axis] = larger_size(slopes.slope_error, found.slope_error[axis]);
        found.curvature[axis] = larger_size(slopes.curvature, found.curvature[axis]);
        found.curvature_error[axis] = larger_size(slopes.curvature_error, found.curvature_error[axis]);
      };
      slopes.template add<true>(centre, points.centre.at(at - 1), points.centre.at(at + 1), 1.0, keep);
      note(kX);
      if constexpr (kFirst <= kY) {
        after_y = points.centre.at(at + points.stride);
        slopes.template add<false>(centre, before_y, after_y, finer[kY], keep);
        note(kY);
      }
      if constexpr (kFirst <= kZ) {
        slopes.template add<false>(centre, points.before[kZ].at(at), points.after[kZ].at(at), finer[kZ], keep);
        note(kZ);
      }
      if constexpr (kFirst <= kW) {
        slopes.template add<false>(centre, points.before[kW].at(at), points.after[kW].at(at), finer[kW], keep);
        note(kW);
      }
      const Change<V> change = slopes.template change<kFits>();
      const V error = keep(centre.e);
      gradient_errors += change.square;
      laplacians = fused_multiply_add(slopes.laplacian, slopes.laplacian, laplacians);
      laplacian_errors = fused_multiply_add(slopes.laplacian_error, slopes.laplacian_error, laplacian_errors);
      errors = fused_multiply_add(error, error, errors);
      if constexpr (!kPlain) interior += valid;
      found.gradient_error = larger_size(change.size, found.gradient_error);
      found.laplacian_error = larger_size(slopes.laplacian_error, found.laplacian_error);
      V length = slopes.length;
      found.gradient_max = larger(length, found.gradient_max);
      if constexpr (!kPlain) length = valid != 0.0 ? length : none + HUGE_VAL;
      found.gradient_min = smaller(length, found.gradient_min);
      before_y = centre;
      centre = kFirst <= kY ? after_y : centre;
    }
    for (u32 axis = kFirst; axis <= kX; ++axis) {
      give(slope_errors[axis], lanes.slope_error[axis]);
      give(curvature_errors[axis], lanes.curvature_error[axis]);
    }
    give(gradient_errors, lanes.gradient_error);
    give(laplacians, lanes.laplacian);
    give(laplacian_errors, lanes.laplacian_error);
    give(errors, lanes.error);
    if constexpr (!kPlain) give(sum(lanes.interior) + interior, lanes.interior);
  }
  extrema = found;
}

// All stencils of a cell.
template <u32 kFirst, bool kFits>
inline void add_stencils(const CellPoints& points, const double* finer, assess::StencilCell& cell) {
  StencilLanes lanes;
  StencilVectors found;
  const u32 plain = points.all_valid ? points.columns / kDoubles * kDoubles : 0;
  add_columns<kFirst, true, kFits>(points, finer, 0, plain, lanes, found);
  add_columns<kFirst, false, kFits>(points, finer, plain, points.columns, lanes, found);
  cell.sums.interior = total(lanes.interior) + static_cast<double>(u64{points.rows} * plain);
  cell.sums.gradient_error = total(lanes.gradient_error);
  cell.sums.laplacian = total(lanes.laplacian);
  cell.sums.laplacian_error = total(lanes.laplacian_error);
  cell.sums.error = total(lanes.error);
  for (u32 axis = kFirst; axis <= kX; ++axis) {
    cell.sums.slope_error[axis] = total(lanes.slope_error[axis]);
    cell.sums.curvature_error[axis] = total(lanes.curvature_error[axis]);
    cell.extrema.slope[axis] = largest(found.slope[axis]);
    cell.extrema.slope_error[axis] = largest(found.slope_error[axis]);
    cell.extrema.curvature[axis] = largest(found.curvature[axis]);
    cell.extrema.curvature_error[axis] = largest(found.curvature_error[axis]);
  }
  cell.extrema.gradient_min = smallest(found.gradient_min);
  cell.extrema.gradient_max = largest(found.gradient_max);
  cell.extrema.gradient_error = largest(found.gradient_error);
  cell.extrema.laplacian_error = largest(found.laplacian_error);
}

}  // namespace h5lossy::H5L_TARGET
