// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Structural similarity in sliding windows (pattern III).
//
// Sums over a window are computed axis by axis: columns, then rows of these, then planes from a ring, then volumes.
// - Along a row, positions 2 j + 1 and 2 j + 2 form a pair. A sum is the tree of the pairs inside the window, plus the
//   first and the last value if their partners are outside.
// - Along other axes, positions form blocks of the window's side, at multiples of it. A sum is a suffix of one block,
//   added from the block's end, plus a prefix of the next block, added from its beginning.
// Overlapping windows share these partial sums, so the work hardly depends on the side, rounding errors do not
// accumulate, and no sum depends on where a piece begins. Squares are added with one rounding.
//
// After the sums over rows, windows are stored in groups of two vectors: first those at even positions, then the
// others.

#include <string.h>

#include <utility>

#include "assess/cpu/lanes.h"
#include "assess/cpu/window_sums.h"
#include "assess/kernels.h"

namespace h5lossy::H5L_TARGET {
namespace {

template <class T>
class Sweep {
 public:
  Sweep(const View& view, const Rules& rules, const FieldPlan& plan, const Column& column, double* memory,
        double& worst)
      : view_(view),
        rules_(rules),
        plan_(plan),
        column_(column),
        cell_columns_(cell_columns(plan)),
        lead_(static_cast<u32>(column.first[kX] % cell_columns_)),
        columns_(all_columns(plan, column)),
        rows_(own(column, kY)),
        cells_across_((columns_ - 1) / cell_columns_ + 1),
        stride_(whole_groups(columns_)),
        plane_(plane_doubles(rules, plan, column)),
        volumes_(own(column, kZ)),
        worst_(worst) {
    const u32 wide = wide_stride(plan, column);
    const auto take = [&memory](u64 count) {
      double* const taken = memory;
      memory += count;
      return taken;
    };
    ring_ = take(ring_planes(plan) * plane_);
    outer_ = plan.window[kW] == 1 ? nullptr : take(plan.window[kW] * volumes_ * plane_);
    read_ = take(u64{kReadRows} * (rows_ + plan.window[kY] - 1) * wide);
    column_sums_ = take(u64{kQuantities} * plan.window[kY] * wide);
    for (u32 place = 0; place < plan.window[kZ]; ++place) {
      for (double*& row : sums_[place]) row = take(padded(cell_columns_));
    }
    there_ = take(cells_across_ * padded(cell_columns_));
    memset(there_, 0, cells_across_ * padded(cell_columns_) * sizeof(double));
    lost_ = take(padded(cell_columns_));
    wide_ = wide;
    quantities_ = quantities_of(rules);
    for (u32 i = lead_; i < columns_; ++i) {
      const u32 cell = i / cell_columns_;
      const bool counts = (column.first[kX] - lead_ + i) % plan.step == 0;
      there_[cell * padded(cell_columns_) + in_group(i % cell_columns_)] = counts ? 1 : 0;
    }
  }

  static u64 memory_doubles(const Rules& rules, const FieldPlan& plan, const Column& column) {
    const u64 cell = padded(cell_columns(plan));
    const u64 cells = cell * (all_columns(plan, column) / cell_columns(plan) + 2);
    const u64 rows = own(column, kY);
    const u64 plane = plane_doubles(rules, plan, column);
    const u64 outer = plan.window[kW] == 1 ? 0 : plan.window[kW] * own(column, kZ) * plane;
    return ring_planes(plan) * plane + outer + plan.window[kZ] * kQuantities * cell + cells +
           (kReadRows * (rows + plan.window[kY] - 1) + kQuantities * plan.window[kY]) * wide_stride(plan, column);
  }

  void run(WindowCell* cells) {
    const u32 deep = plan_.window[kZ];
    const u32 outer = plan_.window[kW];
    const u64 cells_of_plane =
        ((column_.end[kY] - 1) / kWindowRows - column_.first[kY] / kWindowRows + 1) * cells_across_;
    for (u64 w = column_.first[kW]; w < column_.end[kW] + outer - 1; ++w) {
      u64 added = column_.first[kZ];
      for (u64 z = column_.first[kZ]; z < column_.end[kZ];) {
        // The remaining planes of windows in the block.
        const u64 block = z / deep * deep;
        const u64 end = block + deep < column_.end[kZ] ? block + deep : column_.end[kZ];
        for (; added < end + deep - 1; ++added) add_plane(w, added);
        if (outer != 1) keep_volumes(w, z, end);
        if (w + 1 >= column_.first[kW] + outer) {
          const u64 corner_w = w + 1 - outer;
          const u64 plane = (corner_w - column_.first[kW]) * volumes_ + (z - column_.first[kZ]);
          compute_ssim(corner_w, z, end, cells + plane * cells_of_plane, cells_of_plane);
        }
        z = end;
      }
    }
  }

 private:
  static constexpr u32 kReadRows = 3;  // s, d and validity of each row of points

  // If all points are valid, they need not be counted.
  static u32 quantities_of(const Rules& rules) { return rules.all_valid ? kQuantities - 1 : kQuantities; }
  static u32 whole_groups(u32 count) { return (count + kWindowGroup - 1) / kWindowGroup * kWindowGroup; }
  static u32 own(const Column& column, u32 axis) { return static_cast<u32>(column.end[axis] - column.first[axis]); }
  static u32 cell_columns(const FieldPlan& plan) { return plan.rank == 1 ? kLineColumns : kWindowColumns; }

  // Rows begin at the start of a cell, so that pairs and cells do not depend on where a piece begins.
  static u32 all_columns(const FieldPlan& plan, const Column& column) {
    return own(column, kX) + static_cast<u32>(column.first[kX] % cell_columns(plan));
  }
  static u32 wide_stride(const FieldPlan& plan, const Column& column) {
    return padded(padded(all_columns(plan, column)) + plan.window[kX] - 1) + kReadAhead;
  }

  // Padded, because planes that are whole pages apart would compete for the same cache sets.
  static u64 plane_doubles(const Rules& rules, const FieldPlan& plan, const Column& column) {
    return u64{quantities_of(rules)} * own(column, kY) * whole_groups(all_columns(plan, column)) + 72;
  }

  static u32 ring_planes(const FieldPlan& plan) { return 2 * plan.window[kZ] - 1; }

  double* plane_row(double* plane, u32 quantity, u32 row) const {
    return plane + (u64{quantity} * rows_ + row) * stride_;
  }
  [[nodiscard]] double* ring_plane(u64 z) const { return ring_ + (z % ring_planes(plan_)) * plane_; }
  [[nodiscard]] double* volume(u64 w, u64 z) const {
    return outer_ + ((w % plan_.window[kW]) * volumes_ + (z - column_.first[kZ])) * plane_;
  }

  // Writes the sums over y and x of the plane (w, z) to the ring.
  void add_plane(u64 w, u64 z) {
    const u32 high = plan_.window[kY];
    const u32 read_rows = rows_ + high - 1;
    const bool swaps = rules_.original_big_endian || rules_.decoded_big_endian;
    const bool is_plain = rules_.all_valid && !swaps && plan_.unit == 1 && lead_ == 0;
    const auto column_sums = [&](u32 k, u32 q) { return column_sums_ + (u64{k} * kQuantities + q) * wide_; };
    // Rows of s, d and validity.
    const auto read_row = [&](u32 i, u32 y) { return read_ + (u64{i} * read_rows + y) * wide_; };
    for (u32 y = 0; y < read_rows && !is_plain; ++y) {
      const u64 at[4] = {w, z, column_.first[kY] + y, column_.first[kX]};
      read_points_of_row(at, columns_ - lead_ + plan_.window[kX] - 1,
                         {read_row(0, y) + lead_, read_row(1, y) + lead_, read_row(2, y) + lead_});
    }
    double* const plane = ring_plane(z);
    for (u32 y = 0; y < rows_;) {
      // The remaining rows of windows in the block.
      const auto first = static_cast<u32>((column_.first[kY] + y) % high);
      const u32 last = first + (rows_ - y) < high ? first + (rows_ - y) : high;
      if (is_plain) add_plain_rows(w, z, y, first, last);
      for (u32 q = 0; q < quantities_; ++q) {
        const auto row = [&](u32 k) { return read_row(q == 4 ? 2 : q % 2, y + k - first); };
        const auto to = [&](u32 k) { return column_sums(k, q); };
        const u32 count = columns_ + plan_.window[kX] - 1;
        if (!is_plain && (q == 2 || q == 3)) {
          add_up<true>(high, first, last, count, row, to);
        } else if (!is_plain) {
          add_up<false>(high, first, last, count, row, to);
        }
        for (u32 k = first; k < last; ++k) {
          kAddAlong.of[plan_.window[kX]](column_sums(k, q), columns_, plane_row(plane, q, y + k - first));
        }
      }
      y += last - first;
    }
  }

  void read_points_of_row(const u64* at, u32 count, Row row) {
    read_points<T>(view_, rules_, at, count, row);
    const double unit = sizeof(T) == 8 ? plan_.unit : 1.0;
    const double pivot = 2 * rules_.pivot_x * unit;
    const u32 n = padded(count);  // whole vectors; no window uses the padding
    for (u32 i = 0; i < n && sizeof(T) == 8; ++i) {
      row.x[i] *= unit;
      row.e[i] *= unit;
    }
    if (rules_.all_valid) {
      for (u32 i = 0; i < n; ++i) row.x[i] = row.x[i] + row.x[i] + row.e[i] - pivot;
    } else {
      for (u32 i = 0; i < n; ++i) row.x[i] = (row.x[i] + row.x[i] + row.e[i] - pivot) * row.valid[i];
    }
  }

  // Prefetches the same part of the row in the next plane.
  void prefetch(const u8* row, const i64* strides, u32 count) const {
    const i64 ahead = plan_.present[kZ] ? strides[kZ] : kRowsAhead * strides[kY];
    for (u32 byte = 0; byte < count * sizeof(T) + 63; byte += 64) __builtin_prefetch(row + ahead + byte);
  }

  // Sums over y directly from memory, for positions [first, last) of the block. Row y of the column is at position
  // `first`.
  void add_plain_rows(u64 w, u64 z, u32 y, u32 first, u32 last) const {
    const u32 side = plan_.window[kY];
    const u32 count = columns_ + plan_.window[kX] - 1;
    const u32 whole = count / kDoubles * kDoubles;
    const double pivot = 2 * rules_.pivot_x;
    PlainRow rows[2 * kMaxWindow - 1];
    PlainRow rests[2 * kMaxWindow - 1];
    u8 rest[2 * kMaxWindow - 1][2][kDoubles * sizeof(T)] = {};
    for (u32 k = first; k < last + side - 1; ++k) {
      const u64 at[4] = {w, z, column_.first[kY] + y + k - first, column_.first[kX]};
      rows[k] = {address(view_.original, view_.original_strides, at, view_.origin),
                 address(view_.decoded, view_.decoded_strides, at, view_.origin)};
      prefetch(rows[k].original, view_.original_strides, count);
      prefetch(rows[k].decoded, view_.decoded_strides, count);
      memcpy(rest[k][0], rows[k].original + whole * sizeof(T), (count - whole) * sizeof(T));
      memcpy(rest[k][1], rows[k].decoded + whole * sizeof(T), (count - whole) * sizeof(T));
      rests[k] = {rest[k][0], rest[k][1]};
    }
    double* to[kMaxWindow][4];
    double* rest_to[kMaxWindow][4];
    for (u32 k = first; k < last; ++k) {
      for (u32 q = 0; q < 4; ++q) {
        to[k][q] = column_sums_ + (u64{k} * kQuantities + q) * wide_;
        rest_to[k][q] = to[k][q] + whole;
      }
    }
    add_plain_rows_up<T>(side, first, last, rows, whole, to, pivot);
    if (whole != count) add_plain_rows_up<T>(side, first, last, rests, kDoubles, rest_to, pivot);
  }

  // Sums of `side` rows for positions [first, last) of a block; row(k) is the block's row k.
  template <bool kSquares, class RowAt, class To>
  void add_up(u32 side, u32 first, u32 last, u32 count, const RowAt& row, const To& to) const {
    const double* rows[2 * kMaxWindow - 1] = {};
    double* sums[kMaxWindow] = {};
    for (u32 k = first; k < last + side - 1; ++k) rows[k] = row(k);
    for (u32 k = first; k < last; ++k) sums[k] = to(k);
    add_rows<kSquares>(side, first, last, rows, count, sums);
  }

  // Sums over z, y and x for part of a row, for planes [z, end) of one block.
  template <class To>
  void add_up_ring(u64 z, u64 end, u32 q, u32 y, u32 column, u32 count, const To& to) const {
    const u32 deep = plan_.window[kZ];
    const u64 block = z / deep * deep;
    add_up<false>(
        deep, static_cast<u32>(z - block), static_cast<u32>(end - block), count,
        [&](u32 k) { return plane_row(ring_plane(block + k), q, y) + column; }, [&](u32 k) { return to(block + k); });
  }

  void keep_volumes(u64 w, u64 z, u64 end) const {
    for (u32 q = 0; q < quantities_; ++q) {
      for (u32 y = 0; y < rows_; ++y) {
        add_up_ring(z, end, q, y, 0, stride_, [&](u64 place) { return plane_row(volume(w, place), q, y); });
      }
    }
  }

  // Computes the windows of planes [z, end), which are in one block.
  void compute_ssim(u64 w, u64 z, u64 end, WindowCell* cells, u64 cells_of_plane) {
    const u32 step = plan_.step;
    const auto planes = static_cast<u32>(end - z);
    for (u64 i = 0; i < planes * cells_of_plane; ++i) cells[i] = {{0, 0}, -1, {0, 0, 0, 0}};
    if (w % step != 0) return;
    for (u32 y = 0; y < rows_; ++y) {
      const u64 at = column_.first[kY] + y;
      WindowCell* const row_cells = cells + (at / kWindowRows - column_.first[kY] / kWindowRows) * cells_across_;
      const bool ends = (at + 1) % kWindowRows == 0 || y + 1 == rows_;
      for (u32 i = 0; i < cells_across_; ++i) {
        const u32 first = i * cell_columns_;
        const u32 count = columns_ - first < cell_columns_ ? columns_ - first : cell_columns_;
        if (at % step == 0) {
          for (u32 q = 0; q < quantities_; ++q) add_up_planes(w, z, end, q, y, first, whole_groups(count));
        }
        for (u32 plane = 0; plane < planes; ++plane) {
          Lanes& sum = lanes_[plane * cells_across_ + i];
          WindowCell& cell = row_cells[plane * cells_of_plane + i];
          if (at % step == 0 && (z + plane) % step == 0) {
            const u64 row[4] = {w, z + plane, at, column_.first[kX] - lead_ + first};
            compute_row(sums_[plane], there_ + i * padded(cell_columns_), count, row, sum, cell);
          }
          if (!ends) continue;
          cell.sums.sum = 2 * total(sum);
          sum = {};
        }
      }
    }
  }

  // Sums over whole windows for part of a row, for those planes of [z, end), in one block, that the step selects.
  void add_up_planes(u64 w, u64 z, u64 end, u32 q, u32 y, u32 column, u32 count) {
    if (plan_.window[kZ] == 1) {  // up to two axes: the plane has them
      sums_[0][q] = plane_row(ring_plane(z), q, y) + column;
      return;
    }
    const auto to = [&](u64 place) { return sums_[place - z][q]; };
    if (outer_ == nullptr && plan_.step == 1) {
      add_up_ring(z, end, q, y, column, count, to);
      return;
    }
    for (u64 place = z; place < end; ++place) {
      if (place % plan_.step != 0) continue;
      if (outer_ == nullptr) {
        add_up_ring(place, place + 1, q, y, column, count, to);
        continue;
      }
      const u32 side = plan_.window[kW];
      const auto first = static_cast<u32>(w % side);
      add_up<false>(
          side, first, first + 1, count, [&](u32 k) { return plane_row(volume(w - first + k, place), q, y) + column; },
          [&](u32 /*one*/) { return to(place); });
    }
  }

  // Computes the windows of a row that belong to one cell.
  void compute_row(const double* const* sums, const double* there, u32 count, const u64* at, Lanes& sum,
                   WindowCell& cell) {
    const double most = quantities_ == kQuantities ? compute_ssim_windows<true>(sums, there, count, sum, cell)
                                                   : compute_ssim_windows<false>(sums, there, count, sum, cell);
    if (!(2 * most > cell.worst)) return;
    worst_ = most;
    cell.worst = 2 * most;
    u32 i = 0;
    while (lost_[in_group(i)] != most) ++i;
    for (u32 axis = kW; axis <= kX; ++axis) cell.at[axis] = at[axis];
    cell.at[kX] += i;
  }

  // Half of 1 - SSIM of each window, from s and d. With l and cs the two factors of SSIM, 1 - l cs is the sum of what
  // the means and the variances lose, without cancellation and with one division. The divisor is truncated to 47 bits,
  // because GPUs compute such a quotient with few instructions. If float64 sums overflow, the result is 0.5; float32
  // sums cannot. Returns the largest of the row, or -1 if another cell has a larger one.
  template <bool kMasked>
  double compute_ssim_windows(const double* const* sums, const double* there, u32 count, Lanes& sum, WindowCell& cell) {
    using V = Vector<double>;
    const double unit = sizeof(T) == 8 ? plan_.unit : 1.0;
    const struct {
      double points, pivot, c1, c2;
      const double *s, *d, *ss, *dd, *valid, *there;
      double* lost;
      u32 count;
    } own = {plan_.points, plan_.points * (2 * rules_.pivot_x * unit),
             plan_.c1,     plan_.c2,
             sums[0],      sums[1],
             sums[2],      sums[3],
             sums[4],      there,
             lost_,        count};
    const V zero = {};
    const V points = zero + own.points;
    const V c1 = zero + own.c1;
    V most = zero - 1.0;
    V windows = zero;
    // Half of 1 - SSIM for the windows of a vector, 0 for those that are not counted.
    const auto lost_at = [&](u32 i) {
      const V s = load_doubles(own.s + i);
      const V d = load_doubles(own.d + i);
      const V error_squares = d * d;
      const V whole = s + own.pivot;
      const V mean_part = fused_multiply_add(whole, whole, c1);
      const V spread_s = larger(fused_multiply_add(points, load_doubles(own.ss + i), -(s * s)), zero) + own.c2;
      const V spread_d = larger(fused_multiply_add(points, load_doubles(own.dd + i), -error_squares), zero);
      const V lost = fused_multiply_add(spread_d, mean_part, error_squares * spread_s);
      const V all = (mean_part + error_squares) * (spread_s + spread_d);
      V found = lost / bit_cast<V>(bit_cast<Vector<u64>>(all) & ~u64{63});
      if constexpr (sizeof(T) == 8) found = all < 0x1p1000 ? found : zero + 0.5;
      auto counts = load_doubles(own.there + i) != 0.0;
      if constexpr (kMasked) counts = counts & (load_doubles(own.valid + i) == own.points);
      const V that = counts ? found : zero - 1.0;
      windows += counts ? zero + 1.0 : zero;
      store_doubles(own.lost + i, that);
      most = larger(that, most);
      return larger(that, zero);
    };
    V lanes[kGroup];
#pragma GCC unroll 16
    for (u32 g = 0; g < kGroup; ++g) lanes[g] = load_doubles(sum.lane + g * kDoubles);
    for (u32 from = 0; from < own.count; from += 2 * kSumLanes) {
#pragma GCC unroll 16
      for (u32 g = 0; g < kGroup; ++g) {
        const u32 i = from + g * kWindowGroup;
        if (i >= own.count) break;
        const V even = lost_at(i);
        lanes[g] += even + lost_at(i + kDoubles);
      }
    }
#pragma GCC unroll 16
    for (u32 g = 0; g < kGroup; ++g) store_doubles(sum.lane + g * kDoubles, lanes[g]);
    double found = -1;
    for (u32 i = 0; i < kDoubles; ++i) {
      found = most[i] > found ? most[i] : found;
      cell.sums.windows += windows[i];
    }
    return found >= worst_ ? found : -1;
  }

  const View& view_;
  const Rules& rules_;
  const FieldPlan& plan_;
  const Column& column_;
  u32 cell_columns_;
  u32 lead_;  // columns of the first cell that lie before the column
  u32 columns_, rows_, cells_across_, stride_, wide_ = 0;
  u64 plane_;
  u64 volumes_;
  u32 quantities_;
  double& worst_;  // Scratch::worst
  double* ring_;
  double* outer_;
  double* read_;
  double* column_sums_;
  double* sums_[kMaxWindow][kQuantities];
  double* there_;  // 1 for windows of the row that are counted, else 0; cell by cell
  double* lost_;
  Lanes lanes_[kMaxWindow * kWindowCellsAcross];
};

template <class T>
bool sweep(const View& view, const Rules& rules, const FieldPlan& plan, const Column& column, Scratch& scratch,
           WindowCell* cells) {
  double* const memory = reserve(scratch, Sweep<T>::memory_doubles(rules, plan, column));
  if (memory == nullptr) return false;
  Sweep<T>(view, rules, plan, column, memory, scratch.worst).run(cells);
  return true;
}

}  // namespace

bool windows(u32 value_bytes, const View& view, const Rules& rules, const FieldPlan& plan, const Column& column,
             Scratch& scratch, WindowCell* cells) {
  return value_bytes == 4 ? sweep<float>(view, rules, plan, column, scratch, cells)
                          : sweep<double>(view, rules, plan, column, scratch, cells);
}

}  // namespace h5lossy::H5L_TARGET
