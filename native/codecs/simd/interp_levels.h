// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's interpolation a vector at a time, for 32-bit integers and for boxes that are not too thin.
//
// A level splits its grid by the parity of the coordinates: one *part* for each set of odd axes, an array of its own. All
// parts of a level have the same strides, so that a pass is one loop over contiguous memory, with the same distances to
// the neighbours everywhere: along an axis of stride S, place j of the odd list lies between places j and j + 1 of the even
// one. What is different near the ends of an axis is hidden in *ghosts*: integers in front of and behind the even ones,
// such that the rule of the interior gives what the rule at the end asks for. This is exact: the interior's outermost
// weight is -1, so that any sum of products can be reached.
//
// The slowest active axis, *outer*, has no ghosts in its parts, as they would take much memory: the few odd entries with
// rules of their own are predicted by themselves.
//
// With AVX-512, a core of 2.7 GHz takes 1.3 ns a value to code a box of 32 x 32 x 32 with four points, and 1.0 to rebuild
// it; a third of that is arithmetic, and half moves between parts, raster and coding order.
#pragma once

#include <new>

#include "codecs/interp_grid.h"
#include "codecs/interp_walk.h"
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
  u32 even = 0, odd = 0;             // entries of the lists
  u32 regular = 0;                   // even entries at even distances: the last one may be closer
  u32 gap = 0;                       // ghosts between the regular entries and the last one, or behind the regular ones
  u32 before = 0;                    // ghosts in front
  u32 places = 0;                    // of even and odd parts, with ghosts
  u32 stride = 0;                    // of the inner axes
  u32 four_begin = 0, four_end = 0;  // with four
  bool is_cubic = false;             // all ghosts but that of an irregular place continue three entries by a parabola
  bool is_irregular = false;         // the last odd place lies closer than s to the last even one
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
  u32* parts[16];  // by the set of odd axes, bit a for axis a; where places and entries 0 are
};

struct Plan {
  Shape shape;
  Rule rule;
  u32 levels;   // the finest ones; coarser ones are small
  u32 outer;    // an axis, or kNoAxis
  u32 first;    // the slowest one of a block: what is faster than the outer axis, or all active ones and what is faster
  u32 repeats;  // the product of extents that are slower than the outer axis, or than a block
  u32* ghosts;  // of the outer axis, kGhostLanes for each term
};

// Weights of the even entries j - 1 to j + 2 for odd place j.
inline void weights_of(const Plan& plan, const Level& level, u32 a, u32 j, u32 (&weights)[4]) {
  const u32 extent = plan.shape.extents[a];
  const Row row = row_of(level.is_top ? extent - 1 : level.s * (2 * j + 1), level.s, extent, level.is_top);
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
  axis.four_begin = 1;
  axis.four_end = last / s >= 4 ? (last / s - 4) / 2 + 1 : 0;
  if (axis.four_end < 1) axis.four_end = 1;
  if (!is_inner) return;
  axis.regular = regular;
  axis.before = 1;
  axis.gap = axis.is_irregular ? 2 : 1;
  axis.places = 1 + regular + axis.gap + (ends_off ? 1 : 0);
  // Rows are copied in pieces of four or eight.
  if (a == 3) axis.places = regular < 32 ? (axis.places + 3) / 4 * 4 : (axis.places + 7) / 8 * 8;
  const i32 r = static_cast<i32>(regular), end = static_cast<i32>(no), at_last = static_cast<i32>(regular + axis.gap);
  u32 w[4];
  if (axis.is_irregular) {
    if (no >= 3) {
      weights_of(plan, level, a, no - 2, w);
      add_ghost(axis, {r, {end - 3, end - 2, end - 1}, {0u - 1 - w[0], 9 - w[1], 9 - w[2]}, 3});
    } else {
      add_ghost(axis, {r, {end - 1}, {1}, 1});
    }
    weights_of(plan, level, a, no - 1, w);
    if (no >= 2) {
      add_ghost(axis, {r + 1, {end - 2, end - 1, r, at_last}, {0u - 1 - w[0], 9 - w[1], 9, 0 - w[2]}, 4});
    } else {
      add_ghost(axis, {r + 1, {0, r, at_last}, {8 - w[1], 9, 0 - w[2]}, 3});
    }
  } else {
    weights_of(plan, level, a, no - 1, w);
    if (no >= 2) {
      add_ghost(axis, {r, {end - 2, end - 1, end}, {0u - 1 - w[0], 9 - w[1], 9 - w[2]}, 3});
    } else {
      add_ghost(axis, {r, {0, 1}, {8 - w[1], 9 - w[2]}, 2});
    }
  }
  if (no >= 2) {
    weights_of(plan, level, a, 0, w);
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
inline constexpr u32 kLargePart = 4096;
inline constexpr u32 kSlabPlaces = 512;  // at least
inline constexpr u32 kGhostLanes = 1024;
inline constexpr u32 kMaxRepeats = 8;  // of an outer axis

// Where a term's neighbours are: the even entries j - 1 to j + 2.
struct Term {
  const u32* from[4];
  u32 weight;  // in 16ths
};

[[gnu::always_inline]] inline Lanes predicted(const Term& term, u32 k) {
  const Lanes inner = load_lanes(term.from[1] + k) + load_lanes(term.from[2] + k);
  const Lanes outer = load_lanes(term.from[0] + k) + load_lanes(term.from[3] + k);
  return (inner << 3) + (inner - outer);
}

// Predicts `length` places. `use(k, prediction)` gets vectors of them, and the last one may be too long.
template <u32 kTerms, class F>
[[gnu::always_inline]] inline void run(const Term (&terms)[kMaxActiveAxes], u32* at, u32 length, F&& use) {
  const Term t0 = terms[0], t1 = terms[kTerms > 1 ? 1 : 0], t2 = terms[kTerms > 2 ? 2 : 0];
  for_lanes(at, length, [&](u32 k) __attribute__((always_inline)) {
    Lanes sum = predicted(t0, k);
    // The weights add up to 16.
    if constexpr (kTerms == 1) {
      sum <<= 4;
    } else if constexpr (kTerms == 2) {
      const Lanes other = predicted(t1, k);
      sum = (other << 4) + t0.weight * (sum - other);
    } else {
      const Lanes second = predicted(t1, k), third = predicted(t2, k);
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
      store_lanes(out + k,
                  w0 * load_lanes(a + k) + w1 * load_lanes(b + k) + w2 * load_lanes(c + k) + w3 * load_lanes(d + k));
    });
  }
}

// All ghosts of an axis that are cubic, in places of `length`.
inline void mix_planes(u32* at, u32 length, const Axis& axis) {
  const i64 stride = axis.stride;
  const u32 *const a = at + (axis.regular - 3) * stride, *const b = a + stride, *const c = b + stride;
  const u32 *const second = at + stride, *const third = second + stride,
                   *const last = c + 3 * stride;  // 2 ghosts before
  u32 *const left = at - stride, *const right = at + axis.regular * stride, *const next = right + stride;
  const auto beyond = [](Lanes x, Lanes y, Lanes z) {  // of the parabola through x, y and z
    const Lanes slope = z - y;
    return (slope << 1) + slope + x;
  };
  const Lanes behind_left = load_lanes(left + length), behind_right = load_lanes(right + length);
  for (u32 k = 0; k < length; k += kCount) {
    const Lanes ghost = beyond(load_lanes(a + k), load_lanes(b + k), load_lanes(c + k));
    store_lanes(left + k, beyond(load_lanes(third + k), load_lanes(second + k), load_lanes(at + k)));
    store_lanes(right + k, ghost);
  }
  store_lanes(left + length, behind_left);
  store_lanes(right + length, behind_right);
  if (!axis.is_irregular) return;
  const u32 w0 = axis.ghosts[1].weights[0], w1 = axis.ghosts[1].weights[1], w3 = axis.ghosts[1].weights[3];
  for_lanes(next, length, [&](u32 k) {
    store_lanes(next + k, w0 * load_lanes(b + k) + w1 * load_lanes(c + k) + 9 * load_lanes(right + k) +
                              w3 * load_lanes(last + k));
  });
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

// Entries along w and z of a part, that are worked on while they are in the cache: all, or one or two planes of one w.
struct Slab {
  u32 w_begin, w_end;
  u32 z_begin, z_end;
};

// Fills the ghosts of an inner axis in a part with even places along it.
inline void fill_ghosts(const Plan& plan, const Level& level, u32 part, u32 a, const Slab& slab) {
  const Axis& axis = level.axes[a];
  u32 length = 1;  // of what is contiguous
  for (u32 b = a + 1; b < kAxes; ++b) length += (level.axes[b].end((part >> b & 1) != 0) - 1) * level.axes[b].stride;
  const u32 w_stride = a > 0 ? stride_of(plan, level, part, 0) : 0,
            z_stride = a > 1 ? stride_of(plan, level, part, 1) : 0;
  const u32 y_stride = a > 2 ? stride_of(plan, level, part, 2) : 0, rows = a > 2 ? counts_of(level, part, 2) : 1;
  const i64 stride = axis.stride;
  for (u32 w = a > 0 ? slab.w_begin : 0; w < (a > 0 ? slab.w_end : 1); ++w) {
    for (u32 z = a > 1 ? slab.z_begin : 0; z < (a > 1 ? slab.z_end : 1); ++z) {
      u32* const at =
          level.parts[part] + place_of(level, part, 0, w) * w_stride + place_of(level, part, 1, z) * z_stride;
      if (a == 3) {  // also in rows of ghosts
        mix_rows(at, place_of(level, part, 2, rows - 1) + 1, y_stride, axis);
        continue;
      }
      if (axis.is_cubic && length >= kCount) {
        mix_planes(at, length, axis);
        continue;
      }
      for (u32 g = 0; g < axis.ghost_count; ++g) {
        const Ghost& ghost = axis.ghosts[g];
        const u32* from[4] = {};
        for (u32 i = 0; i < ghost.count; ++i) from[i] = at + ghost.from[i] * stride;
        mix(at + ghost.place * stride, length, from, ghost.weights, ghost.count);
      }
    }
  }
}

template <class Use>
inline void run_terms(u32 count, const Term (&terms)[kMaxActiveAxes], u32* at, u32 length, Use use) {
  if (count == 1) {
    run<1>(terms, at, length, use);
  } else if (count == 2) {
    run<2>(terms, at, length, use);
  } else {
    run<3>(terms, at, length, use);
  }
}

// Predicts a part, whose other parts are complete, slab by slab. MakeUse gives for an offset in the part the function that
// takes the predictions from there on.
template <class MakeUse>
class Pass {
 public:
  Pass(const Plan& plan, const Level& level, u32 part, const u32 (&blend)[kAxes])
      : plan_(plan), level_(level), part_(part), at_(level.parts[part]), length_(length_of(plan, level, part)) {
    for (u32 a = plan.first; a < kAxes; ++a) {
      if ((part >> a & 1) == 0 || blend[a] == 0) continue;
      axes_[inner_] = a;
      from_[inner_] = level.parts[part & ~(1u << a)];
      strides_[inner_] = level.axes[a].stride;
      terms_[inner_].weight = blend[a];
      ++inner_;
    }
    if (plan.outer != kNoAxis && (part >> plan.outer & 1) != 0) outer_weight_ = blend[plan.outer];
  }

  void operator()(const Slab& slab, const MakeUse& make_use) {
    for (u32 i = 0; i < inner_; ++i) fill_ghosts(plan_, level_, part_ & ~(1u << axes_[i]), axes_[i], slab);
    if (plan_.outer == 0) {
      predict_blocks(0, slab.w_begin, slab.w_end, make_use);
    } else if (plan_.outer == 1) {
      for (u32 w = slab.w_begin; w < slab.w_end; ++w) predict_blocks(w, slab.z_begin, slab.z_end, make_use);
    } else if (plan_.outer == 2) {
      const u32 planes = counts_of(level_, part_, 1);
      for (u32 w = slab.w_begin; w < slab.w_end; ++w) {
        for (u32 z = slab.z_begin; z < slab.z_end; ++z) {
          predict_blocks(w * planes + z, 0, counts_of(level_, part_, 2), make_use);
        }
      }
    } else {
      predict(0, (plan_.repeats - 1) * level_.block + length_, inner_, make_use);
    }
  }

 private:
  // Predicts places from `offset` on.
  void predict(u32 offset, u32 total, u32 count, const MakeUse& make_use) {
    const u32 block = level_.block;
    u32 step = total, longest = total;
    if (total > length_ && length_ >= kLongBlock && block - length_ >= kLongBlock / 2) {
      step = block;  // leave out what has no entries
      longest = length_;
    }
    for (u32 done = 0; done < total; done += step) {
      for (u32 i = 0; i < inner_; ++i) {
        for (u32 p = 0; p < 4; ++p) {
          terms_[i].from[p] = from_[i] + offset + done + (static_cast<i64>(p) - 1) * strides_[i];
        }
      }
      run_terms(count, terms_, at_ + offset + done, total - done < longest ? total - done : longest,
                make_use(offset + done));
      for (u32 p = 0; p < 4 && count > inner_; ++p) terms_[inner_].from[p] += step;
    }
  }

  // Predicts the blocks of some entries of the outer axis.
  void predict_blocks(u32 repeat, u32 begin, u32 stop, const MakeUse& make_use) {
    const u32 outer = plan_.outer;
    if (outer_weight_ == 0) {
      const u32 count = counts_of(level_, part_, outer);
      predict((repeat * count + begin) * level_.block, (stop - begin - 1) * level_.block + length_, inner_, make_use);
      return;
    }
    const Axis& axis = level_.axes[outer];
    Term& term = terms_[inner_];
    term.weight = outer_weight_;
    const u32 block = level_.block;
    const i64 stride = block;
    const u32* const even = level_.parts[part_ & ~(1u << outer)] + repeat * axis.even * block;
    for (u32 j = begin, end; j < stop; j = end) {
      const u32 offset = (repeat * axis.odd + j) * block;
      const u32* const here = even + j * block;
      bool is_regular = true;
      if (level_.is_top) {
        end = j + 1;
      } else if (j >= axis.four_begin && j < axis.four_end) {
        end = axis.four_end;
      } else {
        end = j + 1;
        is_regular = false;
      }
      if (end > stop) end = stop;
      if (is_regular) {
        for (u32 p = 0; p < 4; ++p) {
          term.from[p] = level_.is_top ? here : here + (static_cast<i64>(p) - 1) * stride;
        }
        predict(offset, (end - j - 1) * block + length_, inner_ + 1, make_use);
        continue;
      }
      // Another rule: the interior's with a ghost, the other neighbours being the entry before.
      u32 w[4];
      weights_of(plan_, level_, outer, j, w);
      const u32* from[4];
      for (u32 i = 0; i < 4; ++i) {
        from[i] = w[i] == 0 ? here : here + (static_cast<i64>(i) - 1) * stride;
        w[i] = 0 - w[i];
      }
      w[1] += 17;
      for (u32 done = 0; done < length_; done += kGhostLanes) {
        const u32 now = length_ - done < kGhostLanes ? length_ - done : kGhostLanes;
        mix(plan_.ghosts, now, from, w, 4);
        for (const u32*& neighbour : from) neighbour += now;
        for (const u32*& neighbour : term.from) neighbour = here + done;
        term.from[3] = plan_.ghosts;
        predict(offset + done, now, inner_ + 1, make_use);
      }
    }
  }

  const Plan& plan_;
  const Level& level_;
  const u32 part_;
  u32* const at_;
  const u32 length_;
  u32 inner_ = 0;  // terms along inner axes
  u32 outer_weight_ = 0;
  u32 axes_[kMaxActiveAxes] = {};
  const u32* from_[kMaxActiveAxes] = {};
  i64 strides_[kMaxActiveAxes] = {};
  Term terms_[kMaxActiveAxes] = {};
};

// ---------------------------------------------------------------------------------------------------------------------
// Between parts and coding order

// Copies the entries of a slab to or from coding order. `places` has the places of the part from `origin` on. Returns the
// end of the codes.
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
      // The last entry is next to the others only here.
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
          if (height == 4) {
            codes = depth == 1    ? move_rows<kToParts, 8, 4>(rows, entries, room, codes)
                    : planes == 2 ? move_rows<kToParts, 4, 8>(rows, entries, room, codes)
                                  : move_rows<kToParts, 4, 4>(rows, entries, room, codes);
            for (u32*& row : rows) row += 4 * strides[2];
          } else {
            for (u32 r = 0; r < height; ++r) rows[height + r] = rows[4 + r];
            codes = depth == 1 ? move_rows_of<kToParts, 8, 3>(height, rows, entries, room, codes)
                               : move_rows_of<kToParts, 4, 6>(planes * height, rows, entries, room, codes);
          }
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
// Between levels

struct Pair {
  Lanes first, second;
};

// `interleaved` gives a0 b0 a1 b1 …; `parted` is its inverse.
#if defined(__AVX512F__)
inline Pair interleaved(Lanes a, Lanes b) {
  return {H5L_SHUFFLE(Lanes, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
          H5L_SHUFFLE(Lanes, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)};
}
inline Pair parted(Lanes a, Lanes b) {
  return {H5L_SHUFFLE(Lanes, a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
          H5L_SHUFFLE(Lanes, a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)};
}
#elif defined(__AVX2__)
inline Pair interleaved(Lanes a, Lanes b) {
  return {H5L_SHUFFLE(Lanes, a, b, 0, 8, 1, 9, 2, 10, 3, 11), H5L_SHUFFLE(Lanes, a, b, 4, 12, 5, 13, 6, 14, 7, 15)};
}
inline Pair parted(Lanes a, Lanes b) {
  return {H5L_SHUFFLE(Lanes, a, b, 0, 2, 4, 6, 8, 10, 12, 14), H5L_SHUFFLE(Lanes, a, b, 1, 3, 5, 7, 9, 11, 13, 15)};
}
#else
inline Pair interleaved(Lanes a, Lanes b) {
  return {H5L_SHUFFLE(Lanes, a, b, 0, 4, 1, 5), H5L_SHUFFLE(Lanes, a, b, 2, 6, 3, 7)};
}
inline Pair parted(Lanes a, Lanes b) {
  return {H5L_SHUFFLE(Lanes, a, b, 0, 2, 4, 6), H5L_SHUFFLE(Lanes, a, b, 1, 3, 5, 7)};
}
#endif

// A finer grid: of the box itself, or of the part without odd axes of the level below.
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

// Takes the rows of the finest grid in raster order: in the whole array.
struct WholeBox {
  static constexpr bool kTakesRows = false;
};

// In batches, at the beginning of the array: calls take(position of the first one, integers, how many), which is a
// multiple of kBlockCodes but for the last call.
template <class Take>
class Batches {
 public:
  static constexpr bool kTakesRows = true;
  Batches(u32* integers, Take& take) : integers_(integers), take_(take) {}
  u32* row() const { return integers_ + count_; }
  void add(u32 length) {
    count_ += length;
    if (count_ >= kBatch) [[unlikely]] {
      pass_on(count_ / kBlockCodes * kBlockCodes);
    }
  }
  void end() {
    if (count_ != 0) pass_on(count_);
  }

 private:
  static constexpr u32 kBatch = 1024;
  void pass_on(u32 count) {
    take_(first_, reinterpret_cast<const i32*>(integers_), count);
    first_ += count;
    count_ -= count;
    memmove(integers_, integers_ + count, kBlockCodes * sizeof(u32));
  }
  u32* integers_;
  Take& take_;
  u32 first_ = 0, count_ = 0;
};

// A row along x of a finer grid, and its halves.
struct RowShape {
  u32 entries, last;  // the place of its last entry
  u32 odd, even, last_even;
  bool has_gap;
};

// kLeft: how many more even than odd entries there are; kNoOdd: there are none. Vectors may be too long.
inline constexpr u32 kNoOdd = 3;
template <bool kToParts, u32 kLeft>
[[gnu::always_inline]] inline void move_row(const RowShape& shape, u32* row, u32* evens, u32* odds) {
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
        const Pair both = parted(load_lanes(row + 2 * x), load_lanes(row + 2 * x + kCount));
        store_lanes(evens + x, both.first);
        store_lanes(odds + x, both.second);
      } else {
        const Pair both = interleaved(load_lanes(evens + x), load_lanes(odds + x));
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

// Copies all rows between parts and a finer grid. Both are written up to two vectors beyond a row's end, where the next
// row is still to come.
template <bool kToParts, u32 kLeft, class Sink>
inline void move_rows_of_level(const Plan& plan, const Level& level, const Grid& grid, u32 rows, const RowShape& shape,
                               Sink& sink) {
  const Axis& y_axis = level.axes[2];
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
      u32* const plane = grid.at + grid.place(0, w) * grid.strides[0] + grid.place(1, z) * grid.strides[1];
      // Rows of the parts with even and odd places along y.
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
        if constexpr (Sink::kTakesRows) {
          move_row<kToParts, kLeft>(shape, sink.row(), even_row, odd_row);
          sink.add(shape.entries);
        } else {
          move_row<kToParts, kLeft>(shape, plane + grid.place(2, y) * grid.strides[2], even_row, odd_row);
        }
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

template <bool kToParts, class Sink>
inline void move_level(const Plan& plan, const Level& level, const Grid& grid, Sink& sink) {
  const Axis& axis = level.axes[3];
  u32 rows = grid.counts[2];
  RowShape shape = {grid.counts[3], grid.place(3, grid.counts[3] - 1), axis.odd,
                    axis.even,      axis.place(axis.even - 1),         false};
  shape.has_gap = shape.last != shape.entries - 1;
  if (axis.odd == 0 && level.axes[2].odd == 0 && stride_of(plan, level, 0, 2) == shape.entries &&
      grid.strides[2] == shape.entries && !shape.has_gap && grid.place(2, rows - 1) == rows - 1) {
    shape.entries *= rows;  // as one row
    rows = 1;
  }
  if (axis.odd == 0) {
    move_rows_of_level<kToParts, kNoOdd>(plan, level, grid, rows, shape, sink);
  } else if (axis.even == axis.odd) {
    move_rows_of_level<kToParts, 0>(plan, level, grid, rows, shape, sink);
  } else if (axis.even == axis.odd + 1) {
    move_rows_of_level<kToParts, 1>(plan, level, grid, rows, shape, sink);
  } else {
    move_rows_of_level<kToParts, 2>(plan, level, grid, rows, shape, sink);
  }
}

// Brings the integers of a level together: in the next finer level, or in the box.
template <class Sink>
inline void merge_level(const Plan& plan, const Level* levels, u32 l, u32* integers, Sink& sink) {
  if (l == 0) {
    move_level<false>(plan, levels[0], grid_of(plan.shape, integers), sink);
    if constexpr (Sink::kTakesRows) sink.end();
  } else {
    WholeBox all;
    move_level<false>(plan, levels[l], grid_of(plan, levels[l - 1]), all);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// A tile

// Everything in the scratch memory but the parts.
struct Workspace {
  Plan plan;
  Level levels[16];
  u32 offsets[16][16];  // of parts, by level and set of odd axes
  Passes passes{0};
  u32 parts[7];          // by pass
  u32 blends[7][kAxes];  // by axis
};

inline constexpr u32 kFewEntries = 200;  // are predicted one after the other
inline constexpr u32 kScratchBytes = 352 * 1024;

// Finds axes and levels, and places for all parts. Null if there is not enough memory: the box is too thin.
inline Workspace* plan_levels(const Shape& shape, const Rule& rule, u8* scratch) {
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

  // The reach of a rule from the first and the last place of all is at most three strides.
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
    const Blend blend = blend_of(rule, shape.active, space.passes.odd[p]);
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

// Where the entries of the part without odd axes are, of the coarsest level here.
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

// Calls visit(slab, offset of its first entry) in coding order.
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

struct TakeClosed {
  u32* at;
  u32* codes;
  void operator()(u32 k, Lanes prediction) const {
    const Lanes target = load_lanes(at + k);
    const Lanes steps = shift_down(target - (prediction << 6) + kParts * kUnit / 2, 10) << 4;
    const Lanes is_fixed = (Lanes)((target & (kParts - 1)) == 0);
    const Lanes exact = shift_down(target, 6) - prediction;
    Lanes code = (exact & is_fixed) | (steps & ~is_fixed);
    code &= (Lanes)(target != static_cast<u32>(kNone<i32>));
    store_lanes(codes + k, code);
    store_lanes(at + k, prediction + code);
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

// What becomes of predictions: 0 open, 1 closed, 2 decoding.
template <u32 kWhat>
struct MakeTake {
  u32* at;
  u32* codes;  // from `origin` on
  u32 origin;
  auto operator()(u32 offset) const {
    if constexpr (kWhat == 0) {
      return TakeOpen{at + offset, codes + (offset - origin)};
    } else if constexpr (kWhat == 1) {
      return TakeClosed{at + offset, codes + (offset - origin)};
    } else {
      return TakeSteps{at + offset};
    }
  }
};

template <bool kClosed, class Sink>
inline void code(Workspace& space, const i32* targets, i32 base, i32* integers, i32* codes, Sink& sink) {
  const Plan& plan = space.plan;
  // The targets are only read.
  Grid grid = grid_of(plan.shape, const_cast<u32*>(reinterpret_cast<const u32*>(targets)));
  for (u32 l = 0; l < plan.levels; ++l) {
    WholeBox all;
    move_level<true>(plan, space.levels[l], grid, all);
    grid = grid_of(plan, space.levels[l]);
  }
  u32* const places = reinterpret_cast<u32*>(integers);  // of codes, until all are in their order
  u32* next = reinterpret_cast<u32*>(codes);
  i32* const coarse = reinterpret_cast<i32*>(space.levels[plan.levels - 1].parts[0]);
  coarse[0] = base;
  *next++ = 0;
  interpolate(plan.shape, plan.rule, places_of(space), plan.levels, coarse, [&](u32 place, i32 prediction) {
    *next++ = static_cast<u32>(take_target<kClosed>(coarse[place], prediction, coarse[place]));
  });
  for (u32 l = plan.levels; l-- > 0;) {
    const Level& level = space.levels[l];
    for_parts(space, level, [&](u32 part, const u32(&blend)[kAxes]) {
      using Make = MakeTake<kClosed ? 1 : 0>;
      Pass<Make> pass(plan, level, part, blend);
      for_slabs(plan, level, part, [&](const Slab& slab, u32 offset) {
        pass(slab, Make{level.parts[part], places, offset});
        next = move_codes<false>(plan, level, part, slab, places, offset, next);
      });
    });
    merge_level(plan, space.levels, l, places, sink);
  }
  for (u32 i = plan.shape.count; i % kBlockCodes != 0; ++i) *next++ = 0;
}

template <class Sink>
inline void rebuild(Workspace& space, const i32* steps, i32 base, i32* integers, Sink& sink) {
  const Plan& plan = space.plan;
  const u32* next = reinterpret_cast<const u32*>(steps);
  i32* const coarse = reinterpret_cast<i32*>(space.levels[plan.levels - 1].parts[0]);
  coarse[0] = base;
  interpolate(plan.shape, plan.rule, places_of(space), plan.levels, coarse, [&](u32 place, i32 prediction) {
    coarse[place] = static_cast<i32>(static_cast<u32>(prediction) + *++next);
  });
  ++next;
  for (u32 l = plan.levels; l-- > 0;) {
    const Level& level = space.levels[l];
    for_parts(space, level, [&](u32 part, const u32(&blend)[kAxes]) {
      using Make = MakeTake<2>;
      Pass<Make> pass(plan, level, part, blend);
      for_slabs(plan, level, part, [&](const Slab& slab, u32) {
        next = move_codes<true>(plan, level, part, slab, level.parts[part], 0, next);
        pass(slab, Make{level.parts[part], nullptr, 0});
      });
    });
    merge_level(plan, space.levels, l, reinterpret_cast<u32*>(integers), sink);
  }
}

}  // namespace h5lossy::H5L_TARGET::interp::levels
