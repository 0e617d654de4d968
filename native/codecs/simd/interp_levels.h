// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's interpolation a vector at a time, for 32-bit integers and for boxes that are not too thin.
//
// A level splits its grid by the parity of the coordinates: one *part* for each set of odd axes, an array of its own. All
// parts of a level have the same strides, so that a pass is one loop over contiguous memory, with the same distances to
// the neighbours everywhere: along an axis of stride S, place j of the odd list lies between places j and j + 1 of the even
// one. What is different near the ends of an axis is hidden in *ghosts*: integers in front of and behind the even ones,
// such that the rule of the interior gives what the rule at the end asks for. This is exact: the interior's outermost
// weight is -1, so that any sum of products can be reached. (Six points are mixed with four by a mask.)
//
// The slowest active axis, *outer*, has no ghosts in its parts, as they would take much memory: its few odd places with
// other rules take turns.
#pragma once

#include <new>

#include "codecs/interp_grid.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::interp::levels {

using Lanes = Vector<u32>;
using SignedLanes = Vector<i32>;
inline constexpr u32 kCount = kLanes<u32>;

inline Lanes load_lanes(const u32* from) {
  Lanes lanes;
  memcpy(&lanes, from, sizeof lanes);
  return lanes;
}
inline void store_lanes(u32* to, Lanes lanes) { memcpy(to, &lanes, sizeof lanes); }
inline Lanes shift_down(Lanes x, u32 bits) { return (Lanes)((SignedLanes)x >> static_cast<i32>(bits)); }

// Calls body(k) for k = 0, kCount, ... below `length`, and keeps what lies behind `length` in `at`.
template <class F>
[[gnu::always_inline]] inline void for_lanes(u32* at, u32 length, F&& body) {
  const Lanes behind = load_lanes(at + length);
  for (u32 k = 0; k < length; k += kCount) body(k);
  store_lanes(at + length, behind);
}

template <u32 kNumber>
struct Constant {
  constexpr u32 operator()() const { return kNumber; }
};

// ---------------------------------------------------------------------------------------------------------------------
// Geometry of a level

// A place that is a sum of products of others, along one axis.
struct Ghost {
  i32 place;
  i32 from[4];
  u32 weights[4];
  u32 count;
};

struct Axis {
  u32 even = 0, odd = 0;  // entries of the lists
  u32 regular = 0;        // even entries at even distances: the last one may be closer
  u32 gap = 0;            // ghosts between the regular entries and the last one, or behind the regular ones
  u32 before = 0;         // ghosts in front
  u32 places = 0;         // of even and odd parts, with ghosts
  u32 stride = 0;         // of the inner axes
  u32 six_begin = 0, six_end = 0;    // odd places with six points
  u32 four_begin = 0, four_end = 0;  // with four
  u32 twist = 0;          // two points: the last odd place, if irregular, has the weights 8 + twist and 8 - twist
  bool is_cubic = false;      // all ghosts but that of an irregular place continue three entries by a parabola
  bool is_irregular = false;  // the last odd place lies closer than s to the last even one
  u32 ghost_count = 0;
  Ghost ghosts[3];

  // The place of an entry of the even list.
  u32 place(u32 entry) const { return entry < regular ? entry : entry + gap; }
  u32 end(bool is_odd) const { return is_odd ? odd : place(even - 1) + 1; }
  u32 entries(bool is_odd) const { return is_odd ? odd : even; }
};

inline constexpr u32 kNoAxis = kAxes;

struct Level {
  Axis axes[kAxes];
  u32 s;
  bool is_top;
  u32 block;       // of all inner places, with ghosts
  u32 mask_length;
  u32* parts[16];  // by the set of odd axes, bit a for axis a; where places and entries 0 are
};

struct Plan {
  Shape shape;
  Rule rule;
  u32 top;
  u32 outer;    // an axis, or kNoAxis
  u32 first;    // the slowest one of a block: what is faster than the outer axis, or all active ones and what is faster
  u32 repeats;  // the product of extents that are slower than the outer axis, or than a block
  u32* mask;
  u32* ghosts;  // of the outer axis, kGhostLanes for each term
};

// Weights of the even entries j - 1 to j + 2 for odd place j, that are not six points.
inline void weights_of(const Plan& plan, const Level& level, u32 a, u32 j, u32 predictor, u32 (&weights)[4]) {
  const u32 extent = plan.shape.extents[a];
  const Row row = row_of(level.is_top ? extent - 1 : level.s * (2 * j + 1), level.s, extent, predictor, level.is_top);
  for (u32& weight : weights) weight = 0;
  const i32 three = 3 * static_cast<i32>(level.s);
  for (u32 i = 0; i < row.points; ++i) {
    const i32 distance = row.distances[i];
    const u32 entry = distance == -three ? 0 : distance < 0 ? 1 : distance == three ? 3 : 2;
    weights[entry] = static_cast<u32>(row.weights[i]);
  }
}

inline void add_ghost(Axis& axis, const Ghost& ghost) { axis.ghosts[axis.ghost_count++] = ghost; }

inline void find_axis(const Plan& plan, const Level& level, u32 a, Axis& axis) {
  const u32 extent = plan.shape.extents[a], last = extent - 1, s = level.s;
  const bool is_active = (plan.shape.axes & axis_bit(a)) != 0;
  if (!is_active) {
    axis.even = axis.regular = axis.places = extent;
    return;
  }
  axis.even = even_of(extent, s, level.is_top).count;
  axis.odd = odd_of(extent, s, level.is_top).count;
  axis.regular = axis.places = axis.even;
  if (axis.odd == 0) return;
  const u32 no = axis.odd;
  const u32 predictor = plan.rule.predictor;
  const bool is_inner = a != plan.outer;
  if (level.is_top) {
    if (!is_inner) return;
    axis.before = 1;
    axis.gap = 2;
    axis.places = 4;
    axis.ghost_count = 3;
    axis.ghosts[0] = {-1, {0}, {1}, 1};
    axis.ghosts[1] = {1, {0}, {1}, 1};
    axis.ghosts[2] = {2, {0}, {1}, 1};
    return;
  }
  const bool ends_off = last % (2 * s) != 0;
  const u32 regular = last / (2 * s) + 1;
  axis.is_irregular = regular == no;
  // Rules by place.
  if (predictor == kTwoPoints) {
    if (axis.is_irregular) {
      u32 w[4];
      weights_of(plan, level, a, no - 1, kTwoPoints, w);
      axis.twist = w[1] - 8;
    }
  } else {
    axis.four_begin = 1;
    axis.four_end = last / s >= 4 ? (last / s - 4) / 2 + 1 : 0;
    if (axis.four_end < 1) axis.four_end = 1;
    if (predictor == kSixPoints) {
      axis.six_begin = 2;
      axis.six_end = last / s >= 6 ? (last / s - 6) / 2 + 1 : 0;
      if (axis.six_end < 2) axis.six_begin = axis.six_end = 2;
    }
  }
  if (!is_inner) return;
  axis.regular = regular;
  axis.before = 1;
  axis.gap = axis.is_irregular ? 2 : 1;
  axis.places = 1 + regular + axis.gap + (ends_off ? 1 : 0);
  // Rows are copied in pieces of four or eight.
  if (a == 3) axis.places = regular < 32 ? (axis.places + 3) / 4 * 4 : (axis.places + 7) / 8 * 8;
  const i32 r = static_cast<i32>(regular), end = static_cast<i32>(no), at_last = static_cast<i32>(regular + axis.gap);
  if (predictor == kTwoPoints) {
    if (axis.is_irregular) add_ghost(axis, {r, {at_last}, {1}, 1});
    return;
  }
  u32 w[4];
  if (axis.is_irregular) {
    if (no >= 3) {
      weights_of(plan, level, a, no - 2, kFourPoints, w);
      add_ghost(axis, {r, {end - 3, end - 2, end - 1}, {0u - 1 - w[0], 9 - w[1], 9 - w[2]}, 3});
    } else {
      add_ghost(axis, {r, {end - 1}, {1}, 1});
    }
    weights_of(plan, level, a, no - 1, kFourPoints, w);
    if (no >= 2) {
      add_ghost(axis, {r + 1, {end - 2, end - 1, r, at_last}, {0u - 1 - w[0], 9 - w[1], 9, 0 - w[2]}, 4});
    } else {
      add_ghost(axis, {r + 1, {0, r, at_last}, {8 - w[1], 9, 0 - w[2]}, 3});
    }
  } else {
    weights_of(plan, level, a, no - 1, kFourPoints, w);
    if (no >= 2) {
      add_ghost(axis, {r, {end - 2, end - 1, end}, {0u - 1 - w[0], 9 - w[1], 9 - w[2]}, 3});
    } else {
      add_ghost(axis, {r, {0, 1}, {8 - w[1], 9 - w[2]}, 2});
    }
  }
  if (no >= 2) {
    weights_of(plan, level, a, 0, kFourPoints, w);
    add_ghost(axis, {-1, {0, 1, 2}, {9 - w[1], 9 - w[2], 0u - 1 - w[3]}, 3});
    axis.is_cubic = w[3] != 0 && (no >= 3 || !axis.is_irregular);
  } else {
    add_ghost(axis, {-1, {0}, {1}, 1});
  }
}

inline u32 counts_of(const Level& level, u32 part, u32 a) { return level.axes[a].entries((part >> a & 1) != 0); }

inline u32 place_of(const Level& level, u32 part, u32 a, u32 entry) {
  return (part >> a & 1) != 0 ? entry : level.axes[a].place(entry);
}

// The stride of an axis in a part: those of axes that are slower than the outer one depend on its parity.
inline u32 stride_of(const Plan& plan, const Level& level, u32 part, u32 a) {
  if (a >= plan.first || a == plan.outer) return level.axes[a].stride;
  u32 stride = plan.outer == kNoAxis ? level.block : level.block * counts_of(level, part, plan.outer);
  for (u32 b = plan.outer == kNoAxis ? plan.first : plan.outer; --b > a;) stride *= level.axes[b].even;
  return stride;
}

// From the first to the last entry of a block.
inline u32 length_of(const Plan& plan, const Level& level, u32 part) {
  u32 length = 1;
  for (u32 a = plan.first; a < kAxes; ++a) {
    length += (level.axes[a].end((part >> a & 1) != 0) - 1) * level.axes[a].stride;
  }
  return length;
}

// ---------------------------------------------------------------------------------------------------------------------
// A pass

inline constexpr u32 kLongBlock = 128;
inline constexpr u32 kGhostLanes = 1024;
inline constexpr u32 kMaskWords = 1024;
inline constexpr u32 kMaxRepeats = 8;     // of an outer axis
inline constexpr u32 kOuterBit = 1 << 4;  // behind those of the four axes

// Where a term's neighbours are: the even entries j - 2 to j + 3.
struct Term {
  const u32* from[6];
  u32 bit;     // of the mask: six points, or two irregular ones
  u32 twist;   // for two points
  u32 weight;  // in 16ths
};

template <u32 kPredictor>
[[gnu::always_inline]] inline Lanes predicted(const Term& term, u32 k, Lanes mask) {
  const Lanes c = load_lanes(term.from[2] + k), d = load_lanes(term.from[3] + k);
  if constexpr (kPredictor == kTwoPoints) {
    const Lanes twist = (Lanes)((mask & term.bit) != 0) & term.twist;
    return ((c + d) << 3) + twist * (c - d);
  } else {
    const Lanes b = load_lanes(term.from[1] + k), e = load_lanes(term.from[4] + k);
    const Lanes inner = c + d, outer = b + e, bend = inner - outer;
    const Lanes four = (inner << 3) + bend;
    if constexpr (kPredictor == kFourPoints) {
      return four;
    } else {
      const Lanes a = load_lanes(term.from[0] + k), f = load_lanes(term.from[5] + k);
      // 150, -25 and 3 are 16 times 9, -1 and 0, and 3 times 2, -3 and 1.
      const Lanes rest = (bend << 1) + (a + f - outer);
      const Lanes six = shift_down((four << 4) + (rest << 1) + rest + 8, 4);
      return (mask & term.bit) != 0 ? six : four;
    }
  }
}

// Predicts `length` places. `use(k, prediction)` gets vectors of them, and the last one may be too long.
template <u32 kPredictor, u32 kTerms, class F>
[[gnu::always_inline]] inline void run(const Term (&terms)[kMaxActiveAxes], const u32* mask, u32 fixed, u32* at, u32 length,
                                       F&& use) {
  const Term t0 = terms[0], t1 = terms[kTerms > 1 ? 1 : 0], t2 = terms[kTerms > 2 ? 2 : 0];
  for_lanes(at, length, [&](u32 k) __attribute__((always_inline)) {
    Lanes bits = {};
    if constexpr (kPredictor != kFourPoints) bits = load_lanes(mask + k) | fixed;
    Lanes sum = predicted<kPredictor>(t0, k, bits);
    // The weights add up to 16.
    if constexpr (kTerms == 1) {
      sum <<= 4;
    } else if constexpr (kTerms == 2) {
      const Lanes other = predicted<kPredictor>(t1, k, bits);
      sum = (other << 4) + t0.weight * (sum - other);
    } else {
      const Lanes second = predicted<kPredictor>(t1, k, bits), third = predicted<kPredictor>(t2, k, bits);
      sum = (third << 4) + t0.weight * (sum - third) + t1.weight * (second - third);
    }
    use(k, shift_down(sum + 128, 8));
  });
}

// out[k] = sum of products.
inline void mix(u32* out, u32 length, const u32* const (&from)[4], const u32 (&weights)[4], u32 count) {
  const u32 *a = from[0], *b = from[1], *c = from[2], *d = from[3];
  if (count == 1 && weights[0] == 1) {
    for_lanes(out, length, [&](u32 k) { store_lanes(out + k, load_lanes(a + k)); });
  } else if (count == 3 && weights[0] == 3 && weights[1] == 0u - 3 && weights[2] == 1) {
    for_lanes(out, length, [&](u32 k) {
      const Lanes difference = load_lanes(a + k) - load_lanes(b + k);
      store_lanes(out + k, load_lanes(c + k) + difference + (difference << 1));
    });
  } else if (count == 3 && weights[0] == 1 && weights[1] == 0u - 3 && weights[2] == 3) {
    for_lanes(out, length, [&](u32 k) {
      const Lanes difference = load_lanes(c + k) - load_lanes(b + k);
      store_lanes(out + k, load_lanes(a + k) + difference + (difference << 1));
    });
  } else {
    const u32 w0 = weights[0], w1 = count > 1 ? weights[1] : 0, w2 = count > 2 ? weights[2] : 0,
              w3 = count > 3 ? weights[3] : 0;
    if (count < 2) b = a;
    if (count < 3) c = a;
    if (count < 4) d = a;
    for_lanes(out, length, [&](u32 k) {
      store_lanes(out + k, w0 * load_lanes(a + k) + w1 * load_lanes(b + k) + w2 * load_lanes(c + k) +
                               w3 * load_lanes(d + k));
    });
  }
}

// The same for single places, `stride` apart, once for each of `count` rows.
inline void mix_rows(u32* at, u32 count, u32 stride, const Axis& axis) {
  const Ghost* const ghosts = axis.ghosts;
  if (axis.is_cubic) {
    const i32 end = static_cast<i32>(axis.regular);
    const i32 last = end + static_cast<i32>(axis.gap);
    const bool is_irregular = axis.is_irregular;
    const u32 w0 = ghosts[1].weights[0], w1 = ghosts[1].weights[1], w3 = ghosts[1].weights[3];
    for (u32 r = 0; r < count; ++r, at += stride) {
      const u32 a = at[end - 3], b = at[end - 2], c = at[end - 1], ghost = 3 * (c - b) + a;
      at[-1] = 3 * (at[0] - at[1]) + at[2];
      at[end] = ghost;
      if (is_irregular) at[end + 1] = w0 * b + w1 * c + 9 * ghost + w3 * at[last];
    }
    return;
  }
  for (u32 r = 0; r < count; ++r, at += stride) {
    for (u32 g = 0; g < axis.ghost_count; ++g) {
      u32 sum = 0;
      for (u32 i = 0; i < ghosts[g].count; ++i) sum += ghosts[g].weights[i] * at[ghosts[g].from[i]];
      at[ghosts[g].place] = sum;
    }
  }
}

// Fills the ghosts of an inner axis in a part with even places along it.
inline void fill_ghosts(const Plan& plan, const Level& level, u32 part, u32 a) {
  const Axis& axis = level.axes[a];
  u32 length = 1;  // of what is contiguous
  for (u32 b = a + 1; b < kAxes; ++b) length += (level.axes[b].end((part >> b & 1) != 0) - 1) * level.axes[b].stride;
  u32 counts[kAxes] = {1, 1, 1, 1}, strides[kAxes] = {};
  for (u32 b = 0; b < a; ++b) {
    counts[b] = counts_of(level, part, b);
    strides[b] = stride_of(plan, level, part, b);
  }
  const i64 stride = axis.stride;
  for (u32 w = 0; w < counts[0]; ++w) {
    for (u32 z = 0; z < counts[1]; ++z) {
      u32* const plane = level.parts[part] + place_of(level, part, 0, w) * strides[0] +
                         place_of(level, part, 1, z) * strides[1];
      if (a == 3) {  // also in rows of ghosts
        mix_rows(plane, level.axes[2].end((part >> 2 & 1) != 0), strides[2], axis);
        continue;
      }
      for (u32 y = 0; y < counts[2]; ++y) {
        u32* const at = plane + place_of(level, part, 2, y) * strides[2];
        for (u32 g = 0; g < axis.ghost_count; ++g) {
          const Ghost& ghost = axis.ghosts[g];
          const u32* from[4] = {};
          for (u32 i = 0; i < ghost.count; ++i) from[i] = at + ghost.from[i] * stride;
          mix(at + ghost.place * stride, length, from, ghost.weights, ghost.count);
        }
      }
    }
  }
}

// Bit a of a place's mask: six points along inner axis a, or the irregular one of two. For as many blocks as fit.
inline void fill_mask(const Plan& plan, const Level& level) {
  const u32 predictor = plan.rule.predictor;
  if (predictor == kFourPoints) return;
  u32* const mask = plan.mask;
  const u32 length = level.mask_length;
  memset(mask, 0, (length + kCount) * sizeof(u32));
  for (u32 a = plan.first; a < kAxes; ++a) {
    const Axis& axis = level.axes[a];
    if (axis.odd == 0 || (predictor == kTwoPoints && !axis.is_irregular)) continue;
    const u32 begin = predictor == kTwoPoints ? axis.odd - 1 : axis.six_begin;
    const u32 end = predictor == kTwoPoints ? axis.odd : axis.six_end;
    const u32 period = axis.stride * axis.places;
    for (u32 block = 0; block < length; block += level.block) {
      for (u32 at = block; at + period <= block + level.block; at += period) {
        for (u32 i = at + begin * axis.stride; i < at + end * axis.stride; ++i) mask[i] |= 1u << a;
      }
    }
  }
}

template <u32 kPredictor, class Use>
inline void run_terms(u32 count, const Term (&terms)[kMaxActiveAxes], const u32* mask, u32 fixed, u32* at, u32 length,
                      Use use) {
  if (count == 1) {
    run<kPredictor, 1>(terms, mask, fixed, at, length, use);
  } else if (count == 2) {
    run<kPredictor, 2>(terms, mask, fixed, at, length, use);
  } else {
    run<kPredictor, 3>(terms, mask, fixed, at, length, use);
  }
}

// Predicts a part, whose other parts are complete. `make_use(offset)` gives the function that takes the predictions from
// an offset in the part on.
template <u32 kPredictor, class MakeUse>
inline void predict_part(const Plan& plan, const Level& level, u32 part, const u32 (&blend)[kAxes], MakeUse make_use) {
  constexpr u32 kFirst = kPredictor == kTwoPoints ? 2 : kPredictor == kFourPoints ? 1 : 0;  // neighbour that is used
  const u32 outer = plan.outer;
  Term terms[kMaxActiveAxes] = {};
  const u32* inner_from[kMaxActiveAxes] = {};
  i64 inner_strides[kMaxActiveAxes] = {};
  u32 inner = 0;
  for (u32 a = plan.first; a < kAxes; ++a) {
    if ((part >> a & 1) == 0 || blend[a] == 0) continue;
    const u32 source = part & ~(1u << a);
    fill_ghosts(plan, level, source, a);
    inner_from[inner] = level.parts[source];
    inner_strides[inner] = level.axes[a].stride;
    terms[inner].bit = 1u << a;
    terms[inner].twist = level.axes[a].twist;
    terms[inner].weight = blend[a];
    ++inner;
  }
  const u32 block = level.block, length = length_of(plan, level, part);
  u32* const at = level.parts[part];

  // Predicts places from `offset` on, `skip` places behind the beginning of a block.
  const auto predict = [&](u32 offset, u32 skip, u32 total, u32 count, u32 fixed) {
    u32 step = kPredictor == kFourPoints || total <= level.mask_length - skip ? total : level.mask_length, longest = step;
    if (total > length && length >= kLongBlock && block - length >= kLongBlock / 2) {
      step = block;  // leave out what has no entries
      longest = length;
    }
    for (u32 done = 0; done < total; done += step) {
      for (u32 i = 0; i < inner; ++i) {
        for (u32 p = kFirst; p < 6 - kFirst; ++p) {
          terms[i].from[p] = inner_from[i] + offset + done + (static_cast<i64>(p) - 2) * inner_strides[i];
        }
      }
      run_terms<kPredictor>(count, terms, plan.mask + skip, fixed, at + offset + done,
                            total - done < longest ? total - done : longest, make_use(offset + done));
      for (u32 p = kFirst; p < 6 - kFirst && count > inner; ++p) terms[inner].from[p] += step;
    }
  };

  if (outer == kNoAxis || (part >> outer & 1) == 0 || blend[outer] == 0) {
    const u32 blocks = plan.repeats * (outer == kNoAxis ? 1 : counts_of(level, part, outer));
    predict(0, 0, (blocks - 1) * block + length, inner, 0);
    return;
  }
  const Axis& axis = level.axes[outer];
  Term& term = terms[inner];
  term.bit = kOuterBit;
  term.twist = axis.twist;
  term.weight = blend[outer];
  const i64 stride = block;
  for (u32 repeat = 0; repeat < plan.repeats; ++repeat) {
    const u32* const even = level.parts[part & ~(1u << outer)] + repeat * axis.even * block;
    for (u32 j = 0, end; j < axis.odd; j = end) {
      const u32 offset = (repeat * axis.odd + j) * block;
      const u32* const here = even + j * block;
      bool is_regular = true;
      u32 fixed = 0;
      if (level.is_top) {
        end = j + 1;
      } else if (kPredictor == kTwoPoints) {
        fixed = axis.is_irregular && j == axis.odd - 1 ? kOuterBit : 0;
        end = axis.is_irregular && fixed == 0 ? axis.odd - 1 : axis.odd;
      } else if (kPredictor == kSixPoints && j >= axis.six_begin && j < axis.six_end) {
        end = axis.six_end;
        fixed = kOuterBit;
      } else if (j >= axis.four_begin && j < axis.four_end) {
        end = j < axis.six_begin && axis.six_begin < axis.six_end ? axis.six_begin : axis.four_end;
      } else {
        end = j + 1;
        is_regular = false;
      }
      if (is_regular) {
        for (u32 p = 0; p < 6; ++p) {
          const bool is_used = !level.is_top && (kPredictor == kTwoPoints ? p == 2 || p == 3 : fixed != 0 || (p > 0 && p < 5));
          term.from[p] = is_used ? here + (static_cast<i64>(p) - 2) * stride : here;
        }
        predict(offset, 0, (end - j - 1) * block + length, inner + 1, fixed);
        continue;
      }
      // Another rule: the interior's with a ghost, the other neighbours being the entry before.
      u32 w[4];
      weights_of(plan, level, outer, j, kFourPoints, w);
      const u32* from[4];
      for (u32 i = 0; i < 4; ++i) {
        from[i] = w[i] == 0 ? here : here + (static_cast<i64>(i) - 1) * stride;
        w[i] = 0 - w[i];
      }
      w[1] += 17;
      for (u32 done = 0; done < length; done += kGhostLanes) {
        const u32 now = length - done < kGhostLanes ? length - done : kGhostLanes;
        mix(plan.ghosts, now, from, w, 4);
        for (const u32*& neighbour : from) neighbour += now;
        for (const u32*& neighbour : term.from) neighbour = here + done;
        term.from[4] = plan.ghosts;
        predict(offset + done, done, now, inner + 1, 0);
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Between parts and coding order

// Copies the entries of a part, or of an array with the places of a part, to or from coding order. Returns the end of
// its codes.
template <bool kToParts, class Code>
inline Code* move_codes(const Plan& plan, const Level& level, u32 part, u32* places, Code* codes) {
  u32 counts[kAxes], strides[kAxes];
  for (u32 a = 0; a < kAxes; ++a) {
    counts[a] = counts_of(level, part, a);
    strides[a] = stride_of(plan, level, part, a);
  }
  const u32 entries = counts[3], last = place_of(level, part, 3, entries - 1);
  const bool has_gap = last != entries - 1;
  const u32 room = level.axes[3].before != 0 ? level.axes[3].places : entries;  // for a row
  const u32 last_row = place_of(level, part, 2, counts[2] - 1);
  const u32 depth = counts[1] > 1 ? 2 : 1, height = counts[1] == 1 && counts[2] == 1 ? 1 : 4;
  for (u32 w = 0; w < counts[0]; ++w) {
    u32* const cube = places + place_of(level, part, 0, w) * strides[0];
    for (u32 z = 0; z < counts[1]; z += depth) {
      const u32 planes = counts[1] - z < depth ? 1 : depth;
      for (u32 y = 0; y < counts[2]; y += height) {
        u32* rows[8];
        u32 count = 0;
        for (u32 i = z; i < z + planes; ++i) {
          u32* row = cube + place_of(level, part, 1, i) * strides[1] + y * strides[2];
          for (u32 j = y; j < y + height; ++j, row += strides[2]) {
            if (j + 1 == counts[2]) {
              rows[count++] = row + (last_row - j) * strides[2];
              break;
            }
            rows[count++] = row;
          }
        }
        // The last entry is next to the others only here.
        for (u32 r = 0; !kToParts && has_gap && r < count; ++r) rows[r][entries - 1] = rows[r][last];
        if (depth == 2) {
          codes = move_rows_of<kToParts, 4, 8>(count, rows, entries, room, codes);
        } else if (height == 4) {
          codes = move_rows_of<kToParts, 8, 4>(count, rows, entries, room, codes);
        } else {
          if constexpr (kToParts) {
            memcpy(rows[0], codes, entries * sizeof(u32));
          } else {
            memcpy(codes, rows[0], entries * sizeof(u32));
          }
          codes += entries;
        }
        for (u32 r = 0; kToParts && has_gap && r < count; ++r) rows[r][last] = rows[r][entries - 1];
      }
    }
  }
  return codes;
}

// ---------------------------------------------------------------------------------------------------------------------
// Between levels

struct Pair {
  Lanes first, second;
};

#if defined(__clang__) || __GNUC__ >= 12
#define H5L_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define H5L_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, Lanes{__VA_ARGS__})
#endif
// `interleaved` gives a0 b0 a1 b1 …; `parted` is its inverse.
#if defined(__AVX512F__)
inline Pair interleaved(Lanes a, Lanes b) {
  return {H5L_SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
          H5L_SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)};
}
inline Pair parted(Lanes a, Lanes b) {
  return {H5L_SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
          H5L_SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)};
}
#elif defined(__AVX2__)
inline Pair interleaved(Lanes a, Lanes b) {
  return {H5L_SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11), H5L_SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15)};
}
inline Pair parted(Lanes a, Lanes b) {
  return {H5L_SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14), H5L_SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15)};
}
#else
inline Pair interleaved(Lanes a, Lanes b) {
  return {H5L_SHUFFLE(a, b, 0, 4, 1, 5), H5L_SHUFFLE(a, b, 2, 6, 3, 7)};
}
inline Pair parted(Lanes a, Lanes b) { return {H5L_SHUFFLE(a, b, 0, 2, 4, 6), H5L_SHUFFLE(a, b, 1, 3, 5, 7)}; }
#endif
#undef H5L_SHUFFLE

// A finer grid: of the box itself, or of the part without odd axes of the level below.
struct Grid {
  u32* at;
  u32 counts[kAxes];
  u32 strides[kAxes];
  const Axis* axes;  // null for the box
  u32 place(u32 a, u32 entry) const { return axes == nullptr ? entry : axes[a].place(entry); }
};

// Copies all rows between parts and a finer grid. Both are written up to two vectors beyond a row's end, where the next
// row is still to come.
template <bool kToParts>
inline void move_level(const Plan& plan, const Level& level, Grid grid) {
  const Axis& x_axis = level.axes[3];
  const Axis& y_axis = level.axes[2];
  u32 entries = grid.counts[3], rows = grid.counts[2];
  const u32 odd = x_axis.odd, even = x_axis.even, last = grid.place(3, entries - 1);
  const u32 stride = y_axis.stride == 0 ? stride_of(plan, level, 0, 2) : y_axis.stride;
  const bool is_row = odd == 0 && y_axis.odd == 0 && stride == entries && grid.strides[2] == entries &&
                      last == entries - 1 && grid.place(2, rows - 1) == rows - 1;
  if (is_row) {
    entries *= rows;
    rows = 1;
  }
  // `odds` is not used if x has no odd entries.
  const auto move_row = [&](u32* row, u32* evens, u32* odds) {
    if (odd == 0) {
      for (u32 x = 0; x < entries; x += kCount) {
        if constexpr (kToParts) {
          store_lanes(evens + x, load_lanes(row + x));
        } else {
          store_lanes(row + x, load_lanes(evens + x));
        }
      }
      if (is_row) return;
      if (kToParts) evens[entries - 1] = row[last];
      if (!kToParts) row[last] = row[entries - 1];
      return;
    }
    for (u32 x = 0; x < odd; x += kCount) {
      if constexpr (kToParts) {
        const Pair both = parted(load_lanes(row + 2 * x), load_lanes(row + 2 * x + kCount));
        store_lanes(evens + x, both.first);
        store_lanes(odds + x, both.second);
      } else {
        const Pair both = interleaved(load_lanes(evens + x), load_lanes(odds + x));
        store_lanes(row + 2 * x, both.first);
        store_lanes(row + 2 * x + kCount, both.second);
      }
    }
    // One or two are left, and none on top.
    if constexpr (kToParts) {
      if (even == odd) {
        odds[odd - 1] = row[last];
        return;
      }
      if (even == odd + 2) evens[odd] = row[2 * odd];
      evens[x_axis.place(even - 1)] = row[last];
    } else {
      if (even == odd) {
        row[last] = row[entries - 1];
        return;
      }
      if (even == odd + 2) row[2 * odd] = evens[odd];
      row[last] = evens[x_axis.place(even - 1)];
    }
  };
  // Where an entry of the finer list is among the even and odd ones.
  const auto split = [&](u32 a, u32 i, u32& entry) {
    const u32 pairs = 2 * level.axes[a].odd;
    entry = i < pairs ? i >> 1 : i - level.axes[a].odd;
    return i < pairs ? i & 1 : 0;
  };
  for (u32 w = 0; w < grid.counts[0]; ++w) {
    for (u32 z = 0; z < grid.counts[1]; ++z) {
      u32 i, j;
      const u32 part = split(0, w, i) | split(1, z, j) << 1;
      u32* row = grid.at + grid.place(0, w) * grid.strides[0] + grid.place(1, z) * grid.strides[1];
      // Rows of the parts with even and odd places along y.
      u32* from[2][2] = {};
      u32 strides[2] = {};
      for (u32 side = 0; side < 2; ++side) {
        const u32 p = part | side << 2;
        if (level.parts[p] == nullptr) continue;
        const u32 offset = place_of(level, p, 0, i) * stride_of(plan, level, p, 0) +
                           place_of(level, p, 1, j) * stride_of(plan, level, p, 1);
        strides[side] = stride_of(plan, level, p, 2);
        from[side][0] = level.parts[p] + offset;
        if (odd != 0) from[side][1] = level.parts[p | 8] + offset;
      }
      u32 y = 0;
      for (; y < y_axis.odd; ++y) {
        u32* const second = grid.place(2, 2 * y + 1) == 2 * y + 1
                                ? row + grid.strides[2]
                                : row + (grid.place(2, 2 * y + 1) - 2 * y) * grid.strides[2];
        move_row(row, from[0][0] + y * strides[0], from[0][1] + y * strides[0]);
        move_row(second, from[1][0] + y * strides[1], from[1][1] + y * strides[1]);
        row += 2 * grid.strides[2];
      }
      const u32* const plane = row - 2 * y * grid.strides[2];
      for (; y + y_axis.odd < rows; ++y) {
        const u32 offset = y_axis.place(y) * strides[0];
        move_row(const_cast<u32*>(plane) + grid.place(2, y + y_axis.odd) * grid.strides[2], from[0][0] + offset, from[0][1] + offset);
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// A tile

// Everything in the scratch memory but the parts.
struct Workspace {
  Plan plan;
  Level levels[16];
  u32 blends[16][kAxes];  // by the set of odd axes
};

inline constexpr u32 kScratchBytes = 352 * 1024;

// Finds axes and levels, and places for all parts. Null if there is not enough memory: the box is too thin.
inline Workspace* plan_levels(const Shape& shape, const Rule& rule, u8* scratch) {
  if (shape.active == 0) return nullptr;
  Workspace& space = *new (scratch) Workspace;
  Plan& plan = space.plan;
  plan.shape = shape;
  plan.rule = rule;
  plan.top = top_level(shape);
  const u32 slowest = shape.active_axes[0];
  plan.repeats = 1;
  for (u32 a = 0; a < slowest; ++a) plan.repeats *= shape.extents[a];
  plan.outer = slowest < 3 && plan.repeats <= kMaxRepeats ? slowest : kNoAxis;
  plan.first = plan.outer == kNoAxis ? slowest : slowest + 1;

  // The reach of a rule from the first and the last place of all is at most three strides.
  u32 words[2] = {}, offset = 0, reach = 0, mask = 0;
  for (u32 l = plan.top + 1; l-- > 0;) {
    Level& level = space.levels[l];
    level.s = 1u << l;
    level.is_top = l == plan.top;
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
    level.mask_length = block > kMaskWords ? block : kMaskWords / block * block;
    if (level.mask_length > mask) mask = level.mask_length;
    for (u32 part = 0; part < 16; ++part) {
      level.parts[part] = nullptr;
      bool exists = true;
      for (u32 a = 0; a < kAxes; ++a) exists &= (part >> a & 1) == 0 || level.axes[a].odd != 0;
      if (!exists) continue;
      const u32 size = words[plan.outer == kNoAxis ? 0 : part >> plan.outer & 1];
      if (size > shape.count + kSpareCodes - kCount) return nullptr;
      offset = (offset + lead + 15) / 16 * 16;
      level.parts[part] = reinterpret_cast<u32*>(scratch) + offset;
      offset += size - lead + 2 * kCount;
    }
  }
  u32 before = (sizeof(Workspace) / sizeof(u32) + 15) / 16 * 16;
  plan.ghosts = reinterpret_cast<u32*>(scratch) + before;
  before += kGhostLanes + kCount;
  plan.mask = reinterpret_cast<u32*>(scratch) + before;
  before = (before + mask + kCount + reach + 15) / 16 * 16;
  if ((before + offset + reach + kCount) * sizeof(u32) > kScratchBytes) return nullptr;
  for (u32 l = 0; l <= plan.top; ++l) {
    for (u32*& part : space.levels[l].parts) {
      if (part != nullptr) part += before;
    }
  }
  for (u32 m = 1; m < 1u << shape.active; ++m) {
    const Blend blend = blend_of(rule, shape.active, m);
    u32 part = 0;
    for (u32 i = 0; i < shape.active; ++i) part |= (m >> i & 1) << shape.active_axes[i];
    for (u32& weight : space.blends[part]) weight = 0;
    for (u32 i = 0; i < shape.active; ++i) space.blends[part][shape.active_axes[i]] = blend.weights[i];
  }
  return &space;
}

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

// Calls visit(level, part, blend) for all passes of a level.
template <class F>
inline void for_parts(const Workspace& space, const Level& level, F&& visit) {
  const Shape& shape = space.plan.shape;
  for (u32 odd = 1; odd <= shape.active; ++odd) {
    for (u32 m = 1; m < 1u << shape.active; ++m) {
      if (count_ones(m) != odd) continue;
      u32 part = 0;
      for (u32 i = 0; i < shape.active; ++i) part |= (m >> (shape.active - 1 - i) & 1) << shape.active_axes[i];
      if (level.parts[part] != nullptr) visit(part, space.blends[part]);
    }
  }
}

// Calls visit(integer, integer before) for the first values of the coarsest grid: those whose active coordinates are 0.
template <class F>
inline void for_first(const Workspace& space, F&& visit) {
  const Level& level = space.levels[space.plan.top];
  u32 counts[kAxes], strides[kAxes];
  for (u32 a = 0; a < kAxes; ++a) {
    counts[a] = level.axes[a].even;
    strides[a] = stride_of(space.plan, level, 0, a);
  }
  const u32* before = nullptr;
  for_pieces(counts, [&](u32 w, u32 z, u32 y, u32 x, u32 length) {
    u32* const row = level.parts[0] + w * strides[0] + z * strides[1] + y * strides[2] + x;
    for (u32 i = 0; i < length; ++i) {
      visit(row[i], before);
      before = row + i;
    }
  });
}

struct TakeClosed {
  u32* at;
  u32* codes;
  void operator()(u32 k, Lanes prediction) const {
    const Lanes target = load_lanes(at + k);
    Lanes code = shift_down(target - (prediction << 6) + kParts * kUnit / 2, 10);
    code &= (Lanes)(target != static_cast<u32>(kNone<i32>));
    store_lanes(codes + k, code);
    store_lanes(at + k, prediction + (code << 4));
  }
};

struct TakeOpen {
  u32* at;
  u32* codes;
  void operator()(u32 k, Lanes prediction) const {
    const Lanes target = load_lanes(at + k);
    const Lanes code = (target - prediction) & (Lanes)(target != static_cast<u32>(kNone<i32>));
    store_lanes(codes + k, code);
    store_lanes(at + k, prediction + code);
  }
};

struct TakeSteps {
  u32* at;
  void operator()(u32 k, Lanes prediction) const { store_lanes(at + k, prediction + load_lanes(at + k)); }
};

// Calls visit with a constant.
template <class F>
inline void with_predictor(u32 predictor, F&& visit) {
  if (predictor == kTwoPoints) {
    visit(Constant<kTwoPoints>{});
  } else if (predictor == kFourPoints) {
    visit(Constant<kFourPoints>{});
  } else {
    visit(Constant<kSixPoints>{});
  }
}

template <bool kClosed, u32 kPredictor>
inline void code(Workspace& space, const i32* targets, i32 base, i32* integers, i32* codes) {
  const Plan& plan = space.plan;
  // The targets are only read.
  Grid grid = grid_of(plan.shape, const_cast<u32*>(reinterpret_cast<const u32*>(targets)));
  for (u32 l = 0; l <= plan.top; ++l) {
    move_level<true>(plan, space.levels[l], grid);
    grid = grid_of(plan, space.levels[l]);
  }
  u32* const places = reinterpret_cast<u32*>(integers);  // of codes, until all are in their order
  u32* next = reinterpret_cast<u32*>(codes);
  for_first(space, [&](u32& integer, const u32* before) {
    u32 code = 0;
    if (before == nullptr) {
      integer = static_cast<u32>(base);
    } else {
      if (static_cast<i32>(integer) != kNone<i32>) {
        code = integer - *before;
        if (kClosed) {
          code = static_cast<u32>(static_cast<i32>(integer - u32{kParts} * *before + kParts * kUnit / 2) >> 10);
        }
      }
      integer = *before + (kClosed ? u32{kUnit} : 1) * code;
    }
    *next++ = code;
  });
  for (u32 l = plan.top + 1; l-- > 0;) {
    const Level& level = space.levels[l];
    fill_mask(plan, level);
    for_parts(space, level, [&](u32 part, const u32 (&blend)[kAxes]) {
      u32* const at = level.parts[part];
      predict_part<kPredictor>(plan, level, part, blend, [&](u32 offset) {
        if constexpr (kClosed) {
          return TakeClosed{at + offset, places + offset};
        } else {
          return TakeOpen{at + offset, places + offset};
        }
      });
      next = move_codes<false>(plan, level, part, places, next);
    });
    move_level<false>(plan, level, l == 0 ? grid_of(plan.shape, places) : grid_of(plan, space.levels[l - 1]));
  }
  for (u32 i = plan.shape.count; i % kBlockCodes != 0; ++i) *next++ = 0;
}

template <u32 kPredictor>
inline void rebuild(Workspace& space, const i32* steps, i32 base, i32* integers) {
  const Plan& plan = space.plan;
  const u32* next = reinterpret_cast<const u32*>(steps);
  for_first(space, [&](u32& integer, const u32* before) {
    integer = before == nullptr ? static_cast<u32>(base) : *before + *next;
    ++next;
  });
  for (u32 l = plan.top + 1; l-- > 0;) {
    const Level& level = space.levels[l];
    fill_mask(plan, level);
    for_parts(space, level, [&](u32 part, const u32 (&blend)[kAxes]) {
      u32* const at = level.parts[part];
      next = move_codes<true>(plan, level, part, at, next);
      predict_part<kPredictor>(plan, level, part, blend, [&](u32 offset) { return TakeSteps{at + offset}; });
    });
    move_level<false>(plan, level, l == 0 ? grid_of(plan.shape, reinterpret_cast<u32*>(integers))
                                          : grid_of(plan, space.levels[l - 1]));
  }
}

}  // namespace h5lossy::H5L_TARGET::interp::levels
