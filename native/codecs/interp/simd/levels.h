// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's interpolation a vector at a time (see passes.h): moves integers between parts, levels and coding order, and
// processes a whole tile.
#pragma once

#include <new>
#include <utility>

#include "codecs/interp/prediction.h"
#include "codecs/interp/simd/passes.h"
#include "codecs/interp/walk.h"

namespace h5lossy::H5L_TARGET::interp::levels {

// ---------------------------------------------------------------------------------------------------------------------
// Moves between parts and coding order

// Copies the entries of a slab to or from coding order. `places` are the places of the part from `origin` on. Returns
// the end of the codes.
template <bool kToParts, class Code>
inline Code* move_codes(const Plan& plan, const Level& level, u32 part, const Slab& slab, u32* places, u32 origin,
                        Code* codes) {
  u32 counts[kAxes], strides[kAxes];
  for (u32 a = 0; a < kAxes; ++a) {
    counts[a] = counts_of(level, part, a);
    strides[a] = stride_of(plan, level, part, a);
  }
  const u32 entries = counts[3], last = place_of(level, part, 3, entries - 1);
  const bool has_gap = last != entries - 1;
  const u32 room = level.axes[3].before != 0 ? level.axes[3].places : entries;  // for a row
  const u32 last_row = place_of(level, part, 2, counts[2] - 1);
  const u32 depth = counts[1] > 1 ? 2 : 1;
  for (u32 w = slab.w_begin; w < slab.w_end; ++w) {
    const u32 cube = place_of(level, part, 0, w) * strides[0] - origin;
    for (u32 z = slab.z_begin; z < slab.z_end; z += depth) {
      const u32 planes = slab.z_end - z < depth ? 1 : depth;
      u32* const first = places + (cube + place_of(level, part, 1, z) * strides[1]);
      u32* const second = planes == 1 ? first : places + (cube + place_of(level, part, 1, z + 1) * strides[1]);
      // The last entry is adjacent to the others only here.
      if (!kToParts && has_gap) {
        for (u32 y = 0; y <= last_row; ++y) {
          first[y * strides[2] + entries - 1] = first[y * strides[2] + last];
          second[y * strides[2] + entries - 1] = second[y * strides[2] + last];
        }
      }
      if (counts[1] == 1 && counts[2] == 1) {
        if constexpr (kToParts) {
          memcpy(first, codes, entries * sizeof(u32));
        } else {
          memcpy(codes, first, entries * sizeof(u32));
        }
        codes += entries;
      } else {
        u32* rows[8];
        for (u32 r = 0; r < 4; ++r) {
          rows[r] = first + r * strides[2];
          rows[4 + r] = second + r * strides[2];
        }
        for (u32 y = 0; y < counts[2]; y += 4) {
          const u32 height = counts[2] - y < 4 ? counts[2] - y : 4;
          if (y + height == counts[2]) {
            rows[height - 1] = first + last_row * strides[2];
            rows[4 + height - 1] = second + last_row * strides[2];
          }
          for (u32 r = 0; r < height; ++r) rows[height + r] = rows[4 + r];
          codes = depth == 1 ? move_rows_of<kToParts, 8>(height, rows, entries, room, codes)
                             : move_rows_of<kToParts, 4>(planes * height, rows, entries, room, codes);
          for (u32*& row : rows) row += 4 * strides[2];
        }
      }
      if (kToParts && has_gap) {
        for (u32 y = 0; y <= last_row; ++y) {
          first[y * strides[2] + last] = first[y * strides[2] + entries - 1];
          second[y * strides[2] + last] = second[y * strides[2] + entries - 1];
        }
      }
    }
  }
  return codes;
}

// ---------------------------------------------------------------------------------------------------------------------
// Moves between levels

struct Pair {
  Lanes first, second;
};

// `interleaved` gives a0 b0 a1 b1 …; `parted` is its inverse. The template arguments are the numbers of the lanes.
template <class V, u32... i>
H5L_INLINE Pair interleaved(V a, V b, std::integer_sequence<u32, i...>) {
  return {H5L_SHUFFLE(V, a, b, (i / 2 + i % 2 * kCount)...),
          H5L_SHUFFLE(V, a, b, (kCount / 2 + i / 2 + i % 2 * kCount)...)};
}
template <class V, u32... i>
H5L_INLINE Pair parted(V a, V b, std::integer_sequence<u32, i...>) {
  return {H5L_SHUFFLE(V, a, b, (2 * i)...), H5L_SHUFFLE(V, a, b, (2 * i + 1)...)};
}
inline constexpr std::make_integer_sequence<u32, kCount> kEachLane;

// A finer grid: the box itself, or the part without odd axes of the next finer level.
struct Grid {
  u32* at;
  u32 counts[kAxes];
  u32 strides[kAxes];
  const Axis* axes;  // null for the box
  u32 place(u32 a, u32 entry) const { return axes == nullptr ? entry : axes[a].place(entry); }
};

inline Grid grid_of(const Plan& plan, const Level& level) {
  Grid grid = {level.parts[0], {}, {}, level.axes};
  for (u32 a = 0; a < kAxes; ++a) {
    grid.counts[a] = level.axes[a].even;
    grid.strides[a] = stride_of(plan, level, 0, a);
  }
  return grid;
}

inline Grid grid_of(const Shape& shape, u32* at) {
  Grid grid = {at, {}, {}, nullptr};
  for (u32 a = 0; a < kAxes; ++a) {
    grid.counts[a] = shape.extents[a];
    grid.strides[a] = shape.strides[a];
  }
  return grid;
}

// A row along x of a finer grid, and its halves.
struct RowShape {
  u32 entries, last;  // the place of its last entry
  u32 odd, even, last_even;
  bool has_gap;
};

// kLeft: how many more even than odd entries there are; kNoOdd if there are no odd ones. The last vectors may extend
// past the end.
inline constexpr u32 kNoOdd = 3;
template <bool kToParts, u32 kLeft>
H5L_INLINE void move_row(const RowShape& shape, u32* row, u32* evens, u32* odds) {
  if constexpr (kLeft == kNoOdd) {
    for (u32 x = 0; x < shape.entries; x += kCount) {
      if constexpr (kToParts) {
        store_lanes(evens + x, load_lanes(row + x));
      } else {
        store_lanes(row + x, load_lanes(evens + x));
      }
    }
    if (!shape.has_gap) return;
    if constexpr (kToParts) {
      evens[shape.entries - 1] = row[shape.last];
    } else {
      row[shape.last] = row[shape.entries - 1];
    }
  } else {
    for (u32 x = 0; x < shape.odd; x += kCount) {
      if constexpr (kToParts) {
        const Pair both = parted(load_lanes(row + 2 * x), load_lanes(row + 2 * x + kCount), kEachLane);
        store_lanes(evens + x, both.first);
        store_lanes(odds + x, both.second);
      } else {
        const Pair both = interleaved(load_lanes(evens + x), load_lanes(odds + x), kEachLane);
        store_lanes(row + 2 * x, both.first);
        store_lanes(row + 2 * x + kCount, both.second);
      }
    }
    u32& left = evens[shape.odd];
    u32& last = kLeft == 0 ? odds[shape.odd - 1] : evens[shape.last_even];
    if constexpr (kToParts) {
      if constexpr (kLeft == 2) left = row[2 * shape.odd];
      last = row[shape.last];
    } else {
      if constexpr (kLeft == 2) row[2 * shape.odd] = left;
      row[shape.last] = last;
    }
  }
}

// Copies all rows between parts and a finer grid. Both are written up to two vectors past a row's end, where the next
// row is written later.
template <bool kToParts, u32 kLeft>
inline void move_rows_of_level(const Plan& plan, const Level& level, const Grid& grid, u32 rows,
                               const RowShape& shape) {
  const Axis& y_axis = level.axes[2];
  // Finds the place of an entry of the finer list among the even or odd ones.
  const auto split = [&](u32 a, u32 i, u32& entry) {
    const u32 pairs = 2 * level.axes[a].odd;
    entry = i < pairs ? i >> 1 : i - level.axes[a].odd;
    return i < pairs ? i & 1 : 0;
  };
  for (u32 w = 0; w < grid.counts[0]; ++w) {
    for (u32 z = 0; z < grid.counts[1]; ++z) {
      u32 i, j;
      const u32 part = split(0, w, i) | split(1, z, j) << 1;
      u32* const plane = grid.at + grid.place(0, w) * grid.strides[0] + grid.place(1, z) * grid.strides[1];
      // Rows of the parts with even and with odd places along y.
      u32* evens[2] = {};
      u32* odds[2] = {};
      u32 strides[2] = {};
      for (u32 side = 0; side < 2; ++side) {
        const u32 p = part | side << 2;
        if (level.parts[p] == nullptr) continue;
        const u32 offset = place_of(level, p, 0, i) * stride_of(plan, level, p, 0) +
                           place_of(level, p, 1, j) * stride_of(plan, level, p, 1);
        strides[side] = stride_of(plan, level, p, 2);
        evens[side] = level.parts[p] + offset;
        odds[side] = kLeft == kNoOdd ? evens[side] : level.parts[p | 8] + offset;
      }
      const auto move = [&](u32 y, u32* even_row, u32* odd_row) __attribute__((always_inline)) {
        move_row<kToParts, kLeft>(shape, plane + grid.place(2, y) * grid.strides[2], even_row, odd_row);
      };
      for (u32 y = 0; y < y_axis.odd; ++y) {
        move(2 * y, evens[0], odds[0]);
        move(2 * y + 1, evens[1], odds[1]);
        evens[0] += strides[0];
        odds[0] += strides[0];
        evens[1] += strides[1];
        odds[1] += strides[1];
      }
      for (u32 y = 2 * y_axis.odd; y < rows; ++y) {
        const u32 offset = (y_axis.place(y - y_axis.odd) - y_axis.odd) * strides[0];
        move(y, evens[0] + offset, odds[0] + offset);
      }
    }
  }
}

template <bool kToParts>
inline void move_level(const Plan& plan, const Level& level, const Grid& grid) {
  const Axis& axis = level.axes[3];
  u32 rows = grid.counts[2];
  RowShape shape = {grid.counts[3], grid.place(3, grid.counts[3] - 1), axis.odd,
                    axis.even,      axis.place(axis.even - 1),         false};
  shape.has_gap = shape.last != shape.entries - 1;
  if (axis.odd == 0 && level.axes[2].odd == 0 && stride_of(plan, level, 0, 2) == shape.entries &&
      grid.strides[2] == shape.entries && !shape.has_gap && grid.place(2, rows - 1) == rows - 1) {
    shape.entries *= rows;  // all of them as one row
    rows = 1;
  }
  if (axis.odd == 0) {
    move_rows_of_level<kToParts, kNoOdd>(plan, level, grid, rows, shape);
  } else if (axis.even == axis.odd) {
    move_rows_of_level<kToParts, 0>(plan, level, grid, rows, shape);
  } else if (axis.even == axis.odd + 1) {
    move_rows_of_level<kToParts, 1>(plan, level, grid, rows, shape);
  } else {
    move_rows_of_level<kToParts, 2>(plan, level, grid, rows, shape);
  }
}

// Merges the integers of a level into the next finer level, or into the box.
inline void merge_level(const Plan& plan, const Level* levels, u32 l, u32* integers) {
  move_level<false>(plan, levels[l], l == 0 ? grid_of(plan.shape, integers) : grid_of(plan, levels[l - 1]));
}

// ---------------------------------------------------------------------------------------------------------------------
// A tile

// The contents of the scratch memory, except the parts.
struct Workspace {
  Plan plan;
  Level levels[16];
  u32 offsets[16][16];  // of parts, by level and set of odd axes
  Passes passes{0};
  u32 parts[7];          // by pass
  u32 blends[7][kAxes];  // by axis
};

inline constexpr u32 kFewEntries = 200;  // boxes and levels with at most this many are predicted one value at a time
inline constexpr u32 kScratchBytes = kInterpolationBytes<i32>;

// Finds axes and levels, and places for all parts. Null if there is not enough memory because the box is too thin.
H5L_RARE inline Workspace* plan_levels(const Shape& shape, const Rule& rule, u8* scratch) {
  if (shape.active == 0 || shape.count <= kFewEntries) return nullptr;
  Workspace& space = *new (scratch) Workspace;
  Plan& plan = space.plan;
  plan.shape = shape;
  plan.rule = rule;
  const u32 top = top_level(shape);
  plan.levels = top + 1;
  for (u32 l = 0; l < plan.levels; ++l) {
    u32 entries = 1;
    for (u32 a = 0; a < kAxes; ++a) {
      const bool is_active = (shape.axes & axis_bit(a)) != 0;
      entries *= is_active ? even_of(shape.extents[a], 1u << l, l == top).count : shape.extents[a];
    }
    if (entries <= kFewEntries) plan.levels = l + 1;
  }
  const u32 slowest = shape.active_axes[0];
  plan.repeats = 1;
  for (u32 a = 0; a < slowest; ++a) plan.repeats *= shape.extents[a];
  plan.outer = slowest < 3 && plan.repeats <= kMaxRepeats ? slowest : kNoAxis;
  plan.first = plan.outer == kNoAxis ? slowest : slowest + 1;

  // A rule reaches at most three strides beyond the first and the last place of all.
  constexpr u32 kNowhere = 0xFFFFFFFFu;
  u32(&offsets)[16][16] = space.offsets;
  u32 words[2] = {}, offset = 0, reach = 0;
  for (u32 l = plan.levels; l-- > 0;) {
    Level& level = space.levels[l];
    level.s = 1u << l;
    level.is_top = l == top;
    for (u32 a = 0; a < kAxes; ++a) find_axis(plan, level, a, level.axes[a]);
    u32 stride = 1, lead = 0;
    for (u32 a = kAxes; a-- > plan.first;) {
      Axis& axis = level.axes[a];
      axis.stride = stride;
      if (axis.before != 0 && 3 * stride > reach) reach = 3 * stride;
      lead += axis.before * stride;
      stride *= axis.places;
    }
    if (stride >= kLongBlock) stride = (stride + kCount - 1) / kCount * kCount;  // most loads and stores are aligned
    const u32 block = level.block = stride;
    if (plan.outer != kNoAxis) level.axes[plan.outer].stride = block;
    words[0] = words[1] = plan.repeats * block;
    if (plan.outer != kNoAxis) {
      words[0] *= level.axes[plan.outer].even;
      words[1] *= level.axes[plan.outer].odd;
    }
    for (u32 part = 0; part < 16; ++part) {
      offsets[l][part] = kNowhere;
      bool exists = true;
      for (u32 a = 0; a < kAxes; ++a) exists &= (part >> a & 1) == 0 || level.axes[a].odd != 0;
      if (!exists) continue;
      const u32 size = words[plan.outer == kNoAxis ? 0 : part >> plan.outer & 1];
      if (size > shape.count + kSpareCodes - kCount) return nullptr;
      offset = (offset + lead + 15) / 16 * 16;
      offsets[l][part] = offset;
      offset += size - lead + 2 * kCount;
    }
  }
  u32 before = (sizeof(Workspace) / sizeof(u32) + 15) / 16 * 16;
  plan.ghosts = reinterpret_cast<u32*>(scratch) + before;
  before += kGhostLanes + kCount;
  before = (before + reach + 15) / 16 * 16;
  if ((before + offset + reach + kCount) * sizeof(u32) > kScratchBytes) return nullptr;
  for (u32 l = 0; l < plan.levels; ++l) {
    for (u32 part = 0; part < 16; ++part) {
      const bool exists = offsets[l][part] != kNowhere;
      space.levels[l].parts[part] = exists ? reinterpret_cast<u32*>(scratch) + before + offsets[l][part] : nullptr;
    }
  }
  space.passes = Passes(shape.active);
  for (u32 p = 0; p < space.passes.count; ++p) {
    const Blend blend = blend_of(rule, space.passes.odd[p]);
    space.parts[p] = 0;
    for (u32& weight : space.blends[p]) weight = 0;
    for (u32 i = 0; i < shape.active; ++i) {
      const u32 a = shape.active_axes[i];
      space.parts[p] |= (space.passes.odd[p] >> i & 1) << a;
      space.blends[p][a] = blend.weights[i];
    }
  }
  return &space;
}

// Calls visit(part, blend) for all passes of a level.
template <class F>
inline void for_parts(const Workspace& space, const Level& level, F&& visit) {
  for (u32 p = 0; p < space.passes.count; ++p) {
    if (level.parts[space.parts[p]] != nullptr) visit(space.parts[p], space.blends[p]);
  }
}

// The places of the entries of the part without odd axes, on the coarsest level here.
inline Places places_of(const Workspace& space) {
  const Level& level = space.levels[space.plan.levels - 1];
  Places places = {};
  places.shift = space.plan.levels;
  for (u32 a = 0; a < kAxes; ++a) {
    places.strides[a] = stride_of(space.plan, level, 0, a);
    places.last[a] = level.axes[a].place(level.axes[a].even - 1);
  }
  return places;
}

// Calls visit(slab, offset of its first entry) for all slabs, in coding order.
template <class F>
inline void for_slabs(const Plan& plan, const Level& level, u32 part, F&& visit) {
  const u32 cubes = counts_of(level, part, 0), planes = counts_of(level, part, 1);
  if (plan.outer == kNoAxis || level.block * plan.repeats * counts_of(level, part, plan.outer) < kLargePart) {
    visit(Slab{0, cubes, 0, planes}, 0u);
    return;
  }
  const u32 w_stride = stride_of(plan, level, part, 0), z_stride = stride_of(plan, level, part, 1);
  // Sub-blocks are two planes deep.
  const u32 few = (kSlabPlaces + level.block - 1) / level.block;
  const u32 cube_step = plan.outer == 0 ? few : 1, step = plan.outer == 0 ? planes : (few + 1) / 2 * 2;
  for (u32 w = 0; w < cubes; w += cube_step) {
    for (u32 z = 0; z < planes; z += step) {
      visit(Slab{w, w + cube_step < cubes ? w + cube_step : cubes, z, z + step < planes ? z + step : planes},
            w * w_stride + z * z_stride);
    }
  }
}

H5L_INLINE Lanes rounded(Lanes predictions, const Grade& grade) {
  const u32 distance = static_cast<u32>(grade.distance);
  return (predictions + distance / 2) & (0 - distance);
}

// Computes codes as take_target (walk.h) does.
template <bool kClosed>
H5L_INLINE Lanes codes_of(Lanes targets, Lanes predictions, u32 unit_bits) {
  Lanes codes = targets - predictions;
  if constexpr (kClosed) {
    const Lanes steps = shift_down(targets - (predictions << 6) + (u32{kParts / 2} << unit_bits), 6 + unit_bits)
                        << static_cast<i32>(unit_bits);
    const Lanes is_fixed = (Lanes)((targets & (kParts - 1)) == 0);
    const Lanes exact = shift_down(targets, 6) - predictions;
    codes = (exact & is_fixed) | (steps & ~is_fixed);
  }
  return codes & (Lanes)(targets != static_cast<u32>(kNone<i32>));
}

template <bool kClosed>
struct TakeTargets {
  u32* at;
  u32* codes;
  u32 unit_bits;
  Grade grade;
  void operator()(u32 k, Lanes predicted) const {
    const Lanes prediction = kClosed ? rounded(predicted, grade) : predicted;
    const Lanes code = codes_of<kClosed>(load_lanes(at + k), prediction, unit_bits);
    store_lanes(codes + k, code);
    store_lanes(at + k, prediction + code);
  }
};

struct TakeSteps {
  u32* at;
  Grade grade;
  void operator()(u32 k, Lanes prediction) const {
    store_lanes(at + k, rounded(prediction, grade) + load_lanes(at + k));
  }
};

// What is done with predictions: 0 open, 1 closed, 2 decoding.
template <u32 kWhat>
struct MakeTake {
  u32* at;
  u32* codes;  // from `origin` on
  u32 origin;
  u32 unit_bits;
  Grade grade;
  auto operator()(u32 offset) const {
    if constexpr (kWhat == 2) {
      return TakeSteps{at + offset, grade};
    } else {
      return TakeTargets<kWhat == 1>{at + offset, codes + (offset - origin), unit_bits, grade};
    }
  }
};

template <bool kClosed>
inline void code(Workspace& space, const i32* targets, i32 base, const Units& units, bool wants_integers, i32* integers,
                 i32* codes) {
  const Plan& plan = space.plan;
  // The const_cast is safe, since targets are only read.
  Grid grid = grid_of(plan.shape, const_cast<u32*>(reinterpret_cast<const u32*>(targets)));
  for (u32 l = 0; l < plan.levels; ++l) {
    move_level<true>(plan, space.levels[l], grid);
    grid = grid_of(plan, space.levels[l]);
  }
  u32* const places = reinterpret_cast<u32*>(integers);  // of codes, until all are in coding order
  u32* next = reinterpret_cast<u32*>(codes);
  i32* const coarse = reinterpret_cast<i32*>(space.levels[plan.levels - 1].parts[0]);
  coarse[0] = base;
  *next++ = 0;
  interpolate(plan.shape, plan.rule, places_of(space), plan.levels, coarse, [&](u32 place, i32 prediction) {
    const u32 unit_bits = units.bits_at(static_cast<u32>(next - reinterpret_cast<u32*>(codes)));
    const i32 rounded = units.grade.rounded(prediction);
    *next++ = static_cast<u32>(take_target<kClosed>(coarse[place], rounded, unit_bits, coarse[place]));
  });
  for (u32 l = plan.levels; l-- > 0;) {
    const Level& level = space.levels[l];
    for_parts(space, level, [&](u32 part, const u32(&blend)[kAxes]) {
      using Make = MakeTake<kClosed ? 1 : 0>;
      Pass<Make> pass(plan, level, part, blend);
      const u32 unit_bits = units.bits_at(static_cast<u32>(next - reinterpret_cast<u32*>(codes)));
      for_slabs(plan, level, part, [&](const Slab& slab, u32 offset) {
        pass(slab, Make{level.parts[part], places, offset, unit_bits, units.grade});
        next = move_codes<false>(plan, level, part, slab, places, offset, next);
      });
    });
    if (l != 0 || wants_integers) merge_level(plan, space.levels, l, places);
  }
  for (u32 i = plan.shape.count; i % kBlockCodes != 0; ++i) *next++ = 0;
}

inline void rebuild(Workspace& space, const i32* steps, i32 base, const Grade& grade, i32* integers) {
  const Plan& plan = space.plan;
  i32* const coarse = reinterpret_cast<i32*>(space.levels[plan.levels - 1].parts[0]);
  coarse[0] = base;
  AddSteps<i32> add = {coarse, steps, grade};
  interpolate(plan.shape, plan.rule, places_of(space), plan.levels, coarse, add);
  const u32* next = reinterpret_cast<const u32*>(add.steps + 1);
  for (u32 l = plan.levels; l-- > 0;) {
    const Level& level = space.levels[l];
    for_parts(space, level, [&](u32 part, const u32(&blend)[kAxes]) {
      using Make = MakeTake<2>;
      Pass<Make> pass(plan, level, part, blend);
      for_slabs(plan, level, part, [&](const Slab& slab, u32) {
        next = move_codes<true>(plan, level, part, slab, level.parts[part], 0, next);
        pass(slab, Make{level.parts[part], nullptr, 0, 0, grade});
      });
    });
    merge_level(plan, space.levels, l, reinterpret_cast<u32*>(integers));
  }
}

}  // namespace h5lossy::H5L_TARGET::interp::levels
