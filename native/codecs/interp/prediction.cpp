// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's predictions (prediction.h). Compiled once for each backend.

#include "codecs/interp/prediction.h"

#include <utility>

#include "codecs/blocks.h"
#include "codecs/interp/simd/levels.h"
#include "codecs/interp/simd/slices.h"
#include "codecs/interp/walk.h"
#include "codecs/simd/sums.h"

namespace h5lossy::H5L_TARGET::interp {

// ---------------------------------------------------------------------------------------------------------------------
// Coding order

// Bits 0, 2, 4, …
static u32 every_second(u32 bits) {
  bits &= 0x55555555;
  bits = (bits | bits >> 1) & 0x33333333;
  bits = (bits | bits >> 2) & 0x0F0F0F0F;
  bits = (bits | bits >> 4) & 0x00FF00FF;
  return (bits | bits >> 8) & 0xFFFF;
}

#if defined(H5L_DECODE_ONLY)
[[gnu::cold]]  // for small code
#endif
void order_mask(const Shape& shape, bool is_lorenzo, const u32* mask, u32* ordered) {
  u64 bits = 0;
  u32 found = 0;
  for_coded(shape, is_lorenzo, [&](u32 first, u32 step, u32 left) {
    // Values within 32 positions are taken together, unless small code counts. Steps are powers of two, and 0 where
    // there is one value.
    const u32 most = !kEncodes || step == 0 || step > 16 ? 1 : 32 / step;
    while (left != 0) {
      const u32 count = left < most ? left : most, w = first / 32, shift = first % 32;
      const u32 span = (count - 1) * step + 1;
      const u64 next = shift + span > 32 ? mask[w + 1] : 0;
      u64 some = (mask[w] | next << 32) >> shift & blocks::first_bits(span);
      for (u32 s = most; s > 1 && s < 32; s *= 2) some = every_second(static_cast<u32>(some));
      bits |= some << found;
      found += count;
      left -= count;
      first += count * step;
      if (found < 32) continue;
      *ordered++ = static_cast<u32>(bits);
      bits >>= 32;
      found -= 32;
    }
  });
  if (found != 0) *ordered = static_cast<u32>(bits);
}

// ---------------------------------------------------------------------------------------------------------------------
// Interpolation

template <bool kClosed, class I>
void code_interpolation(const Shape& shape, const Rule& rule, const I* targets, I base, I* integers, I* codes,
                        u8* scratch, const Units& units) {
  if constexpr (sizeof(I) == 4) {
    if (levels::Workspace* const space = levels::plan_levels(shape, rule, scratch); space != nullptr) {
      levels::code<kClosed>(*space, targets, base, units, integers, codes);
      return;
    }
    slices::Slices some;
    if (slices::find_slices(shape, some)) {
      slices::code<kClosed>(shape, some, rule, targets, base, units, integers, codes, scratch);
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

// Decoders have code of its own for boxes with few values along x, or along all axes that are interpolated. It gives
// the same values as that for all boxes, and is left out where small code counts.
inline constexpr bool kHasSpecialShapes = kEncodes;

template <class I>
void rebuild_interpolation(const Shape& shape, const Rule& rule, const I* steps, I base, I* integers, u8* scratch) {
  if constexpr (sizeof(I) == 4) {
    if (levels::Workspace* const space = levels::plan_levels(shape, rule, scratch); space != nullptr) {
      levels::rebuild(*space, steps, base, integers);
      return;
    }
    if constexpr (kHasSpecialShapes) {
      slices::Slices some;
      if (slices::find_slices(shape, some)) {
        slices::rebuild(shape, some, rule, steps, base, integers, scratch);
        return;
      }
    }
  }
  integers[0] = base;
  AddSteps<I> add = {integers, steps};
  interpolate(shape, rule, places_of(shape), 0, integers, add);
}

// ---------------------------------------------------------------------------------------------------------------------
// Lorenzo

template <class I>
void fill_exceptions(const Shape& shape, I base, I* integers) {
  const u32(&strides)[kAxes] = shape.strides;
  const u32 extent = shape.extents[3];
  if (integers[0] == kNone<I>) integers[0] = base;
  for (u32 first = 0; first < shape.count; first += extent) {
    if (integers[first] == kNone<I>) {
      const u32 back = first % strides[1] != 0 ? strides[2] : first % strides[0] != 0 ? strides[1] : strides[0];
      integers[first] = integers[first - back];
    }
    I* const row = integers + first;
    I last = row[0];
    for (u32 x = 1; x < extent; ++x) row[x] = last = row[x] == kNone<I> ? last : row[x];
  }
}

// What the prediction of an integer is made of: the distances of those that are added, and of those that are taken off.
struct LorenzoTerms {
  u32 added[1 << (kAxes - 1)], taken[1 << (kAxes - 1)];
  u32 adds = 0, takes = 0;
  // `axes` are not none.
  LorenzoTerms(const Shape& shape, u32 axes) {
    for (u32 part = axes; part != 0; part = (part - 1) & axes) {
      u32 distance = 0;
      for (u32 a = 0; a < kAxes; ++a) distance += (part & axis_bit(a)) != 0 ? shape.strides[a] : 0;
      if (count_ones(part) % 2 != 0) {
        added[adds++] = distance;
      } else {
        taken[takes++] = distance;
      }
    }
  }
};

template <class I>
void predict_exceptions(const Shape& shape, u32 axes, I* integers) {
  using U = Unsigned<I>;
  if (integers[0] == kNone<I>) integers[0] = 0;
  for (u32 first = 0; first < shape.count; first += shape.extents[3]) {
    u32 before = 0;  // the axes with values before this row
    for (u32 a = 0; a < 3; ++a) before |= first / shape.strides[a] % shape.extents[a] != 0 ? axis_bit(a) : 0;
    const auto predict_from = [&](u32 there, I* from, const I* end) {
      // Where there is none of the axes, it is the last one.
      const LorenzoTerms terms(shape, (there & axes) != 0 ? there & axes : there & (0 - there));
      for (; from != end; ++from) {
        if (*from != kNone<I>) continue;
        U sum = 0;
        for (u32 i = 0; i < terms.adds; ++i) sum += static_cast<U>(*(from - terms.added[i]));
        for (u32 i = 0; i < terms.takes; ++i) sum -= static_cast<U>(*(from - terms.taken[i]));
        *from = static_cast<I>(sum);
      }
    };
    I* const row = integers + first;
    if (first != 0) predict_from(before, row, row + 1);
    predict_from(before | axis_bit(3), row + 1, row + shape.extents[3]);
  }
}

// Rows that lie together in coding order: of a layer of sub-blocks.
struct RowGroup {
  u32 count = 0;
  u32 positions[8] = {};       // of the first values
  u32 coordinates[8][3] = {};  // w, z and y
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
  if (shape.extents[1] > 1) return move_rows_of<kToRows, 4>(count, rows, length, length, codes);
  if (shape.extents[2] > 1) return move_rows_of<kToRows, 8>(count, rows, length, length, codes);
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
H5L_INLINE Vector<W> predicted_lanes(const Neighbours<W>& from, u32 i) {
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
H5L_INLINE Vector<U> words_before(const Vector<U>& before, const Vector<U>& now, std::integer_sequence<u32, i...>) {
  return H5L_SHUFFLE(Vector<U>, before, now, (kLanes<U> - 1 + i)...);
}

// Rows so short that a sub-block has all of them, of boxes with two or more axes: those of a plane are taken together,
// as one row would take less than a vector.
inline bool has_short_rows(const Shape& shape) {
  return shape.extents[2] > 4 && shape.extents[3] <= (shape.extents[1] > 1 ? 4 : 8);
}

// Rows of one plane, side by side, that have the same neighbours along w, z and y.
template <class U>
inline void find_differences(const Shape& shape, u32 axes, const u32 (&coordinates)[3], u32 rows, const U* row,
                             U* out) {
  const u32 length = shape.extents[3], values = rows * length;
  const Neighbours<U> from = neighbours_of(shape, axes, coordinates, row);
  const bool along_x = from.axes == 0 || (axes & axis_bit(3)) != 0;
  U has_before[kLanes<U> + 8];  // from a row's first value on
  for (u32 i = 0; i < kLanes<U> + 8; ++i) has_before[i] = along_x && i % length != 0 ? ~U{0} : U{0};
  with_count(from.axes, [&](auto count) {
    Vector<U> before = {};
    for (u32 i = 0, x = 0; i < values; i += kLanes<U>, x = (x + kLanes<U>) % length) {
      Vector<U> now, mask;
      memcpy(&now, row + i, sizeof now);
      memcpy(&mask, has_before + x, sizeof mask);
      now -= predicted_lanes<count()>(from, i);
      const Vector<U> difference =
          now - (words_before<U>(before, now, std::make_integer_sequence<u32, kLanes<U>>{}) & mask);
      memcpy(out + i, &difference, sizeof difference);
      before = now;
    }
  });
  if (from.axes != 0) return;
  if ((coordinates[0] | coordinates[1] | coordinates[2]) == 0) {
    out[0] = 0;
    return;
  }
  const u32 back = back_of(shape, coordinates);
  for (u32 i = 0; i < values; i += length) out[i] = row[i] - *(row + i - back);
}

template <class U>
inline void code_short_rows(const Shape& shape, u32 axes, const U* box, U* codes, U* differences) {
  const u32 length = shape.extents[3], height = shape.extents[2], batch = 4 * kPieceValues / length / 4 * 4;
  for (u32 w = 0; w < shape.extents[0]; ++w) {
    for (u32 z = 0; z < shape.extents[1]; z += 2) {
      const u32 planes = shape.extents[1] - z < 2 ? 1 : 2;
      for (u32 y = 0; y < height; y += batch) {
        const u32 rows = height - y < batch ? height - y : batch;
        for (u32 k = 0; k < planes; ++k) {
          const u32 position = w * shape.strides[0] + (z + k) * shape.strides[1] + y * length;
          U* const out = differences + k * rows * length;
          const u32 first = y == 0 ? 1 : 0;
          if (first != 0) find_differences(shape, axes, {w, z + k, 0}, 1, box + position, out);
          if (rows == first) continue;
          const u32 done = first * length;
          find_differences(shape, axes, {w, z + k, y + first}, rows - first, box + position + done, out + done);
        }
        // Four rows of one plane, then of the other.
        const u32 step = planes == 1 ? rows : 4;
        for (u32 j = 0; j < rows; j += step) {
          const u32 values = (rows - j < step ? rows - j : step) * length;
          for (u32 k = 0; k < planes; ++k, codes += values) {
            const U* const from = differences + (k * rows + j) * length;
            for (u32 i = 0; i < values; i += kLanes<U>) memcpy(codes + i, from + i, sizeof(Vector<U>));
          }
        }
      }
    }
  }
}

template <class I>
void code_lorenzo(const Shape& shape, u32 axes, const I* integers, I* codes, I* rows) {
  using U = Unsigned<I>;
  const U* const box = reinterpret_cast<const U*>(integers);
  U* to = reinterpret_cast<U*>(codes);
  const u32 length = shape.extents[3];
  if (has_short_rows(shape)) {
    code_short_rows(shape, axes, box, to, reinterpret_cast<U*>(rows));
    for (u32 i = shape.count; i % kBlockCodes != 0; ++i) to[i] = 0;
    return;
  }
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

// Words that become their sums.
template <class U, u32 kWidth>
struct ShortRow {
  using Words [[gnu::vector_size(kWidth * sizeof(U))]] = U;
  template <u32 kStep, u32... i>
  H5L_INLINE static void add_moved(Words& words, std::integer_sequence<u32, i...>) {
    words += H5L_SHUFFLE(Words, Words{}, words, (i < kStep ? i : kWidth + i - kStep)...);
  }
  H5L_INLINE static void sum(Words& words) {
    constexpr std::make_integer_sequence<u32, kWidth> each;
    add_moved<1>(words, each);
    if constexpr (kWidth > 2) add_moved<2>(words, each);
    if constexpr (kWidth > 4) add_moved<4>(words, each);
  }
};

template <class U>
H5L_INLINE Vector<U> sums_of(Vector<U> words) {
#if defined(H5L_AVX512) || defined(H5L_AVX2)
  return simd::sum_lanes(words);
#else
  ShortRow<U, kLanes<U>>::sum(words);
  return words;
#endif
}

template <class U>
H5L_INLINE Vector<U> last_of(Vector<U> words) {
#if defined(H5L_AVX512) || defined(H5L_AVX2)
  return simd::last_lane(words);
#else
  return Vector<U>{} + words[kLanes<U> - 1];
#endif
}

// A row's steps become integers: sums along x, if they are along x, and the prediction along the other axes.
template <u32 kCount, bool kAlongX, class U>
inline void sum_row(const Neighbours<U>& from, U* row, u32 length) {
  Vector<U> before = {};
  const bool is_too_long = length % kLanes<U> != 0;
  Vector<U> behind = {};
  if (is_too_long) memcpy(&behind, row + length, sizeof behind);
  for (u32 i = 0; i < length; i += kLanes<U>) {
    Vector<U> now;
    memcpy(&now, row + i, sizeof now);
    if constexpr (kAlongX) {
      const Vector<U> sums = sums_of<U>(now);
      now = sums + before;
      before += last_of<U>(sums);  // the loop-carried dependency is one addition
    }
    now += predicted_lanes<kCount>(from, i);
    memcpy(row + i, &now, sizeof now);
  }
  if (is_too_long) memcpy(row + length, &behind, sizeof behind);
}

// A row's steps, at `row`, become integers.
template <class U>
inline void rebuild_row(const Shape& shape, u32 axes, const u32 (&coordinates)[3], u32 position, U base, U* row) {
  const u32 length = shape.extents[3];
  const Neighbours<U> from = neighbours_of<U>(shape, axes, coordinates, row);
  if (from.axes == 0) {
    row[0] = position == 0 ? base : row[0] + *(row - back_of(shape, coordinates));
    sum_row<0, true>(from, row, length);
    return;
  }
  with_count(from.axes, [&](auto count) {
    if ((axes & axis_bit(3)) != 0) {
      sum_row<count(), true>(from, row, length);
    } else {
      sum_row<count(), false>(from, row, length);
    }
  });
}

// The rows of a plane but the first. `steps_of(y)` is where a row's steps are, `first` the first row.
template <u32 kWidth, class U, class StepsOf>
inline void rebuild_plane(const Shape& shape, u32 axes, u32 w, u32 z, U* first, StepsOf&& steps_of) {
  using ShortWords = typename ShortRow<U, kWidth>::Words;
  const u32 length = shape.extents[3], height = shape.extents[2];
  const bool along_x = (axes & axis_bit(3)) != 0, along_y = (axes & axis_bit(2)) != 0;
  const Neighbours<U> others = neighbours_of<U>(shape, axes & ~axis_bit(2), {w, z, 0}, first);
  with_count(others.axes, [&](auto count) {
    // What is not predicted along w and z is summed along x and y.
    ShortWords above = {};
    if (along_y) {
      U row[kWidth + kLanes<U>] = {};
      for (u32 i = 0; i < length; i += kLanes<U>) {
        Vector<U> lanes;
        memcpy(&lanes, first + i, sizeof lanes);
        lanes -= predicted_lanes<count()>(others, i);
        memcpy(row + i, &lanes, sizeof lanes);
      }
      memcpy(&above, row, sizeof above);
    }
    // A row may be too long: the next one is still to come.
    U* to = first + length;
    for (u32 y = 1; y < height; ++y, to += length) {
      ShortWords row;
      memcpy(&row, steps_of(y), sizeof row);
      if (along_x) ShortRow<U, kWidth>::sum(row);
      row += above;
      if (along_y) above = row;
      memcpy(to, &row, sizeof row);
    }
    for (u32 i = length; count() != 0 && i < height * length; i += kLanes<U>) {
      Vector<U> lanes;
      memcpy(&lanes, first + i, sizeof lanes);
      lanes += predicted_lanes<count()>(others, i);
      memcpy(first + i, &lanes, sizeof lanes);
    }
  });
}

template <class I>
void rebuild_short_rows(const Shape& shape, u32 axes, const I* steps, I base, I* integers, const TakeRows<I>& taker) {
  using U = Unsigned<I>;
  const u32 length = shape.extents[3], height = shape.extents[2];
  for (u32 w = 0; w < shape.extents[0]; ++w) {
    for (u32 z = 0; z < shape.extents[1]; z += 2) {
      const u32 planes = shape.extents[1] - z < 2 ? 1 : 2;
      for (u32 k = 0; k < planes; ++k) {
        const u32 position = w * shape.strides[0] + (z + k) * shape.strides[1];
        const auto steps_of = [&](u32 y) {  // four rows of one plane, then of the other
          const u32 four = y / 4 * 4, rows = height - four < 4 ? height - four : 4;
          return steps + (planes * four + k * rows + y % 4) * length;
        };
        const auto rebuild_single = [&](u32 y) {
          U* const row = reinterpret_cast<U*>(integers) + position + y * length;
          memcpy(row, steps_of(y), length * sizeof(U));
          rebuild_row(shape, axes, {w, z + k, y}, position + y * length, static_cast<U>(base), row);
        };
        rebuild_single(0);
        U* const first = reinterpret_cast<U*>(integers) + position;
        if (neighbours_of<U>(shape, axes, {w, z + k, 1}, first + length).axes == 0) {
          for (u32 y = 1; y < height; ++y) rebuild_single(y);
        } else if (length <= 4) {
          rebuild_plane<4>(shape, axes, w, z + k, first, steps_of);
        } else {
          rebuild_plane<8>(shape, axes, w, z + k, first, steps_of);
        }
        taker.take(taker.own, position, integers + position, height * length);
      }
      steps += planes * height * length;
    }
  }
}

template <class I>
void rebuild_lorenzo(const Shape& shape, u32 axes, const I* steps, I base, I* integers, const TakeRows<I>& taker) {
  using U = Unsigned<I>;
  U* const box = reinterpret_cast<U*>(integers);
  const U* next = reinterpret_cast<const U*>(steps);
  if constexpr (kHasSpecialShapes) {
    if (has_short_rows(shape)) {
      rebuild_short_rows(shape, axes, steps, base, integers, taker);
      return;
    }
  }
  const u32 length = shape.extents[3];
  for_row_groups(shape, [&](const RowGroup& group) {
    U* rows[8];
    for (u32 k = 0; k < 8; ++k) rows[k] = box + group.positions[k];
    next = move_group<true>(shape, group.count, rows, next);
    u32 first = group.positions[0];
    for (u32 k = 0; k < group.count; ++k) {
      const u32 position = group.positions[k], behind = position + length;
      rebuild_row(shape, axes, group.coordinates[k], position, static_cast<U>(base), rows[k]);
      if (k + 1 < group.count && group.positions[k + 1] == behind) continue;
      taker.take(taker.own, first, integers + first, behind - first);
      if (k + 1 < group.count) first = group.positions[k + 1];
    }
  });
}

#if !defined(H5L_DECODE_ONLY)
template void code_interpolation<true>(const Shape&, const Rule&, const i32*, i32, i32*, i32*, u8*, const Units&);
template void code_interpolation<false>(const Shape&, const Rule&, const i32*, i32, i32*, i32*, u8*, const Units&);
template void code_interpolation<false>(const Shape&, const Rule&, const i64*, i64, i64*, i64*, u8*, const Units&);
template void fill_exceptions(const Shape&, i32, i32*);
template void fill_exceptions(const Shape&, i64, i64*);
template void predict_exceptions(const Shape&, u32, i32*);
template void predict_exceptions(const Shape&, u32, i64*);
template void code_lorenzo(const Shape&, u32, const i32*, i32*, i32*);
template void code_lorenzo(const Shape&, u32, const i64*, i64*, i64*);
#endif
template void rebuild_interpolation(const Shape&, const Rule&, const i32*, i32, i32*, u8*);
template void rebuild_interpolation(const Shape&, const Rule&, const i64*, i64, i64*, u8*);
template void rebuild_lorenzo(const Shape&, u32, const i32*, i32, i32*, const TakeRows<i32>&);
template void rebuild_lorenzo(const Shape&, u32, const i64*, i64, i64*, const TakeRows<i64>&);

}  // namespace h5lossy::H5L_TARGET::interp
