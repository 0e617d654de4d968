// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Gradient and Laplacian (pattern II). A warp takes a cell, lane i its columns i, i + 32, ... row by row,
// so that all sums are those of native/assess.
#pragma once

#include "assess_fields.cuh"

namespace h5lossy::H5L_TARGET {

// Calls of(y, x) for a lane's points of the cell, in their order.
template <class Of>
H5L_DEVICE void for_each_point(const CellPlace& place, Of of) {
  for (u64 y = place.first_row; y < place.end_row; ++y) {
    for (u64 x = place.first_column + lane(); x < place.end_column; x += kWarpThreads) of(y, x);
  }
}

H5L_DEVICE double size_of_warp(double own) {
  for (u32 by = kWarpThreads / 2; by != 0; by /= 2) {
    const double other = shuffle_xor(own, by);
    own = other > own ? other : own;
  }
  return own;
}

// What a lane's stencils of a cell come to. They have the axes from kFirst on; kPlain: all points count.
template <u32 kFirst, bool kPlain>
class LaneStencils {
 public:
  H5L_DEVICE explicit LaneStencils(const CellsPlan& plan) : plan_(plan) {
    found_.gradient_min = __builtin_bit_cast(double, 0x7FF0000000000000ull);
  }

  // A point, and those before and after it along each axis; centre.valid says whether all of them count.
  H5L_DEVICE void add(const FieldPoint& centre, const FieldPoint (&before)[4], const FieldPoint (&after)[4]) {
    const double valid = kPlain ? 1.0 : centre.valid;
    double length = 0, length_y = 0, along = 0, bend = 0, bend_error = 0;
    H5L_UNROLL for (u32 axis = kFirst; axis <= kX; ++axis) {
      if (!kPlain && !plan_.field.present[axis]) continue;
      const FieldPoint &a = after[axis], &b = before[axis];
      const double slope = weighted((a.x - b.x) * plan_.per_step[axis], valid);
      const double off = weighted((a.e - b.e) * plan_.per_step[axis], valid);
      length += slope * slope;
      length_y += (slope + off) * (slope + off);
      along += off * (slope + slope + off);
      bend += weighted((a.x - (centre.x + centre.x) + b.x) * plan_.per_square[axis], valid);
      bend_error += weighted((a.e - (centre.e + centre.e) + b.e) * plan_.per_square[axis], valid);
      slope_errors_[axis] += off * off;
      raise(found_.slope[axis], slope);
      raise(found_.slope_error[axis], off);
    }
    // The difference of two lengths without cancellation.
    length = sqrt(length);
    const double both = length + sqrt(length_y);
    along = both > 0 ? along / both : 0.0;
    gradient_errors_ += along * along;
    laplacians_ += bend * bend;
    laplacian_errors_ += bend_error * bend_error;
    raise(found_.gradient_max, length);
    raise(found_.gradient_error, along);
    raise(found_.laplacian_error, bend_error);
    if (valid != 0) found_.gradient_min = length < found_.gradient_min ? length : found_.gradient_min;
    const double error = weighted(centre.e + plan_.rules.pivot_e, valid);
    errors_ += error * error;
    interior_ += valid != 0 ? 1 : 0;
  }

  H5L_DEVICE void store(StencilCell& cell) const {
    const auto set = [](auto& to, auto total) {
      if (lane() == 0) to = total;
    };
    set(cell.sums.interior, sum_of_warp(interior_));
    set(cell.sums.gradient_error, sum_of_warp(gradient_errors_));
    set(cell.sums.laplacian, sum_of_warp(laplacians_));
    set(cell.sums.laplacian_error, sum_of_warp(laplacian_errors_));
    set(cell.sums.error, sum_of_warp(errors_));
    H5L_UNROLL for (u32 axis = kFirst; axis <= kX; ++axis) {
      set(cell.sums.slope_error[axis], sum_of_warp(slope_errors_[axis]));
      set(cell.extrema.slope[axis], size_of_warp(found_.slope[axis]));
      set(cell.extrema.slope_error[axis], size_of_warp(found_.slope_error[axis]));
    }
    set(cell.extrema.gradient_max, size_of_warp(found_.gradient_max));
    set(cell.extrema.gradient_error, size_of_warp(found_.gradient_error));
    set(cell.extrema.laplacian_error, size_of_warp(found_.laplacian_error));
    double lowest = found_.gradient_min;
    for (u32 by = kWarpThreads / 2; by != 0; by /= 2) {
      const double other = shuffle_xor(lowest, by);
      lowest = other < lowest ? other : lowest;
    }
    set(cell.extrema.gradient_min, lowest);
  }

 private:
  static H5L_DEVICE double weighted(double value, double valid) { return kPlain ? value : value * valid; }
  static H5L_DEVICE void raise(double& most, double size) { most = fabs(size) > most ? fabs(size) : most; }

  const CellsPlan& plan_;
  double gradient_errors_ = 0, laplacians_ = 0, laplacian_errors_ = 0, errors_ = 0;
  double slope_errors_[4] = {};
  u32 interior_ = 0;
  assess::StencilExtrema found_ = {};
};

H5L_DEVICE bool has_planes(const CellsPlan& plan, const CellPlace& place) {
  const assess::FieldPlan& field = plan.field;
  return !(field.present[kW] && place.w + 2 >= field.shape[kW]) &&
         !(field.present[kZ] && place.z + 2 >= field.shape[kZ]);
}

// Stencils whose lowest corner is in the cell: their centre is one further along each axis.
template <class T>
H5L_DEVICE void add_stencils(const CellsPlan& plan, const CellPlace& place, StencilCell& cell) {
  const assess::FieldPlan& field = plan.field;
  LaneStencils<kW, false> lane_stencils(plan);
  if (has_planes(plan, place)) {
    for_each_point(place, [&](u64 y, u64 x) {
      if ((field.present[kY] && y + 2 >= field.shape[kY]) || x + 2 >= field.shape[kX]) return;
      u64 middle[4] = {place.w, place.z, y, x};
      H5L_UNROLL for (u32 axis = kW; axis <= kX; ++axis) middle[axis] += field.present[axis] ? 1 : 0;
      FieldPoint centre = pivoted_at<T>(plan, middle);
      FieldPoint before[4], after[4];
      H5L_UNROLL for (u32 axis = kW; axis <= kX; ++axis) {
        if (!field.present[axis]) continue;
        u64 there[4] = {middle[0], middle[1], middle[2], middle[3]};
        there[axis] -= 1;
        before[axis] = pivoted_at<T>(plan, there);
        there[axis] += 2;
        after[axis] = pivoted_at<T>(plan, there);
        centre.valid *= before[axis].valid * after[axis].valid;
      }
      lane_stencils.add(centre, before, after);
    });
  }
  lane_stencils.store(cell);
}

// A lane's place in rows of both arrays. Values of a row are adjacent.
template <class T>
struct PlainRows {
  const u8 *original, *decoded;

  H5L_DEVICE PlainRows next(const assess::View& view, u32 axis, i64 by) const {
    return {original + by * view.original_strides[axis], decoded + by * view.decoded_strides[axis]};
  }
  H5L_DEVICE FieldPoint at(const CellsPlan& plan, i32 columns) const {
    const double x = static_cast<double>(reinterpret_cast<const T*>(original)[columns]);
    return {x, static_cast<double>(reinterpret_cast<const T*>(decoded)[columns]) - x - plan.rules.pivot_e, 1.0};
  }
};

// The same where all points count as they stand in memory, in a field with the axes from kFirst on.
template <class T, u32 kFirst>
H5L_DEVICE void add_plain_stencils(const CellsPlan& plan, const CellPlace& place, StencilCell& cell) {
  const assess::FieldPlan& field = plan.field;
  const assess::View& view = plan.view;
  LaneStencils<kFirst, true> lane_stencils(plan);
  const auto least = [](u64 a, u64 b) { return a < b ? a : b; };
  const u64 end_row = field.shape[kY] < 2 ? 0 : least(place.end_row, field.shape[kY] - 2);
  const u64 end_column = field.shape[kX] < 2 ? 0 : least(place.end_column, field.shape[kX] - 2);
  const u64 first_column = place.first_column + lane();
  const u64 first[4] = {place.w, place.z + (kFirst == kZ ? 1 : 0), place.first_row + 1, first_column + 1};
  PlainRows<T> here = {address(view.original, view.original_strides, view.origin, first),
                       address(view.decoded, view.decoded_strides, view.origin, first)};
  const u32 columns = end_column > first_column ? static_cast<u32>(end_column - first_column) : 0;
  const bool has_any = columns != 0 && has_planes(plan, place);
  for (u64 y = place.first_row; has_any && y < end_row; ++y) {
    PlainRows<T> rows_before[kX], rows_after[kX];
    H5L_UNROLL for (u32 axis = kFirst; axis < kX; ++axis) {
      rows_before[axis] = here.next(view, axis, -1);
      rows_after[axis] = here.next(view, axis, 1);
    }
    H5L_UNROLL for (u32 x = 0; x < assess::kCellColumns; x += kWarpThreads) {
      if (x >= columns) break;
      const i32 at = static_cast<i32>(x);
      FieldPoint before[4], after[4];
      H5L_UNROLL for (u32 axis = kFirst; axis < kX; ++axis) {
        before[axis] = rows_before[axis].at(plan, at);
        after[axis] = rows_after[axis].at(plan, at);
      }
      before[kX] = here.at(plan, at - 1);
      after[kX] = here.at(plan, at + 1);
      lane_stencils.add(here.at(plan, at), before, after);
    }
    here = here.next(view, kY, 1);
  }
  lane_stencils.store(cell);
}

H5L_DEVICE void clear(StencilCell& cell) {
  auto* const words = reinterpret_cast<u64*>(&cell);
  for (u32 k = lane(); k < sizeof(StencilCell) / 8; k += kWarpThreads) words[k] = 0;
  sync_warp();
}

// A warp for each cell.
template <class Of>
H5L_DEVICE void for_each_cell(const CellsPlan& plan, Of of) {
  for (u64 i = u64{block_number()} * kWarps + warp(); i < plan.cells; i += u64{grid_blocks()} * kWarps) {
    StencilCell& cell = reinterpret_cast<StencilCell*>(plan.results)[i];
    clear(cell);
    of(place_of(plan, i), cell);
  }
}

template <class T, u32 kFirst>
H5L_DEVICE void add_plain_stencil_cells(const CellsPlan& plan) {
  for_each_cell(plan,
                [&](const CellPlace& place, StencilCell& cell) { add_plain_stencils<T, kFirst>(plan, place, cell); });
}

template <class T>
H5L_DEVICE void add_stencil_cells(const CellsPlan& plan) {
  for_each_cell(plan, [&](const CellPlace& place, StencilCell& cell) {
    if (plan.field.stencils) {
      add_stencils<T>(plan, place, cell);
    } else {
      if (lane() == 0) cell.extrema.gradient_min = __builtin_bit_cast(double, 0x7FF0000000000000ull);
    }
  });
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
