// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's predictions: interpolation from coarse to fine, Lorenzo differences, and the coding order of both. The
// definition is in docs/format/interp.md, "Prediction".
//
// I is i32 or i64. All arithmetic wraps, so that any payload can be decoded; it is done on unsigned numbers.
#pragma once

#include "codecs/interp_grid.h"
#include "codecs/simd/interp_levels.h"

namespace h5lossy::H5L_TARGET::interp {

// ---------------------------------------------------------------------------------------------------------------------
// Interpolation, one value after the other

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
inline void code_interpolation(const Shape& shape, const Rule& rule, const I* targets, I base, I* integers, I* codes,
                               u8* scratch) {
  if constexpr (sizeof(I) == 4) {
    if (levels::Workspace* const space = levels::plan_levels(shape, rule, scratch); space != nullptr) {
      levels::with_predictor(rule.predictor, [&](auto predictor) {
        levels::code<kClosed, predictor()>(*space, targets, base, integers, codes);
      });
      return;
    }
  }
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
inline void rebuild_interpolation(const Shape& shape, const Rule& rule, const I* steps, I base, I* integers,
                                  u8* scratch) {
  if constexpr (sizeof(I) == 4) {
    if (levels::Workspace* const space = levels::plan_levels(shape, rule, scratch); space != nullptr) {
      levels::with_predictor(rule.predictor,
                             [&](auto predictor) { levels::rebuild<predictor()>(*space, steps, base, integers); });
      return;
    }
  }
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
