// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Gradient, Laplacian and autocorrelation (pattern II) in one walk through a column of cells: planes of errors stay in a
// ring while the column is climbed, so each value is read and converted about once.

#include <math.h>
#include <stdlib.h>

#include "assess/derivatives.h"
#include "assess/kernels.h"
#include "assess/lanes.h"

namespace h5lossy::H5L_TARGET {
namespace {

using assess::Column;
using assess::FieldPlan;
using assess::kLagAxes;
using assess::kLineColumns;
using assess::Rules;
using assess::StencilCell;
using assess::View;

// A ring of planes of one kind.
struct Ring {
  double* values;
  u32 planes, rows, stride;

  [[nodiscard]] double* row(u64 plane, u64 row) const {
    return values + ((plane % planes) * rows + row) * static_cast<u64>(stride);
  }
};

// Sums of lags. Every one is over some points of a cell, rows and columns from its first ones on: each column adds up its rows
// in order; lane i of a quarter is the sum of its columns i and i + 32; the quarters' lanes are added up in order, and the lanes
// as a tree. So what a column comes to serves all lags that shift it, and planes and threads may share the work of a cell.
constexpr u32 kQuarter = 2 * kSumLanes;

// Of all columns, and of the first ones of them.
struct Total {
  double all, some;
};

// kSums totals of what of(row, column, terms) gives, vectors from a column on. It may be asked for columns behind the last
// one, in whole groups of lanes; these do not count, whatever they are.
template <u32 kSums, class Of>
inline void add_up(u32 rows, u32 columns, u32 some, Total (&totals)[kSums], Of of) {
  constexpr u32 kAtOnce = kSums == 1 ? (kGroup < 4 ? kGroup : 4) : kGroup < 2 ? kGroup : 2;
  Lanes all[kSums];
  Lanes part[kSums];
  for (u32 start = 0; start < columns; start += kQuarter) {
    for (u32 g = 0; g < kGroup; g += kAtOnce) {
      Vector<double> quarter[2][kSums][kAtOnce];
      const u32 halves = start + kSumLanes < columns ? 2 : 1;
      for (u32 half = 0; half < halves; ++half) {
        const u32 column = start + half * kSumLanes + g * kDoubles;
        Vector<double> sums[kSums][kAtOnce] = {};
        for (u32 row = 0; row < rows; ++row) {
#pragma GCC unroll 4
          for (u32 k = 0; k < kAtOnce; ++k) {
            Vector<double> terms[kSums];
            of(row, column + k * kDoubles, terms);
#pragma GCC unroll 4
            for (u32 s = 0; s < kSums; ++s) sums[s][k] += terms[s];
          }
        }
        memcpy(quarter[half], sums, sizeof sums);
      }
      for (u32 s = 0; s < kSums; ++s) {
        for (u32 k = 0; k < kAtOnce; ++k) {
          const u32 column = start + (g + k) * kDoubles;
          const auto add = [&](u32 count, Lanes& lanes) {
            Vector<double> sum = columns_below(count, column, quarter[0][s][k]);
            if (halves == 2) sum += columns_below(count, column + kSumLanes, quarter[1][s][k]);
            double* const lane = lanes.lane + (g + k) * kDoubles;
            store_doubles(lane, load_doubles(lane) + sum);
          };
          add(columns, all[s]);
          if (some != columns) add(some, part[s]);
        }
      }
    }
  }
  for (u32 s = 0; s < kSums; ++s) {
    totals[s].all = total(all[s]);
    totals[s].some = some == columns ? totals[s].all : total(part[s]);
  }
}

// The same of one number for each point.
template <class Of>
inline Total add_up(u32 rows, u32 columns, u32 some, Of of) {
  Total totals[1];
  add_up(rows, columns, some, totals, [&](u32 row, u32 column, Vector<double>* terms) { terms[0] = of(row, column); });
  return totals[0];
}

// Points of a plane: errors less their pivot, and validity.
struct Plane {
  const double* e;
  const double* valid;
  u64 stride;

  [[nodiscard]] Vector<double> error(u32 row, u32 column) const { return load_doubles(e + row * stride + column); }
  [[nodiscard]] Vector<double> validity(u32 row, u32 column) const {
    return load_doubles(valid + row * stride + column);
  }
  // As seen from a point further along.
  [[nodiscard]] Plane moved(u32 rows, u32 columns) const {
    const u64 by = rows * stride + columns;
    return {e + by, valid + by, stride};
  }
};

// Points and those that are a lag further along one axis. `some` are those of the columns that have one along the last axis.
struct PairTotals {
  Total products, heads, tails, pairs;
};

// Pairs of which some points do not count.
inline PairTotals add_up_valid(const Plane& head, const Plane& tail, u32 rows, u32 columns, u32 some) {
  Total totals[4];
  add_up(rows, columns, some, totals, [&](u32 row, u32 column, Vector<double>* terms) {
    const Vector<double> a = head.error(row, column);
    const Vector<double> b = tail.error(row, column);
    const Vector<double> both = head.validity(row, column) * tail.validity(row, column);
    const Vector<double> none = {};
    terms[0] = both != 0.0 ? a * b : none;
    terms[1] = both != 0.0 ? a : none;
    terms[2] = both != 0.0 ? b : none;
    terms[3] = both;
  });
  return {totals[0], totals[1], totals[2], totals[3]};
}

template <class T>
class Climber {
 public:
  Climber(const View& view, const Rules& rules, const FieldPlan& plan, const Column& column, double* memory)
      : view_(view),
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
    tail_e_ = take(far_plane_rows(plan, column) * u64{stride});
    tail_valid_ = take(far_plane_rows(plan, column) * u64{stride});
  }

  // All in whole cache lines.
  static u64 memory_doubles(const FieldPlan& plan, const Column& column) {
    const u64 stride = padded(extent(plan, column, kX));
    const u64 planes =
        2 * u64{stencil_planes(plan)} + 2 * u64{ring_planes(plan)} + (has_far_stencils(plan) ? 3 * u64{kFarPlanes} : 0);
    const u64 rows = planes * extent(plan, column, kY) + ring_planes(plan) + 2 * far_plane_rows(plan, column) + 1;
    return (rows + 1) * stride;  // tails are read in whole groups of lanes
  }

  void climb(StencilCell* cells) {
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

  static u32 reach(const FieldPlan& plan) { return plan.stencils && plan.lags < 2 ? 2 : plan.lags; }
  static u32 ring_planes(const FieldPlan& plan) { return plan.present[kZ] ? reach(plan) + 1 : 1; }
  static u32 stencil_planes(const FieldPlan& plan) {
    return !plan.stencils ? 0 : plan.present[kZ] ? kStencilPlanes : 1;
  }
  static bool has_far_stencils(const FieldPlan& plan) { return plan.present[kW] && plan.stencils; }

  // Of a plane of another w, whose points are tails.
  static u64 far_plane_rows(const FieldPlan& plan, const Column& column) {
    return plan.present[kW] && plan.lags != 0 ? column.end[kY] - column.first[kY] : 0;
  }

  // Of what is read along an axis.
  static u32 extent(const FieldPlan& plan, const Column& column, u32 axis) {
    const u64 end = column.end[axis] + (plan.present[axis] ? reach(plan) : 0);
    return static_cast<u32>((end < plan.shape[axis] ? end : plan.shape[axis]) - column.first[axis]);
  }

  void read(u64 w, u64 z, u32 y, const Row& row) const {
    const u64 at[4] = {w, z, column_.first[kY] + y, column_.first[kX]};
    read_points<T>(view_, rules_, at, columns_, row);
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
    for (u32 y = 0; y < own_rows(); ++y) {
      const double* const row = e_.row(z, y);
      for (u32 i = 0; i < columns_; ++i) sums[i] += row[i];
    }
  }

  [[nodiscard]] u32 own_rows() const { return static_cast<u32>(column_.end[kY] - column_.first[kY]); }
  [[nodiscard]] u32 own_columns() const { return static_cast<u32>(column_.end[kX] - column_.first[kX]); }

  // How many of the owned points of a row have one `distance` further along x.
  [[nodiscard]] u32 columns_with(u32 distance) const {
    const u32 there = columns_ > distance ? columns_ - distance : 0;
    return there < own_columns() ? there : own_columns();
  }

  // A plane of the ring.
  [[nodiscard]] Plane plane(u64 z) const { return {e_.row(z, 0), valid_.row(z, 0), e_.stride}; }

  // One of another w.
  Plane read_far_plane(u64 w, u64 z) const {
    for (u32 y = 0; y < own_rows(); ++y) {
      const Row row = {spare_x_, tail_e_ + y * u64{e_.stride}, tail_valid_ + y * u64{e_.stride}};
      read(w, z, y, row);
      take_off_pivot(row.e, row.valid, row.e);
    }
    return {tail_e_, tail_valid_, e_.stride};
  }

  // How many of the cell's rows have a point that is `lag` further along an axis but the last.
  [[nodiscard]] u32 rows_with(u32 axis, u32 lag, u64 w, u64 z) const {
    if (axis == kW && w + lag >= plan_.shape[kW]) return 0;
    if (axis == kZ && z + lag >= plan_.shape[kZ]) return 0;
    const u32 there = axis != kY ? rows_ : rows_ > lag ? rows_ - lag : 0;
    return there < own_rows() ? there : own_rows();
  }

  // Whether all points count of which pairs along an axis are made.
  [[nodiscard]] bool has_plain_pairs(u32 axis, u32 lag, u64 z) const {
    if (rules_.all_valid) return true;
    return axis != kW && is_plain_[z % e_.planes] && (axis != kZ || is_plain_[(z + lag) % e_.planes]);
  }

  // Pairs where all points count. What column sums tell is not added up again.
  PairTotals add_up_plain(u32 axis, u32 lag, u64 z, const Plane& tail, u32 rows, u32 columns, u32 some) const {
    const Plane head = plane(z);
    const double* const sums = column_sums_.row(z, 0);
    const auto of_columns = [&](const double* from) {
      return add_up(1, columns, some, [=](u32, u32 column) { return load_doubles(from + column); });
    };
    PairTotals found;
    found.products = add_up(rows, columns, some,
                            [&](u32 row, u32 column) { return head.error(row, column) * tail.error(row, column); });
    found.heads = rows == own_rows()
                      ? of_columns(sums)
                      : add_up(rows, columns, some, [&](u32 row, u32 column) { return head.error(row, column); });
    found.tails = axis == kX ? of_columns(sums + lag)
                  : axis == kZ
                      ? of_columns(column_sums_.row(z + lag, 0))
                      : add_up(rows, columns, some, [&](u32 row, u32 column) { return tail.error(row, column); });
    found.pairs = {static_cast<double>(u64{rows} * columns), static_cast<double>(u64{rows} * some)};
    return found;
  }

  void add_lags(u64 w, u64 z, assess::StencilSums& sums) const {
    for (u32 lag = 1; lag <= plan_.lags; ++lag) add_lag(w, z, lag, sums);
  }

  // The points of the cell with those that are `lag` further along each axis, and with the mean of these (the paper's
  // equation 2) where they have all of them.
  void add_lag(u64 w, u64 z, u32 lag, assess::StencilSums& sums) const {
    const Plane head = plane(z);
    const u32 along_x = columns_with(lag);
    Plane tails[4];
    u32 axes = 0;
    u32 common_rows = own_rows();
    bool is_whole = true;  // all but the last columns have all neighbours, and these count
    PairTotals all = {};
    for (u32 axis = kW; axis <= kX; ++axis) {
      if (!plan_.present[axis]) continue;
      const u32 rows = rows_with(axis, lag, w, z);
      const u32 columns = axis == kX ? along_x : own_columns();
      common_rows = rows < common_rows ? rows : common_rows;
      is_whole = is_whole && rows == own_rows();
      if (rows == 0) continue;
      Plane& tail = tails[axes++];
      tail = axis == kW   ? read_far_plane(w + lag, z)
             : axis == kZ ? plane(z + lag)
             : axis == kY ? head.moved(lag, 0)
                          : head.moved(0, lag);
      const PairTotals found = has_plain_pairs(axis, lag, z) ? add_up_plain(axis, lag, z, tail, rows, columns, along_x)
                                                             : add_up_valid(head, tail, rows, columns, along_x);
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
    double& products = sums.lag_products[kLagAxes - 1][lag - 1];
    double& both = sums.lag_sums[kLagAxes - 1][lag - 1];
    double& pairs = sums.lag_pairs[kLagAxes - 1][lag - 1];
    if (is_whole) {
      products = all.products.some * inverse;
      both = all.heads.some + all.tails.some * inverse;
      pairs = all.pairs.some;
      return;
    }
    if (common_rows == 0) return;
    Total totals[4];
    const bool masked = !rules_.all_valid;
    add_up(common_rows, along_x, along_x, totals, [&](u32 row, u32 column, Vector<double>* terms) {
      const Vector<double> none = {};
      Vector<double> valid = none + 1.0;
      Vector<double> mean = tails[0].error(row, column);
      for (u32 a = 1; a < axes; ++a) mean += tails[a].error(row, column);
      if (masked) {
        valid = head.validity(row, column);
        for (u32 a = 0; a < axes; ++a) valid *= tails[a].validity(row, column);
      }
      const Vector<double> error = head.error(row, column);
      mean *= inverse;
      terms[0] = valid != 0.0 ? error * mean : none;
      terms[1] = valid != 0.0 ? error : none;
      terms[2] = valid != 0.0 ? mean : none;
      terms[3] = valid;
    });
    products = totals[0].all;
    both = totals[1].all + totals[2].all;
    pairs = totals[3].all;
  }

  // Stencils whose lowest corner is owned: their centre is one further along each axis.
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
    if (sizeof(T) == sizeof(float) && plan_.squares_fit) {
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

  const View& view_;
  const Rules& rules_;
  const FieldPlan& plan_;
  const Column& column_;
  u32 rows_, columns_;
  Ring x_, raw_e_;       // of stencils
  Ring e_, valid_;       // errors less their pivot, of lags; and validity
  Row far_[kFarPlanes];  // planes of another w, of stencils
  double* spare_x_;
  Ring column_sums_;                        // of a cell's rows, where all points count
  bool is_plain_[H5L_ASSESS_MAX_LAGS + 1];  // whether they do in each plane of the ring
  double* tail_e_;
  double* tail_valid_;
};

template <class T>
bool climb(const View& view, const Rules& rules, const FieldPlan& plan, const Column& column, StencilCell* cells) {
  const u64 doubles = Climber<T>::memory_doubles(plan, column);
  void* memory = nullptr;
  if (posix_memalign(&memory, 64, doubles * sizeof(double)) != 0) return false;
  Climber<T>(view, rules, plan, column, static_cast<double*>(memory)).climb(cells);
  free(memory);
  return true;
}

}  // namespace

bool stencils(u32 value_bytes, const View& view, const Rules& rules, const FieldPlan& plan, const Column& column,
              StencilCell* cells) {
  return value_bytes == 4 ? climb<float>(view, rules, plan, column, cells)
                          : climb<double>(view, rules, plan, column, cells);
}

}  // namespace h5lossy::H5L_TARGET
