// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's interpolation of boxes that are too thin for levels.h, but have many slices along an axis that is not
// interpolated, such as 300 x 7 x 7: a vector holds as many slices as it has lanes, one slice per lane, and proceeds
// value by value.
#pragma once

#include "codecs/interp/simd/levels.h"
#include "codecs/interp/walk.h"

namespace h5lossy::H5L_TARGET::interp {

namespace slices {

using levels::kCount;
using levels::Lanes;

// A value of each slice.
struct Column {
  u32 lanes[kCount];
};
inline Lanes numbers_of(const Column& column) { return levels::load_lanes(column.lanes); }

struct Slices {
  Shape one;  // its strides are those of the box
  u32 count;
};

// False if there are too few slices, or they are too large. Apart from the passes, a slice is contiguous in coding
// order.
inline bool find_slices(const Shape& shape, Slices& slices) {
  slices = {shape, 1};
  const bool along_w = shape.extents[0] > 1;
  const u32 axis = along_w ? 0 : 1, depth = along_w ? 1 : 2;  // sub-blocks are two planes deep
  const u32 extent = shape.extents[axis];
  if (shape.active == 0 || (shape.axes & axis_bit(axis)) != 0 || extent % depth != 0 || extent / depth < kCount)
    return false;
  slices.count = extent / depth;
  slices.one.extents[axis] = depth;
  slices.one.count = shape.count / slices.count;
  return 2 * slices.one.count * sizeof(Column) <= levels::kScratchBytes;
}

// From rows of `length` words to columns, and back; with fewer rows than lanes, columns are incomplete.
inline void to_columns(const u32* rows, u32 count, u32 length, Column* columns) {
  for (u32 lane = 0; lane < count; ++lane, rows += length) {
    for (u32 i = 0; i < length; ++i) columns[i].lanes[lane] = rows[i];
  }
}
inline void from_columns(const Column* columns, u32 count, u32 length, u32* rows) {
  for (u32 lane = 0; lane < count; ++lane, rows += length) {
    for (u32 i = 0; i < length; ++i) rows[i] = columns[i].lanes[lane];
  }
}

// Goes through the slices, whose first values are already in `integers`. `before` and `after` a pass are called with
// the place of its codes of these slices, the number of slices, and the number of codes in each.
template <class Load, class Visit, class Before, class After>
inline void for_slices(const Slices& slices, const Rule& rule, i32* integers, u8* scratch, Load&& load, Visit&& visit,
                       Before&& before, After&& after) {
  const Shape& one = slices.one;
  const Places places = places_of(one);
  Column* const values = new (scratch) Column[one.count];
  u32* const rows = reinterpret_cast<u32*>(integers);
  for (u32 first = 0; first < slices.count; first += kCount) {
    const u32 count = slices.count - first < kCount ? slices.count - first : kCount;
    load(first, count, values);
    for_firsts(one, places, [&](u32 position) {
      for (u32 lane = 0; lane < count; ++lane) {
        values[position].lanes[lane] = rows[(first + lane) * one.count + position];
      }
    });
    u32 begin = 0;  // of the pass, within the codes of a slice
    predict_levels(
        one, rule, places, 0, values,
        [&](u32 position, Lanes sum) { visit(values[position], levels::shift_down(sum + 128, 8)); },
        [&](u32 entries, auto&& run) {
          const u32 place = slices.count * begin + first * entries;
          before(place, count, entries);
          run();
          after(place, count, entries);
          begin += entries;
        });
    from_columns(values, count, one.count, rows + first * one.count);
  }
}

template <bool kClosed>
inline void code(const Shape& shape, const Slices& slices, const Rule& rule, const i32* targets, i32 base,
                 const Units& units, i32* integers, i32* codes, u8* scratch) {
  const u32 length = slices.one.count;
  integers[0] = base;
  i32* const begin = codes;
  *codes++ = 0;
  predict_firsts(shape, places_of(shape), integers, [&](u32 position, i32 prediction) {
    const u32 unit_bits = units.bits_at(static_cast<u32>(codes - begin));
    *codes++ = take_target<kClosed>(targets[position], units.grade.rounded(prediction), unit_bits, integers[position]);
  });
  const u32 firsts = static_cast<u32>(codes - begin);
  u32 unit_bits = 0;  // of a pass
  u32* const rest = reinterpret_cast<u32*>(codes);
  Column* const pass = new (scratch + length * sizeof(Column)) Column[length];
  Column* next = pass;
  for_slices(
      slices, rule, integers, scratch,
      [&](u32 first, u32 count, Column* values) {
        to_columns(reinterpret_cast<const u32*>(targets) + first * length, count, length, values);
      },
      [&](Column& value, Lanes predicted) {
        const Lanes prediction = levels::rounded(predicted, units.grade);
        const Lanes code = levels::codes_of<kClosed>(numbers_of(value), prediction, unit_bits);
        levels::store_lanes(next++->lanes, code);
        levels::store_lanes(value.lanes, prediction + code);
      },
      [&](u32 place, u32, u32) {
        next = pass;
        unit_bits = units.bits_at(firsts + place);
      },
      [&](u32 place, u32 count, u32 entries) { from_columns(pass, count, entries, rest + place); });
  for (u32 i = shape.count; i % kBlockCodes != 0; ++i) begin[i] = 0;
}

inline void rebuild(const Shape& shape, const Slices& slices, const Rule& rule, const i32* steps, i32 base,
                    const Grade& grade, i32* integers, u8* scratch) {
  const u32 length = slices.one.count;
  integers[0] = base;
  ++steps;
  predict_firsts(shape, places_of(shape), integers, [&](u32 position, i32 prediction) {
    integers[position] = static_cast<i32>(static_cast<u32>(grade.rounded(prediction)) + static_cast<u32>(*steps++));
  });
  const u32* const rest = reinterpret_cast<const u32*>(steps);
  Column* const pass = new (scratch + length * sizeof(Column)) Column[length];
  const Column* next = pass;
  for_slices(
      slices, rule, integers, scratch, [](u32, u32, Column*) {},
      [&](Column& value, Lanes prediction) {
        levels::store_lanes(value.lanes, levels::rounded(prediction, grade) + numbers_of(*next++));
      },
      [&](u32 place, u32 count, u32 entries) {
        to_columns(rest + place, count, entries, pass);
        next = pass;
      },
      [](u32, u32, u32) {});
}

}  // namespace slices

template <>
struct IntegerOf<slices::Column> {
  using Type = i32;
};

}  // namespace h5lossy::H5L_TARGET::interp
