// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Structural similarity in windows of seven points along each of two or three axes, where all points count: what most
// fields take. A thread block climbs along z with a tile of rows and columns. Sums over rows and then columns of a plane
// are made in shared memory; those over planes come from sums of two neighbours, which stay in registers. Each sum is the
// tree of native/assess, ((0 + 1) + (2 + 3)) + ((4 + 5) + 6).
#pragma once

#include "assess_windows.cuh"

namespace h5lossy::H5L_TARGET {

inline constexpr u32 kSlidingSide = 7;
inline constexpr u32 kSlidingReach = kSlidingSide - 1;
inline constexpr u32 kSlidingColumns = kWarpThreads;
inline constexpr u32 kSlidingRows = 2 * kWarps;  // two for each thread
inline constexpr u32 kSlidingPlanes = 64;        // that a block climbs
inline constexpr u32 kSlidingSums = kQuantities - 1;

struct SlidingShared {
  static constexpr u32 kRows = kSlidingRows + kSlidingReach, kColumns = kSlidingColumns + kSlidingReach;
  double s[kRows][kColumns], d[kRows][kColumns];
  double sums[kSlidingSums][kRows][kSlidingColumns];
};

H5L_DEVICE double tree_of_seven(const double (&term)[kSlidingSide]) {
  return ((term[0] + term[1]) + (term[2] + term[3])) + ((term[4] + term[5]) + term[6]);
}

template <class T, bool kDeep>
class Sliding {
 public:
  H5L_DEVICE explicit Sliding(const CellsPlan& plan)
      : plan_(plan), shared_(*reinterpret_cast<SlidingShared*>(shared_memory())), own_(extents_of(plan, 0)) {}

  H5L_DEVICE void run() {
    const auto tiles = [](u64 count, u32 side) { return (count + side - 1) / side; };
    const u64 across = tiles(own_.n[kX], kSlidingColumns), down = tiles(own_.n[kY], kSlidingRows);
    const u64 all = across * down * tiles(own_.n[kZ], kSlidingPlanes);
    for (u64 i = block_number(); i < all; i += grid_blocks()) {
      x_ = i % across * kSlidingColumns;
      y_ = i / across % down * kSlidingRows;
      climb(i / across / down * kSlidingPlanes);
    }
  }

 private:
  static constexpr u32 kTileColumns = SlidingShared::kColumns;
  static constexpr u32 kTilePoints = SlidingShared::kRows * kTileColumns;
  static constexpr u32 kLoads = (kTilePoints + kThreads - 1) / kThreads;
  static constexpr u32 kRing = 6;  // sums of two planes that are still needed

  H5L_DEVICE void climb(u64 first) {
    const u64 end = first + kSlidingPlanes < own_.n[kZ] ? first + kSlidingPlanes : own_.n[kZ];
    const u64 planes = end - first + (kDeep ? kSlidingReach : 0);
    fetch(first);
    for (u64 base = 0; base < planes; base += kRing) {
      H5L_UNROLL for (u32 k = 0; k < kRing; ++k) {
        const u64 plane = base + k;
        if (plane >= planes) break;
        put();
        sync_block();
        if (plane + 1 < planes) fetch(first + plane + 1);
        sum_rows();
        sync_block();
        sum_columns();
        // Plane k of the ring's turn: the sum of planes k - 6 and k - 5 stands where that of k - 1 and k will.
        H5L_UNROLL for (u32 o = 0; o < 2; ++o) {
          double total[kSlidingSums];
          H5L_UNROLL for (u32 q = 0; q < kSlidingSums; ++q) {
            const double now = plane_[o][q];
            if constexpr (kDeep) {
              double (&two)[kRing] = two_[o][q];
              total[q] = (two[k] + two[(k + 2) % kRing]) + (two[(k + 4) % kRing] + now);
              two[(k + 5) % kRing] = before_[o][q] + now;
              before_[o][q] = now;
            } else {
              total[q] = now;
            }
          }
          if (!kDeep || plane >= kSlidingReach) judge(first + plane - (kDeep ? kSlidingReach : 0), o, total);
        }
      }
    }
    sync_block();
  }

  // The thread's points of the plane, as they stand in memory. Behind the last window they are those of the last point.
  H5L_DEVICE void fetch(u64 z) {
    const assess::View& view = plan_.view;
    const u64 last_y = own_.n[kY] + kSlidingReach - 1, last_x = own_.n[kX] + kSlidingReach - 1;
    const u64 corner[4] = {plan_.first[kW], plan_.first[kZ] + z, plan_.first[kY], plan_.first[kX]};
    const u8* const original = address(view.original, view.original_strides, view.origin, corner);
    const u8* const decoded = address(view.decoded, view.decoded_strides, view.origin, corner);
    H5L_UNROLL for (u32 i = 0; i < kLoads; ++i) {
      const u32 point = i * kThreads + thread();
      if (point >= kTilePoints) continue;
      u64 y = y_ + point / kTileColumns, x = x_ + point % kTileColumns;
      y = y < last_y ? y : last_y;
      x = x < last_x ? x : last_x;
      x_bits_[i] = word(original + static_cast<i64>(y) * view.original_strides[kY] + x * sizeof(T),
                        plan_.rules.original_big_endian);
      y_bits_[i] = word(decoded + static_cast<i64>(y) * view.decoded_strides[kY] + x * sizeof(T),
                        plan_.rules.decoded_big_endian);
    }
  }

  static H5L_DEVICE Word<T> word(const u8* from, bool is_swapped) {
    const auto bits = *reinterpret_cast<const Word<T>*>(from);
    return is_swapped ? swapped(bits) : bits;
  }

  H5L_DEVICE void put() {
    const double pivot = 2 * plan_.rules.pivot_x;
    H5L_UNROLL for (u32 i = 0; i < kLoads; ++i) {
      const u32 point = i * kThreads + thread();
      if (point >= kTilePoints) continue;
      const double x = static_cast<double>(bit_cast<T>(x_bits_[i]));
      const double d = static_cast<double>(bit_cast<T>(y_bits_[i])) - x;
      (&shared_.s[0][0])[point] = x + x + d - pivot;
      (&shared_.d[0][0])[point] = d;
    }
  }

  H5L_DEVICE void sum_rows() {
    H5L_NO_UNROLL for (u32 row = warp(); row < SlidingShared::kRows; row += kWarps) {
      double terms[kSlidingSums][kSlidingSide];
      H5L_UNROLL for (u32 k = 0; k < kSlidingSide; ++k) {
        const double s = shared_.s[row][lane() + k], d = shared_.d[row][lane() + k];
        terms[0][k] = s;
        terms[1][k] = d;
        terms[2][k] = s * s;
        terms[3][k] = d * d;
      }
      H5L_UNROLL for (u32 q = 0; q < kSlidingSums; ++q) shared_.sums[q][row][lane()] = tree_of_seven(terms[q]);
    }
  }

  // Of the thread's two windows, one below the other.
  H5L_DEVICE void sum_columns() {
    H5L_UNROLL for (u32 q = 0; q < kSlidingSums; ++q) {
      double row[kSlidingSide + 1], two[kSlidingSide];
      H5L_UNROLL for (u32 k = 0; k <= kSlidingSide; ++k) row[k] = shared_.sums[q][2 * warp() + k][lane()];
      H5L_UNROLL for (u32 k = 0; k < kSlidingSide; ++k) two[k] = row[k] + row[k + 1];
      H5L_UNROLL for (u32 o = 0; o < 2; ++o) plane_[o][q] = (two[o] + two[o + 2]) + (two[o + 4] + row[o + 6]);
    }
  }

  H5L_DEVICE void judge(u64 z, u32 o, const double (&sums)[kSlidingSums]) const {
    const u64 y = y_ + 2 * warp() + o, x = x_ + lane();
    if (y >= own_.n[kY] || x >= own_.n[kX]) return;
    const u32 step = plan_.field.step;
    const bool is_there = step == 1 || ((plan_.first[kW] % step | (plan_.first[kZ] + z) % step |
                                         (plan_.first[kY] + y) % step | (plan_.first[kX] + x) % step) == 0);
    constexpr double kPoints = kSlidingSide * kSlidingSide * (kDeep ? kSlidingSide : 1);
    plan_.lost[own_.join(0, z, y, x)] = is_there ? lost_in(plan_, sums, 1.0 / kPoints) : -1.0;
  }

  const CellsPlan& plan_;
  SlidingShared& shared_;
  Extents own_;
  u64 x_ = 0, y_ = 0;  // the tile's corner, from the plan's first
  Word<T> x_bits_[kLoads], y_bits_[kLoads];
  double plane_[2][kSlidingSums];
  double two_[2][kSlidingSums][kRing] = {}, before_[2][kSlidingSums] = {};
};

template <class T, bool kDeep>
H5L_DEVICE void slide_windows(const CellsPlan& plan) {
  Sliding<T, kDeep>(plan).run();
}

}  // namespace h5lossy::H5L_TARGET
