// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Structural similarity in sliding windows (pattern III), for windows of any side in fields of any rank: sums over
// columns of points, then over rows of these, then over planes and volumes, with the additions of native/assess.
// Intermediate sums are in device memory.
#pragma once

#include "kernels/assess/fields.cuh"

namespace h5lossy::H5L_TARGET {

using assess::WindowSums;

// s = x + y - 2 pivot, d = y - x, their squares, and the number of valid points.
inline constexpr u32 kQuantities = 5;

// Adds the first four quantities of a point; squares are fused. For float64 they are in units that keep products in
// range. Sums begin with -0, the neutral element of addition.
template <class T>
H5L_DEVICE void add_quantities(const CellsPlan& plan, double x, double e, double (&sums)[kQuantities - 1]) {
  const double unit = sizeof(T) == 8 ? plan.field.unit : 1.0;
  if constexpr (sizeof(T) == 8) {
    x *= unit;
    e *= unit;
  }
  const double s = multiply_add_exact(x, 2.0, e) - 2 * plan.rules.pivot_x * unit;
  sums[0] += s;
  sums[1] += e;
  sums[2] = fused_multiply_add(s, s, sums[2]);
  sums[3] = fused_multiply_add(e, e, sums[3]);
}

// Adds terms as a tree, larger powers of two first: a binary counter of sums.
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

// Extents of intermediate sums: windows' corners along some axes, corners and halo along the others.
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

// The first `reaching` axes include the halo.
H5L_DEVICE Extents extents_of(const CellsPlan& plan, u32 reaching) {
  Extents extents;
  for (u32 axis = 0; axis < 4; ++axis) {
    extents.n[axis] = plan.end[axis] - plan.first[axis] + (axis < reaching ? plan.field.window[axis] - 1 : 0);
  }
  return extents;
}

// Sums `side` neighbours from place `at` on in two parts, before and from the next multiple of `side`; each part is
// shared with other windows. add(place, sums) adds kCount numbers.
template <u32 kCount, class Add>
H5L_DEVICE void add_blocks(u64 at, u32 side, double (&sums)[kCount], Add add) {
  const u64 border = (at / side + 1) * side;
  H5L_UNROLL for (u32 q = 0; q < kCount; ++q) sums[q] = -0.0;
  for (u64 i = border; i-- > at;) add(i, sums);
  if (border == at + side) return;
  double upper[kCount];
  H5L_UNROLL for (u32 q = 0; q < kCount; ++q) upper[q] = -0.0;
  for (u64 i = border; i < at + side; ++i) add(i, upper);
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
    add_blocks(at[kY], plan.field.window[kY], sums, [&](u64 y, double (&to)[kQuantities]) {
      const u64 there[4] = {at[kW], at[kZ], y, at[kX]};
      const FieldPoint point = point_at<T>(plan, there);
      if (point.valid == 0) return;
      double four[kQuantities - 1] = {to[0], to[1], to[2], to[3]};
      add_quantities<T>(plan, point.x, point.e, four);
      H5L_UNROLL for (u32 q = 0; q < kQuantities - 1; ++q) to[q] = four[q];
      to[kQuantities - 1] += 1;
    });
    H5L_UNROLL for (u32 q = 0; q < kQuantities; ++q) plan.column_sums[q * count + i] = sums[q];
  }
}

// Sums neighbours from place `at` on. Places 2 j + 1 and 2 j + 2 are a pair; a window is the tree of its pairs plus the
// unpaired columns at its ends. The windows at an even place and the next one share most pairs.
H5L_DEVICE double sum_of_row(const double* from, u64 at, u32 side) {
  const u32 alone = at % 2 == 0 ? 1 : 0, pairs = (side - alone) / 2;
  TreeSum tree;
  for (u32 j = 0; j < pairs; ++j) tree.add(from[alone + 2 * j] + from[alone + 2 * j + 1]);
  double sum = alone == 0 ? tree.total() : pairs == 0 ? from[0] : from[0] + tree.total();
  const u32 added = alone + 2 * pairs;
  if (added != side) sum = added == 0 ? from[0] : sum + from[added];
  return sum;
}

// Sums over x of the column sums.
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
      plan.plane_sums[q * count + i] = sum_of_row(terms, plan.first[kX] + at[kX], plan.field.window[kX]);
    }
  }
}

H5L_DEVICE double cut_to_47_bits(double value) { return bit_cast<double>(bit_cast<u64>(value) & ~u64{63}); }

// points^2 times the variance, clamped to 0. For float32, clamping the high word suffices: what remains of a
// negative value is so small that it vanishes in the sums in which it is used.
template <class T>
H5L_DEVICE double variance(double points, double squares, double sum) {
  const double square = sum * sum, value = fused_multiply_add(points, squares, -square);
  const u64 bits = bit_cast<u64>(value);
  const i32 high = static_cast<i32>(bits >> 32);
  if constexpr (sizeof(T) == 8) return value > 0 ? value : 0.0;  // also replaces NaN
  return bit_cast<double>(static_cast<u64>(static_cast<u32>(high > 0 ? high : 0)) << 32 | static_cast<u32>(bits));
}

// (1 - SSIM) / 2 of a window, from its sums. With l and cs the two factors of SSIM, 1 - l cs is computed from 1 - l and
// 1 - cs, without cancellation and with one division. The divisor is cut to 47 bits, so that no quotient is close
// enough to a rounding midpoint for divide_by_short to round it wrongly. Infinite or nearly infinite numbers count as
// the largest loss; sums of float32 never are.
template <class T>
H5L_DEVICE double half_loss(const CellsPlan& plan, const double* sums) {
  const assess::FieldPlan& field = plan.field;
  const double error_squares = sums[1] * sums[1];
  const double whole = sums[0] + field.points * (2 * plan.rules.pivot_x * field.unit);
  const double mean_part = fused_multiply_add(whole, whole, field.c1);
  const double spread_s = variance<T>(field.points, sums[2], sums[0]) + field.c2;
  const double spread_d = variance<T>(field.points, sums[3], sums[1]);
  const double lost = fused_multiply_add(spread_d, mean_part, error_squares * spread_s);
  const double all = cut_to_47_bits((mean_part + error_squares) * (spread_s + spread_d));
  if constexpr (sizeof(T) == 4) return divide_by_short(lost, all);
  return all < 0x1p1000 ? lost / all : 0.5;
}

// (1 - SSIM) / 2 of each window; -1 where there is none.
template <class T>
H5L_DEVICE void compute_ssim_windows(const CellsPlan& plan) {
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
      add_blocks(plan.first[kW] + at[kW], plan.field.window[kW], sum, [&](u64 w, double (&to)[1]) {
        double of_w[1];
        add_blocks(plan.first[kZ] + at[kZ], plan.field.window[kZ], of_w, [&](u64 z, double (&of_z)[1]) {
          of_z[0] +=
              plan.plane_sums[q * from_count + from.join(w - plan.first[kW], z - plan.first[kZ], at[kY], at[kX])];
        });
        to[0] += of_w[0];
      });
      sums[q] = sum[0];
    }
    plan.lost[i] = is_there && sums[4] == plan.field.points ? half_loss<T>(plan, sums) : -1.0;
  }
}

struct WorstOfWarp {
  double lost;
  u64 at;
};

// The largest number in a warp, and the first place that has it.
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

// The thread block's worst window, from its threads' worst: numbers in C order. `of_warps` is shared memory.
template <u32 kBlockWarps>
H5L_DEVICE void publish_worst(const CellsPlan& plan, const Extents& extents, WorstOfWarp* of_warps, double lost,
                              u64 at) {
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

// A warp per cell; lane i sums the pairs of columns i, i + 32, ..., row by row.
H5L_DEVICE void sum_windows(const CellsPlan& plan) {
  const Extents extents = extents_of(plan, 0);
  double worst = -1;
  u64 worst_at = ~u64{0};
  for (u64 i = u64{block_number()} * kWarps + warp(); i < plan.cells; i += u64{grid_blocks()} * kWarps) {
    const CellPlace place = place_of(plan, i);
    double sum = 0;
    u32 windows = 0;
    for (u64 y = place.first_row; y < place.end_row; ++y) {
      for (u64 pair = place.first_column / plan.cell_columns * plan.cell_columns + 2 * lane(); pair < place.end_column;
           pair += 2 * kWarpThreads) {
        double both = 0;
        for (u64 x = pair; x < pair + 2; ++x) {
          if (x < place.first_column || x >= place.end_column) continue;
          const u64 at =
              extents.join(place.w - plan.first[kW], place.z - plan.first[kZ], y - plan.first[kY], x - plan.first[kX]);
          const double lost = plan.lost[at];
          if (lost < 0) continue;
          ++windows;
          if (lost > worst || (lost == worst && at < worst_at)) {
            worst = lost;
            worst_at = at;
          }
          both += lost;
        }
        sum += both;
      }
    }
    sum = sum_of_warp(sum);
    windows = sum_of_warp(windows);
    if (lane() == 0) reinterpret_cast<WindowSums*>(plan.results)[i] = {static_cast<double>(windows), 2 * sum};
  }
  publish_worst<kWarps>(plan, extents, reinterpret_cast<WorstOfWarp*>(shared_memory()), worst < 0 ? worst : 2 * worst,
                        worst_at);
}

H5L_DEVICE void group_window_cells(const gpu::GroupPlan& plan) {
  constexpr u32 kSums = sizeof(WindowSums) / 8;
  group_cells<WindowSums, kSums>(plan, [](const double* from, u32) { return from[0]; });
}

}  // namespace h5lossy::H5L_TARGET
