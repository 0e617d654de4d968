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
// Interpolation

template <bool kClosed, class I>
void code_interpolation(const Shape& shape, const Rule& rule, const I* targets, I base, I* integers, I* codes,
                        u8* scratch, const Units& units, bool wants_integers) {
  if constexpr (sizeof(I) == 4) {
    if (levels::Workspace* const space = levels::plan_levels(shape, rule, scratch); space != nullptr) {
      levels::code<kClosed>(*space, targets, base, units, wants_integers, integers, codes);
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
    *codes++ = take_target<kClosed>(targets[position], units.grade.rounded(prediction), units.bits_at(++coded),
                                    integers[position]);
  });
  for (u32 i = shape.count; i % kBlockCodes != 0; ++i) *codes++ = 0;
}

// Decoders have separate code for boxes with few values along x, or along all interpolated axes. It gives the same
// values as the general code, and is left out where small code counts.
inline constexpr bool kHasSpecialShapes = kEncodes;

template <class I>
void rebuild_interpolation(const Shape& shape, const Rule& rule, const I* steps, I base, const Grade& grade,
                           I* integers, u8* scratch) {
  if constexpr (sizeof(I) == 4) {
    if (levels::Workspace* const space = levels::plan_levels(shape, rule, scratch); space != nullptr) {
      levels::rebuild(*space, steps, base, grade, integers);
      return;
    }
    if constexpr (kHasSpecialShapes) {
      slices::Slices some;
      if (slices::find_slices(shape, some)) {
        slices::rebuild(shape, some, rule, steps, base, grade, integers, scratch);
        return;
      }
    }
  }
  integers[0] = base;
  AddSteps<I> add = {integers, steps, grade};
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
    constexpr u32 some = 32;  // most of these have no exception
    I last = integers[first];
    for (u32 x = 0; x < extent; x += some) {
      I* const part = integers + first + x;
      const u32 count = extent - x < some ? extent - x : some;
      I none = 0;
      for (u32 i = 0; i < count; ++i) none += part[i] == kNone<I> ? 1 : 0;
      for (u32 i = 0; none != 0 && i < count; ++i) part[i] = last = part[i] == kNone<I> ? last : part[i];
      last = part[count - 1];
    }
  }
}

// The terms of a prediction of an integer along some axes: the distances of the integers that are added, and of those
// that are subtracted. The first one of the latter is the integer itself.
struct LorenzoTerms {
  u32 added[1 << (kAxes - 1)] = {}, taken[1 << (kAxes - 1)] = {};
  u32 axes = 0;  // number of axes
  LorenzoTerms() = default;
  LorenzoTerms(const Shape& shape, u32 along) {
    for (u32 a = 0; a < kAxes; ++a) {
      if ((along & axis_bit(a)) == 0) continue;
      const u32 n = each(axes++), stride = shape.strides[a];
      if (n == 0) added[0] = stride;
      for (u32 i = 0; i < n; ++i) {
        added[n + i] = taken[i] + stride;
        taken[n + i] = added[i] + stride;
      }
    }
  }
  // How many terms are added, and how many are subtracted, for this many axes.
  static constexpr u32 each(u32 axes) { return (1u << axes) / 2; }
};

// Copies the rows of a group to or from coding order. Returns the end of the codes.
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

// The terms of rows along the axes except x, by the place of a row.
class RowTerms {
 public:
  RowTerms(const Shape& shape, u32 axes) : axes_(axes) {
    for (u32 set = 0; set < 8; ++set) terms_[set] = LorenzoTerms(shape, set << 1);
  }
  bool along_x() const { return (axes_ & axis_bit(3)) != 0; }
  const LorenzoTerms& at(const u32 (&coordinates)[3]) const {
    u32 found = 0;  // the axes along which there are neighbours
    for (u32 a = 0; a < 3; ++a) found |= coordinates[a] != 0 ? axes_ & axis_bit(a) : 0;
    return terms_[found >> 1];
  }

 private:
  u32 axes_;
  LorenzoTerms terms_[8];
};

template <class W>
H5L_INLINE Vector<W> lanes_at(const W* from) {
  Vector<W> lanes;
  memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

// The predictions of the integers from `at` on, along kCount axes other than x.
template <u32 kCount, class W>
H5L_INLINE Vector<W> predicted_lanes(const LorenzoTerms& terms, const W* at) {
  constexpr u32 each = LorenzoTerms::each(kCount);
  Vector<W> sum = {};
#pragma GCC unroll 4
  for (u32 i = 0; i < each; ++i) sum += lanes_at(at - terms.added[i]);
#pragma GCC unroll 4
  for (u32 i = 1; i < each; ++i) sum -= lanes_at(at - terms.taken[i]);
  return sum;
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

// The distance from the first integer of a row without neighbours to the integer that predicts it, which is in the
// previous row, plane or cube.
inline u32 back_of(const Shape& shape, const u32 (&coordinates)[3]) {
  return coordinates[2] != 0 ? shape.strides[2] : coordinates[1] != 0 ? shape.strides[1] : shape.strides[0];
}

// The words one before those of `now`; `before` has the preceding lanes.
template <class U, u32... i>
H5L_INLINE Vector<U> words_before(const Vector<U>& before, const Vector<U>& now, std::integer_sequence<u32, i...>) {
  return H5L_SHUFFLE(Vector<U>, before, now, (kLanes<U> - 1 + i)...);
}

// Rows so short that a sub-block contains whole rows, in boxes with two or more axes. The rows of a plane are processed
// together, since one row would not fill a vector.
inline bool has_short_rows(const Shape& shape) {
  return shape.extents[2] > 4 && shape.extents[3] <= (shape.extents[1] > 1 ? 4 : 8);
}

// Differences of values that have the same neighbours along w, z and y. has_before(i) returns a mask of those lanes of
// the vector at i that have a neighbour along x; `is_first` tells whether no value has one before `row`.
template <class U, class HasBefore>
H5L_INLINE void find_differences(LorenzoTerms terms, const U* row, u32 values, bool is_first, U* out,
                                 HasBefore has_before) {
  with_count(terms.axes, [&](auto count) {
    const auto rest_at = [&](const U* at) { return lanes_at(at) - predicted_lanes<count()>(terms, at); };
    Vector<U> before = {};
    if (!is_first) before = rest_at(row - kLanes<U>);
    // The last vector may extend into the next row, which is written later.
    for (u32 i = 0; i < values; i += kLanes<U>) {
      const Vector<U> now = rest_at(row + i);
      const Vector<U> difference =
          now - (words_before<U>(before, now, std::make_integer_sequence<u32, kLanes<U>>{}) & has_before(i));
      memcpy(out + i, &difference, sizeof difference);
      before = now;
    }
  });
}

// Adjacent rows of one plane.
template <class U>
inline void code_plane(const Shape& shape, const RowTerms& all, const u32 (&coordinates)[3], u32 rows, const U* row,
                       U* out) {
  const u32 length = shape.extents[3], values = rows * length;
  const LorenzoTerms& terms = all.at(coordinates);
  const bool along_x = terms.axes == 0 || all.along_x();
  U has_before[kLanes<U> + 8];  // set for all values of a row but the first
  for (u32 i = 0; i < kLanes<U> + 8; ++i) has_before[i] = along_x && i % length != 0 ? ~U{0} : U{0};
  find_differences(terms, row, values, true, out, [&](u32 i) { return lanes_at(has_before + i % length); });
  if (terms.axes != 0) return;
  if ((coordinates[0] | coordinates[1] | coordinates[2]) == 0) {
    out[0] = 0;
    return;
  }
  const u32 back = back_of(shape, coordinates);
  for (u32 i = 0; i < values; i += length) out[i] = row[i] - *(row + i - back);
}

template <class U>
inline void code_short_rows(const Shape& shape, const RowTerms& terms, const U* box, U* codes, U* differences) {
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
          if (first != 0) code_plane(shape, terms, {w, z + k, 0}, 1, box + position, out);
          if (rows == first) continue;
          const u32 done = first * length;
          code_plane(shape, terms, {w, z + k, y + first}, rows - first, box + position + done, out + done);
        }
        // Four rows of one plane, then four of the other.
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
void predict_exceptions(const Shape& shape, u32 axes, const u32* mask, I* integers) {
  using U = Unsigned<I>;
  U* const box = reinterpret_cast<U*>(integers);
  const u32(&extents)[kAxes] = shape.extents;
  const u32 length = extents[3];
  LorenzoTerms terms[1 << kAxes];  // by the axes along which there are neighbours, since rows may be short
  for (u32 there = 1; there < 1u << kAxes; ++there) {
    // If there are neighbours along none of the axes, the prediction is along the last axis that has some.
    terms[there] = LorenzoTerms(shape, (there & axes) != 0 ? there & axes : there & (0 - there));
  }
  const auto predict = [&](u32 there, u32 first, u32 exceptions) {
    const LorenzoTerms& of = terms[there];
    const u32 each = of.each(of.axes);
    for (; exceptions != 0; exceptions &= exceptions - 1) {
      U* const at = box + first + blocks::lowest_bit(exceptions);
      U sum = 0;
      for (u32 i = 0; i < each; ++i) sum += *(at - of.added[i]);
      for (u32 i = 1; i < each; ++i) sum -= *(at - of.taken[i]);
      *at = sum;
    }
  };
  if ((mask[0] & 1) != 0) box[0] = 0;
  u32 first = 0;
  for (u32 w = 0; w < extents[0]; ++w) {
    for (u32 z = 0; z < extents[1]; ++z) {
      for (u32 y = 0; y < extents[2]; ++y, first += length) {
        // The axes along which there are values before this row.
        const u32 before = (w != 0 ? axis_bit(0) : 0) | (z != 0 ? axis_bit(1) : 0) | (y != 0 ? axis_bit(2) : 0);
        for (u32 x = 0; x < length; x += 32) {
          u32 exceptions = static_cast<u32>(mask_bits(mask, first + x, length - x < 32 ? length - x : 32));
          if (exceptions == 0) continue;
          if (x == 0) {
            if (first != 0) predict(before, first, exceptions & 1);
            exceptions &= ~1u;
          }
          predict(before | axis_bit(3), first + x, exceptions);
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
  const RowTerms all(shape, axes);
  if (has_short_rows(shape)) {
    code_short_rows(shape, all, box, to, reinterpret_cast<U*>(rows));
    for (u32 i = shape.count; i % kBlockCodes != 0; ++i) to[i] = 0;
    return;
  }
  Shape piece = shape;
  for_row_groups(shape, [&](const RowGroup& group) {
    U* differences[8];
    for (u32 first = 0; first < length; first += kPieceValues) {
      const u32 values = length - first < kPieceValues ? length - first : kPieceValues;
      for (u32 k = 0; k < group.count; ++k) {
        const U* const row = box + group.positions[k] + first;
        U* const out = differences[k] = reinterpret_cast<U*>(rows) + k * values;
        const u32(&at)[3] = group.coordinates[k];
        const LorenzoTerms& terms = all.at(at);
        const bool along_x = terms.axes == 0 || all.along_x();
        const Vector<U> mask = Vector<U>{} - static_cast<U>(along_x);
        find_differences(terms, row, values, first == 0, out, [mask](u32) { return mask; });
        if (terms.axes != 0 || first != 0) continue;
        out[0] = group.positions[k] == 0 ? 0 : row[0] - *(row - back_of(shape, at));
      }
      piece.extents[3] = values;
      to = move_group<false>(piece, group.count, differences, to);
    }
  });
  for (u32 i = shape.count; i % kBlockCodes != 0; ++i) *to++ = 0;
}

// Words that are replaced by their sums.
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

// Turns a row's steps into integers: sums along x if kAlongX, and adds the prediction along the other axes.
template <u32 kCount, bool kAlongX, class U>
inline void sum_row(LorenzoTerms terms, U* row, u32 length) {
  Vector<U> before = {};
  const bool is_too_long = length % kLanes<U> != 0;
  Vector<U> behind = {};
  if (is_too_long) behind = lanes_at(row + length);
  for (u32 i = 0; i < length; i += kLanes<U>) {
    Vector<U> now = lanes_at(row + i);
    if constexpr (kAlongX) {
      const Vector<U> sums = sums_of<U>(now);
      now = sums + before;
      before += last_of<U>(sums);  // the loop-carried dependency is one addition
    }
    now += predicted_lanes<kCount>(terms, row + i);
    memcpy(row + i, &now, sizeof now);
  }
  if (is_too_long) memcpy(row + length, &behind, sizeof behind);
}

// Turns a row's steps, at `row`, into integers.
template <class U>
inline void rebuild_row(const Shape& shape, const RowTerms& all, const u32 (&coordinates)[3], u32 position, U base,
                        U* row) {
  const u32 length = shape.extents[3];
  const LorenzoTerms& terms = all.at(coordinates);
  if (terms.axes == 0) {
    row[0] = position == 0 ? base : row[0] + *(row - back_of(shape, coordinates));
    sum_row<0, true>(terms, row, length);
    return;
  }
  with_count(terms.axes, [&](auto count) {
    if (all.along_x()) {
      sum_row<count(), true>(terms, row, length);
    } else {
      sum_row<count(), false>(terms, row, length);
    }
  });
}

// Rebuilds the rows of a plane except the first. `steps_of(y)` returns the place of a row's steps; `first` is the first
// row.
template <u32 kWidth, class U, class StepsOf>
inline void rebuild_plane(const Shape& shape, const RowTerms& all, u32 w, u32 z, U* first, StepsOf&& steps_of) {
  using ShortWords = typename ShortRow<U, kWidth>::Words;
  const u32 length = shape.extents[3], height = shape.extents[2];
  const LorenzoTerms others = all.at({w, z, 0});
  const bool along_y = all.at({w, z, 1}).axes != others.axes;
  with_count(others.axes, [&](auto count) {
    // The part that is not predicted along w and z is summed along x and y.
    ShortWords above = {};
    if (along_y) {
      U row[kWidth + kLanes<U>] = {};
      for (u32 i = 0; i < length; i += kLanes<U>) {
        const Vector<U> lanes = lanes_at(first + i) - predicted_lanes<count()>(others, first + i);
        memcpy(row + i, &lanes, sizeof lanes);
      }
      memcpy(&above, row, sizeof above);
    }
    // A row may extend into the next one, which is written later.
    U* to = first + length;
    for (u32 y = 1; y < height; ++y, to += length) {
      ShortWords row;
      memcpy(&row, steps_of(y), sizeof row);
      if (all.along_x()) ShortRow<U, kWidth>::sum(row);
      row += above;
      if (along_y) above = row;
      memcpy(to, &row, sizeof row);
    }
    for (u32 i = length; count() != 0 && i < height * length; i += kLanes<U>) {
      const Vector<U> lanes = lanes_at(first + i) + predicted_lanes<count()>(others, first + i);
      memcpy(first + i, &lanes, sizeof lanes);
    }
  });
}

template <class I>
void rebuild_short_rows(const Shape& shape, const RowTerms& terms, const I* steps, I base, I* integers,
                        const TakeRows<I>& taker) {
  using U = Unsigned<I>;
  const u32 length = shape.extents[3], height = shape.extents[2];
  for (u32 w = 0; w < shape.extents[0]; ++w) {
    for (u32 z = 0; z < shape.extents[1]; z += 2) {
      const u32 planes = shape.extents[1] - z < 2 ? 1 : 2;
      for (u32 k = 0; k < planes; ++k) {
        const u32 position = w * shape.strides[0] + (z + k) * shape.strides[1];
        const auto steps_of = [&](u32 y) {  // four rows of one plane, then four of the other
          const u32 four = y / 4 * 4, rows = height - four < 4 ? height - four : 4;
          return steps + (planes * four + k * rows + y % 4) * length;
        };
        const auto rebuild_single = [&](u32 y) {
          U* const row = reinterpret_cast<U*>(integers) + position + y * length;
          memcpy(row, steps_of(y), length * sizeof(U));
          rebuild_row(shape, terms, {w, z + k, y}, position + y * length, static_cast<U>(base), row);
        };
        rebuild_single(0);
        U* const first = reinterpret_cast<U*>(integers) + position;
        if (terms.at({w, z + k, 1}).axes == 0) {
          for (u32 y = 1; y < height; ++y) rebuild_single(y);
        } else if (length <= 4) {
          rebuild_plane<4>(shape, terms, w, z + k, first, steps_of);
        } else {
          rebuild_plane<8>(shape, terms, w, z + k, first, steps_of);
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
  const RowTerms terms(shape, axes);
  if constexpr (kHasSpecialShapes) {
    if (has_short_rows(shape)) {
      rebuild_short_rows(shape, terms, steps, base, integers, taker);
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
      rebuild_row(shape, terms, group.coordinates[k], position, static_cast<U>(base), rows[k]);
      if (k + 1 < group.count && group.positions[k + 1] == behind) continue;
      taker.take(taker.own, first, integers + first, behind - first);
      if (k + 1 < group.count) first = group.positions[k + 1];
    }
  });
}

#if !defined(H5L_DECODE_ONLY)
template void code_interpolation<true>(const Shape&, const Rule&, const i32*, i32, i32*, i32*, u8*, const Units&, bool);
template void code_interpolation<false>(const Shape&, const Rule&, const i32*, i32, i32*, i32*, u8*, const Units&,
                                        bool);
template void code_interpolation<false>(const Shape&, const Rule&, const i64*, i64, i64*, i64*, u8*, const Units&,
                                        bool);
template void fill_exceptions(const Shape&, i32, i32*);
template void fill_exceptions(const Shape&, i64, i64*);
template void predict_exceptions(const Shape&, u32, const u32*, i32*);
template void predict_exceptions(const Shape&, u32, const u32*, i64*);
template void code_lorenzo(const Shape&, u32, const i32*, i32*, i32*);
template void code_lorenzo(const Shape&, u32, const i64*, i64*, i64*);
#endif
template void rebuild_interpolation(const Shape&, const Rule&, const i32*, i32, const Grade&, i32*, u8*);
template void rebuild_interpolation(const Shape&, const Rule&, const i64*, i64, const Grade&, i64*, u8*);
template void rebuild_lorenzo(const Shape&, u32, const i32*, i32, i32*, const TakeRows<i32>&);
template void rebuild_lorenzo(const Shape&, u32, const i64*, i64, i64*, const TakeRows<i64>&);

}  // namespace h5lossy::H5L_TARGET::interp
