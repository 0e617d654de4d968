// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's predictions: interpolation from coarse to fine, Lorenzo differences, and the coding order of both. The
// definition is in docs/format/interp.md, "Prediction".
//
// I is i32 or i64. All arithmetic wraps, so that any payload can be decoded; it is done on unsigned numbers.
#pragma once

#include <utility>

#include "codecs/interp/grid.h"
#include "codecs/interp/simd/levels.h"
#include "codecs/interp/walk.h"
#include "codecs/simd/sums.h"

namespace h5lossy::H5L_TARGET::interp {

// ---------------------------------------------------------------------------------------------------------------------
// Interpolation

// The encoder's side. `targets` are in raster order, with kNone for exceptions, whose codes are 0. Closed: a target is
// where the value lies, in 64ths of a fine point, and is met to half a unit, or exactly if it is a multiple of 64;
// codes are distances from predictions. Open: it is the integer. Gives the integers in raster order and the codes in
// coding order, padded with zeros to whole blocks.
template <bool kClosed, class I>
inline void code_interpolation(const Shape& shape, const Rule& rule, const I* targets, I base, I* integers, I* codes,
                               u8* scratch, const Units& units = {}) {
  if constexpr (sizeof(I) == 4) {
    if (levels::Workspace* const space = levels::plan_levels(shape, rule, scratch); space != nullptr) {
      levels::code<kClosed>(*space, targets, base, units, integers, codes);
      return;
    }
  }
  integers[0] = base;
  *codes++ = 0;
  u32 coded = 0;
  interpolate(shape, rule, places_of(shape), 0, integers, [&](u32 position, I prediction) {
    *codes++ = take_target<kClosed>(targets[position], prediction, units.bits_at(++coded), integers[position]);
  });
  for (u32 i = shape.count; i % kBlockCodes != 0; ++i) *codes++ = 0;
}

// The decoder's side: `steps` in coding order lead from predictions to integers. The first one is not used.
template <class I>
inline void rebuild_interpolation(const Shape& shape, const Rule& rule, const I* steps, I base, I* integers,
                                  u8* scratch) {
  using U = Unsigned<I>;
  if constexpr (sizeof(I) == 4) {
    if (levels::Workspace* const space = levels::plan_levels(shape, rule, scratch); space != nullptr) {
      levels::rebuild(*space, steps, base, integers);
      return;
    }
  }
  integers[0] = base;
  interpolate(shape, rule, places_of(shape), 0, integers, [&](u32 position, I prediction) {
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

// Rows that lie together in coding order: of a layer of sub-blocks.
struct RowGroup {
  u32 count = 0;
  u32 positions[8];       // of the first values
  u32 coordinates[8][3];  // w, z and y
};

// Calls visit(group) for all groups, in coding order.
template <class F>
inline void for_row_groups(const Shape& shape, F&& visit) {
  const u32(&counts)[kAxes] = shape.extents;
  const u32(&strides)[kAxes] = shape.strides;
  const u32 depth = counts[1] > 1 ? 2 : 1, height = counts[1] > 1 || counts[2] > 1 ? 4 : 1;
  for (u32 w = 0; w < counts[0]; ++w) {
    for (u32 z = 0; z < counts[1]; z += depth) {
      for (u32 y = 0; y < counts[2]; y += height) {
        RowGroup group;
        for (u32 i = z; i < z + depth && i < counts[1]; ++i) {
          for (u32 j = y; j < y + height && j < counts[2]; ++j, ++group.count) {
            group.positions[group.count] = w * strides[0] + i * strides[1] + j * strides[2];
            const u32 at[3] = {w, i, j};
            memcpy(group.coordinates[group.count], at, sizeof at);
          }
        }
        visit(group);
      }
    }
  }
}

// The rows of a group to or from coding order. Returns the end of the codes.
template <bool kToRows, class W, class Code>
inline Code* move_group(const Shape& shape, u32 count, W* const* rows, Code* codes) {
  const u32 length = shape.extents[3];
  if (shape.extents[1] > 1) return move_rows_of<kToRows, 4, 8>(count, rows, length, length, codes);
  if (shape.extents[2] > 1) return move_rows_of<kToRows, 8, 4>(count, rows, length, length, codes);
  if constexpr (kToRows) {  // raster order
    memcpy(rows[0], codes, length * sizeof(W));
  } else {
    memcpy(codes, rows[0], length * sizeof(W));
  }
  return codes + length;
}

// The neighbours that a row's difference is made of: rows that are one step back along some of the axes, less those
// that are back along two, plus those that are back along all three.
template <class W>
struct Neighbours {
  u32 axes = 0;  // how many: 0 to 3
  const W* one[3] = {};
  const W* two[3] = {};
  const W* three = nullptr;
};

template <class W>
inline Neighbours<W> neighbours_of(const Shape& shape, u32 axes, const u32 (&coordinates)[3], const W* row) {
  Neighbours<W> found;
  u32 strides[3];
  for (u32 a = 0; a < 3; ++a) {
    if ((axes & axis_bit(a)) != 0 && coordinates[a] != 0) strides[found.axes++] = shape.strides[a];
  }
  for (u32 i = 0; i < found.axes; ++i) {
    found.one[i] = row - strides[i];
    for (u32 j = 0; j < i; ++j) found.two[i + j - 1] = row - strides[i] - strides[j];
  }
  if (found.axes == 3) found.three = row - strides[0] - strides[1] - strides[2];
  return found;
}

// The prediction of entry i of a row, along all axes but x.
template <u32 kCount, class W>
[[gnu::always_inline]] inline Vector<W> predicted_lanes(const Neighbours<W>& from, u32 i) {
  const auto at = [&](const W* row) {
    Vector<W> lanes;
    memcpy(&lanes, row + i, sizeof lanes);
    return lanes;
  };
  if constexpr (kCount == 0) {
    return Vector<W>{};
  } else if constexpr (kCount == 1) {
    return at(from.one[0]);
  } else if constexpr (kCount == 2) {
    return at(from.one[0]) + at(from.one[1]) - at(from.two[0]);
  } else {
    return at(from.one[0]) + at(from.one[1]) + at(from.one[2]) - at(from.two[0]) - at(from.two[1]) - at(from.two[2]) +
           at(from.three);
  }
}

template <class F>
inline void with_count(u32 count, F&& visit) {
  if (count == 0) {
    visit(levels::Constant<0>{});
  } else if (count == 1) {
    visit(levels::Constant<1>{});
  } else if (count == 2) {
    visit(levels::Constant<2>{});
  } else {
    visit(levels::Constant<3>{});
  }
}

// From the first integer of a row without neighbours to the one that predicts it: in the last row or plane or cube
// before.
inline u32 back_of(const Shape& shape, const u32 (&coordinates)[3]) {
  return coordinates[2] != 0 ? shape.strides[2] : coordinates[1] != 0 ? shape.strides[1] : shape.strides[0];
}

// The words before those of `now`; `before` are the lanes in front.
template <class U, u32... i>
[[gnu::always_inline]] inline Vector<U> words_before(const Vector<U>& before, const Vector<U>& now,
                                                     std::integer_sequence<u32, i...>) {
  return H5L_SHUFFLE(Vector<U>, before, now, (kLanes<U> - 1 + i)...);
}

// Rows are coded in pieces of so many values: of whole sub-blocks and vectors.
inline constexpr u32 kPieceValues = 1024;
inline constexpr u32 kLorenzoScratch = 8 * kPieceValues + kSpareCodes;  // integers

// Gives the codes in coding order, padded with zeros to whole blocks. `rows` is scratch memory for kLorenzoScratch
// integers.
template <class I>
inline void code_lorenzo(const Shape& shape, u32 axes, const I* integers, I* codes, I* rows) {
  using U = Unsigned<I>;
  const U* const box = reinterpret_cast<const U*>(integers);
  U* to = reinterpret_cast<U*>(codes);
  const u32 length = shape.extents[3];
  Shape piece = shape;
  for_row_groups(shape, [&](const RowGroup& group) {
    U* differences[8];
    Vector<U> ends[8] = {};  // the last vectors of the rows' pieces before
    for (u32 first = 0; first < length; first += kPieceValues) {
      const u32 values = length - first < kPieceValues ? length - first : kPieceValues;
      for (u32 k = 0; k < group.count; ++k) {
        const U* const row = box + group.positions[k] + first;
        U* const out = differences[k] = reinterpret_cast<U*>(rows) + k * values;
        const u32(&at)[3] = group.coordinates[k];
        const Neighbours<U> from = neighbours_of(shape, axes, at, row);
        const bool along_x = from.axes == 0 || (axes & axis_bit(3)) != 0;
        with_count(from.axes, [&](auto count) {
          Vector<U> before = ends[k];
          // The last vector may be too long: the next row is still to come.
          for (u32 i = 0; i < values; i += kLanes<U>) {
            Vector<U> now;
            memcpy(&now, row + i, sizeof now);
            now -= predicted_lanes<count()>(from, i);
            const Vector<U> difference =
                now - words_before<U>(before, now, std::make_integer_sequence<u32, kLanes<U>>{});
            memcpy(out + i, along_x ? &difference : &now, sizeof now);
            before = now;
          }
          ends[k] = before;
        });
        if (from.axes != 0 || first != 0) continue;
        out[0] = group.positions[k] == 0 ? 0 : row[0] - *(row - back_of(shape, at));
      }
      piece.extents[3] = values;
      to = move_group<false>(piece, group.count, differences, to);
    }
  });
  for (u32 i = shape.count; i % kBlockCodes != 0; ++i) *to++ = 0;
}

// A row's steps become integers: sums along x, if they are along x, and the prediction along the other axes.
template <u32 kCount, bool kAlongX, class U>
inline void sum_row(const Neighbours<U>& from, U* row, u32 length) {
#if defined(H5L_AVX512) || defined(H5L_AVX2)
  Vector<U> before = {};
#else
  if constexpr (kAlongX) simd::running_sums(row, length, U{0});
  if constexpr (kCount == 0) return;
#endif
  const bool is_too_long = length % kLanes<U> != 0;
  Vector<U> behind = {};
  if (is_too_long) memcpy(&behind, row + length, sizeof behind);
  for (u32 i = 0; i < length; i += kLanes<U>) {
    Vector<U> now;
    memcpy(&now, row + i, sizeof now);
#if defined(H5L_AVX512) || defined(H5L_AVX2)
    if constexpr (kAlongX) {
      const Vector<U> sums = simd::sum_lanes(now);
      now = sums + before;
      before += simd::last_lane(sums);  // the loop-carried dependency is one addition
    }
#endif
    now += predicted_lanes<kCount>(from, i);
    memcpy(row + i, &now, sizeof now);
  }
  if (is_too_long) memcpy(row + length, &behind, sizeof behind);
}

// `steps` in coding order; the first one is not used. Calls take(position of the first one, integers, how many) for
// some rows at a time, while they are in the cache.
template <class I, class Take>
inline void rebuild_lorenzo(const Shape& shape, u32 axes, const I* steps, I base, I* integers, Take&& take) {
  using U = Unsigned<I>;
  U* const box = reinterpret_cast<U*>(integers);
  const U* next = reinterpret_cast<const U*>(steps);
  const u32 length = shape.extents[3];
  for_row_groups(shape, [&](const RowGroup& group) {
    U* rows[8] = {};
    for (u32 k = 0; k < group.count; ++k) rows[k] = box + group.positions[k];
    next = move_group<true>(shape, group.count, rows, next);
    u32 first = group.positions[0];
    for (u32 k = 0; k < group.count; ++k) {
      U* const row = rows[k];
      const u32 position = group.positions[k], behind = position + length;
      const u32(&at)[3] = group.coordinates[k];
      const Neighbours<U> from = neighbours_of<U>(shape, axes, at, row);
      if (from.axes == 0) {
        row[0] = position == 0 ? static_cast<U>(base) : row[0] + *(row - back_of(shape, at));
        sum_row<0, true>(from, row, length);
      } else {
        with_count(from.axes, [&](auto count) {
          if ((axes & axis_bit(3)) != 0) {
            sum_row<count(), true>(from, row, length);
          } else {
            sum_row<count(), false>(from, row, length);
          }
        });
      }
      if (k + 1 < group.count && group.positions[k + 1] == behind) continue;
      take(first, integers + first, behind - first);
      if (k + 1 < group.count) first = group.positions[k + 1];
    }
  });
}

}  // namespace h5lossy::H5L_TARGET::interp
