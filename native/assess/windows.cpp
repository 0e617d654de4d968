// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Structural similarity in sliding windows (pattern III). Sums over a window are built axis by axis: rows, then columns,
// then planes from a ring, each as the same tree of `window` terms, so that no sum drifts and none depends on where a
// piece begins. The work for a window does not grow with its side squared or cubed.

#include <stdlib.h>

#include "assess/kernels.h"
#include "assess/lanes.h"

namespace h5lossy::H5L_TARGET {
namespace {

using assess::Column;
using assess::FieldPlan;
using assess::Rules;
using assess::View;
using assess::WindowCell;

constexpr u32 kMaxWindow = H5L_ASSESS_MAX_WINDOW;
enum Axis : u32 { kW, kZ, kY, kX };

// What is summed, of s = x + y - 2 pivot and d = y - x: s, d, their squares, and the number of valid points.
constexpr u32 kQuantities = 5;

constexpr u32 lower_power(u32 n) {
  u32 power = 1;
  while (2 * power < n) power *= 2;
  return power;
}

// The sum of kTerms rows at one place, as a tree: the larger power of two first.
template <u32 kTerms, u32 kFrom = 0, class Rows>
[[gnu::always_inline]] inline Vector<double> tree(const Rows& rows, u32 i) {
  if constexpr (kTerms == 1) {
    return load_doubles(rows.row[kFrom] + i);
  } else {
    constexpr u32 kFirst = lower_power(kTerms);
    return tree<kFirst, kFrom>(rows, i) + tree<kTerms - kFirst, kFrom + kFirst>(rows, i);
  }
}

template <u32 kTerms>
void add_rows(const double* const* rows, u32 count, double* to) {
  struct {
    const double* row[kTerms];
  } own;  // in registers: a store may not change these
#pragma GCC unroll 16
  for (u32 k = 0; k < kTerms; ++k) own.row[k] = rows[k];
  for (u32 i = 0; i < count; i += kDoubles) store_doubles(to + i, tree<kTerms>(own, i));
}

using AddRows = void (*)(const double* const*, u32, double*);

// `count` is rounded up to whole vectors, and so many are read behind the rows.
constexpr AddRows kAddRows[kMaxWindow + 1] = {
    nullptr,      add_rows<1>,  add_rows<2>,  add_rows<3>,  add_rows<4>,  add_rows<5>,
    add_rows<6>,  add_rows<7>,  add_rows<8>,  add_rows<9>,  add_rows<10>, add_rows<11>,
    add_rows<12>, add_rows<13>, add_rows<14>, add_rows<15>, add_rows<16>,
};

template <class T>
class Climber {
 public:
  Climber(const View& view, const Rules& rules, const FieldPlan& plan, const Column& column, double* memory)
      : view_(view),
        rules_(rules),
        plan_(plan),
        column_(column),
        columns_(own(column, kX)),
        rows_(own(column, kY)),
        stride_(padded(columns_)),
        plane_(u64{quantities_of(rules)} * rows_ * stride_),
        volumes_(own(column, kZ)) {
    const u32 wide = wide_stride(plan, column);
    const auto take = [&memory](u64 count) {
      double* const taken = memory;
      memory += count;
      return taken;
    };
    ring_ = take(plan.window[kZ] * plane_);
    outer_ = plan.window[kW] == 1 ? nullptr : take(plan.window[kW] * volumes_ * plane_);
    row_sums_ = take(u64{kQuantities} * (rows_ + plan.window[kY] - 1) * stride_);
    for (double*& row : wide_) row = take(wide);
    for (double*& row : sums_) row = take(stride_);
    lost_ = take(stride_);
    valid_ = take(wide);
    quantities_ = quantities_of(rules);
  }

  static u64 memory_doubles(const Rules& rules, const FieldPlan& plan, const Column& column) {
    const u64 stride = padded(own(column, kX));
    const u64 rows = own(column, kY);
    const u64 plane = quantities_of(rules) * rows * stride;
    const u64 outer = plan.window[kW] == 1 ? 0 : plan.window[kW] * own(column, kZ) * plane;
    return plan.window[kZ] * plane + outer + kQuantities * (rows + plan.window[kY] - 1) * stride +
           (kQuantities + 1) * stride + (kQuantities + 1) * wide_stride(plan, column);
  }

  void climb(WindowCell* cells) {
    const u32 deep = plan_.window[kZ];
    const u32 outer = plan_.window[kW];
    for (u64 w = column_.first[kW]; w < column_.end[kW] + outer - 1; ++w) {
      for (u64 z = column_.first[kZ]; z < column_.end[kZ] + deep - 1; ++z) {
        add_plane(w, z);
        if (z + 1 < column_.first[kZ] + deep) continue;
        const u64 corner_z = z + 1 - deep;
        if (outer != 1) keep_volume(w, corner_z);
        if (w + 1 < column_.first[kW] + outer) continue;
        const u64 corner_w = w + 1 - outer;
        judge(corner_w, corner_z, cells[(corner_w - column_.first[kW]) * volumes_ + (corner_z - column_.first[kZ])]);
      }
    }
  }

 private:
  // Without points to leave out nothing has to be counted.
  static u32 quantities_of(const Rules& rules) { return rules.all_valid ? kQuantities - 1 : kQuantities; }
  static u32 own(const Column& column, u32 axis) { return static_cast<u32>(column.end[axis] - column.first[axis]); }
  static u32 wide_stride(const FieldPlan& plan, const Column& column) {
    return padded(padded(own(column, kX)) + plan.window[kX] - 1);
  }

  double* plane_row(double* plane, u32 quantity, u32 row) const {
    return plane + (u64{quantity} * rows_ + row) * stride_;
  }
  [[nodiscard]] double* ring_plane(u64 z) const { return ring_ + (z % plan_.window[kZ]) * plane_; }
  [[nodiscard]] double* volume(u64 w, u64 z) const {
    return outer_ + ((w % plan_.window[kW]) * volumes_ + (z - column_.first[kZ])) * plane_;
  }

  // Sums over y and x of the plane (w, z) go to the ring.
  void add_plane(u64 w, u64 z) {
    const u32 high = plan_.window[kY];
    const u32 wide = plan_.window[kX];
    const u32 read_rows = rows_ + high - 1;
    const u32 read_columns = columns_ + wide - 1;
    const auto row_sum = [&](u32 q, u32 y) { return row_sums_ + (u64{q} * read_rows + y) * stride_; };
    for (u32 y = 0; y < read_rows; ++y) {
      const u64 at[4] = {w, z, column_.first[kY] + y, column_.first[kX]};
      read_quantities(at, read_columns);
      for (u32 q = 0; q < quantities_; ++q) {
        const double* terms[kMaxWindow];
        for (u32 k = 0; k < wide; ++k) terms[k] = wide_[q] + k;
        kAddRows[wide](terms, columns_, row_sum(q, y));
      }
    }
    double* const plane = ring_plane(z);
    for (u32 q = 0; q < quantities_; ++q) {
      for (u32 y = 0; y < rows_; ++y) {
        const double* terms[kMaxWindow];
        for (u32 k = 0; k < high; ++k) terms[k] = row_sum(q, y + k);
        kAddRows[high](terms, columns_, plane_row(plane, q, y));
      }
    }
  }

  void read_quantities(const u64* at, u32 count) {
    double* const s = wide_[0];
    double* const d = wide_[1];
    double* const ss = wide_[2];
    double* const dd = wide_[3];
    read_points<T>(view_, rules_, at, count, {s, d, valid_});
    const double pivot = 2 * rules_.pivot_x;
    const u32 n = padded(count);  // whole vectors; what is behind the row is used by no window
    if (rules_.all_valid) {
      for (u32 i = 0; i < n; ++i) s[i] = s[i] + s[i] + d[i] - pivot;
    } else {
      for (u32 i = 0; i < n; ++i) s[i] = (s[i] + s[i] + d[i] - pivot) * valid_[i];
      memcpy(wide_[4], valid_, n * sizeof(double));
    }
    for (u32 i = 0; i < n; ++i) {
      ss[i] = s[i] * s[i];
      dd[i] = d[i] * d[i];
    }
  }

  // One row of sums over whole boxes in z, y and x.
  void add_up_ring(u64 z, u32 q, u32 y, double* to) const {
    const double* terms[kMaxWindow];
    for (u32 k = 0; k < plan_.window[kZ]; ++k) terms[k] = plane_row(ring_plane(z + k), q, y);
    kAddRows[plan_.window[kZ]](terms, columns_, to);
  }

  void keep_volume(u64 w, u64 z) const {
    for (u32 q = 0; q < quantities_; ++q) {
      for (u32 y = 0; y < rows_; ++y) add_up_ring(z, q, y, plane_row(volume(w, z), q, y));
    }
  }

  void judge(u64 w, u64 z, WindowCell& cell) {
    cell = {{0, 0}, -1, {0, 0, 0, 0}};
    const u32 step = plan_.step;
    if (w % step != 0 || z % step != 0) return;
    Lanes sum;
    u32 windows = 0;
    u64 counted = 0;
    for (u32 y = 0; y < rows_; ++y) {
      if ((column_.first[kY] + y) % step != 0) continue;
      for (u32 q = 0; q < quantities_; ++q) {
        if (outer_ == nullptr) {
          add_up_ring(z, q, y, sums_[q]);
        } else {
          const double* terms[kMaxWindow];
          for (u32 k = 0; k < plan_.window[kW]; ++k) terms[k] = plane_row(volume(w + k, z), q, y);
          kAddRows[plan_.window[kW]](terms, columns_, sums_[q]);
        }
      }
      windows = judge_row();
      counted += windows;
      find_worst(w, z, y, cell);
      add_row(lost_, stride_, sum);
    }
    cell.sums = {static_cast<double>(counted), total(sum)};
  }

  // 1 - SSIM of each window of a row, from s and d: with l and cs its two factors, 1 - l and 1 - cs come without
  // cancellation. Returns how many windows count.
  u32 judge_row() {
    double points = 1;
    for (const u32 side : plan_.window) points *= side;
    const double part = 1.0 / points;
    const double pivot = 2 * rules_.pivot_x;
    const double c1 = plan_.c1;
    const double c2 = plan_.c2;
    for (u32 i = 0; i < columns_; ++i) {
      const double mean_s = sums_[0][i] * part;
      const double mean_d = sums_[1][i] * part;
      const double spread_s = sums_[2][i] * part - mean_s * mean_s;
      const double spread_d = sums_[3][i] * part - mean_d * mean_d;
      const double var_s = spread_s > 0 ? spread_s : 0;
      const double var_d = spread_d > 0 ? spread_d : 0;
      const double whole = mean_s + pivot;
      const double a = mean_d * mean_d / ((whole * whole + mean_d * mean_d) * 0.5 + c1);
      const double b = var_d / ((var_s + var_d) * 0.5 + c2);
      lost_[i] = a + b - a * b;
    }
    for (u32 i = columns_; i < stride_; ++i) lost_[i] = -1.0;  // no window
    u32 windows = columns_;
    if (quantities_ == kQuantities || plan_.step != 1) {
      windows = 0;
      for (u32 i = 0; i < columns_; ++i) {
        const bool counts =
            (quantities_ != kQuantities || sums_[4][i] == points) && (column_.first[kX] + i) % plan_.step == 0;
        windows += counts ? 1 : 0;
        lost_[i] = counts ? lost_[i] : -1.0;
      }
    }
    return windows;
  }

  void find_worst(u64 w, u64 z, u32 y, WindowCell& cell) {
    const double most = largest(lost_, stride_, cell.worst);
    if (most > cell.worst) {
      u32 i = 0;
      while (lost_[i] != most) ++i;
      cell.worst = most;
      cell.at[kW] = w;
      cell.at[kZ] = z;
      cell.at[kY] = column_.first[kY] + y;
      cell.at[kX] = column_.first[kX] + i;
    }
    for (u32 i = 0; i < stride_; ++i) lost_[i] = lost_[i] < 0 ? 0 : lost_[i];
  }

  const View& view_;
  const Rules& rules_;
  const FieldPlan& plan_;
  const Column& column_;
  u32 columns_, rows_, stride_;
  u64 plane_;
  u64 volumes_;
  u32 quantities_;
  double* ring_;
  double* outer_;
  double* row_sums_;
  double* wide_[kQuantities];
  double* sums_[kQuantities];
  double* lost_;
  double* valid_;
};

template <class T>
bool climb(const View& view, const Rules& rules, const FieldPlan& plan, const Column& column, WindowCell* cells) {
  const u64 bytes = Climber<T>::memory_doubles(rules, plan, column) * sizeof(double);
  void* memory = nullptr;
  if (posix_memalign(&memory, 64, bytes) != 0) return false;
  memset(memory, 0, bytes);  // vectors read behind rows
  Climber<T>(view, rules, plan, column, static_cast<double*>(memory)).climb(cells);
  free(memory);
  return true;
}

}  // namespace

bool windows(u32 value_bytes, const View& view, const Rules& rules, const FieldPlan& plan, const Column& column,
             WindowCell* cells) {
  return value_bytes == 4 ? climb<float>(view, rules, plan, column, cells)
                          : climb<double>(view, rules, plan, column, cells);
}

}  // namespace h5lossy::H5L_TARGET
