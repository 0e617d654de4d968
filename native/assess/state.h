// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The accumulated results of an assessment. Plain data: a state may be copied and stored as bytes.
#pragma once

#include <cstdint>

#include "assess/kernels.h"

namespace h5lossy::assess {

// Sums consecutive parts as a binary tree over their index: parts 2 i and 2 i + 1 first. So the result does not depend
// on how many parts are added per call. Parts that arrive out of order are added in the order of arrival.
template <class Part, u32 kLevels = 64>
struct Tree {
  Part node[kLevels];
  u32 level[kLevels];
  u32 depth;

  // `own` is the part's level: it is the sum of 2^own parts. The number of parts pushed before must be a multiple of
  // 2^own.
  void push(Part part, u32 own = 0) {
    while (depth != 0 && level[depth - 1] == own) {
      part = together(node[--depth], part);
      ++own;
    }
    node[depth] = part;
    level[depth++] = own;
  }

  // The number of parts pushed so far.
  [[nodiscard]] u64 pushed() const {
    u64 count = 0;
    for (u32 i = 0; i < depth; ++i) count += u64{1} << level[i];
    return count;
  }

  [[nodiscard]] Part total() const {
    if (depth == 0) return Part{};
    Part sum = node[depth - 1];
    for (u32 i = depth - 1; i != 0; --i) sum = together(node[i - 1], sum);
    return sum;
  }
};

// The points of an incomplete leaf.
struct Pending {
  u32 count;
  u32 has_mask;
  u64 first;
  alignas(8) u8 x[kLeafValues * sizeof(double)];
  alignas(8) u8 y[kLeafValues * sizeof(double)];
  u8 mask[kLeafValues];
};

// What a state has of its field beside sums.
struct FieldEnds {
  u32 has_pivot;
  double pivot_x, pivot_e;
  StencilExtrema extrema;
  double window_worst;
  u64 window_at[4];
};

struct State : FieldEnds {
  u64 magic;
  u64 next;                         // the point after the last one
  h5l_assess_points_result points;  // everything except the moments
  Tree<Moments> moments;
  Pending pending;
  Tree<StencilSums> stencils;
  Tree<WindowSums> windows;
};

Moments together(const Moments& a, const Moments& b);
StencilSums together(const StencilSums& a, const StencilSums& b);
StencilCell together(const StencilCell& a, const StencilCell& b);
WindowSums together(const WindowSums& a, const WindowSums& b);
WindowCell together(const WindowCell& a, const WindowCell& b);

void clear(State& state);

// Makes a state empty, but leaves what is not read until it is written.
void restart(State& state);

// Sets the pivots from the first valid point; does nothing after that.
void take_pivot(State& state, double original, double decoded);

void add_part(State& state, const PointsPart& part);
void add_extrema(StencilExtrema& all, const StencilExtrema& more);
void add_worst_window(State& state, double lost, const u64* at);

// The sums of stencils, lags and windows of a state, and its pivots.
struct FieldTotal : FieldEnds {
  u32 has_stencils, has_windows;
  StencilSums stencils;
  WindowSums windows;
};
void take_field_total(const State& state, FieldTotal& total);
void add_field_total(State& state, const FieldTotal& more);

// Adds another state, without its pending points.
void add_state(State& state, const State& other);

// Converts the sums of lags to another pivot.
void move_pivot(StencilSums& sums, double by);

}  // namespace h5lossy::assess
