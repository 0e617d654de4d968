// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The basis of Interp's predictions (docs/format/interp.md, "Prediction"): a tile's box, its coding order, the lists of
// coordinates of each level, and the rules by coordinate.
#pragma once

#include "codecs/codec.h"
#include "codecs/interp/format.h"

// Shuffles two vectors of `type`.
#if defined(__clang__) || __GNUC__ >= 12
#define H5L_SHUFFLE(type, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define H5L_SHUFFLE(type, a, b, ...) __builtin_shuffle(a, b, type{__VA_ARGS__})
#endif

namespace h5lossy::H5L_TARGET::interp {

// Arrays of integers and codes have room for this many more values at the end, which may be read and written.
inline constexpr u32 kSpareCodes = 32;

// ---------------------------------------------------------------------------------------------------------------------
// Boxes

// A tile's box, and the axes along which it is interpolated.
struct Shape {
  u32 extents[kAxes];  // w, z, y, x
  u32 strides[kAxes];
  u32 count;
  u32 axes;                         // the axes of the mode along which the box has more than one value, as bits
  u32 active;                       // their number
  u32 active_axes[kMaxActiveAxes];  // the axes themselves, in the order w, z, y, x
};

H5L_FN Shape shape_of(const u16 (&extents)[kAxes], u32 mode) {
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

#if !defined(__CUDACC__)

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
// Rows to and from coding order

template <bool kToRows, u32 kWidth, class W, class Code>
H5L_INLINE void move_piece(W* place, Code* code) {
  if constexpr (kToRows) {
    memcpy(place, code, kWidth * sizeof(*place));
  } else {
    memcpy(code, place, kWidth * sizeof(*place));
  }
}

// Transposes the quarters of two vectors of eight words: a0 a1, b0 b1 become a0 b0, a1 b1.
inline void move_squares(const u32* from_a, const u32* from_b, u32* to_first, u32* to_second) {
  using Eight [[gnu::vector_size(32)]] = u32;
  Eight a, b;
  memcpy(&a, from_a, sizeof a);
  memcpy(&b, from_b, sizeof b);
  const Eight first = H5L_SHUFFLE(Eight, a, b, 0, 1, 2, 3, 8, 9, 10, 11);
  const Eight second = H5L_SHUFFLE(Eight, a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  memcpy(to_first, &first, sizeof first);
  memcpy(to_second, &second, sizeof second);
}

template <class W>
inline void copy_few(W* to, const W* from, u32 count) {
  if ((count & 4) != 0) memcpy(to, from, 4 * sizeof(W)), to += 4, from += 4;
  if ((count & 2) != 0) memcpy(to, from, 2 * sizeof(W)), to += 2, from += 2;
  if ((count & 1) != 0) *to = *from;
}

// Copies rows of adjacent sub-blocks along x, from entry x on. Codes are read or written up to kWidth past their end,
// and rows are written within their `places`.
template <bool kToRows, u32 kWidth, class W, class Code>
inline Code* move_any_rows(u32 count, W* const* rows, u32 x, u32 entries, u32 places, Code* codes) {
  for (; x < entries; x += kWidth) {
    const u32 width = entries - x < kWidth ? entries - x : kWidth;
    const bool has_room = !kToRows || x + kWidth <= places;
    for (u32 r = 0; r < count; ++r, codes += width) {
      if (has_room) {
        move_piece<kToRows, kWidth>(rows[r] + x, codes);
      } else {
        copy_few(rows[r] + x, codes, width);
      }
    }
  }
  return codes;
}

// The same for common numbers of rows.
template <bool kToRows, u32 kWidth, u32 kRows, class W, class Code>
inline Code* move_rows(W* const* from, u32 entries, u32 places, Code* codes) {
  static_assert(kRows % 2 == 0);
  W* rows[kRows];
  for (u32 r = 0; r < kRows; ++r) rows[r] = from[r];
  u32 x = 0;
  if constexpr (kWidth == 4 && sizeof(W) == 4 && kVectorBytes >= 32) {  // two sub-blocks, two rows
    for (; x + 2 * kWidth <= entries; x += 2 * kWidth) {
#pragma GCC unroll 4
      for (u32 r = 0; r < kRows; r += 2) {
        if constexpr (kToRows) {
          move_squares(codes + r * kWidth, codes + (kRows + r) * kWidth, rows[r] + x, rows[r + 1] + x);
        } else {
          move_squares(rows[r] + x, rows[r + 1] + x, codes + r * kWidth, codes + (kRows + r) * kWidth);
        }
      }
      codes += 2 * kRows * kWidth;
    }
  }
  for (; x + kWidth <= entries; x += kWidth) {
#pragma GCC unroll 8
    for (u32 r = 0; r < kRows; ++r) move_piece<kToRows, kWidth>(rows[r] + x, codes + r * kWidth);
    codes += kRows * kWidth;
  }
  return move_any_rows<kToRows, kWidth>(kRows, rows, x, entries, places, codes);
}

// Calls the function above that is for this number of rows.
template <bool kToRows, u32 kWidth, class W, class Code>
inline Code* move_rows_of(u32 count, W* const* rows, u32 entries, u32 places, Code* codes) {
  if constexpr (kWidth == 4) {
    if (count == 8) return move_rows<kToRows, 4, 8>(rows, entries, places, codes);
    if (count == 6) return move_rows<kToRows, 4, 6>(rows, entries, places, codes);
  }
  if (count == 4) return move_rows<kToRows, kWidth, 4>(rows, entries, places, codes);
  return move_any_rows<kToRows, kWidth>(count, rows, 0, entries, places, codes);
}

#endif

// ---------------------------------------------------------------------------------------------------------------------
// Interpolation

struct Rule {
  u32 weights[kMaxActiveAxes];  // weight codes of the active axes
};

// The weights of the odd axes of a pass, in 16ths; 0 for the other axes.
struct Blend {
  u32 weights[kMaxActiveAxes];
};

// The weight of a code, 0 to 5: 16, 8, 4, 2, 1, 0. Not a table, and below no index that is known only at run time: on a
// GPU such arrays are in a thread's own memory.
H5L_FN u32 weight_of_code(u32 code) { return 16u >> code; }

// `odd` has a bit per active axis.
H5L_FN Blend blend_of(const Rule& rule, u32 odd) {
  u32 sum = 0, count = 0;
  for (u32 i = 0; i < kMaxActiveAxes; ++i) {
    if ((odd >> i & 1) == 0) continue;
    sum += weight_of_code(rule.weights[i]);
    ++count;
  }
  Blend blend = {};
  u32 rest = 16, largest = 0, least_code = kWeightCodes;
  for (u32 i = 0; i < kMaxActiveAxes; ++i) {
    if ((odd >> i & 1) == 0) continue;
    const u32 weight = sum == 0 ? 1 : weight_of_code(rule.weights[i]);
    const u32 divisor = sum == 0 ? count : sum;
    blend.weights[i] = (16 * weight + divisor / 2) / divisor;
    rest -= blend.weights[i];
    if (rule.weights[i] < least_code) {
      largest = i;
      least_code = rule.weights[i];
    }
  }
  for (u32 i = 0; i < kMaxActiveAxes; ++i) blend.weights[i] += i == largest ? rest : 0;  // sums may wrap in between
  return blend;
}

// The coordinates of an axis on a level of half step s, as a list: even ones are known, odd ones are predicted.
struct List {
  u32 count;
  u32 first, step;
  u32 last;  // the last entry
  H5L_FN u32 at(u32 i) const { return i + 1 == count ? last : first + i * step; }
};

H5L_FN List all_of(u32 extent) { return {extent, 0, 1, extent - 1}; }

H5L_FN List even_of(u32 extent, u32 s, bool is_top) {
  const u32 last = extent - 1;
  if (is_top) return {1, 0, 0, 0};
  return {last / (2 * s) + 1 + (last % (2 * s) != 0 ? 1 : 0), 0, 2 * s, last};
}

H5L_FN List odd_of(u32 extent, u32 s, bool is_top) {
  const u32 last = extent - 1;
  if (is_top) return {1, last, 0, last};
  const u32 count = last > s ? (last - 1 - s) / (2 * s) + 1 : 0;
  return {count, s, 2 * s, count == 0 ? 0 : s + (count - 1) * 2 * s};
}

H5L_FN u32 top_level(const Shape& shape) {
  u32 most = 1;
  for (u32 i = 0; i < shape.active; ++i) {
    const u32 extent = shape.extents[shape.active_axes[i]];
    most = extent > most ? extent : most;
  }
  u32 top = 1;
  while ((1u << top) < most - 1) ++top;
  return top;
}

// How an odd coordinate is predicted: the sum of the products of weights and the integers at these distances, in 16ths.
struct Row {
  u32 points;
  i32 distances[4];
  i32 weights[4];
};

H5L_FN Row row_of(u32 i, u32 s, u32 extent, bool is_top) {
  const i32 at = static_cast<i32>(i), step = static_cast<i32>(s), last = static_cast<i32>(extent) - 1;
  if (is_top) return {1, {-at}, {16}};
  const bool has_left = at - 3 * step >= 0, has_right = at + 3 * step <= last;
  if (at + step > last) {  // the next neighbour is the last coordinate
    const i32 d = last - at;
    if (!has_left) {
      const i32 a = (16 * d + (step + d) / 2) / (step + d);
      return {2, {-step, d}, {a, 16 - a}};
    }
    const i32 divisor = 2 * (3 * step + d);
    const i32 a = -((16 * d - (3 * step + d) + divisor - 1) / divisor);  // rounded down; d is at least 1
    const i32 b = (48 * d + step + d) / (2 * (step + d));
    return {3, {-3 * step, -step, d}, {a, b, 16 - a - b}};
  }
  if (!has_left && !has_right) return {2, {-step, step}, {8, 8}};
  if (has_left && has_right) return {4, {-3 * step, -step, step, 3 * step}, {-1, 9, 9, -1}};
  if (has_left) return {3, {-3 * step, -step, step}, {-2, 12, 6}};
  return {3, {-step, step, 3 * step}, {6, 12, -2}};
}

}  // namespace h5lossy::H5L_TARGET::interp
