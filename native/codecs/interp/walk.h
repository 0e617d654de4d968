// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's interpolation, one value at a time: for coarse levels, thin boxes, and 64-bit integers.
#pragma once

#include "codecs/interp/grid.h"
#include "codecs/interp/units.h"

namespace h5lossy::H5L_TARGET::interp {

// The places of coordinates in an array that has, along active axes, only multiples of 1 << shift and the last
// coordinate.
struct Places {
  u32 shift;
  u32 strides[kAxes];
  u32 last[kAxes];  // the place of the last coordinate
};

H5L_FN Places places_of(const Shape& shape) {
  Places places = {};
  for (u32 a = 0; a < kAxes; ++a) {
    places.strides[a] = shape.strides[a];
    places.last[a] = shape.extents[a] - 1;
  }
  return places;
}

// The type of the integers at a place in an array.
template <class Place>
struct IntegerOf {
  using Type = Place;
};

// A rule as a sum over an array. Taps that a rule lacks have weight 0.
struct alignas(16) Taps {
  i32 offsets[4];
  u32 weights[4];
  u32 count;
};

// The rules of an axis on a level: for odd entries in the interior, and for those at the ends.
class AxisTaps {
 public:
  AxisTaps() = default;
  H5L_FN AxisTaps(const Shape& shape, const Places& places, u32 a, u32 s, bool is_top) {
    const u32 extent = shape.extents[a], last = extent - 1;
    odd_ = odd_of(extent, s, is_top).count;
    if (odd_ == 0) return;
    if (!is_top && last / s >= 6) inner_count_ = (last / s - 6) / 2 + 1;
    const auto find = [&](u32 entry, Taps& taps) {
      const u32 c = is_top ? last : s * (2 * entry + 1);
      const Row row = row_of(c, s, extent, is_top);
      const auto place = [&](u32 at) { return at == last ? places.last[a] : at >> places.shift; };
      taps.count = row.points;
      for (u32 i = 0; i < row.points; ++i) {
        const u32 to = static_cast<u32>(static_cast<i32>(c) + row.distances[i]);
        taps.offsets[i] = static_cast<i32>((place(to) - place(c)) * places.strides[a]);
        taps.weights[i] = static_cast<u32>(row.weights[i]);
      }
      for (u32 i = row.points; i < 4; ++i) taps.offsets[i] = taps.offsets[0];
    };
    if (inner_count_ != 0) find(1, taps_[0]);
    find(0, taps_[1]);
    find(odd_ - 1, taps_[2]);
    if (odd_ > 1) find(odd_ - 2, taps_[3]);
  }
  H5L_FN const Taps& at(u32 entry) const {
    if (entry - 1 < inner_count_) return taps_[0];
    return taps_[entry == odd_ - 1 ? 2 : entry == 0 ? 1 : 3];
  }
  // Whether all entries of a range have four neighbours.
  H5L_FN bool are_inner(u32 first, u32 count) const {
    return first - 1 < inner_count_ && first + count - 2 < inner_count_;
  }

 private:
  u32 odd_ = 0;
  u32 inner_count_ = 0;  // entries with four neighbours, from 1 on
  Taps taps_[4] = {};
};

// The contents of a place in an array of integers, as unsigned numbers for arithmetic: one number here, a vector of
// them in simd/slices.h.
template <class I>
inline Unsigned<I> numbers_of(I integer) {
  return static_cast<Unsigned<I>>(integer);
}

// The prediction along an axis, in 16ths.
template <class Place>
inline auto predict(const Taps& taps, const Place* at) {
  using Weight = Unsigned<typename IntegerOf<Place>::Type>;
  decltype(numbers_of(*at)) sum = {};
  for (u32 i = 0; i < taps.count; ++i) {
    const i32 weight = static_cast<i32>(taps.weights[i]);
    sum += static_cast<Weight>(weight) * numbers_of(at[taps.offsets[i]]);
  }
  return sum;
}

// Which axes are odd in the passes of a level, in the order of the passes; bit i is active axis i.
struct Passes {
  u32 count = 0;
  u32 odd[7];
  H5L_FN explicit Passes(u32 active) {
    for (u32 axes = 1; axes <= active; ++axes) {
      for (u32 m = 1; m < 1u << active; ++m) {
        if (count_ones(m) != axes) continue;
        odd[count] = 0;
        for (u32 i = 0; i < active; ++i) odd[count] |= (m >> (active - 1 - i) & 1) << i;
        ++count;
      }
    }
  }
};

// The places of the entries of a level, by axis and parity.
struct LevelLists {
  List lists[kAxes][2];
#if defined(H5L_DECODE_ONLY)
  [[gnu::noinline]]  // for small code
#endif
  LevelLists(const Shape& shape, const Places& places, u32 s, bool is_top) {
    for (u32 a = 0; a < kAxes; ++a) lists[a][0] = all_of(shape.extents[a]);
    for (u32 i = 0; i < shape.active; ++i) {
      const u32 a = shape.active_axes[i], extent = shape.extents[a];
      lists[a][0] = even_of(extent, s, is_top);
      lists[a][1] = odd_of(extent, s, is_top);
      for (List& list : lists[a]) {
        list.first >>= places.shift;
        list.step >>= places.shift;
        list.last = list.last == extent - 1 ? places.last[a] : list.last >> places.shift;
      }
    }
  }
};

// The entries of a pass.
struct PassGrid {
  const List* lists[kAxes];
  u32 counts[kAxes];
#if defined(H5L_DECODE_ONLY)
  [[gnu::noinline]]  // for small code
#endif
  PassGrid(const Shape& shape, const LevelLists& level, u32 odd) {
    for (u32 a = 0; a < kAxes; ++a) lists[a] = &level.lists[a][0];
    for (u32 i = 0; i < shape.active; ++i) lists[shape.active_axes[i]] += odd >> i & 1;
    for (u32 a = 0; a < kAxes; ++a) counts[a] = lists[a]->count;
  }
  H5L_FN bool is_empty() const { return counts[0] == 0 || counts[1] == 0 || counts[2] == 0 || counts[3] == 0; }
  H5L_FN u32 row(const Places& places, u32 w, u32 z, u32 y) const {
    return lists[0]->at(w) * places.strides[0] + lists[1]->at(z) * places.strides[1] +
           lists[2]->at(y) * places.strides[2];
  }
};

// Calls visit(position) for all values that are first along all active axes, in coding order.
template <class F>
inline void for_firsts(const Shape& shape, const Places& places, F&& visit) {
  u32 counts[kAxes];
  for (u32 a = 0; a < kAxes; ++a) counts[a] = (shape.axes & axis_bit(a)) != 0 ? 1 : shape.extents[a];
  const u32(&strides)[kAxes] = places.strides;
  for_pieces(counts, [&](u32 w, u32 z, u32 y, u32 x, u32 length) {
    const u32 at = w * strides[0] + z * strides[1] + y * strides[2] + x * strides[3];
    for (u32 i = 0; i < length; ++i) visit(at + i * strides[3]);
  });
}

// Calls visit(position, prediction) for these values except the first one. visit() has to set integers[position].
template <class I, class F>
inline void predict_firsts(const Shape& shape, const Places& places, const I* integers, F&& visit) {
  u32 before = 0;
  for_firsts(shape, places, [&](u32 position) {
    if (position != 0) visit(position, integers[before]);
    before = position;
  });
}

// Calls visit(position, 256 times the prediction) for all other values, on the levels from the top to `lowest`, in
// coding order. visit() has to set integers[position]. `places` describes the array. around(entries, run) is called for
// each pass, and has to call run().
template <class Place, class F, class Around>
inline void predict_levels(const Shape& shape, const Rule& rule, const Places& places, u32 lowest,
                           const Place* integers, F&& visit, Around&& around) {
  using Weight = Unsigned<typename IntegerOf<Place>::Type>;
  const Passes passes(shape.active);
  const u32 active = shape.active, top = top_level(shape);
  Blend blends[8];
  for (u32 p = 0; p < passes.count; ++p) blends[p] = blend_of(rule, passes.odd[p]);
  for (u32 level = top + 1; level-- > lowest;) {
    const u32 s = 1u << level;
    const bool is_top = level == top;
    AxisTaps taps[kMaxActiveAxes];
    for (u32 i = 0; i < active; ++i) taps[i] = AxisTaps(shape, places, shape.active_axes[i], s, is_top);
    const LevelLists lists(shape, places, s, is_top);
    for (u32 p = 0; p < passes.count; ++p) {
      const Blend& blend = blends[p];
      const PassGrid grid(shape, lists, passes.odd[p]);
      const u32(&counts)[kAxes] = grid.counts;
      if (grid.is_empty()) continue;
      // Terms along w, z and y are the same for all values of a piece.
      const AxisTaps* term[kMaxActiveAxes] = {};
      u32 term_axes[kMaxActiveAxes] = {}, terms = 0;
      Weight weights[kMaxActiveAxes] = {}, x_weight = 0;
      const AxisTaps* x_term = nullptr;
      for (u32 i = 0; i < active; ++i) {
        if (blend.weights[i] == 0) continue;
        if (shape.active_axes[i] == 3) {
          x_term = &taps[i];
          x_weight = blend.weights[i];
          continue;
        }
        term[terms] = &taps[i];
        term_axes[terms] = shape.active_axes[i];
        weights[terms++] = blend.weights[i];
      }
      around(counts[0] * counts[1] * counts[2] * counts[3], [&] {
        for_pieces(counts, [&](u32 w, u32 z, u32 y, u32 x, u32 length) {
          const u32 row = grid.row(places, w, z, y);
          const u32 entries[3] = {w, z, y};
          const Taps* row_taps[kMaxActiveAxes];
          for (u32 t = 0; t < terms; ++t) row_taps[t] = &term[t]->at(entries[term_axes[t]]);
          for (u32 i = x; i < x + length; ++i) {
            const u32 position = row + grid.lists[3]->at(i) * places.strides[3];
            decltype(numbers_of(*integers)) sum = {};
            for (u32 t = 0; t < terms; ++t) sum += weights[t] * predict(*row_taps[t], integers + position);
            if (x_term != nullptr) sum += x_weight * predict(x_term->at(i), integers + position);
            visit(position, sum);
          }
        });
      });
    }
  }
}

// Rows that are adjacent in coding order, in a layer of sub-blocks.
struct RowGroup {
  u32 count = 0;
  u32 positions[8] = {};       // of the first value of each row
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

// Calls visit(places, grid) for all passes that have values, in coding order.
template <class F>
inline void for_passes(const Shape& shape, bool is_lorenzo, F&& visit) {
  Shape box = shape;
  if (is_lorenzo) box.active = 0;  // a single pass has all values
  const Places places = places_of(box);
  const Passes passes(box.active);
  const u32 top = top_level(box);
  for (u32 level = top + 1; level-- > 0;) {
    const LevelLists lists(box, places, 1u << level, level == top);
    for (u32 p = level == top ? 0 : 1; p <= passes.count; ++p) {
      const PassGrid grid(box, lists, p == 0 ? 0 : passes.odd[p - 1]);
      if (!grid.is_empty()) visit(places, grid);
    }
  }
}

// Predicts the first values and all others, one integer at a time.
template <class I, class F>
inline void interpolate(const Shape& shape, const Rule& rule, const Places& places, u32 lowest, const I* integers,
                        F&& visit) {
  predict_firsts(shape, places, integers, visit);
  const auto visit_rounded = [&](u32 position, Unsigned<I> sum) { visit(position, static_cast<I>(sum + 128) >> 8); };
  predict_levels(shape, rule, places, lowest, integers, visit_rounded, [](u32, auto&& run) { run(); });
}

// A decoder's visitor: adds the next step to each prediction. `steps` points before it.
template <class I>
struct AddSteps {
  I* integers;
  const I* steps;
  Grade grade;
  void operator()(u32 position, I prediction) {
    using U = Unsigned<I>;
    integers[position] = static_cast<I>(static_cast<U>(grade.rounded(prediction)) + static_cast<U>(*++steps));
  }
};

// The code of a target, and the integer to which it leads. Closed: the code is the distance from the prediction, which
// is a number of whole steps unless the target is a fine point that has to be reproduced.
template <bool kClosed, class I>
H5L_FN I take_target(I target, I prediction, u32 unit_bits, I& integer) {
  using U = Unsigned<I>;
  U code = 0;
  if (target != kNone<I>) {
    if constexpr (kClosed) {
      const U excess = static_cast<U>(target) - U{kParts} * static_cast<U>(prediction) + (U{kParts / 2} << unit_bits);
      const U steps = static_cast<U>(static_cast<I>(excess) >> (6 + unit_bits));
      const U exact = static_cast<U>(target >> 6) - static_cast<U>(prediction);
      code = target % kParts == 0 ? exact : steps << unit_bits;
    } else {
      code = static_cast<U>(target) - static_cast<U>(prediction);
    }
  }
  integer = static_cast<I>(static_cast<U>(prediction) + code);
  return static_cast<I>(code);
}

}  // namespace h5lossy::H5L_TARGET::interp
