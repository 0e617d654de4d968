// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Gradient, Laplacian and autocorrelation (pattern II). A warp takes a cell, lane i its columns i, i + 32, ... row by row,
// so that all sums are those of native/assess.
#pragma once

#include "assess_fields.cuh"

namespace h5lossy::H5L_TARGET {

using assess::StencilCell;

// Calls of(y, x) for a lane's points of the cell, in their order.
template <class Of>
H5L_DEVICE void for_each_point(const CellPlace& place, Of of) {
  for (u64 y = place.first_row; y < place.end_row; ++y) {
    for (u64 x = place.first_column + lane(); x < place.end_column; x += kWarpThreads) of(y, x);
  }
}

// Pairs of points `lag` apart along one axis.
template <class T>
H5L_DEVICE void add_pairs(const CellsPlan& plan, const CellPlace& place, u32 axis, u32 lag, assess::StencilSums& sums) {
  double products = 0, both = 0, pairs = 0;
  for_each_point(place, [&](u64 y, u64 x) {
    u64 at[4] = {place.w, place.z, y, x};
    u64 there[4] = {place.w, place.z, y, x};
    there[axis] += lag;
    if (there[axis] >= plan.field.shape[axis]) return;
    const FieldPoint head = pivoted_at<T>(plan, at), tail = pivoted_at<T>(plan, there);
    products += head.e * tail.e;
    both += head.e * tail.valid + tail.e * head.valid;
    pairs += head.valid * tail.valid;
  });
  sums.lag_products[axis][lag - 1] = sum_of_warp(products);
  sums.lag_sums[axis][lag - 1] = sum_of_warp(both);
  sums.lag_pairs[axis][lag - 1] = sum_of_warp(pairs);
}

// The paper's equation 2: a point with the mean of its neighbours, where it has all of them.
template <class T>
H5L_DEVICE void add_means(const CellsPlan& plan, const CellPlace& place, u32 lag, assess::StencilSums& sums) {
  double products = 0, both = 0, pairs = 0;
  for_each_point(place, [&](u64 y, u64 x) {
    u64 at[4] = {place.w, place.z, y, x};
    const FieldPoint head = pivoted_at<T>(plan, at);
    double mean = 0, weight = head.valid;
    u32 axes = 0;
    bool has_all = true;
    H5L_UNROLL for (u32 axis = kW; axis <= kX; ++axis) {
      if (!plan.field.present[axis]) continue;
      u64 there[4] = {place.w, place.z, y, x};
      there[axis] += lag;
      if (there[axis] >= plan.field.shape[axis]) {
        has_all = false;
        continue;
      }
      const FieldPoint tail = pivoted_at<T>(plan, there);
      mean = axes == 0 ? tail.e : mean + tail.e;
      weight *= tail.valid;
      ++axes;
    }
    if (!has_all) return;
    const double inverse = 1.0 / axes;
    mean = mean * inverse * weight;
    const double error = head.e * weight;
    products += error * mean;
    both += error * weight + mean * weight;
    pairs += weight * weight;
  });
  constexpr u32 kMean = assess::kLagAxes - 1;
  sums.lag_products[kMean][lag - 1] = sum_of_warp(products);
  sums.lag_sums[kMean][lag - 1] = sum_of_warp(both);
  sums.lag_pairs[kMean][lag - 1] = sum_of_warp(pairs);
}

H5L_DEVICE double size_of_warp(double own) {
  for (u32 by = kWarpThreads / 2; by != 0; by /= 2) {
    const double other = shuffle_xor(own, by);
    own = other > own ? other : own;
  }
  return own;
}

// Stencils whose lowest corner is in the cell: their centre is one further along each axis.
template <class T>
H5L_DEVICE void add_stencils(const CellsPlan& plan, const CellPlace& place, StencilCell& cell) {
  const assess::FieldPlan& field = plan.field;
  double interior = 0, gradient_errors = 0, laplacians = 0, laplacian_errors = 0, errors = 0;
  double slope_errors[4] = {};
  assess::StencilExtrema found = {};
  found.gradient_min = __builtin_bit_cast(double, 0x7FF0000000000000ull);
  const auto raise = [](double& most, double size) { most = fabs(size) > most ? fabs(size) : most; };
  const u64 corner_wz[2] = {place.w, place.z};
  const bool has_planes = !(field.present[kW] && corner_wz[0] + 2 >= field.shape[kW]) &&
                          !(field.present[kZ] && corner_wz[1] + 2 >= field.shape[kZ]);
  if (has_planes) {
    for_each_point(place, [&](u64 y, u64 x) {
      if ((field.present[kY] && y + 2 >= field.shape[kY]) || x + 2 >= field.shape[kX]) return;
      u64 middle[4] = {place.w, place.z, y, x};
      H5L_UNROLL for (u32 axis = kW; axis <= kX; ++axis) middle[axis] += field.present[axis] ? 1 : 0;
      const FieldPoint centre = pivoted_at<T>(plan, middle);
      FieldPoint before[4], after[4];
      double valid = centre.valid;
      H5L_UNROLL for (u32 axis = kW; axis <= kX; ++axis) {
        if (!field.present[axis]) continue;
        u64 there[4] = {middle[0], middle[1], middle[2], middle[3]};
        there[axis] -= 1;
        before[axis] = pivoted_at<T>(plan, there);
        there[axis] += 2;
        after[axis] = pivoted_at<T>(plan, there);
        valid *= before[axis].valid * after[axis].valid;
      }
      double length = 0, length_y = 0, along = 0, bend = 0, bend_error = 0;
      H5L_UNROLL for (u32 axis = kW; axis <= kX; ++axis) {
        if (!field.present[axis]) continue;
        const FieldPoint &a = after[axis], &b = before[axis];
        const double slope = (a.x - b.x) * plan.per_step[axis] * valid;
        const double off = (a.e - b.e) * plan.per_step[axis] * valid;
        length += slope * slope;
        length_y += (slope + off) * (slope + off);
        along += off * (slope + slope + off);
        bend += (a.x - (centre.x + centre.x) + b.x) * plan.per_square[axis] * valid;
        bend_error += (a.e - (centre.e + centre.e) + b.e) * plan.per_square[axis] * valid;
        slope_errors[axis] += off * off;
        raise(found.slope[axis], slope);
        raise(found.slope_error[axis], off);
      }
      // The difference of two lengths without cancellation.
      length = sqrt(length);
      const double both = length + sqrt(length_y);
      along = both > 0 ? along / both : 0.0;
      gradient_errors += along * along;
      laplacians += bend * bend;
      laplacian_errors += bend_error * bend_error;
      raise(found.gradient_max, length);
      raise(found.gradient_error, along);
      raise(found.laplacian_error, bend_error);
      if (valid != 0) found.gradient_min = length < found.gradient_min ? length : found.gradient_min;
      const double error = (centre.e + plan.rules.pivot_e) * valid;
      errors += error * error;
      interior += valid;
    });
  }
  cell.sums.interior = sum_of_warp(interior);
  cell.sums.gradient_error = sum_of_warp(gradient_errors);
  cell.sums.laplacian = sum_of_warp(laplacians);
  cell.sums.laplacian_error = sum_of_warp(laplacian_errors);
  cell.sums.error = sum_of_warp(errors);
  H5L_UNROLL for (u32 axis = kW; axis <= kX; ++axis) {
    cell.sums.slope_error[axis] = sum_of_warp(slope_errors[axis]);
    cell.extrema.slope[axis] = size_of_warp(found.slope[axis]);
    cell.extrema.slope_error[axis] = size_of_warp(found.slope_error[axis]);
  }
  cell.extrema.gradient_max = size_of_warp(found.gradient_max);
  cell.extrema.gradient_error = size_of_warp(found.gradient_error);
  cell.extrema.laplacian_error = size_of_warp(found.laplacian_error);
  double lowest = found.gradient_min;
  for (u32 by = kWarpThreads / 2; by != 0; by /= 2) {
    const double other = shuffle_xor(lowest, by);
    lowest = other < lowest ? other : lowest;
  }
  cell.extrema.gradient_min = lowest;
}

template <class T>
H5L_DEVICE void add_stencil_cells(const CellsPlan& plan) {
  const assess::FieldPlan& field = plan.field;
  for (u64 i = u64{block_number()} * kWarps + warp(); i < plan.cells; i += u64{grid_blocks()} * kWarps) {
    const CellPlace place = place_of(plan, i);
    StencilCell& cell = reinterpret_cast<StencilCell*>(plan.results)[i];
    auto* const words = reinterpret_cast<u64*>(&cell);
    for (u32 k = lane(); k < sizeof(StencilCell) / 8; k += kWarpThreads) words[k] = 0;
    sync_warp();
    if (field.stencils) {
      add_stencils<T>(plan, place, cell);
    } else {
      cell.extrema.gradient_min = __builtin_bit_cast(double, 0x7FF0000000000000ull);
    }
    for (u32 lag = 1; lag <= field.lags; ++lag) {
      for (u32 axis = kW; axis <= kX; ++axis) {
        if (field.present[axis]) add_pairs<T>(plan, place, axis, lag, cell.sums);
      }
      add_means<T>(plan, place, lag, cell.sums);
    }
  }
}

H5L_DEVICE void group_stencil_cells(const gpu::GroupPlan& plan) {
  constexpr u32 kSums = sizeof(assess::StencilSums) / 8;
  constexpr u32 kLowest = __builtin_offsetof(StencilCell, extrema.gradient_min) / 8;
  group_cells<StencilCell, kSums>(plan, [](const double* from, u32 which) {
    constexpr u32 kStride = sizeof(StencilCell) / 8;
    double best = from[0];
    for (u32 cell = 1; cell < gpu::kGroup; ++cell) {
      const double other = from[cell * kStride];
      best = (which == kLowest ? other < best : other > best) ? other : best;
    }
    return best;
  });
}

}  // namespace h5lossy::H5L_TARGET
