// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The passes of Interp's prediction (docs/format/interp.md), as a table in shared memory, and how a pass predicts
// integers.
#pragma once

#include "codecs/interp/grid.h"
#include "codecs/interp/walk.h"
#include "kernels/common/device_primitives.cuh"

namespace h5lossy::H5L_TARGET::interp {

// Divides numbers below 2^15 by multiplication.
struct Divisor {
  u32 inverse = 1u << 31;

  Divisor() = default;
  H5L_DEVICE explicit Divisor(u32 n) : inverse(((1u << 31) + n - 1) / n) {}
  [[nodiscard]] H5L_DEVICE u32 quotient(u32 x) const { return static_cast<u32>(u64{x} * inverse >> 31); }
};

// A pass's grid is cut into quads: up to four values along one axis, which is the outermost of z, y and x along which
// the grid has more than one coordinate. Quads are numbered along x first, so a warp's accesses have few bank
// conflicts. If a quad lies along x itself, its values are kWarpThreads apart.
struct Pass {
  u32 count;  // number of values
  u32 begin;  // number of the first value in coding order
  u32 quads;  // number of quads; `layer`: those in one layer of the axis along which they lie
  u32 layer;
  u32 along;                   // the axis along which quads lie
  u32 width, height;           // of a layer: number of quads along x and y
  u32 x_bits, y_bits, z_bits;  // extents of a brick are 2 to these powers
  List places[kAxes];          // lists of the grid: coordinates times strides
  Divisor by_layer, by_x, by_y;
  u32 odd;  // number of axes that are odd and have a weight; for each of them:
  u32 axes[kMaxActiveAxes], weights[kMaxActiveAxes], taps[kMaxActiveAxes];
};

inline constexpr u32 kQuad = 4;
inline constexpr u32 kMostLevels = 16;
inline constexpr u32 kMostPasses = 1 + 7 * kMostLevels;

template <u32 most_passes, u32 most_rules>
struct PassTableOf {
  Pass passes[most_passes];
  AxisTaps taps[most_rules];
  Blend blends[7];  // for the passes of any level

  [[nodiscard]] H5L_DEVICE static bool has_room(const Shape& shape) {
    const u32 levels = top_level(shape) + 1;
    return 1 + levels * ((1u << shape.active) - 1) <= most_passes && levels * shape.active <= most_rules;
  }

  // Makes the pass over a whole box. Called by one thread.
  H5L_DEVICE void make_for_box(const Shape& shape) {
    H5L_UNROLL for (u32 a = 0; a < kAxes; ++a) set_places(shape, a, all_of(shape.extents[a]), passes[0]);
    finish(passes[0]);
    passes[0].begin = passes[0].odd = 0;
  }

  // Makes the passes of an interpolation, except for what depends on several axes. Called by `threads` threads, of
  // which this one is number `first`. Returns the number of passes.
  H5L_DEVICE u32 begin_interpolation(const Shape& shape, const Rule& rule, u32 first, u32 threads) {
    const Passes of_level(shape.active);
    const u32 top = top_level(shape), count = shape.active == 0 ? 1 : 1 + (top + 1) * of_level.count;
    for (u32 i = first; i < count * kAxes; i += threads) {
      const u32 p = i / kAxes, a = i % kAxes, level = level_of(p, of_level, top), extent = shape.extents[a];
      const u32 k = active_number(shape, a);
      const bool is_top = level == top;
      List list = all_of(extent);
      if ((shape.axes & axis_bit(a)) != 0) {
        const bool is_odd = (odd_of_pass(p, of_level) >> k & 1) != 0;
        list = is_odd ? odd_of(extent, 1u << level, is_top) : even_of(extent, 1u << level, is_top);
      }
      set_places(shape, a, list, passes[p]);
    }
    // Other threads begin here.
    const Places places = places_of(shape);
    const u32 last = threads - 1 - first, rules = count == 1 ? 0 : (top + 1) * shape.active;
    for (u32 t = last; t < rules; t += threads) {
      const u32 level = t / shape.active;
      taps[t] = AxisTaps(shape, places, shape.active_axes[t % shape.active], 1u << level, level == top);
    }
    for (u32 n = last - rules; n < of_level.count; n += threads) {
      blends[n] = blend_of(rule, of_level.odd[n]);
    }
    return count;
  }

  // Makes the rest. Called by a warp.
  H5L_DEVICE void finish_interpolation(const Shape& shape, u32 count) {
    const Passes of_level(shape.active);
    const u32 top = top_level(shape);
    u32 before = 0;
    for (u32 first = 0; first < count; first += kWarpThreads) {
      const u32 p = first + lane();
      u32 own = 0;
      if (p < count) {
        Pass& pass = passes[p];
        finish(pass);
        own = pass.count;
        pass.odd = 0;
        H5L_UNROLL for (u32 k = 0; p != 0 && k < kMaxActiveAxes; ++k) {
          if (k >= shape.active || (odd_of_pass(p, of_level) >> k & 1) == 0) continue;
          const u32 weight = blends[(p - 1) % of_level.count].weights[k];
          if (weight == 0) continue;
          pass.axes[pass.odd] = shape.active_axes[k];
          pass.weights[pass.odd] = weight;
          pass.taps[pass.odd++] = level_of(p, of_level, top) * shape.active + k;
        }
      }
      const u32 end = before + scan_of_warp(own);
      if (p < count) passes[p].begin = end - own;
      before = shuffle(end, kWarpThreads - 1);
    }
  }

 private:
  H5L_DEVICE static u32 level_of(u32 p, const Passes& of_level, u32 top) {
    return p == 0 ? top : top - (p - 1) / of_level.count;
  }
  H5L_DEVICE static u32 odd_of_pass(u32 p, const Passes& of_level) {
    return p == 0 ? 0 : of_level.odd[(p - 1) % of_level.count];
  }
  // The number of active axes before this one.
  H5L_DEVICE static u32 active_number(const Shape& shape, u32 a) {
    u32 k = 0;
    H5L_UNROLL for (u32 b = 0; b < kAxes; ++b) k += b < a && (shape.axes & axis_bit(b)) != 0 ? 1 : 0;
    return k;
  }

  H5L_DEVICE static void set_places(const Shape& shape, u32 a, const List& list, Pass& pass) {
    const u32 stride = shape.strides[a];
    pass.places[a] = {list.count, list.first * stride, list.step * stride, list.last * stride};
  }

  H5L_DEVICE static void finish(Pass& pass) {
    const u32 w = pass.places[0].count, z = pass.places[1].count, y = pass.places[2].count, x = pass.places[3].count;
    pass.count = w * z * y * x;
    pass.along = z > 1 ? 1 : y > 1 ? 2 : 3;
    const bool is_deep = pass.along == 1, is_flat = pass.along == 2;
    pass.z_bits = is_deep ? 1 : 0;
    pass.y_bits = is_deep || is_flat ? 2 : 0;
    pass.x_bits = is_deep ? 2 : is_flat ? 3 : 5;
    pass.width = is_deep || is_flat ? x : kWarpThreads;
    pass.height = is_deep ? y : 1;
    pass.layer = w * pass.height * pass.width;
    const u32 in_layers = is_deep ? z : is_flat ? y : (x + kWarpThreads - 1) / kWarpThreads;
    pass.quads = pass.count == 0 ? 0 : (in_layers + kQuad - 1) / kQuad * pass.layer;
    if (pass.count == 0) return;
    pass.by_layer = Divisor(pass.layer);
    pass.by_x = Divisor(pass.width);
    pass.by_y = Divisor(pass.height);
  }
};

using PassTable = PassTableOf<kMostPasses, kMostLevels * kMaxActiveAxes>;
// Large enough for boxes like cubes and squares, and for rows.
using SmallPassTable = PassTableOf<44, 18>;

// The prediction of an integer along one axis, in 16ths.
template <class I, class Integers>
H5L_DEVICE Unsigned<I> predict_with(const Taps& taps, Integers integers, u32 at) {
  using U = Unsigned<I>;
  U sum = 0;
  H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
    sum += static_cast<U>(static_cast<I>(static_cast<i32>(taps.weights[i]))) *
           static_cast<U>(integers[at + static_cast<u32>(taps.offsets[i])]);
  }
  return sum;
}

// A quad of a pass.
struct PassQuad {
  u32 entries[kAxes];  // indices into the grid's lists, for the first value
  u32 step;            // from the index of a value to that of the next one, along the quad
  u32 left;            // number of values that exist, if fewer than kQuad; the others repeat the first
  u32 places[kQuad];   // in the array
  u32 codes[kQuad];    // numbers in coding order

  [[nodiscard]] H5L_DEVICE bool has(u32 j) const { return j < left; }
};

// Quad `number`; false if it has no values.
H5L_DEVICE bool find_quad(const Pass& pass, u32 number, PassQuad& quad) {
  const List(&lists)[kAxes] = pass.places;
  const u32 along = pass.along, layer = pass.by_layer.quotient(number), in_layer = number - layer * pass.layer;
  const u32 row = pass.by_x.quotient(in_layer), w = pass.by_y.quotient(row);
  u32 x = in_layer - row * pass.width, y = row - w * pass.height, z = 0;
  if (along == 1) {
    z = layer * kQuad;
    quad.left = lists[1].count - z;
  } else if (along == 2) {
    y = layer * kQuad;
    quad.left = lists[2].count - y;
  } else {
    x += layer * kQuad * kWarpThreads;
    if (x >= lists[3].count) return false;
    quad.left = (lists[3].count - x + kWarpThreads - 1) / kWarpThreads;
  }
  quad.entries[0] = w;
  quad.entries[1] = z;
  quad.entries[2] = y;
  quad.entries[3] = x;
  quad.step = along == 3 ? kWarpThreads : 1;

  // Numbers in coding order. Along z, the next value is in the same brick; along y as well; along x, it is one block
  // further on.
  const auto least = [](u32 a, u32 b) { return a < b ? a : b; };
  const u32 x_first = x >> pass.x_bits << pass.x_bits, y_first = y >> pass.y_bits << pass.y_bits;
  const u32 width = least(lists[3].count - x_first, 1u << pass.x_bits);
  const u32 height = least(lists[2].count - y_first, 1u << pass.y_bits);
  const u32 depth = least(lists[1].count - z, 1u << pass.z_bits), plane = lists[2].count * lists[3].count;
  const u32 before_brick = y_first * lists[3].count + x_first * height;  // in each slice of the brick
  const u32 code =
      pass.begin + (w * lists[1].count + z) * plane + depth * before_brick + (y - y_first) * width + (x - x_first);
  u32 next, second;  // from the first value's number to those of the second and the third
  if (along == 1) {
    next = height * width;
    second = 2 * plane - (quad.left < kQuad ? before_brick : 0);  // the last brick may have one slice
  } else {
    next = along == 2 ? width : kWarpThreads;
    second = 2 * next;
  }
  const u32 rest = lists[0].at(w) + (along == 1 ? 0 : lists[1].at(z)) + (along == 2 ? 0 : lists[2].at(y)) +
                   (along == 3 ? 0 : lists[3].at(x));
  const List list = along == 1 ? lists[1] : along == 2 ? lists[2] : lists[3];
  const u32 entry = along == 1 ? z : along == 2 ? y : x;
  H5L_UNROLL for (u32 j = 0; j < kQuad; ++j) {
    quad.places[j] = rest + list.at(entry + (quad.has(j) ? j * quad.step : 0));
    quad.codes[j] = code + (quad.has(j) ? j % 2 * next + j / 2 * second : 0);
  }
  return true;
}

// Predicts the values of a quad. The result is 256 times the prediction, plus 128.
template <class I, class Table, class Integers>
H5L_DEVICE void predict_quad(const Table& table, const Pass& pass, const PassQuad& quad, Integers integers,
                             Unsigned<I> (&predicted)[kQuad]) {
  using U = Unsigned<I>;
  const u32 along = pass.along, entry = along == 1 ? quad.entries[1] : along == 2 ? quad.entries[2] : quad.entries[3];
  H5L_UNROLL for (u32 j = 0; j < kQuad; ++j) predicted[j] = 128;
  H5L_UNROLL for (u32 k = 0; k < kMaxActiveAxes; ++k) {
    if (k >= pass.odd) break;
    const u32 a = pass.axes[k];
    const U weight = pass.weights[k];
    const AxisTaps& rules = table.taps[pass.taps[k]];
    if (a != along) {
      const Taps taps = rules.at(a == 3 ? quad.entries[3] : a == 2 ? quad.entries[2] : quad.entries[a == 1 ? 1 : 0]);
      H5L_UNROLL for (u32 j = 0; j < kQuad; ++j) predicted[j] +=
          weight * predict_with<I>(taps, integers, quad.places[j]);
    } else if (along != 3 && quad.left >= kQuad && rules.are_inner(entry, kQuad)) {
      // Neighbours share points.
      const Taps taps = rules.at(entry);
      const u32 first = quad.places[0] + static_cast<u32>(taps.offsets[0]), step = quad.places[1] - quad.places[0];
      U points[kQuad + 3];
      H5L_UNROLL for (u32 i = 0; i < kQuad + 3; ++i) points[i] = static_cast<U>(integers[first + i * step]);
      H5L_UNROLL for (u32 j = 0; j < kQuad; ++j) {
        U sum = 0;
        H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
          sum += static_cast<U>(static_cast<I>(static_cast<i32>(taps.weights[i]))) * points[j + i];
        }
        predicted[j] += weight * sum;
      }
    } else {
      H5L_UNROLL for (u32 j = 0; j < kQuad; ++j) {
        const Taps& taps = rules.at(entry + (quad.has(j) ? j * quad.step : 0));
        predicted[j] += weight * predict_with<I>(taps, integers, quad.places[j]);
      }
    }
  }
}

// The place of the value that has number `code` in a grid's coding order.
H5L_DEVICE u32 place_of_code(const Pass& pass, u32 code) {
  const List(&lists)[kAxes] = pass.places;
  const u32 nx = lists[3].count, ny = lists[2].count, nz = lists[1].count;
  const auto least = [](u32 left, u32 bits) { return left < 1u << bits ? left : 1u << bits; };
  const u32 w = code / (nz * ny * nx);
  u32 rest = code - w * nz * ny * nx;
  const u32 z = rest / (ny * nx << pass.z_bits) << pass.z_bits, depth = least(nz - z, pass.z_bits);
  rest -= z * ny * nx;
  const u32 y = rest / (depth * nx << pass.y_bits) << pass.y_bits, height = least(ny - y, pass.y_bits);
  rest -= y * depth * nx;
  const u32 x = rest / (depth * height << pass.x_bits) << pass.x_bits, width = least(nx - x, pass.x_bits);
  rest -= x * depth * height;
  const u32 in_slice = rest % (height * width);
  return lists[0].at(w) + lists[1].at(z + rest / (height * width)) + lists[2].at(y + in_slice / width) +
         lists[3].at(x + in_slice % width);
}

template <class Element, class I>
H5L_DEVICE void put(Element& to, I integer) {
  to = static_cast<Element>(integer);
}

// Codes the first pass of an interpolation, by a warp: the first value is the base, and each other one is predicted by
// the previous one. take(target, prediction, number of the code, integer) returns the code.
template <class I, class Integers, class Code, class Take>
H5L_DEVICE void code_first_pass(const Pass& pass, Integers integers, I base, Code* codes, Take take) {
  I before = base;
  H5L_NO_UNROLL for (u32 first = 0; first < pass.count; first += kWarpThreads) {
    const u32 code = first + lane();
    const bool is_there = code < pass.count;
    const u32 place = is_there ? place_of_code(pass, code) : 0;
    const I target = is_there ? static_cast<I>(integers[place]) : I{0};
    I integer = 0, step = 0;
    const u32 n = pass.count - first < kWarpThreads ? pass.count - first : kWarpThreads;
    H5L_NO_UNROLL for (u32 k = 0; k < n; ++k) {
      const I of_k = shuffle(target, k);
      I next = base, own_step = 0;
      if (first + k != 0) {
        if (lane() == k) own_step = take(of_k, before, first + k, next);
        next = shuffle(next, k);
      }
      if (lane() == k) {
        integer = next;
        step = own_step;
      }
      before = next;
    }
    if (is_there) {
      put(integers[place], integer);
      put(codes[code], step);
    }
  }
}

// Calls visit(pass, quad number) for passes that do not depend on each other. Called by all warps of a thread block.
template <u32 warps, class Table, class Visit>
H5L_DEVICE void for_quads(const Table& table, u32 first, u32 end, Visit visit) {
  u32 part = warp();
  H5L_NO_UNROLL for (u32 p = first; p < end; ++p) {
    const Pass& pass = table.passes[p];
    const u32 parts = (pass.quads + kWarpThreads - 1) / kWarpThreads;
    H5L_NO_UNROLL for (; part < parts; part += warps) {
      const u32 quad = part * kWarpThreads + lane();
      if (quad < pass.quads) visit(pass, quad);
    }
    part -= parts;
  }
}

// Calls run(first, end) for the passes of all levels, followed by a barrier each time. Passes of a level with the same
// number of odd axes do not depend on each other, and share a call.
template <class Run>
H5L_DEVICE void for_phases(const Shape& shape, u32 passes, Run run) {
  H5L_NO_UNROLL for (u32 p = 1; p < passes;) {
    H5L_NO_UNROLL for (u32 odd = 1; odd <= shape.active; ++odd) {
      const u32 alike = odd == shape.active ? 1 : shape.active;  // number of passes with one to three odd axes
      run(p, p + alike);
      p += alike;
      sync_block();
    }
  }
}

}  // namespace h5lossy::H5L_TARGET::interp
