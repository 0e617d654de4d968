// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The passes of Interp's prediction (docs/format/interp.md), as a table in shared memory, and the integers of one.
#pragma once

#include "codecs/interp/grid.h"
#include "codecs/interp/walk.h"
#include "kernels/common/device_primitives.cuh"

namespace h5lossy::H5L_TARGET::interp {

// Division of numbers below 2^15 by a multiplication.
struct Divisor {
  u32 inverse = 1u << 31;

  Divisor() = default;
  H5L_DEVICE explicit Divisor(u32 n) : inverse(((1u << 31) + n - 1) / n) {}
  [[nodiscard]] H5L_DEVICE u32 quotient(u32 x) const { return static_cast<u32>(u64{x} * inverse >> 31); }
};

struct Pass {
  u32 count;                   // of values
  u32 begin;                   // the first one's number in coding order
  u32 x_bits, y_bits, z_bits;  // extents of a brick, as powers of two
  List places[kAxes];          // of the grid: coordinates times strides
  Divisor by_x, by_y, by_z;    // extents of the grid
  u32 odd;                     // axes that are odd and weigh something; of each:
  u32 axes[kMaxActiveAxes], weights[kMaxActiveAxes], taps[kMaxActiveAxes];
};

inline constexpr u32 kMostLevels = 16;
inline constexpr u32 kMostPasses = 1 + 7 * kMostLevels;

struct PassTable {
  Pass passes[kMostPasses];
  AxisTaps taps[kMostLevels * kMaxActiveAxes];
  u32 done;  // passes that one warp has run

  // The pass over a whole box.
  H5L_DEVICE void make_for_box(const Shape& shape) {
    List lists[kAxes];
    for (u32 a = 0; a < kAxes; ++a) lists[a] = all_of(shape.extents[a]);
    Pass& pass = passes[0];
    set_grid(shape, lists, pass);
    pass.begin = pass.odd = 0;
  }

  // The passes of an interpolation, except where they begin. Returns how many there are. By all threads.
  H5L_DEVICE u32 make_for_interpolation(const Shape& shape, const Rule& rule, u32 threads) {
    const Passes of_level(shape.active);
    const u32 top = top_level(shape), count = shape.active == 0 ? 1 : 1 + (top + 1) * of_level.count;
    for (u32 p = thread(); p < count; p += threads) make_pass(shape, rule, of_level, top, p);
    const Places places = places_of(shape);
    // By threads of other warps.
    const u32 all = (top + 1) * shape.active;
    for (u32 t = threads - 1 - thread(); t < all; t += threads) {
      const u32 level = t / shape.active;
      taps[t] = AxisTaps(shape, places, shape.active_axes[t % shape.active], 1u << level, level == top);
    }
    return count;
  }

  // Where the passes begin. By a warp.
  H5L_DEVICE void place(u32 count) {
    u32 before = 0;
    for (u32 first = 0; first < count; first += kWarpThreads) {
      const u32 p = first + lane();
      const u32 own = p < count ? passes[p].count : 0;
      const u32 end = before + scan_of_warp(own);
      if (p < count) passes[p].begin = end - own;
      before = shuffle(end, kWarpThreads - 1);
    }
  }

 private:
  H5L_DEVICE static void set_grid(const Shape& shape, const List (&lists)[kAxes], Pass& pass) {
    pass.count = 1;
    H5L_UNROLL for (u32 a = 0; a < kAxes; ++a) {
      const List& list = lists[a];
      const u32 stride = shape.strides[a];
      pass.count *= list.count;
      pass.places[a] = {list.count, list.first * stride, list.step * stride, list.last * stride};
    }
    const bool is_deep = lists[1].count > 1, is_flat = !is_deep && lists[2].count > 1;
    pass.z_bits = is_deep ? 1 : 0;
    pass.y_bits = is_deep || is_flat ? 2 : 0;
    pass.x_bits = is_deep ? 2 : is_flat ? 3 : 5;
    if (pass.count == 0) return;
    pass.by_x = Divisor(lists[3].count);
    pass.by_y = Divisor(lists[2].count);
    pass.by_z = Divisor(lists[1].count);
  }

  H5L_DEVICE void make_pass(const Shape& shape, const Rule& rule, const Passes& of_level, u32 top, u32 p) {
    Pass& pass = passes[p];
    const u32 number = p == 0 ? 0 : (p - 1) % of_level.count;
    const u32 level = p == 0 ? top : top - (p - 1) / of_level.count, s = 1u << level;
    const u32 odd = p == 0 ? 0 : of_level.odd[number];
    List lists[kAxes];
    u32 next = 0;  // active axis
    Blend blend = {};
    if (odd != 0) blend = blend_of(rule, shape.active, odd);
    u32 used = 0;
    H5L_UNROLL for (u32 a = 0; a < kAxes; ++a) {
      const u32 extent = shape.extents[a];
      if ((shape.axes & axis_bit(a)) == 0) {
        lists[a] = all_of(extent);
        continue;
      }
      const u32 i = next++;
      const bool is_odd = (odd >> i & 1) != 0, is_top = level == top;
      lists[a] = is_odd ? odd_of(extent, s, is_top) : even_of(extent, s, is_top);
      if (!is_odd || blend.weights[i] == 0) continue;
      pass.axes[used] = a;
      pass.weights[used] = blend.weights[i];
      pass.taps[used++] = level * shape.active + i;
    }
    pass.odd = used;
    set_grid(shape, lists, pass);
  }
};

// In 16ths.
template <class I>
H5L_DEVICE Unsigned<I> predict_with(const Taps& taps, const I* at) {
  using U = Unsigned<I>;
  U sum = 0;
  H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
    sum += static_cast<U>(static_cast<I>(static_cast<i32>(taps.weights[i]))) * static_cast<U>(at[taps.offsets[i]]);
  }
  return sum;
}

// A value of a pass.
struct Item {
  u32 w, z, y, x;  // entries of the grid's lists
  u32 code;        // its number in coding order
  u32 place;       // in the array
};

// The grid's value `number`, in raster order: rows have few bank conflicts, where bricks would have many.
H5L_DEVICE Item item_of(const Pass& pass, u32 number) {
  const List(&lists)[kAxes] = pass.places;
  const u32 row = pass.by_x.quotient(number), slice = pass.by_y.quotient(row);
  Item item;
  item.x = number - row * lists[3].count;
  item.y = row - slice * lists[2].count;
  item.w = pass.by_z.quotient(slice);
  item.z = slice - item.w * lists[1].count;
  item.place = lists[0].at(item.w) + lists[1].at(item.z) + lists[2].at(item.y) + lists[3].at(item.x);
  const u32 x = item.x >> pass.x_bits << pass.x_bits, y = item.y >> pass.y_bits << pass.y_bits;
  const u32 z = item.z >> pass.z_bits << pass.z_bits;
  const auto least = [](u32 left, u32 bits) { return left < 1u << bits ? left : 1u << bits; };
  const u32 width = least(lists[3].count - x, pass.x_bits), height = least(lists[2].count - y, pass.y_bits);
  const u32 depth = least(lists[1].count - z, pass.z_bits);
  const u32 before = ((item.w * lists[1].count + z) * lists[2].count + y * depth) * lists[3].count + x * depth * height;
  item.code = pass.begin + before + ((item.z - z) * height + item.y - y) * width + item.x - x;
  return item;
}

// The integers of a pass: thread `first` of `n`. Without predictions the steps are the integers. Steps are loaded for
// some values at once, since they come from far away.
template <u32 at_once, bool is_predicted, class I>
H5L_DEVICE void run_pass(const PassTable& table, u32 number, const I* steps, I* integers, u32 first, u32 n) {
  using U = Unsigned<I>;
  const Pass pass = table.passes[number];
  H5L_NO_UNROLL for (u32 begin = first; begin < pass.count; begin += at_once * n) {
    Item items[at_once];
    U sums[at_once];
    H5L_UNROLL for (u32 j = 0; j < at_once; ++j) {
      const u32 i = begin + j * n;
      if (j != 0 && i >= pass.count) break;
      items[j] = item_of(pass, i);
      sums[j] = static_cast<U>(steps[items[j].code]);
    }
    H5L_UNROLL for (u32 j = 0; j < at_once; ++j) {
      if (j != 0 && begin + j * n >= pass.count) break;
      const Item& item = items[j];
      if constexpr (is_predicted) {
        U sum = 128;
        H5L_UNROLL for (u32 k = 0; k < kMaxActiveAxes; ++k) {
          if (k >= pass.odd) break;
          const u32 a = pass.axes[k];
          const Taps& taps = table.taps[pass.taps[k]].at(a == 3 ? item.x : a == 2 ? item.y : a == 1 ? item.z : item.w);
          sum += U{pass.weights[k]} * predict_with(taps, integers + item.place);
        }
        sums[j] += static_cast<U>(static_cast<I>(sum) >> 8);
      }
      integers[item.place] = static_cast<I>(sums[j]);
    }
  }
}

}  // namespace h5lossy::H5L_TARGET::interp
