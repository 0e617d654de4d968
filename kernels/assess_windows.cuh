// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Structural similarity in sliding windows (pattern III), for windows of any side in fields of any rank: sums over columns
// of points, then over rows of these, then over planes and volumes of those, with the additions of native/assess. What is
// between stands in memory.
#pragma once

#include "assess_fields.cuh"

namespace h5lossy::H5L_TARGET {

using assess::WindowSums;

// s = x + y - 2 pivot, d = y - x, their squares, and the number of valid points.
inline constexpr u32 kQuantities = 5;

// The first four of a point. Those of float64 are counted in units that leave room for products.
template <class T>
H5L_DEVICE void quantities_of(const CellsPlan& plan, double x, double e, double (&terms)[kQuantities - 1]) {
  const double unit = sizeof(T) == 8 ? plan.field.unit : 1.0;
  if constexpr (sizeof(T) == 8) {
    x *= unit;
    e *= unit;
  }
  const double s = multiply_add_exact(x, 2.0, e) - 2 * plan.rules.pivot_x * unit;
  terms[0] = s;
  terms[1] = e;
  terms[2] = s * s;
  terms[3] = e * e;
}

// Terms that are added up as a tree, the larger power of two first: a binary counter of sums.
class TreeSum {
 public:
  H5L_DEVICE void add(double term) {
    bool carries = true;
    H5L_UNROLL for (u32 level = 0; level < kLevels; ++level) {
      const bool is_full = (count_ >> level & 1) != 0;
      if (carries && is_full) term = node_[level] + term;
      if (carries && !is_full) {
        node_[level] = term;
        carries = false;
      }
    }
    ++count_;
  }
  H5L_DEVICE double total() const {
    double sum = 0;
    bool has_any = false;
    H5L_UNROLL for (u32 level = 0; level < kLevels; ++level) {
      if ((count_ >> level & 1) == 0) continue;
      sum = has_any ? node_[level] + sum : node_[level];
      has_any = true;
    }
    return sum;
  }

 private:
  static constexpr u32 kLevels = 5;  // up to 16 terms
  double node_[kLevels] = {};
  u32 count_ = 0;
};
static_assert(H5L_ASSESS_MAX_WINDOW <= 16);

// Extents of what stands in memory: windows' corners along some axes, all that they reach along others.
struct Extents {
  u64 n[4];
  H5L_DEVICE u64 count() const { return n[0] * n[1] * n[2] * n[3]; }
  H5L_DEVICE void split(u64 i, u64 (&at)[4]) const {
    for (u32 axis = 4; axis-- != 0;) {
      at[axis] = i % n[axis];
      i /= n[axis];
    }
  }
  H5L_DEVICE u64 join(u64 w, u64 z, u64 y, u64 x) const { return ((w * n[kZ] + z) * n[kY] + y) * n[kX] + x; }
};

// With the first `reaching` axes as far as windows reach.
H5L_DEVICE Extents extents_of(const CellsPlan& plan, u32 reaching) {
  Extents extents;
  for (u32 axis = 0; axis < 4; ++axis) {
    extents.n[axis] = plan.end[axis] - plan.first[axis] + (axis < reaching ? plan.field.window[axis] - 1 : 0);
  }
  return extents;
}

// Sums of `side` neighbours from place `at` on: those up to the next multiple of `side` from the last one on, and those
// from there on; both are shared with other windows. get(place, terms) gives kCount numbers.
template <u32 kCount, class Get>
H5L_DEVICE void add_blocks(u64 at, u32 side, double (&sums)[kCount], Get get) {
  const u64 border = (at / side + 1) * side;
  double terms[kCount];
  get(border - 1, sums);
  for (u64 i = border - 1; i-- > at;) {
    get(i, terms);
    H5L_UNROLL for (u32 q = 0; q < kCount; ++q) sums[q] = terms[q] + sums[q];
  }
  if (border == at + side) return;
  double upper[kCount];
  get(border, upper);
  for (u64 i = border + 1; i < at + side; ++i) {
    get(i, terms);
    H5L_UNROLL for (u32 q = 0; q < kCount; ++q) upper[q] += terms[q];
  }
  H5L_UNROLL for (u32 q = 0; q < kCount; ++q) sums[q] += upper[q];
}

// Sums over y, at every column that windows reach.
template <class T>
H5L_DEVICE void sum_columns(const CellsPlan& plan) {
  Extents extents = extents_of(plan, kY);
  extents.n[kX] += plan.field.window[kX] - 1;
  const u64 count = extents.count();
  for (u64 i = u64{block_number()} * kThreads + thread(); i < count; i += u64{grid_blocks()} * kThreads) {
    u64 at[4];
    extents.split(i, at);
    for (u32 axis = 0; axis < 4; ++axis) at[axis] += plan.first[axis];
    double sums[kQuantities];
    add_blocks(at[kY], plan.field.window[kY], sums, [&](u64 y, double (&terms)[kQuantities]) {
      const u64 there[4] = {at[kW], at[kZ], y, at[kX]};
      const FieldPoint point = point_at<T>(plan, there);
      double four[kQuantities - 1];
      quantities_of<T>(plan, point.x, point.e, four);
      H5L_UNROLL for (u32 q = 0; q < kQuantities - 1; ++q) terms[q] = point.valid != 0 ? four[q] : 0.0;
      terms[kQuantities - 1] = point.valid;
    });
    H5L_UNROLL for (u32 q = 0; q < kQuantities; ++q) plan.column_sums[q * count + i] = sums[q];
  }
}

// Sums of these over x.
H5L_DEVICE void sum_planes(const CellsPlan& plan) {
  Extents from = extents_of(plan, kY);
  from.n[kX] += plan.field.window[kX] - 1;
  const Extents to = extents_of(plan, kY);
  const u64 from_count = from.count(), count = to.count();
  for (u64 i = u64{block_number()} * kThreads + thread(); i < count; i += u64{grid_blocks()} * kThreads) {
    u64 at[4];
    to.split(i, at);
    for (u32 q = 0; q < kQuantities; ++q) {
      const double* const terms = plan.column_sums + q * from_count + from.join(at[kW], at[kZ], at[kY], at[kX]);
      TreeSum sum;
      for (u32 k = 0; k < plan.field.window[kX]; ++k) sum.add(terms[k]);
      plan.plane_sums[q * count + i] = sum.total();
    }
  }
}

// 1 - SSIM of a window from its sums: with l and cs SSIM's two factors, 1 - l cs comes without cancellation as
// (1 - l) + (1 - cs) l, with one division. Where numbers are infinite the error is beyond all measure.
H5L_DEVICE double lost_in(const CellsPlan& plan, const double* sums) {
  const assess::FieldPlan& field = plan.field;
  const auto at_least_zero = [](double value) {
    return static_cast<i32>(bit_cast<u64>(value) >> 32) < 0 ? 0.0 : value;
  };
  const double squares = sums[0] * sums[0], error_squares = sums[1] * sums[1];
  const double var_s = at_least_zero(field.points * sums[2] - squares);
  const double var_d = at_least_zero(field.points * sums[3] - error_squares);
  const double whole = sums[0] + field.points * (2 * plan.rules.pivot_x * field.unit);
  const double mean_part = whole * whole + field.c1, spread_part = var_s + field.c2 + var_d;
  const double lost = error_squares * spread_part + var_d * (mean_part - error_squares);
  const double all = (mean_part + error_squares) * spread_part;
  const double found = (lost + lost) / all;
  return is_finite<double>(bit_cast<u64>(all)) ? found : 1.0;
}

// 1 - SSIM of each window; -1 where there is none.
H5L_DEVICE void judge_windows(const CellsPlan& plan) {
  const Extents from = extents_of(plan, kY), to = extents_of(plan, 0);
  const u64 from_count = from.count(), count = to.count();
  const u32 step = plan.field.step;
  for (u64 i = u64{block_number()} * kThreads + thread(); i < count; i += u64{grid_blocks()} * kThreads) {
    u64 at[4];
    to.split(i, at);
    bool is_there = true;
    for (u32 axis = 0; axis < 4; ++axis) is_there = is_there && (plan.first[axis] + at[axis]) % step == 0;
    double sums[kQuantities] = {};
    H5L_UNROLL for (u32 q = 0; q < kQuantities; ++q) {
      if (!is_there) continue;
      double sum[1];
      add_blocks(plan.first[kW] + at[kW], plan.field.window[kW], sum, [&](u64 w, double (&of_w)[1]) {
        add_blocks(plan.first[kZ] + at[kZ], plan.field.window[kZ], of_w, [&](u64 z, double (&of_z)[1]) {
          of_z[0] = plan.plane_sums[q * from_count + from.join(w - plan.first[kW], z - plan.first[kZ], at[kY], at[kX])];
        });
      });
      sums[q] = sum[0];
    }
    plan.lost[i] = is_there && sums[4] == plan.field.points ? lost_in(plan, sums) : -1.0;
  }
}

struct WorstOfWarp {
  double lost;
  u64 at;
};

// The largest number in a warp, and where it is: the first place of several.
H5L_DEVICE void worst_of_warp(double& worst, u64& at) {
  for (u32 by = kWarpThreads / 2; by != 0; by /= 2) {
    const double other = shuffle_xor(worst, by);
    const u64 other_at = shuffle_xor(at, by);
    if (other > worst || (other == worst && other_at < at)) {
      worst = other;
      at = other_at;
    }
  }
}

// A thread block's worst window, from those of its threads: numbers in C order. `of_warps` is shared memory.
template <u32 kBlockWarps>
H5L_DEVICE void give_worst(const CellsPlan& plan, const Extents& extents, WorstOfWarp* of_warps, double lost, u64 at) {
  worst_of_warp(lost, at);
  if (lane() == 0) of_warps[warp()] = {lost, at};
  sync_block();
  if (thread() != 0) return;
  WorstOfWarp all = of_warps[0];
  for (u32 i = 1; i < kBlockWarps; ++i) {
    const WorstOfWarp& more = of_warps[i];
    if (more.lost > all.lost || (more.lost == all.lost && more.at < all.at)) all = more;
  }
  gpu::WorstWindow& worst = plan.worst[block_number()];
  worst = {all.lost, {}};
  if (all.lost < 0) return;
  extents.split(all.at, worst.at);
  for (u32 axis = 0; axis < 4; ++axis) worst.at[axis] += plan.first[axis];
}

// A warp for each cell, lane i for its columns i, i + 32, ..., row by row.
H5L_DEVICE void sum_windows(const CellsPlan& plan) {
  const Extents extents = extents_of(plan, 0);
  double worst = -1;
  u64 worst_at = ~u64{0};
  for (u64 i = u64{block_number()} * kWarps + warp(); i < plan.cells; i += u64{grid_blocks()} * kWarps) {
    const CellPlace place = place_of(plan, i);
    double sum = 0;
    u32 windows = 0;
    for (u64 y = place.first_row; y < place.end_row; ++y) {
      for (u64 x = place.first_column + lane(); x < place.end_column; x += kWarpThreads) {
        const u64 at =
            extents.join(place.w - plan.first[kW], place.z - plan.first[kZ], y - plan.first[kY], x - plan.first[kX]);
        const double lost = plan.lost[at];
        windows += lost == -1.0 ? 0 : 1;
        if (lost > worst || (lost == worst && at < worst_at)) {
          worst = lost;
          worst_at = at;
        }
        sum += lost < 0 ? 0 : lost;
      }
    }
    sum = sum_of_warp(sum);
    windows = sum_of_warp(windows);
    if (lane() == 0) reinterpret_cast<WindowSums*>(plan.results)[i] = {static_cast<double>(windows), sum};
  }
  give_worst<kWarps>(plan, extents, reinterpret_cast<WorstOfWarp*>(shared_memory()), worst, worst_at);
}

H5L_DEVICE void group_window_cells(const gpu::GroupPlan& plan) {
  constexpr u32 kSums = sizeof(WindowSums) / 8;
  group_cells<WindowSums, kSums>(plan, [](const double* from, u32) { return from[0]; });
}

}  // namespace h5lossy::H5L_TARGET
