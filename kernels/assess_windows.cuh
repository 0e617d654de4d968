// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Structural similarity in sliding windows (pattern III), for windows of any side in fields of any rank: sums over rows,
// then over columns of these, then over planes and volumes of those, each as the tree of native/assess. What is between
// stands in memory.
#pragma once

#include "assess_fields.cuh"

namespace h5lossy::H5L_TARGET {

using assess::WindowCell;

// s = x + y - 2 pivot, d = y - x, their squares, and the number of valid points.
inline constexpr u32 kQuantities = 5;

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

template <class T>
H5L_DEVICE void sum_rows(const CellsPlan& plan) {
  const Extents extents = extents_of(plan, kX);
  const u64 count = extents.count();
  const double pivot = 2 * plan.rules.pivot_x;
  for (u64 i = u64{block_number()} * kThreads + thread(); i < count; i += u64{grid_blocks()} * kThreads) {
    u64 at[4];
    extents.split(i, at);
    for (u32 axis = 0; axis < 4; ++axis) at[axis] += plan.first[axis];
    TreeSum sums[kQuantities];
    for (u32 k = 0; k < plan.field.window[kX]; ++k) {
      const FieldPoint point = point_at<T>(plan, at);
      const double s = (point.x + point.x + point.e - pivot) * point.valid;
      sums[0].add(s);
      sums[1].add(point.e);
      sums[2].add(s * s);
      sums[3].add(point.e * point.e);
      sums[4].add(point.valid);
      ++at[kX];
    }
    H5L_UNROLL for (u32 q = 0; q < kQuantities; ++q) plan.row_sums[q * count + i] = sums[q].total();
  }
}

H5L_DEVICE void sum_columns(const CellsPlan& plan) {
  const Extents from = extents_of(plan, kX), to = extents_of(plan, kY);
  const u64 from_count = from.count(), count = to.count();
  for (u64 i = u64{block_number()} * kThreads + thread(); i < count; i += u64{grid_blocks()} * kThreads) {
    u64 at[4];
    to.split(i, at);
    for (u32 q = 0; q < kQuantities; ++q) {
      TreeSum sum;
      for (u32 k = 0; k < plan.field.window[kY]; ++k) {
        sum.add(plan.row_sums[q * from_count + from.join(at[kW], at[kZ], at[kY] + k, at[kX])]);
      }
      plan.plane_sums[q * count + i] = sum.total();
    }
  }
}

// 1 - SSIM of a window from its sums: with l and cs SSIM's two factors, 1 - l and 1 - cs come without cancellation.
H5L_DEVICE double lost_in(const CellsPlan& plan, const double* sums, double part) {
  const double pivot = 2 * plan.rules.pivot_x;
  const double mean_s = sums[0] * part;
  const double mean_d = sums[1] * part;
  const double spread_s = sums[2] * part - mean_s * mean_s;
  const double spread_d = sums[3] * part - mean_d * mean_d;
  const double var_s = spread_s > 0 ? spread_s : 0;
  const double var_d = spread_d > 0 ? spread_d : 0;
  const double whole = mean_s + pivot;
  const double a = mean_d * mean_d / ((whole * whole + mean_d * mean_d) * 0.5 + plan.field.c1);
  const double b = var_d / ((var_s + var_d) * 0.5 + plan.field.c2);
  return a + b - a * b;
}

// 1 - SSIM of each window; -1 where there is none.
H5L_DEVICE void judge_windows(const CellsPlan& plan) {
  const Extents from = extents_of(plan, kY), to = extents_of(plan, 0);
  const u64 from_count = from.count(), count = to.count();
  double points = 1;
  for (u32 axis = 0; axis < 4; ++axis) points *= plan.field.window[axis];
  const double part = 1.0 / points;
  const u32 step = plan.field.step;
  for (u64 i = u64{block_number()} * kThreads + thread(); i < count; i += u64{grid_blocks()} * kThreads) {
    u64 at[4];
    to.split(i, at);
    bool is_there = true;
    for (u32 axis = 0; axis < 4; ++axis) is_there = is_there && (plan.first[axis] + at[axis]) % step == 0;
    double sums[kQuantities] = {};
    H5L_UNROLL for (u32 q = 0; q < kQuantities; ++q) {
      TreeSum volumes;
      for (u32 w = 0; is_there && w < plan.field.window[kW]; ++w) {
        TreeSum planes;
        for (u32 z = 0; z < plan.field.window[kZ]; ++z) {
          planes.add(plan.plane_sums[q * from_count + from.join(at[kW] + w, at[kZ] + z, at[kY], at[kX])]);
        }
        volumes.add(planes.total());
      }
      sums[q] = volumes.total();
    }
    plan.lost[i] = is_there && sums[4] == points ? lost_in(plan, sums, part) : -1.0;
  }
}

// A warp for each cell, lane i for its columns i, i + 32, ..., row by row.
H5L_DEVICE void sum_windows(const CellsPlan& plan) {
  const Extents extents = extents_of(plan, 0);
  for (u64 i = u64{block_number()} * kWarps + warp(); i < plan.cells; i += u64{grid_blocks()} * kWarps) {
    const CellPlace place = place_of(plan, i);
    double sum = 0, worst = -1;
    u32 windows = 0;
    u64 worst_at = ~u64{0};
    for (u64 y = place.first_row; y < place.end_row; ++y) {
      for (u64 x = place.first_column + lane(); x < place.end_column; x += kWarpThreads) {
        const u64 at =
            extents.join(place.w - plan.first[kW], place.z - plan.first[kZ], y - plan.first[kY], x - plan.first[kX]);
        const double lost = plan.lost[at];
        windows += lost == -1.0 ? 0 : 1;
        if (lost > worst) {
          worst = lost;
          worst_at = at;
        }
        sum += lost < 0 ? 0 : lost;
      }
    }
    WindowCell cell = {};
    cell.sums.sum = sum_of_warp(sum);
    cell.sums.windows = sum_of_warp(windows);
    for (u32 by = kWarpThreads / 2; by != 0; by /= 2) {
      const double other = shuffle_xor(worst, by);
      const u64 other_at = shuffle_xor(worst_at, by);
      if (other > worst || (other == worst && other_at < worst_at)) {
        worst = other;
        worst_at = other_at;
      }
    }
    cell.worst = worst;
    if (worst >= 0) {
      extents.split(worst_at, cell.at);
      for (u32 axis = 0; axis < 4; ++axis) cell.at[axis] += plan.first[axis];
    }
    if (lane() == 0) reinterpret_cast<WindowCell*>(plan.results)[i] = cell;
  }
}

// Sums of kGroup cells, a thread for each group: cells are few, and hold little.
H5L_DEVICE void group_window_cells(const gpu::GroupPlan& plan) {
  for (u64 group = u64{block_number()} * kThreads + thread(); group < plan.groups;
       group += u64{grid_blocks()} * kThreads) {
    const auto* const cells = reinterpret_cast<const WindowCell*>(plan.parts) + group * gpu::kGroup;
    WindowCell all = cells[0];
    double window_node[4], sum_node[4];
    for (u32 quarter = 0; quarter < 4; ++quarter) {
      TreeSum of_windows, of_sums;
      for (u32 k = 0; k < 16; ++k) {
        const WindowCell& cell = cells[quarter * 16 + k];
        of_windows.add(cell.sums.windows);
        of_sums.add(cell.sums.sum);
        if (cell.worst > all.worst) {  // the order of cells is not that of corners
          all.worst = cell.worst;
          for (u32 axis = 0; axis < 4; ++axis) all.at[axis] = cell.at[axis];
        } else if (cell.worst == all.worst && cell.worst >= 0) {
          bool is_earlier = false, is_decided = false;
          for (u32 axis = 0; axis < 4; ++axis) {
            if (!is_decided && cell.at[axis] != all.at[axis]) {
              is_earlier = cell.at[axis] < all.at[axis];
              is_decided = true;
            }
          }
          for (u32 axis = 0; axis < 4; ++axis) all.at[axis] = is_earlier ? cell.at[axis] : all.at[axis];
        }
      }
      window_node[quarter] = of_windows.total();
      sum_node[quarter] = of_sums.total();
    }
    all.sums.windows = (window_node[0] + window_node[1]) + (window_node[2] + window_node[3]);
    all.sums.sum = (sum_node[0] + sum_node[1]) + (sum_node[2] + sum_node[3]);
    reinterpret_cast<WindowCell*>(plan.sums)[group] = all;
  }
}

}  // namespace h5lossy::H5L_TARGET
