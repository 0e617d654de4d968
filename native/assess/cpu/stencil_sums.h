// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Planes and sums for stencils.cpp. They are in its unnamed namespace, since no other file includes this one.
#pragma once

#include <math.h>

#include "assess/cpu/derivatives.h"
#include "assess/cpu/lanes.h"
#include "assess/kernels.h"

namespace h5lossy::H5L_TARGET {
namespace {

using assess::Column;
using assess::FieldPlan;
using assess::kLagAxes;
using assess::kLineColumns;
using assess::reserve;
using assess::Rules;
using assess::Scratch;
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

// Sums of lags. The order of additions is fixed, so that all backends and GPUs give the same bits:
// - A sum covers the first rows and columns of a cell. Lane i adds columns i, i + 32, ... in order, and lanes are added
//   as a tree. Pairs along the last axis use 128 lanes (i, i + 128, ...), so that a GPU's thread can process four
//   adjacent columns.
// - Products are added to their lane with one rounding, each column from its last row to its first.
// - Errors are first added in each column, from its last row to its first, so that the sums of a column are shared by
//   all lags. Of tails along y, the cell's own rows are added that way, and the rows below the cell from the first
//   down; both sums are shared by all lags.
constexpr u32 kLanesX = 4 * kSumLanes;

// The numbers of lags, and of vectors of columns, whose products are summed together, limited by the registers.
constexpr u32 kLagsAtOnce = 5;
constexpr u32 kVectors = kDoubles < 8 ? (kGroup < 2 ? kGroup : 2) : 4;

// The sum of all columns, and of the first `some` columns.
struct Total {
  double all, some;
};

// Computes kSums totals, of all columns and of the first some[s]. of(column, lanes) adds kAtOnce vectors of columns to
// their lanes. It may be called for columns beyond the last one; these results are discarded.
template <u32 kCount, u32 kSums, u32 kAtOnce, class Of>
inline void add_up(u32 columns, const u32* some, Total* totals, Of of) {
  constexpr u32 kStep = kAtOnce * kDoubles;
  alignas(64) double all[kSums][kCount];
  alignas(64) double part[kSums][kCount];
  u32 least = columns;
  for (u32 s = 0; s < kSums; ++s) least = some[s] < least ? some[s] : least;
  for (u32 first = 0; first < kCount; first += kStep) {
    Vector<double> lanes[kSums][kAtOnce] = {};
    u32 column = first;
    for (; column + kStep <= least; column += kCount) of(column, lanes);
    Vector<double> cut[kSums][kAtOnce];
    memcpy(cut, lanes, sizeof lanes);
    for (; column < columns; column += kCount) {
      Vector<double> more[kSums][kAtOnce];
      memcpy(more, lanes, sizeof lanes);
      of(column, more);
      for (u32 s = 0; s < kSums; ++s) {
        for (u32 k = 0; k < kAtOnce; ++k) {
          const u32 at = column + k * kDoubles;
          lanes[s][k] = columns_below(columns, at, more[s][k], lanes[s][k]);
          cut[s][k] = columns_below(some[s], at, more[s][k], cut[s][k]);
        }
      }
    }
    for (u32 s = 0; s < kSums; ++s) {
      memcpy(all[s] + first, lanes[s], sizeof lanes[s]);
      memcpy(part[s] + first, cut[s], sizeof cut[s]);
    }
  }
  for (u32 s = 0; s < kSums; ++s) {
    totals[s].all = total(all[s]);
    totals[s].some = some[s] >= columns ? totals[s].all : total(part[s]);
  }
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
  // The plane shifted by rows and columns.
  [[nodiscard]] Plane moved(u32 rows, u32 columns) const {
    const u64 by = rows * stride + columns;
    return {e + by, valid + by, stride};
  }
};

// Adds up columns; what(column) gives a vector of them.
template <u32 kCount, class What>
inline Total add_up_columns(u32 columns, u32 some, What what) {
  Total found;
  add_up<kCount, 1, kVectors>(columns, &some, &found, [=](u32 column, Vector<double>(*lanes)[kVectors]) {
    for (u32 k = 0; k < kVectors; ++k) lanes[0][k] += what(column + k * kDoubles);
  });
  return found;
}

// Adds up products of points with those at kLags offsets. All points are valid.
template <u32 kCount, u32 kLags>
inline void add_up_products(const Plane& head, const Plane* tails, u32 rows, u32 columns, const u32* some,
                            Total* totals) {
  add_up<kCount, kLags, kVectors>(columns, some, totals, [&](u32 column, Vector<double>(*lanes)[kVectors]) {
    for (u32 row = rows; row-- != 0;) {
#pragma GCC unroll 4
      for (u32 k = 0; k < kVectors; ++k) {
        const Vector<double> error = head.error(row, column + k * kDoubles);
#pragma GCC unroll 5
        for (u32 s = 0; s < kLags; ++s) {
          lanes[s][k] = fused_multiply_add(error, tails[s].error(row, column + k * kDoubles), lanes[s][k]);
        }
      }
    }
  });
}

// Sums over pairs: points (heads) and the points one lag further along an axis (tails). `some` covers the columns that
// also have a tail along the last axis.
struct PairTotals {
  Total products, heads, tails, pairs;
};

// Adds up pairs of which some points are not valid. pair(row, column, a, b) sets heads and tails, and returns 1 if both
// are valid, else 0. Tails of rows from `own` on lie below the cell.
template <u32 kCount, class Pair>
inline PairTotals add_up_valid(u32 rows, u32 own, u32 columns, u32 some, Pair pair) {
  constexpr u32 kAtOnce = kGroup < 2 ? kGroup : 2;
  const u32 first[4] = {some, some, some, some};
  Total totals[4];
  add_up<kCount, 4, kAtOnce>(columns, first, totals, [&](u32 column, Vector<double>(*lanes)[kAtOnce]) {
    const Vector<double> none = {};
    Vector<double> heads[kAtOnce] = {};
    Vector<double> tails[kAtOnce] = {};
    Vector<double> below[kAtOnce] = {};
    Vector<double> kept[H5L_ASSESS_MAX_LAGS][kAtOnce];
    // Sets the tails of a row, 0 for pairs that are not valid.
    const auto add_row = [&](u32 row, Vector<double>(&to)[kAtOnce]) {
#pragma GCC unroll 2
      for (u32 k = 0; k < kAtOnce; ++k) {
        Vector<double> a;
        Vector<double> b;
        const Vector<double> both = pair(row, column + k * kDoubles, a, b);
        a = both != 0.0 ? a : none;
        to[k] = both != 0.0 ? b : none;
        lanes[0][k] = fused_multiply_add(a, to[k], lanes[0][k]);
        heads[k] += a;
        lanes[3][k] += both;
      }
    };
    u32 row = rows;
    for (; row > own; --row) add_row(row - 1, kept[row - 1 - own]);
    for (; row-- != 0;) {
      Vector<double> own_tails[kAtOnce];
      add_row(row, own_tails);
      for (u32 k = 0; k < kAtOnce; ++k) tails[k] += own_tails[k];
    }
    for (row = own; row < rows; ++row) {
      for (u32 k = 0; k < kAtOnce; ++k) below[k] += kept[row - own][k];
    }
    for (u32 k = 0; k < kAtOnce; ++k) {
      lanes[1][k] += heads[k];
      lanes[2][k] += tails[k] + below[k];
    }
  });
  return {totals[0], totals[1], totals[2], totals[3]};
}

}  // namespace
}  // namespace h5lossy::H5L_TARGET
