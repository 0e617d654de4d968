// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Gradient, Laplacian and autocorrelation (pattern II) in one sweep through a column of cells. A ring keeps the planes
// of errors that are still needed, so each value is read and converted about once.

#include <math.h>

#include "assess/cpu/derivatives.h"
#include "assess/cpu/lanes.h"
#include "assess/cpu/stencil_sums.h"
#include "assess/kernels.h"

namespace h5lossy::H5L_TARGET {
namespace {

class Sweep {
 public:
  Sweep(u32 value_bytes, const View& view, const Rules& rules, const FieldPlan& plan, const Column& column,
        double* memory)
      : value_bytes_(value_bytes),
        view_(view),
        rules_(rules),
        plan_(plan),
        column_(column),
        rows_(extent(plan, column, kY)),
        columns_(extent(plan, column, kX)) {
    const u32 stride = padded(columns_);
    const u32 planes = ring_planes(plan);
    const auto take = [&memory](u64 count) {
      double* const taken = memory;
      memory += count;
      return taken;
    };
    const u64 plane = u64{rows_} * stride;
    x_ = {take(stencil_planes(plan) * plane), stencil_planes(plan), rows_, stride};
    raw_e_ = {take(stencil_planes(plan) * plane), stencil_planes(plan), rows_, stride};
    e_ = {take(planes * plane), planes, rows_, stride};
    valid_ = {take(planes * plane), planes, rows_, stride};
    for (Row& far : far_) {
      const u64 rows = has_far_stencils(plan) ? plane : 0;
      far = {take(rows), take(rows), take(rows)};
    }
    spare_x_ = take(stride);
    column_sums_ = {take(u64{planes} * stride), planes, 1, stride};
    tail_sums_ = take(u64{plan.lags + 1} * stride);
    tail_e_ = take(far_plane_rows(plan, column) * u64{stride});
    tail_valid_ = take(far_plane_rows(plan, column) * u64{stride});
  }

  // The memory needed, in float64 values.
  static u64 memory_doubles(const FieldPlan& plan, const Column& column) {
    const u64 stride = padded(extent(plan, column, kX));
    const u64 planes =
        2 * u64{stencil_planes(plan)} + 2 * u64{ring_planes(plan)} + (has_far_stencils(plan) ? 3 * u64{kFarPlanes} : 0);
    const u64 rows =
        planes * extent(plan, column, kY) + 1 + ring_planes(plan) + plan.lags + 1 + 2 * far_plane_rows(plan, column);
    return (rows + 1) * stride;  // one more row, because tails are read in whole groups of lanes
  }

  void run(StencilCell* cells) {
    const u64 depth = column_.end[kZ] - column_.first[kZ];
    for (u64 w = column_.first[kW]; w < column_.end[kW]; ++w, cells += depth) {
      for (u64 i = 0; i < depth; ++i) {
        cells[i] = {};
        cells[i].extrema.gradient_min = HUGE_VAL;
      }
      u64 loaded = column_.first[kZ];
      for (u64 z = column_.first[kZ]; z < column_.end[kZ]; ++z) {
        for (; loaded < z + e_.planes && loaded < plan_.shape[kZ]; ++loaded) {
          load_plane(w, loaded);
          const u64 below = plan_.present[kZ] ? 2 : 0;
          if (!plan_.stencils || loaded < column_.first[kZ] + below || loaded - below >= column_.end[kZ]) continue;
          add_cell_stencils(w, loaded - below, cells[loaded - below - column_.first[kZ]]);
        }
        if (plan_.lags != 0) add_lags(w, z, cells[z - column_.first[kZ]].sums);
      }
    }
  }

 private:
  static constexpr u32 kStencilPlanes = 3, kFarPlanes = 4;

  static u32 halo(const FieldPlan& plan) { return plan.stencils && plan.lags < 2 ? 2 : plan.lags; }
  static u32 ring_planes(const FieldPlan& plan) { return plan.present[kZ] ? halo(plan) + 1 : 1; }
  static u32 stencil_planes(const FieldPlan& plan) {
    return !plan.stencils ? 0 : plan.present[kZ] ? kStencilPlanes : 1;
  }
  static bool has_far_stencils(const FieldPlan& plan) { return plan.present[kW] && plan.stencils; }

  // Rows of a plane of another w, whose points are tails.
  static u64 far_plane_rows(const FieldPlan& plan, const Column& column) {
    return plan.present[kW] && plan.lags != 0 ? column.end[kY] - column.first[kY] : 0;
  }

  // The points that are read along an axis: the column's, and the halo.
  static u32 extent(const FieldPlan& plan, const Column& column, u32 axis) {
    const u64 end = column.end[axis] + (plan.present[axis] ? halo(plan) : 0);
    return static_cast<u32>((end < plan.shape[axis] ? end : plan.shape[axis]) - column.first[axis]);
  }

  void read(u64 w, u64 z, u32 y, const Row& row) const {
    const u64 at[4] = {w, z, column_.first[kY] + y, column_.first[kX]};
    if (value_bytes_ == sizeof(float)) {
      read_points<float>(view_, rules_, at, columns_, row);
    } else {
      read_points<double>(view_, rules_, at, columns_, row);
    }
  }

  // Errors less their pivot.
  void take_off_pivot(const double* e, const double* valid, double* to) const {
    const double pivot = rules_.pivot_e;
    if (rules_.all_valid) {
      for (u32 i = 0; i < columns_; ++i) to[i] = e[i] - pivot;
    } else {
      for (u32 i = 0; i < columns_; ++i) to[i] = e[i] - pivot * valid[i];
    }
  }

  void load_plane(u64 w, u64 z) {
    for (u32 y = 0; y < rows_; ++y) {
      const Row row = plan_.stencils ? Row{x_.row(z, y), raw_e_.row(z, y), valid_.row(z, y)}
                                     : Row{spare_x_, e_.row(z, y), valid_.row(z, y)};
      read(w, z, y, row);
      if (plan_.lags != 0) take_off_pivot(row.e, row.valid, e_.row(z, y));
    }
    if (plan_.lags == 0) return;
    double* const sums = column_sums_.row(z, 0);
    for (u32 i = 0; i < columns_; ++i) sums[i] = 0;
    bool& is_plain = is_plain_[z % e_.planes];
    is_plain = true;
    for (u32 y = 0; y < rows_ && is_plain && !rules_.all_valid; ++y) {
      const double* const valid = valid_.row(z, y);
      for (u32 i = 0; i < columns_; ++i) is_plain = is_plain & (valid[i] != 0);
    }
    if (!is_plain) return;
    for (u32 y = own_rows(); y-- != 0;) add_row_to(sums, z, y);
  }

  void add_row_to(double* sums, u64 z, u32 y) const {
    const double* const row = e_.row(z, y);
    for (u32 i = 0; i < columns_; ++i) sums[i] += row[i];
  }

  [[nodiscard]] u32 own_rows() const { return static_cast<u32>(column_.end[kY] - column_.first[kY]); }
  [[nodiscard]] u32 own_columns() const { return static_cast<u32>(column_.end[kX] - column_.first[kX]); }

  // The number of owned points in a row that have a point at `distance` along x.
  [[nodiscard]] u32 columns_with(u32 distance) const {
    const u32 there = columns_ > distance ? columns_ - distance : 0;
    return there < own_columns() ? there : own_columns();
  }

  // A plane of the ring.
  [[nodiscard]] Plane plane(u64 z) const { return {e_.row(z, 0), valid_.row(z, 0), e_.stride}; }

  // A plane of another w.
  Plane read_far_plane(u64 w, u64 z) const {
    for (u32 y = 0; y < own_rows(); ++y) {
      const Row row = {spare_x_, tail_e_ + y * u64{e_.stride}, tail_valid_ + y * u64{e_.stride}};
      read(w, z, y, row);
      take_off_pivot(row.e, row.valid, row.e);
    }
    return {tail_e_, tail_valid_, e_.stride};
  }

  // The number of the cell's rows that have a point at distance `lag` along an axis other than the last.
  [[nodiscard]] u32 rows_with(u32 axis, u32 lag, u64 w, u64 z) const {
    if (axis == kW && w + lag >= plan_.shape[kW]) return 0;
    if (axis == kZ && z + lag >= plan_.shape[kZ]) return 0;
    const u32 there = axis != kY ? rows_ : rows_ > lag ? rows_ - lag : 0;
    return there < own_rows() ? there : own_rows();
  }

  // Whether all points of the pairs along an axis are valid.
  [[nodiscard]] bool has_plain_pairs(u32 axis, u32 lag, u64 z) const {
    if (rules_.all_valid) return true;
    return axis != kW && is_plain_[z % e_.planes] && (axis != kZ || is_plain_[(z + lag) % e_.planes]);
  }

  // Column sums of the plane's tails along y, for all lags.
  void add_up_tails(u64 z) const {
    const u32 own = own_rows();
    double* const sums = tail_sums_;
    const auto of_lag = [&](u32 lag) { return tail_sums_ + lag * u64{e_.stride}; };
    const auto clear = [&](double* row) { memset(row, 0, columns_ * sizeof(double)); };
    clear(sums);
    for (u32 y = own; y-- > 1;) {
      add_row_to(sums, z, y);
      if (y <= plan_.lags) memcpy(of_lag(y), sums, columns_ * sizeof(double));
    }
    clear(sums);
    for (u32 lag = 1; lag <= plan_.lags && lag < rows_; ++lag) {
      double* const all = of_lag(lag);
      if (lag < own) {
        if (own - 1 + lag < rows_) add_row_to(sums, z, own - 1 + lag);
      } else {
        clear(sums);
        for (u32 y = lag; y < own + lag && y < rows_; ++y) add_row_to(sums, z, y);
        clear(all);
      }
      for (u32 i = 0; i < columns_; ++i) all[i] += sums[i];
    }
  }

  // The number of rows with pairs along an axis if all their points are valid, else 0.
  [[nodiscard]] u32 plain_rows(u32 axis, u32 lag, u64 w, u64 z) const {
    const u32 rows = rows_with(axis, lag, w, z);
    return rows != 0 && has_plain_pairs(axis, lag, z) ? rows : 0;
  }

  // The plane at distance `lag` along an axis.
  Plane tail_of(u32 axis, u32 lag, u64 w, u64 z) const {
    return axis == kW   ? read_far_plane(w + lag, z)
           : axis == kZ ? plane(z + lag)
           : axis == kY ? plane(z).moved(lag, 0)
                        : plane(z).moved(0, lag);
  }

  // Products along an axis for kLags lags from `lag` on, all with the same rows.
  template <u32 kCount, u32 kLags>
  void add_products(u32 axis, u32 lag, u64 w, u64 z, u32 rows, Total* products) const {
    Plane tails[kLags];
    u32 some[kLags];
    for (u32 l = 0; l < kLags; ++l) {
      tails[l] = tail_of(axis, lag + l, w, z);
      some[l] = columns_with(lag + l);
    }
    const u32 columns = axis == kX ? some[0] : own_columns();
    add_up_products<kCount, kLags>(plane(z), tails, rows, columns, some, products + (lag - 1));
  }

  // Products for all lags whose points are all valid.
  template <u32 kCount>
  void add_products(u32 axis, u64 w, u64 z, Total* products) const {
    for (u32 lag = 1; lag <= plan_.lags;) {
      const u32 rows = plain_rows(axis, lag, w, z);
      bool has_same = lag + kLagsAtOnce - 1 <= plan_.lags;
      for (u32 l = 1; l < kLagsAtOnce && has_same; ++l) has_same = plain_rows(axis, lag + l, w, z) == rows;
      if (rows != 0 && has_same) add_products<kCount, kLagsAtOnce>(axis, lag, w, z, rows, products);
      if (rows != 0 && !has_same) add_products<kCount, 1>(axis, lag, w, z, rows, products);
      lag += has_same ? kLagsAtOnce : 1;
    }
  }

  // Adds up pairs whose points are all valid. Column sums are reused.
  template <u32 kCount>
  PairTotals add_up_plain(u32 axis, u32 lag, u64 z, const Plane& tail, u32 rows, u32 columns, u32 some) const {
    const auto of_columns = [&](const double* from) {
      return add_up_columns<kCount>(columns, some, [=](u32 column) { return load_doubles(from + column); });
    };
    const auto of_rows = [&](const Plane& of) {
      return add_up_columns<kCount>(columns, some, [&](u32 column) {
        Vector<double> sum = {};
        for (u32 row = rows; row-- != 0;) sum += of.error(row, column);
        return sum;
      });
    };
    const double* const sums = column_sums_.row(z, 0);
    PairTotals found;
    found.heads = rows == own_rows() ? of_columns(sums) : of_rows(plane(z));
    found.tails = axis == kX   ? of_columns(sums + lag)
                  : axis == kZ ? of_columns(column_sums_.row(z + lag, 0))
                  : axis == kY ? of_columns(tail_sums_ + lag * u64{e_.stride})
                               : of_rows(tail);
    found.pairs = {static_cast<double>(u64{rows} * columns), static_cast<double>(u64{rows} * some)};
    return found;
  }

  template <u32 kCount>
  PairTotals add_up_some(const Plane& tail, u32 rows, u32 own, u32 columns, u32 some, u64 z) const {
    const Plane head = plane(z);
    return add_up_valid<kCount>(rows, own, columns, some,
                                [&](u32 row, u32 column, Vector<double>& a, Vector<double>& b) {
                                  a = head.error(row, column);
                                  b = tail.error(row, column);
                                  return head.validity(row, column) * tail.validity(row, column);
                                });
  }

  void add_lags(u64 w, u64 z, assess::StencilSums& sums) const {
    Total products[4][H5L_ASSESS_MAX_LAGS];
    if (plan_.present[kZ]) add_products<kSumLanes>(kZ, w, z, products[kZ]);
    if (plan_.present[kY]) add_products<kSumLanes>(kY, w, z, products[kY]);
    add_products<kLanesX>(kX, w, z, products[kX]);
    if (plan_.present[kY] && has_plain_pairs(kY, 1, z)) add_up_tails(z);
    for (u32 lag = 1; lag <= plan_.lags; ++lag) add_lag(w, z, lag, products, sums);
  }

  // Adds the pairs of the cell's points with those at distance `lag` along each axis, and with the mean of these over
  // all axes (the paper's equation 2) for points that have all of them.
  void add_lag(u64 w, u64 z, u32 lag, Total (&products)[4][H5L_ASSESS_MAX_LAGS], assess::StencilSums& sums) const {
    const u32 along_x = columns_with(lag);
    Plane tails[4];
    u32 axes = 0;
    u32 common_rows = own_rows();
    bool is_whole = true;  // all points except those in the last columns have all neighbours, and these are valid
    PairTotals all = {};
    for (u32 axis = kW; axis <= kX; ++axis) {
      if (!plan_.present[axis]) continue;
      const u32 rows = rows_with(axis, lag, w, z);
      const u32 columns = axis == kX ? along_x : own_columns();
      common_rows = rows < common_rows ? rows : common_rows;
      is_whole = is_whole && rows == own_rows();
      if (rows == 0) continue;
      Plane& tail = tails[axes++];
      tail = tail_of(axis, lag, w, z);
      PairTotals found;
      if (has_plain_pairs(axis, lag, z)) {
        if (axis == kW) add_up_products<kSumLanes, 1>(plane(z), &tail, rows, columns, &along_x, &products[kW][lag - 1]);
        found = axis == kX ? add_up_plain<kLanesX>(axis, lag, z, tail, rows, columns, along_x)
                           : add_up_plain<kSumLanes>(axis, lag, z, tail, rows, columns, along_x);
        found.products = products[axis][lag - 1];
        if (axis == kX) found.products.all = found.products.some;
      } else {
        const u32 own = axis != kY ? rows : own_rows() > lag ? own_rows() - lag : 0;
        found = axis == kX ? add_up_some<kLanesX>(tail, rows, own, columns, along_x, z)
                           : add_up_some<kSumLanes>(tail, rows, own, columns, along_x, z);
      }
      sums.lag_products[axis][lag - 1] = found.products.all;
      sums.lag_sums[axis][lag - 1] = found.heads.all + found.tails.all;
      sums.lag_pairs[axis][lag - 1] = found.pairs.all;
      is_whole = is_whole && found.pairs.all == static_cast<double>(u64{rows} * columns);
      const bool is_first = axes == 1;
      all.products.some = is_first ? found.products.some : all.products.some + found.products.some;
      all.tails.some = is_first ? found.tails.some : all.tails.some + found.tails.some;
      all.heads.some = found.heads.some;
      all.pairs.some = found.pairs.some;
    }
    const double inverse = 1.0 / plan_.rank;
    double& mean_products = sums.lag_products[kLagAxes - 1][lag - 1];
    double& both = sums.lag_sums[kLagAxes - 1][lag - 1];
    double& pairs = sums.lag_pairs[kLagAxes - 1][lag - 1];
    if (is_whole) {
      mean_products = all.products.some * inverse;
      both = all.heads.some + all.tails.some * inverse;
      pairs = all.pairs.some;
      return;
    }
    if (common_rows == 0) return;
    const Plane head = plane(z);
    const bool masked = !rules_.all_valid;
    const auto mean_of = [&](u32 row, u32 column, Vector<double>& error, Vector<double>& mean) {
      Vector<double> valid = Vector<double>{} + 1.0;
      mean = tails[0].error(row, column);
      for (u32 a = 1; a < axes; ++a) mean += tails[a].error(row, column);
      if (masked) {
        valid = head.validity(row, column);
        for (u32 a = 0; a < axes; ++a) valid *= tails[a].validity(row, column);
      }
      error = head.error(row, column);
      mean *= inverse;
      return valid;
    };
    const PairTotals mean = add_up_valid<kSumLanes>(common_rows, common_rows, along_x, along_x, mean_of);
    mean_products = mean.products.all;
    both = mean.heads.all + mean.tails.all;
    pairs = mean.pairs.all;
  }

  // Adds the stencils whose lowest corner is owned; their centre is one point further along each axis.
  void add_cell_stencils(u64 w, u64 z, StencilCell& cell) const {
    CellPoints points = {};
    points.stride = static_cast<i64>(e_.stride);
    points.rows = rows_with(kY, plan_.present[kY] ? 2 : 0, w, z);
    points.columns = columns_with(2);
    points.all_valid = rules_.all_valid;
    if ((plan_.present[kW] && w + 2 >= plan_.shape[kW]) || points.rows == 0 || points.columns == 0) return;
    const i64 to_centre = (plan_.present[kY] ? points.stride : 0) + 1;
    const auto of_ring = [&](u64 plane) {
      return Points{x_.row(plane, 0), raw_e_.row(plane, 0), valid_.row(plane, 0)} + to_centre;
    };
    const auto of_far = [&](u32 i, u64 other_w, u64 plane) {
      const Row& far = far_[i];
      for (u32 y = 0; y < points.rows + 2; ++y) {
        const u64 by = y * u64{e_.stride};
        read(other_w, plane, y, {far.x + by, far.e + by, far.valid + by});
      }
      return Points{far.x, far.e, far.valid} + to_centre;
    };
    if (plan_.present[kW]) {
      points.centre = of_far(0, w + 1, z + 1);
      points.before[kZ] = of_far(1, w + 1, z);
      points.after[kZ] = of_far(2, w + 1, z + 2);
      points.before[kW] = of_ring(z + 1);
      points.after[kW] = of_far(3, w + 2, z + 1);
    } else if (plan_.present[kZ]) {
      points.centre = of_ring(z + 1);
      points.before[kZ] = of_ring(z);
      points.after[kZ] = of_ring(z + 2);
    } else {
      points.centre = of_ring(z);
    }
    if (value_bytes_ == sizeof(float) && plan_.squares_fit) {
      add_stencils_of<true>(points, cell);
    } else {
      add_stencils_of<false>(points, cell);
    }
  }

  template <bool kFits>
  void add_stencils_of(const CellPoints& points, StencilCell& cell) const {
    switch (plan_.rank) {
      case 1:
        return add_stencils<kX, kFits>(points, plan_.finer, cell);
      case 2:
        return add_stencils<kY, kFits>(points, plan_.finer, cell);
      case 3:
        return add_stencils<kZ, kFits>(points, plan_.finer, cell);
      default:
        return add_stencils<kW, kFits>(points, plan_.finer, cell);
    }
  }

  u32 value_bytes_;
  const View& view_;
  const Rules& rules_;
  const FieldPlan& plan_;
  const Column& column_;
  u32 rows_, columns_;
  Ring x_, raw_e_;       // for stencils
  Ring e_, valid_;       // errors less their pivot, for lags, and validity
  Row far_[kFarPlanes];  // planes of another w, for stencils
  double* spare_x_;
  Ring column_sums_;                        // over a cell's rows, if all points of the plane are valid
  double* tail_sums_;                       // over the cell's tails along y, for each lag; row 0 is temporary
  bool is_plain_[H5L_ASSESS_MAX_LAGS + 1];  // whether all points are valid, for each plane of the ring
  double* tail_e_;
  double* tail_valid_;
};

}  // namespace

bool stencils(u32 value_bytes, const View& view, const Rules& rules, const FieldPlan& plan, const Column& column,
              Scratch& scratch, StencilCell* cells) {
  double* const memory = reserve(scratch, Sweep::memory_doubles(plan, column));
  if (memory == nullptr) return false;
  Sweep(value_bytes, view, rules, plan, column, memory).run(cells);
  return true;
}

}  // namespace h5lossy::H5L_TARGET
