// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Autocorrelation (pattern II). First all errors are made ready in memory, once instead of for every lag and axis. Then a
// thread block takes a cell with what the lags reach of its plane in shared memory, and a warp some of the lags: lane i the
// columns i, i + 32, ... row by row, so that all sums are those of native/assess.
#pragma once

#include "assess_fields.cuh"

namespace h5lossy::H5L_TARGET {

using assess::kCellColumns;
using assess::kCellRows;
using gpu::kMostTileLags;

// An error that does not count: a NaN that no arithmetic makes, and none of the points that count has a NaN.
inline constexpr u32 kNoErrorHigh = 0x7FF5E440u;
H5L_DEVICE double no_error() { return bit_cast<double>(u64{kNoErrorHigh} << 32); }
H5L_DEVICE bool counts(double error) { return static_cast<u32>(bit_cast<u64>(error) >> 32) != kNoErrorHigh; }

// A cell of a line, or one with rows and columns, and what lags reach.
struct LagShared {
  double errors[(kCellRows + kMostTileLags) * (kCellColumns + kMostTileLags)];
};
static_assert(sizeof(LagShared) >= (assess::kLineColumns + kMostTileLags) * sizeof(double));

H5L_DEVICE u64 error_index(const CellsPlan& plan, u64 w, u64 z, u64 y, u64 x) {
  const u64 deep = plan.reach_end[kZ] - plan.first[kZ], high = plan.reach_end[kY] - plan.first[kY];
  const u64 wide = plan.reach_end[kX] - plan.first[kX];
  return (((w - plan.first[kW]) * deep + (z - plan.first[kZ])) * high + (y - plan.first[kY])) * wide +
         (x - plan.first[kX]);
}

// The errors less their pivot of all that cells of the plan and their lags reach; a warp for each row.
template <class T>
H5L_DEVICE void prepare_errors(const CellsPlan& plan) {
  const u64 high = plan.reach_end[kY] - plan.first[kY], deep = plan.reach_end[kZ] - plan.first[kZ];
  const u64 rows = (plan.reach_end[kW] - plan.first[kW]) * deep * high;
  for (u64 row = u64{block_number()} * kWarps + warp(); row < rows; row += u64{grid_blocks()} * kWarps) {
    u64 at[4] = {plan.first[kW] + row / high / deep, plan.first[kZ] + row / high % deep, plan.first[kY] + row % high,
                 plan.first[kX]};
    double* const to = plan.errors + error_index(plan, at[kW], at[kZ], at[kY], at[kX]);
    const u64 wide = plan.reach_end[kX] - plan.first[kX];
    for (u64 x = lane(); x < wide; x += kWarpThreads) {
      at[kX] = plan.first[kX] + x;
      const FieldPoint point = pivoted_at<T>(plan, at);
      to[x] = point.valid != 0 ? point.e : no_error();
    }
  }
}

class LagSums {
 public:
  H5L_DEVICE LagSums(const CellsPlan& plan, const CellPlace& place, const double* tile, u32 stride, u32 lag)
      : plan_(plan), place_(place), tile_(tile), stride_(stride), lag_(lag) {}

  // Any cell. An axis that is not there, or ends before the lag, has no tails.
  H5L_DEVICE void add_any() {
    const double* const lines[2] = {tail_plane(kW), tail_plane(kZ)};
    const u64 wide = plan_.reach_end[kX] - plan_.first[kX];
    const u32 columns = static_cast<u32>(place_.end_column - place_.first_column);
    for (u64 y = 0; y < place_.end_row - place_.first_row; ++y) {
      const double* const row = tile_ + y * stride_;
      for (u32 x = lane(); x < columns; x += kWarpThreads) {
        const double none = no_error();
        const double head = row[x];
        double tails[4];
        tails[kW] = lines[0] != nullptr ? lines[0][y * wide + x] : none;
        tails[kZ] = lines[1] != nullptr ? lines[1][y * wide + x] : none;
        tails[kY] = plan_.field.present[kY] ? row[lag_ * stride_ + x] : none;
        tails[kX] = row[x + lag_];
        if (!counts(head)) continue;
        bool has_all = true, is_first = true;
        double mean = 0;
        H5L_UNROLL for (u32 axis = kW; axis <= kX; ++axis) {
          if (!plan_.field.present[axis]) continue;
          if (!counts(tails[axis])) {
            has_all = false;
            continue;
          }
          add(axis, head, tails[axis]);
          ++pairs_[axis];
          mean = is_first ? tails[axis] : mean + tails[axis];
          is_first = false;
        }
        if (!has_all) continue;
        add(kMean, head, mean * (1.0 / plan_.field.rank));
        ++pairs_[kMean];
      }
    }
  }

  // The same where all points count, in two or three axes.
  template <bool kDeep>
  H5L_DEVICE void add_plain() {
    const double* const deep = kDeep ? tail_plane(kZ) : nullptr;
    const u64 wide = plan_.reach_end[kX] - plan_.first[kX];
    const u32 columns = static_cast<u32>(place_.end_column - place_.first_column);
    const u64 left = plan_.field.shape[kX] - place_.first_column;
    const bool has_last = kCellColumns - kWarpThreads + lane() + lag_ < left;  // of the last columns, which have a tail
    const double inverse = 1.0 / (kDeep ? 3 : 2);
    H5L_NO_UNROLL for (u64 y = 0; y < place_.end_row - place_.first_row; ++y) {
      const double* const row = tile_ + y * stride_ + lane();
      const double* const row_y = row + lag_ * stride_;
      const double* const row_z = deep == nullptr ? row : deep + y * wide + lane();
      const bool has_y = place_.first_row + y + lag_ < plan_.field.shape[kY];
      const bool has_others = has_y && (!kDeep || deep != nullptr);
      if (has_others && columns == kCellColumns) {
        H5L_UNROLL for (u32 x = 0; x < kCellColumns; x += kWarpThreads) {
          const bool is_last = x + kWarpThreads == kCellColumns;
          const double tail_z = kDeep ? row_z[x] : 0.0;
          add_point<kDeep>(row[x], tail_z, row_y[x], row[lag_ + x], inverse, !is_last || has_last);
        }
        constexpr u32 kGroups = kCellColumns / kWarpThreads;
        const u32 with_tail = kGroups - (has_last ? 0 : 1);
        if (kDeep) pairs_[kZ] += kGroups;
        pairs_[kY] += kGroups;
        pairs_[kX] += with_tail;
        pairs_[kMean] += with_tail;
        continue;
      }
      H5L_NO_UNROLL for (u32 x = 0; x + lane() < columns; x += kWarpThreads) {
        const bool has_x = x + lane() + lag_ < left;
        if (has_others) {
          add_point<kDeep>(row[x], kDeep ? row_z[x] : 0.0, row_y[x], row[lag_ + x], inverse, has_x);
        } else {
          if (kDeep && deep != nullptr) add(kZ, row[x], row_z[x]);
          if (has_y) add(kY, row[x], row_y[x]);
          if (has_x) add(kX, row[x], row[lag_ + x]);
        }
        if (kDeep && deep != nullptr) ++pairs_[kZ];
        pairs_[kY] += has_y ? 1 : 0;
        pairs_[kX] += has_x ? 1 : 0;
        pairs_[kMean] += has_others && has_x ? 1 : 0;
      }
    }
  }

  H5L_DEVICE void store(assess::StencilSums& sums) const {
    H5L_UNROLL for (u32 axis = 0; axis < assess::kLagAxes; ++axis) {
      if (axis != kMean && !plan_.field.present[axis]) continue;
      const double products = sum_of_warp(products_[axis]), both = sum_of_warp(sums_[axis]);
      const u32 pairs = sum_of_warp(pairs_[axis]);
      if (lane() != 0) continue;
      sums.lag_products[axis][lag_ - 1] = products;
      sums.lag_sums[axis][lag_ - 1] = both;
      sums.lag_pairs[axis][lag_ - 1] = pairs;
    }
  }

 private:
  static constexpr u32 kMean = assess::kLagAxes - 1;

  H5L_DEVICE void add(u32 axis, double head, double tail) {
    products_[axis] += head * tail;
    sums_[axis] += head + tail;
  }

  // One that has tails along all axes, but perhaps the last.
  template <bool kDeep>
  H5L_DEVICE void add_point(double head, double tail_z, double tail_y, double tail_x, double inverse, bool has_x) {
    if (kDeep) add(kZ, head, tail_z);
    add(kY, head, tail_y);
    if (!has_x) return;
    add(kX, head, tail_x);
    add(kMean, head, ((kDeep ? tail_z + tail_y : tail_y) + tail_x) * inverse);
  }

  // The cell's errors one lag further along w or z; null: there are none.
  H5L_DEVICE const double* tail_plane(u32 axis) const {
    const u64 at = axis == kW ? place_.w : place_.z;
    if (!plan_.field.present[axis] || at + lag_ >= plan_.field.shape[axis]) return nullptr;
    return plan_.errors + error_index(plan_, place_.w + (axis == kW ? lag_ : 0), place_.z + (axis == kZ ? lag_ : 0),
                                      place_.first_row, place_.first_column);
  }

  const CellsPlan& plan_;
  const CellPlace& place_;
  const double* tile_;
  u32 stride_, lag_;
  double products_[assess::kLagAxes] = {}, sums_[assess::kLagAxes] = {};
  u32 pairs_[assess::kLagAxes] = {};
};

// Behind the kernel of stencils, which clears the cells.
H5L_DEVICE void add_lag_cells(const CellsPlan& plan) {
  const assess::FieldPlan& field = plan.field;
  LagShared& shared = *reinterpret_cast<LagShared*>(shared_memory());
  const u32 stride = plan.cell_columns + field.lags;
  for (u64 i = block_number(); i < plan.cells; i += grid_blocks()) {
    const CellPlace place = place_of(plan, i);
    const u32 rows = static_cast<u32>(place.end_row - place.first_row);
    const u32 columns = static_cast<u32>(place.end_column - place.first_column);
    const u32 read_rows = rows + (field.present[kY] ? field.lags : 0), read_columns = columns + field.lags;
    for (u32 y = warp(); y < read_rows; y += kWarps) {
      const bool has_row = place.first_row + y < plan.reach_end[kY];
      const double* const from =
          plan.errors + error_index(plan, place.w, place.z, place.first_row + y, place.first_column);
      for (u32 x = lane(); x < read_columns; x += kWarpThreads) {
        const bool is_there = has_row && place.first_column + x < plan.reach_end[kX];
        shared.errors[y * stride + x] = is_there ? from[x] : no_error();
      }
    }
    sync_block();
    const bool is_plain = plan.rules.all_valid && (field.rank == 2 || field.rank == 3);
    for (u32 lag = 1 + warp(); lag <= field.lags; lag += kWarps) {
      LagSums sums(plan, place, shared.errors, stride, lag);
      if (!is_plain) {
        sums.add_any();
      } else if (field.rank == 2) {
        sums.add_plain<false>();
      } else {
        sums.add_plain<true>();
      }
      sums.store(reinterpret_cast<StencilCell*>(plan.results)[i].sums);
    }
    sync_block();
  }
}

}  // namespace h5lossy::H5L_TARGET
