// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Gradient, Laplacian and autocorrelation (pattern II) in one walk through a column of cells: planes of errors stay in a
// ring while the column is climbed, so each value is read and converted about once.

#include <math.h>
#include <stdlib.h>

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

constexpr u32 kMaxLags = H5L_ASSESS_MAX_LAGS;
enum Axis : u32 { kW, kZ, kY, kX };

// Sums over pairs of one lag.
struct PairSums {
  Lanes products, sums, pairs;
};

// All sums of a cell, in lanes.
struct CellLanes {
  Lanes slope_error[4], gradient_error, laplacian, laplacian_error, error, interior;
  PairSums lag[kLagAxes][kMaxLags];
  u64 plain_interior;
  u64 plain_pairs[kLagAxes][kMaxLags];
};

// Rows for one row of stencils, each in whole groups of lanes.
struct StencilRows {
  alignas(64) double slope[kLineColumns], slope_error[kLineColumns], length[kLineColumns], length_y[kLineColumns],
      along[kLineColumns], bend[kLineColumns], bend_error[kLineColumns], valid[kLineColumns];
};

// A ring of planes of one kind.
struct Ring {
  double* values;
  u32 planes, rows, stride;

  [[nodiscard]] double* row(u64 plane, u64 row) const {
    return values + ((plane % planes) * rows + row) * static_cast<u64>(stride);
  }
};

// The pairs (a[i], b[i]) for i below `count`; what is behind it must not count.
void add_pairs(const double* a, const double* b, u32 count, PairSums& sums, u64& pairs) {
  pairs += count;
  const u32 whole = count / kSumLanes * kSumLanes;
  add_lanes<2>(whole, &sums.products, [=](u32 i, Vector<double>* terms) {
    const Vector<double> head = load_doubles(a + i);
    const Vector<double> tail = load_doubles(b + i);
    terms[0] = head * tail;
    terms[1] = head + tail;
  });
  if (whole == count) return;
  alignas(64) double rest[2][kSumLanes] = {};
  for (u32 i = 0; i < count - whole; ++i) {
    rest[0][i] = a[whole + i];
    rest[1][i] = b[whole + i];
  }
  add_lanes<2>(kSumLanes, &sums.products, [&](u32 i, Vector<double>* terms) {
    const Vector<double> head = load_doubles(rest[0] + i);
    const Vector<double> tail = load_doubles(rest[1] + i);
    terms[0] = head * tail;
    terms[1] = head + tail;
  });
}

// The same where some points do not count; their errors are 0.
void add_valid_pairs(const double* a, const double* b, const double* valid_a, const double* valid_b, u32 count,
                     PairSums& sums) {
  alignas(64) double rest[4][kSumLanes] = {};
  const auto add = [&sums](u32 n, const double* x, const double* y, const double* of_x, const double* of_y) {
    add_lanes<3>(n, &sums.products, [=](u32 i, Vector<double>* terms) {
      const Vector<double> head = load_doubles(x + i);
      const Vector<double> tail = load_doubles(y + i);
      const Vector<double> has_head = load_doubles(of_x + i);
      const Vector<double> has_tail = load_doubles(of_y + i);
      terms[0] = head * tail;
      terms[1] = head * has_tail + tail * has_head;
      terms[2] = has_head * has_tail;
    });
  };
  const u32 whole = count / kSumLanes * kSumLanes;
  add(whole, a, b, valid_a, valid_b);
  if (whole == count) return;
  for (u32 i = 0; i < count - whole; ++i) {
    rest[0][i] = a[whole + i];
    rest[1][i] = b[whole + i];
    rest[2][i] = valid_a[whole + i];
    rest[3][i] = valid_b[whole + i];
  }
  add(kSumLanes, rest[0], rest[1], rest[2], rest[3]);
}

// A row of points: original less nothing, error less its pivot, and validity.
struct Points {
  const double* x;
  const double* e;
  const double* valid;
};

Points operator+(const Points& row, u32 columns) { return {row.x + columns, row.e + columns, row.valid + columns}; }

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
    const u64 ring = u64{planes} * rows_ * stride;
    x_ = {take(ring), planes, rows_, stride};
    e_ = {take(ring), planes, rows_, stride};
    valid_ = {take(ring), planes, rows_, stride};
    for (Row& row : far_) row = {take(stride), take(stride), take(stride)};
    for (double*& row : spare_) row = take(stride);
    lanes_ = reinterpret_cast<CellLanes*>(take(sizeof(CellLanes) / sizeof(double)));
    stencil_rows_ = reinterpret_cast<StencilRows*>(take(sizeof(StencilRows) / sizeof(double)));
  }

  // All in whole cache lines.
  static u64 memory_doubles(const FieldPlan& plan, const Column& column) {
    const u64 stride = padded(extent(plan, column, kX));
    const u64 rows = 3 * (u64{ring_planes(plan)} * extent(plan, column, kY) + kFarRows) + kSpareRows;
    return rows * stride + (sizeof(CellLanes) + sizeof(StencilRows)) / sizeof(double);
  }

  void climb(StencilCell* cells) {
    for (u64 w = column_.first[kW]; w < column_.end[kW]; ++w) {
      u64 loaded = column_.first[kZ];
      for (u64 z = column_.first[kZ]; z < column_.end[kZ]; ++z) {
        for (; loaded < z + e_.planes && loaded < plan_.shape[kZ]; ++loaded) load_plane(w, loaded);
        memset(static_cast<void*>(lanes_), 0, sizeof *lanes_);
        StencilCell& cell = *cells++;
        cell.extrema = {};
        cell.extrema.gradient_min = HUGE_VAL;
        if (plan_.lags != 0) add_lags(w, z);
        if (plan_.stencils) add_stencils(w, z, cell.extrema);
        collect(cell.sums);
      }
    }
  }

 private:
  static constexpr u32 kFarRows = 8;
  static constexpr u32 kSpareRows = 3;

  static u32 reach(const FieldPlan& plan) { return plan.stencils && plan.lags < 2 ? 2 : plan.lags; }
  static u32 ring_planes(const FieldPlan& plan) { return plan.present[kZ] ? reach(plan) + 1 : 1; }

  // Of what is read along an axis.
  static u32 extent(const FieldPlan& plan, const Column& column, u32 axis) {
    const u64 end = column.end[axis] + (plan.present[axis] ? reach(plan) : 0);
    return static_cast<u32>((end < plan.shape[axis] ? end : plan.shape[axis]) - column.first[axis]);
  }

  void read(u64 w, u64 z, u32 y, const Row& row) const {
    const u64 at[4] = {w, z, column_.first[kY] + y, column_.first[kX]};
    read_points<T>(view_, rules_, at, columns_, row);
    const double pivot = rules_.pivot_e;
    if (rules_.all_valid) {
      for (u32 i = 0; i < columns_; ++i) row.e[i] -= pivot;
    } else {
      for (u32 i = 0; i < columns_; ++i) row.e[i] -= pivot * row.valid[i];
    }
  }

  void load_plane(u64 w, u64 z) {
    ring_w_ = w;
    for (u32 y = 0; y < rows_; ++y) read(w, z, y, {x_.row(z, y), e_.row(z, y), valid_.row(z, y)});
  }

  // A row of the ring; one of another w is read anew, into far row number `far`.
  Points points(u64 w, u64 z, u32 y, u32 far) const {
    if (w == ring_w_) return {x_.row(z, y), e_.row(z, y), valid_.row(z, y)};
    read(w, z, y, far_[far]);
    return {far_[far].x, far_[far].e, far_[far].valid};
  }

  [[nodiscard]] u32 own_rows() const { return static_cast<u32>(column_.end[kY] - column_.first[kY]); }
  [[nodiscard]] u32 own_columns() const { return static_cast<u32>(column_.end[kX] - column_.first[kX]); }

  // How many of the owned points of a row have one `distance` further along x.
  [[nodiscard]] u32 columns_with(u32 distance) const {
    const u32 there = columns_ > distance ? columns_ - distance : 0;
    return there < own_columns() ? there : own_columns();
  }

  void add_pair(u32 axis, u32 lag, const Points& head, const Points& tail, u32 count) const {
    PairSums& sums = lanes_->lag[axis][lag - 1];
    if (rules_.all_valid) {
      add_pairs(head.e, tail.e, count, sums, lanes_->plain_pairs[axis][lag - 1]);
    } else {
      add_valid_pairs(head.e, tail.e, head.valid, tail.valid, count, sums);
    }
  }

  void add_lags(u64 w, u64 z) const {
    for (u32 y = 0; y < own_rows(); ++y) {
      for (u32 lag = 1; lag <= plan_.lags; ++lag) add_lag(w, z, y, lag);
    }
  }

  // The points of one row with those that are `lag` further along each axis.
  void add_lag(u64 w, u64 z, u32 y, u32 lag) const {
    const Points head = points(w, z, y, 0);
    Points tails[4];
    u32 axes = 0;
    u32 found = 0;
    const auto take = [&](u32 axis, const Points& tail, u32 count) {
      tails[found++] = tail;
      add_pair(axis, lag, head, tail, count);
    };
    for (u32 axis = kW; axis <= kX; ++axis) axes += plan_.present[axis] ? 1 : 0;
    if (plan_.present[kW] && w + lag < plan_.shape[kW]) take(kW, points(w + lag, z, y, 1), own_columns());
    if (plan_.present[kZ] && z + lag < plan_.shape[kZ]) take(kZ, points(w, z + lag, y, 0), own_columns());
    if (plan_.present[kY] && y + lag < rows_) take(kY, points(w, z, y + lag, 0), own_columns());
    const u32 count = columns_with(lag);
    if (count != 0) take(kX, head + lag, count);
    if (found == axes && count != 0) add_mean_of_axes(lag, head, tails, axes, count);
  }

  // The paper's equation 2: a point with the mean of its neighbours, where it has all of them.
  void add_mean_of_axes(u32 lag, const Points& head, const Points* tails, u32 axes, u32 count) const {
    double* const mean = spare_[0];
    for (u32 i = 0; i < count; ++i) mean[i] = tails[0].e[i];
    for (u32 a = 1; a < axes; ++a) {
      for (u32 i = 0; i < count; ++i) mean[i] += tails[a].e[i];
    }
    const double inverse = 1.0 / axes;
    for (u32 i = 0; i < count; ++i) mean[i] *= inverse;
    if (rules_.all_valid) {
      add_pair(kLagAxes - 1, lag, head, {nullptr, mean, nullptr}, count);
      return;
    }
    // A point without all neighbours has no error and no weight.
    double* const weight = spare_[1];
    double* const error = spare_[2];
    for (u32 i = 0; i < count; ++i) weight[i] = head.valid[i];
    for (u32 a = 0; a < axes; ++a) {
      for (u32 i = 0; i < count; ++i) weight[i] *= tails[a].valid[i];
    }
    for (u32 i = 0; i < count; ++i) {
      error[i] = head.e[i] * weight[i];
      mean[i] *= weight[i];
    }
    add_pair(kLagAxes - 1, lag, {nullptr, error, weight}, {nullptr, mean, weight}, count);
  }

  // Stencils whose lowest corner is owned: their centre is one further along each axis.
  void add_stencils(u64 w, u64 z, assess::StencilExtrema& extrema) const {
    if (plan_.present[kW] && w + 2 >= plan_.shape[kW]) return;
    if (plan_.present[kZ] && z + 2 >= plan_.shape[kZ]) return;
    const u32 count = columns_with(2);
    if (count == 0) return;
    for (u32 y = 0; y < own_rows() && !(plan_.present[kY] && y + 2 >= rows_); ++y) {
      const u64 mw = w + (plan_.present[kW] ? 1 : 0);
      const u64 mz = z + (plan_.present[kZ] ? 1 : 0);
      const u32 my = y + (plan_.present[kY] ? 1 : 0);
      const Points centre = points(mw, mz, my, 0);
      Points before[4];
      Points after[4];
      before[kW] = plan_.present[kW] ? points(w, mz, my, 1) : centre;
      after[kW] = plan_.present[kW] ? points(w + 2, mz, my, 2) : centre;
      before[kZ] = plan_.present[kZ] ? points(mw, z, my, 3) : centre;
      after[kZ] = plan_.present[kZ] ? points(mw, z + 2, my, 4) : centre;
      before[kY] = plan_.present[kY] ? points(mw, mz, y, 5) : centre;
      after[kY] = plan_.present[kY] ? points(mw, mz, y + 2, 6) : centre;
      before[kX] = centre;
      after[kX] = centre + 2;
      for (u32 axis = kW; axis < kX; ++axis) {
        before[axis] = before[axis] + 1;
        after[axis] = after[axis] + 1;
      }
      add_stencil_row(centre + 1, before, after, count, extrema);
    }
  }

  void add_stencil_row(const Points& centre, const Points* before, const Points* after, u32 count,
                       assess::StencilExtrema& extrema) const {
    StencilRows& r = *stencil_rows_;
    CellLanes& sums = *lanes_;
    const u32 n = padded(count);
    const bool masked = !rules_.all_valid;
    for (u32 i = 0; i < n; ++i) {
      r.length[i] = r.length_y[i] = r.along[i] = r.bend[i] = r.bend_error[i] = 0;
      r.valid[i] = i >= count ? 0.0 : masked ? centre.valid[i] : 1.0;
    }
    for (u32 axis = kW; axis <= kX && masked; ++axis) {
      if (!plan_.present[axis]) continue;
      for (u32 i = 0; i < count; ++i) r.valid[i] *= before[axis].valid[i] * after[axis].valid[i];
    }
    for (u32 axis = kW; axis <= kX; ++axis) {
      if (!plan_.present[axis]) continue;
      const double per_step = 1.0 / (2 * plan_.spacing[axis]);
      const double per_square = 1.0 / (plan_.spacing[axis] * plan_.spacing[axis]);
      const Points& b = before[axis];
      const Points& a = after[axis];
      for (u32 i = 0; i < count; ++i) {
        const double slope = (a.x[i] - b.x[i]) * per_step * r.valid[i];
        const double off = (a.e[i] - b.e[i]) * per_step * r.valid[i];
        r.slope[i] = slope;
        r.slope_error[i] = off;
        r.length[i] += slope * slope;
        r.length_y[i] += (slope + off) * (slope + off);
        r.along[i] += off * (slope + slope + off);
        r.bend[i] += (a.x[i] - (centre.x[i] + centre.x[i]) + b.x[i]) * per_square * r.valid[i];
        r.bend_error[i] += (a.e[i] - (centre.e[i] + centre.e[i]) + b.e[i]) * per_square * r.valid[i];
      }
      for (u32 i = count; i < n; ++i) r.slope[i] = r.slope_error[i] = 0;
      add_squares(r.slope_error, n, sums.slope_error[axis]);
      extrema.slope[axis] = largest_magnitude(r.slope, n, extrema.slope[axis]);
      extrema.slope_error[axis] = largest_magnitude(r.slope_error, n, extrema.slope_error[axis]);
    }
    // The difference of two lengths without cancellation.
    for (u32 i = 0; i < n; ++i) {
      const double length = sqrt(r.length[i]);
      const double both = length + sqrt(r.length_y[i]);
      r.length[i] = length;
      r.along[i] = both > 0 ? r.along[i] / both : 0.0;
      r.slope[i] = r.valid[i] != 0 ? length : HUGE_VAL;
    }
    add_squares(r.along, n, sums.gradient_error);
    add_squares(r.bend, n, sums.laplacian);
    add_squares(r.bend_error, n, sums.laplacian_error);
    extrema.gradient_max = largest_magnitude(r.length, n, extrema.gradient_max);
    extrema.gradient_min = smallest(r.slope, n, extrema.gradient_min);
    extrema.gradient_error = largest_magnitude(r.along, n, extrema.gradient_error);
    extrema.laplacian_error = largest_magnitude(r.bend_error, n, extrema.laplacian_error);
    for (u32 i = 0; i < n; ++i) r.slope[i] = 0;
    for (u32 i = 0; i < count; ++i) r.slope[i] = (centre.e[i] + rules_.pivot_e) * r.valid[i];
    add_squares(r.slope, n, sums.error);
    if (masked) {
      add_row(r.valid, n, sums.interior);
    } else {
      sums.plain_interior += count;
    }
  }

  void collect(assess::StencilSums& sums) const {
    const CellLanes& lanes = *lanes_;
    sums.interior = total(lanes.interior) + static_cast<double>(lanes.plain_interior);
    for (u32 axis = kW; axis <= kX; ++axis) sums.slope_error[axis] = total(lanes.slope_error[axis]);
    sums.gradient_error = total(lanes.gradient_error);
    sums.laplacian = total(lanes.laplacian);
    sums.laplacian_error = total(lanes.laplacian_error);
    sums.error = total(lanes.error);
    for (u32 axis = 0; axis < kLagAxes; ++axis) {
      for (u32 lag = 0; lag < kMaxLags; ++lag) {
        const PairSums& pair = lanes.lag[axis][lag];
        const bool any = lag < plan_.lags && (axis == kLagAxes - 1 || plan_.present[axis]);
        sums.lag_products[axis][lag] = any ? total(pair.products) : 0;
        sums.lag_sums[axis][lag] = any ? total(pair.sums) : 0;
        sums.lag_pairs[axis][lag] = any ? total(pair.pairs) + static_cast<double>(lanes.plain_pairs[axis][lag]) : 0;
      }
    }
  }

  const View& view_;
  const Rules& rules_;
  const FieldPlan& plan_;
  const Column& column_;
  u32 rows_, columns_;
  u64 ring_w_ = 0;
  Ring x_, e_, valid_;
  Row far_[kFarRows];
  double* spare_[kSpareRows];
  CellLanes* lanes_;
  StencilRows* stencil_rows_;
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
