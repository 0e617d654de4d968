// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's predictions: interpolation from coarse to fine, Lorenzo differences, and the coding order of both. The
// definition is in docs/format/interp.md, "Prediction".
//
// I is i32 or i64. All arithmetic wraps, so that any payload can be decoded; it is done on unsigned numbers.
#pragma once

#include "codecs/codec.h"
#include "codecs/interp.h"

namespace h5lossy::H5L_TARGET::interp {

template <class I>
struct UnsignedOf;
template <>
struct UnsignedOf<i32> {
  using Type = u32;
};
template <>
struct UnsignedOf<i64> {
  using Type = u64;
};
template <class I>
using Unsigned = typename UnsignedOf<I>::Type;

// Marks an exception among the encoder's integers.
template <class I>
inline constexpr I kNone = static_cast<I>(Unsigned<I>{1} << (8 * sizeof(I) - 1));

// ---------------------------------------------------------------------------------------------------------------------
// Boxes

// A tile's box, and the axes that it is interpolated along.
struct Shape {
  u32 extents[kAxes];  // w, z, y, x
  u32 strides[kAxes];
  u32 count;
  u32 axes;                         // the bits of the mode's axes that have more than one value here
  u32 active;                       // how many they are
  u32 active_axes[kMaxActiveAxes];  // and which, in the order w, z, y, x
};

inline Shape shape_of(const u16 (&extents)[kAxes], u32 mode) {
  Shape shape = {};
  shape.count = 1;
  for (u32 a = kAxes; a-- > 0;) {
    shape.extents[a] = extents[a];
    shape.strides[a] = shape.count;
    shape.count *= extents[a];
  }
  for (u32 a = 0; a < kAxes; ++a) {
    if ((mode & axis_bit(a)) == 0 || extents[a] == 1 || shape.active == kMaxActiveAxes) continue;
    shape.axes |= axis_bit(a);
    shape.active_axes[shape.active++] = a;
  }
  return shape;
}

// Calls piece(w, z, y, x, length) for the rows of all sub-blocks of a grid, in coding order.
template <class F>
inline void for_pieces(const u32 (&counts)[kAxes], F&& piece) {
  const u32 depth = counts[1] > 1 ? 2 : 1;
  const u32 height = counts[1] == 1 && counts[2] == 1 ? 1 : 4;
  const u32 width = counts[1] > 1 ? 4 : counts[2] > 1 ? 8 : counts[3];
  for (u32 w = 0; w < counts[0]; ++w) {
    for (u32 z = 0; z < counts[1]; z += depth) {
      const u32 z_end = z + depth < counts[1] ? z + depth : counts[1];
      for (u32 y = 0; y < counts[2]; y += height) {
        const u32 y_end = y + height < counts[2] ? y + height : counts[2];
        for (u32 x = 0; x < counts[3]; x += width) {
          const u32 length = x + width < counts[3] ? width : counts[3] - x;
          for (u32 i = z; i < z_end; ++i) {
            for (u32 j = y; j < y_end; ++j) piece(w, i, j, x, length);
          }
        }
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Interpolation

struct Rule {
  u32 predictor;                // two, four or six points
  u32 weights[kMaxActiveAxes];  // weight codes of the active axes
};

// What the odd axes of a pass weigh, in 16ths; 0 for the others.
struct Blend {
  u32 weights[kMaxActiveAxes];
};

inline Blend blend_of(const Rule& rule, u32 active, u32 odd) {
  constexpr u32 kWeights[kWeightCodes] = {16, 8, 4, 2, 1, 0};
  u32 sum = 0, count = 0;
  for (u32 i = 0; i < active; ++i) {
    if ((odd >> i & 1) == 0) continue;
    sum += kWeights[rule.weights[i]];
    ++count;
  }
  Blend blend = {};
  u32 rest = 16, largest = kMaxActiveAxes;
  for (u32 i = 0; i < active; ++i) {
    if ((odd >> i & 1) == 0) continue;
    const u32 weight = sum == 0 ? 1 : kWeights[rule.weights[i]];
    const u32 of = sum == 0 ? count : sum;
    blend.weights[i] = (16 * weight + of / 2) / of;
    rest -= blend.weights[i];
    if (largest == kMaxActiveAxes || rule.weights[i] < rule.weights[largest]) largest = i;
  }
  blend.weights[largest] += rest;  // may wrap on the way
  return blend;
}

// The coordinates of an axis in a level of half step s, as a list: even ones are known, odd ones are predicted.
struct List {
  u32 count;
  u32 first, step;
  u32 last;  // the last entry
  u32 at(u32 i) const { return i + 1 == count ? last : first + i * step; }
};

inline List all_of(u32 extent) { return {extent, 0, 1, extent - 1}; }

inline List even_of(u32 extent, u32 s, bool is_top) {
  const u32 last = extent - 1;
  if (is_top) return {1, 0, 0, 0};
  return {last / (2 * s) + 1 + (last % (2 * s) != 0 ? 1 : 0), 0, 2 * s, last};
}

inline List odd_of(u32 extent, u32 s, bool is_top) {
  const u32 last = extent - 1;
  if (is_top) return {1, last, 0, last};
  const u32 count = last > s ? (last - 1 - s) / (2 * s) + 1 : 0;
  return {count, s, 2 * s, count == 0 ? 0 : s + (count - 1) * 2 * s};
}

inline u32 top_level(const Shape& shape) {
  u32 most = 1;
  for (u32 i = 0; i < shape.active; ++i) {
    const u32 extent = shape.extents[shape.active_axes[i]];
    most = extent > most ? extent : most;
  }
  u32 top = 1;
  while ((1u << top) < most - 1) ++top;
  return top;
}

// How an odd coordinate is predicted: the sum of weights times the integers at these distances, in 16ths. With six
// points in 256ths.
struct Row {
  u32 points;
  i32 distances[6];
  i32 weights[6];
};

inline Row row_of(u32 i, u32 s, u32 extent, u32 predictor, bool is_top) {
  const i32 at = static_cast<i32>(i), step = static_cast<i32>(s), last = static_cast<i32>(extent) - 1;
  if (is_top) return {1, {-at}, {16}};
  const bool has_left = at - 3 * step >= 0, has_right = at + 3 * step <= last;
  if (at + step > last) {  // the neighbour is the last coordinate
    const i32 d = last - at;
    if (predictor == kTwoPoints || !has_left) {
      const i32 a = (16 * d + (step + d) / 2) / (step + d);
      return {2, {-step, d}, {a, 16 - a}};
    }
    const i32 of = 2 * (3 * step + d);
    const i32 a = -((16 * d - (3 * step + d) + of - 1) / of);  // rounded down; d is at least 1
    const i32 b = (48 * d + step + d) / (2 * (step + d));
    return {3, {-3 * step, -step, d}, {a, b, 16 - a - b}};
  }
  if (predictor == kTwoPoints || (!has_left && !has_right)) return {2, {-step, step}, {8, 8}};
  if (predictor == kSixPoints && at - 5 * step >= 0 && at + 5 * step <= last) {
    return {6, {-5 * step, -3 * step, -step, step, 3 * step, 5 * step}, {3, -25, 150, 150, -25, 3}};
  }
  if (has_left && has_right) return {4, {-3 * step, -step, step, 3 * step}, {-1, 9, 9, -1}};
  if (has_left) return {3, {-3 * step, -step, step}, {-2, 12, 6}};
  return {3, {-step, step, 3 * step}, {6, 12, -2}};
}

// In 16ths.
template <class I>
inline Unsigned<I> predict(const Row& row, const I* at, u32 stride) {
  using U = Unsigned<I>;
  U sum = 0;
  for (u32 i = 0; i < row.points; ++i) {
    sum += static_cast<U>(static_cast<I>(row.weights[i])) *
           static_cast<U>(at[i64{row.distances[i]} * static_cast<i64>(stride)]);
  }
  return row.points == 6 ? static_cast<U>(static_cast<I>(sum + 8) >> 4) : sum;
}

// Calls visit(position, prediction) for all values but the first in coding order; it has to set integers[position].
template <class I, class F>
inline void interpolate(const Shape& shape, const Rule& rule, const I* integers, F&& visit) {
  using U = Unsigned<I>;
  u32 counts[kAxes];
  for (u32 a = 0; a < kAxes; ++a) counts[a] = (shape.axes & axis_bit(a)) != 0 ? 1 : shape.extents[a];
  u32 before = 0;
  for_pieces(counts, [&](u32 w, u32 z, u32 y, u32 x, u32 length) {
    const u32 at = w * shape.strides[0] + z * shape.strides[1] + y * shape.strides[2] + x;
    for (u32 i = 0; i < length; ++i) {
      if (at + i != 0) visit(at + i, integers[before]);
      before = at + i;
    }
  });

  const u32 top = top_level(shape);
  for (u32 level = top + 1; level-- > 0;) {
    const u32 s = 1u << level;
    const bool is_top = level == top;
    for (u32 odd_axes = 1; odd_axes <= shape.active; ++odd_axes) {
      for (u32 m = 1; m < 1u << shape.active; ++m) {
        if (count_ones(m) != odd_axes) continue;
        u32 odd = 0;  // bit i: active axis i
        for (u32 i = 0; i < shape.active; ++i) odd |= (m >> (shape.active - 1 - i) & 1) << i;
        List lists[kAxes];
        for (u32 a = 0; a < kAxes; ++a) lists[a] = all_of(shape.extents[a]);
        for (u32 i = 0; i < shape.active; ++i) {
          const u32 a = shape.active_axes[i];
          lists[a] = (odd >> i & 1) != 0 ? odd_of(shape.extents[a], s, is_top) : even_of(shape.extents[a], s, is_top);
        }
        bool is_empty = false;
        for (u32 a = 0; a < kAxes; ++a) {
          counts[a] = lists[a].count;
          is_empty |= counts[a] == 0;
        }
        if (is_empty) continue;
        const Blend blend = blend_of(rule, shape.active, odd);
        for_pieces(counts, [&](u32 w, u32 z, u32 y, u32 x, u32 length) {
          const u32 fixed[kAxes] = {lists[0].at(w), lists[1].at(z), lists[2].at(y), 0};
          for (u32 k = 0; k < length; ++k) {
            const u32 coordinates[kAxes] = {fixed[0], fixed[1], fixed[2], lists[3].at(x + k)};
            u32 position = 0;
            for (u32 a = 0; a < kAxes; ++a) position += coordinates[a] * shape.strides[a];
            U sum = 0;
            for (u32 i = 0; i < shape.active; ++i) {
              if (blend.weights[i] == 0) continue;
              const u32 a = shape.active_axes[i];
              const Row row = row_of(coordinates[a], s, shape.extents[a], rule.predictor, is_top);
              sum += U{blend.weights[i]} * predict(row, integers + position, shape.strides[a]);
            }
            visit(position, static_cast<I>(sum + 128) >> 8);
          }
        });
      }
    }
  }
}

// The encoder's side. `targets` are in raster order, with kNone for exceptions, whose codes are 0. Closed: a target is
// where the value lies, in 64ths of a fine point, and is met to half a step; open: it is the integer. Gives the integers
// in raster order and the codes in coding order, padded with zeros to whole blocks.
template <bool kClosed, class I>
inline void code_interpolation(const Shape& shape, const Rule& rule, const I* targets, I base, I* integers, I* codes) {
  using U = Unsigned<I>;
  integers[0] = base;
  *codes++ = 0;
  interpolate(shape, rule, integers, [&](u32 position, I prediction) {
    const I target = targets[position];
    U code = 0;
    if (target != kNone<I>) {
      if constexpr (kClosed) {
        code = static_cast<U>(
            static_cast<I>(static_cast<U>(target) - U{kParts} * static_cast<U>(prediction) + kParts * kUnit / 2) >> 10);
      } else {
        code = static_cast<U>(target) - static_cast<U>(prediction);
      }
    }
    integers[position] = static_cast<I>(static_cast<U>(prediction) + (kClosed ? U{kUnit} : U{1}) * code);
    *codes++ = static_cast<I>(code);
  });
  for (u32 i = shape.count; i % kBlockCodes != 0; ++i) *codes++ = 0;
}

// The decoder's side: `steps` in coding order lead from predictions to integers. The first one is not used.
template <class I>
inline void rebuild_interpolation(const Shape& shape, const Rule& rule, const I* steps, I base, I* integers) {
  using U = Unsigned<I>;
  integers[0] = base;
  interpolate(shape, rule, integers, [&](u32 position, I prediction) {
    integers[position] = static_cast<I>(static_cast<U>(prediction) + static_cast<U>(*++steps));
  });
}

// ---------------------------------------------------------------------------------------------------------------------
// Lorenzo

// Replaces exceptions (kNone) by the integer before them along x; where there is none along y, then z, then w. If all
// else fails, by base.
template <class I>
inline void fill_exceptions(const Shape& shape, I base, I* integers) {
  const u32(&strides)[kAxes] = shape.strides;
  if (integers[0] == kNone<I>) integers[0] = base;
  for (u32 first = 0; first < shape.count; first += shape.extents[3]) {
    if (integers[first] == kNone<I>) {
      const u32 back = first % strides[1] != 0 ? strides[2] : first % strides[0] != 0 ? strides[1] : strides[0];
      integers[first] = integers[first - back];
    }
    for (u32 i = first + 1; i < first + shape.extents[3]; ++i) {
      if (integers[i] == kNone<I>) integers[i] = integers[i - 1];
    }
  }
}

// The values that have no neighbour along the axes of the differences form a grid of their own, in which each is
// predicted by the one before along the last possible axis. Calls visit(position, position before) in raster order.
template <class F>
inline void for_edge(const Shape& shape, u32 axes, F&& visit) {
  u32 counts[kAxes];
  for (u32 a = 0; a < kAxes; ++a) counts[a] = (axes & axis_bit(a)) != 0 ? 1 : shape.extents[a];
  const u32(&strides)[kAxes] = shape.strides;
  for (u32 w = 0; w < counts[0]; ++w) {
    for (u32 z = 0; z < counts[1]; ++z) {
      for (u32 y = 0; y < counts[2]; ++y) {
        for (u32 x = 0; x < counts[3]; ++x) {
          if ((w | z | y | x) == 0) continue;
          const u32 back = x != 0 ? strides[3] : y != 0 ? strides[2] : z != 0 ? strides[1] : strides[0];
          const u32 position = w * strides[0] + z * strides[1] + y * strides[2] + x;
          visit(position, position - back);
        }
      }
    }
  }
}

// Gives the codes in coding order, padded with zeros to whole blocks. `scratch` has room for the tile's integers.
template <class I>
inline void code_lorenzo(const Shape& shape, u32 axes, const I* integers, I* codes, I* scratch) {
  using U = Unsigned<I>;
  for (u32 i = 0; i < shape.count; ++i) scratch[i] = integers[i];
  for (u32 a = 0; a < kAxes; ++a) {
    if ((axes & axis_bit(a)) == 0) continue;
    const u32 stride = shape.strides[a], period = stride * shape.extents[a];
    for (u32 i = shape.count; i-- > 0;) {
      if (i % period < stride) continue;
      scratch[i] = static_cast<I>(static_cast<U>(scratch[i]) - static_cast<U>(scratch[i - stride]));
    }
  }
  scratch[0] = 0;
  for_edge(shape, axes, [&](u32 position, u32 before) {
    scratch[position] = static_cast<I>(static_cast<U>(integers[position]) - static_cast<U>(integers[before]));
  });
  u32 next = 0;
  for_pieces(shape.extents, [&](u32 w, u32 z, u32 y, u32 x, u32 length) {
    const u32 at = w * shape.strides[0] + z * shape.strides[1] + y * shape.strides[2] + x;
    for (u32 i = 0; i < length; ++i) codes[next++] = scratch[at + i];
  });
  for (; next % kBlockCodes != 0; ++next) codes[next] = 0;
}

// `steps` in coding order; the first one is not used.
template <class I>
inline void rebuild_lorenzo(const Shape& shape, u32 axes, const I* steps, I base, I* integers) {
  using U = Unsigned<I>;
  for_pieces(shape.extents, [&](u32 w, u32 z, u32 y, u32 x, u32 length) {
    const u32 at = w * shape.strides[0] + z * shape.strides[1] + y * shape.strides[2] + x;
    for (u32 i = 0; i < length; ++i) integers[at + i] = *steps++;
  });
  integers[0] = base;
  for_edge(shape, axes, [&](u32 position, u32 before) {
    integers[position] = static_cast<I>(static_cast<U>(integers[position]) + static_cast<U>(integers[before]));
  });
  for (u32 a = 0; a < kAxes; ++a) {
    if ((axes & axis_bit(a)) == 0) continue;
    const u32 stride = shape.strides[a], period = stride * shape.extents[a];
    for (u32 i = 0; i < shape.count; ++i) {
      if (i % period < stride) continue;
      integers[i] = static_cast<I>(static_cast<U>(integers[i]) + static_cast<U>(integers[i - stride]));
    }
  }
}

}  // namespace h5lossy::H5L_TARGET::interp
