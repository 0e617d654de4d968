// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's interpolation a vector at a time, for 32-bit integers and for boxes that are not too thin.
//
// A level splits its grid by the parity of the coordinates: one *part* for each set of odd axes, an array of its own.
// All parts of a level have the same strides, so that a pass is one loop over contiguous memory, with the same
// distances to the neighbours everywhere: along an axis of stride S, place j of the odd list lies between places j and
// j + 1 of the even one. Boundary rules are folded into *ghosts*, integers in front of and behind the even ones,
// so that one inner loop serves all. This is exact: the interior's outermost weight is -1, so that any sum of products
// can be reached.
//
// The slowest active axis, *outer*, has no ghosts in its parts, as they would take much memory: the few odd entries
// with rules of their own are predicted by themselves.
//
// With AVX-512, a core of 2.7 GHz takes 1.3 ns a value to code a box of 32 x 32 x 32 with four points, and 1.0 to
// rebuild it; a third of that is arithmetic, and half moves between parts, raster and coding order.
#pragma once

#include "codecs/interp/grid.h"
#include "codecs/interp/walk.h"
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

// Calls body(k) for k = 0, kCount, ... below `length`, and preserves what follows `length` in `at`.
template <class F>
H5L_INLINE void for_lanes(u32* at, u32 length, F&& body) {
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

// A place that is a sum of products of other places along one axis. Terms that it lacks have weight 0.
struct Ghost {
  i32 place;
  i32 from[4];
  u32 weights[4];
};

struct Axis {
  u32 even = 0, odd = 0;  // number of entries in each list
  u32 regular = 0;        // even entries at even distances; the last one may be closer
  u32 gap = 0;            // number of ghosts between the regular entries and the last one, or after the regular ones
  u32 before = 0;         // number of ghosts before the entries
  u32 places = 0;         // of even and odd parts, including ghosts
  u32 stride = 0;         // of the inner axes
  u32 four_begin = 0, four_end = 0;  // the odd places with four neighbours
  bool is_cubic = false;      // all ghosts except that of an irregular place continue three entries by a parabola
  bool is_irregular = false;  // the last odd place is closer than s to the last even one
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
  u32 block;       // number of inner places, including ghosts
  u32* parts[16];  // by the set of odd axes (bit a for axis a): the place whose entries are all 0
};

struct Plan {
  Shape shape;
  Rule rule;
  u32 levels;   // number of the finest levels; coarser ones are small
  u32 outer;    // an axis, or kNoAxis
  u32 first;    // the slowest axis of a block, which has those faster than the outer one, or all active and faster ones
  u32 repeats;  // the product of the extents of axes slower than the outer axis, or than a block
  u32* ghosts;  // of the outer axis, kGhostLanes for each term
};

// The weights of the even entries j - 1 to j + 2 for odd place j.
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

H5L_RARE inline void find_axis(const Plan& plan, const Level& level, u32 a, Axis& axis) {
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
    axis.ghosts[0] = {-1, {}, {1}};
    axis.ghosts[1] = {1, {}, {1}};
    axis.ghosts[2] = {2, {}, {1}};
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
      add_ghost(axis, {r, {end - 3, end - 2, end - 1}, {0u - 1 - w[0], 9 - w[1], 9 - w[2]}});
    } else {
      add_ghost(axis, {r, {end - 1}, {1}});
    }
    weights_of(plan, level, a, no - 1, w);
    if (no >= 2) {
      add_ghost(axis, {r + 1, {end - 2, end - 1, r, at_last}, {0u - 1 - w[0], 9 - w[1], 9, 0 - w[2]}});
    } else {
      add_ghost(axis, {r + 1, {0, r, at_last}, {8 - w[1], 9, 0 - w[2]}});
    }
  } else {
    weights_of(plan, level, a, no - 1, w);
    if (no >= 2) {
      add_ghost(axis, {r, {end - 2, end - 1, end}, {0u - 1 - w[0], 9 - w[1], 9 - w[2]}});
    } else {
      add_ghost(axis, {r, {0, 1}, {8 - w[1], 9 - w[2]}});
    }
  }
  if (no >= 2) {
    weights_of(plan, level, a, 0, w);
    add_ghost(axis, {-1, {0, 1, 2}, {9 - w[1], 9 - w[2], 0u - 1 - w[3]}});
    axis.is_cubic = w[3] != 0 && (no >= 3 || !axis.is_irregular);
  } else {
    add_ghost(axis, {-1, {0}, {1}});
  }
}

inline u32 counts_of(const Level& level, u32 part, u32 a) { return level.axes[a].entries((part >> a & 1) != 0); }

inline u32 place_of(const Level& level, u32 part, u32 a, u32 entry) {
  return (part >> a & 1) != 0 ? entry : level.axes[a].place(entry);
}

// The stride of an axis in a part: the strides of axes slower than the outer one depend on the parity of the outer one.
inline u32 stride_of(const Plan& plan, const Level& level, u32 part, u32 a) {
  if (a >= plan.first || a == plan.outer) return level.axes[a].stride;
  u32 stride = plan.outer == kNoAxis ? level.block : level.block * counts_of(level, part, plan.outer);
  for (u32 b = plan.outer == kNoAxis ? plan.first : plan.outer; --b > a;) stride *= level.axes[b].even;
  return stride;
}

// The distance from the first to the last entry of a block, inclusive.
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

// The places of a term's neighbours: the even entries j - 1 to j + 2.
struct Term {
  const u32* from[4];
  u32 weight;  // in 16ths
};

H5L_INLINE Lanes predicted(const Term& term, u32 k) {
  const Lanes inner = load_lanes(term.from[1] + k) + load_lanes(term.from[2] + k);
  const Lanes outer = load_lanes(term.from[0] + k) + load_lanes(term.from[3] + k);
  return (inner << 3) + (inner - outer);
}

// Predicts `length` places. `use(k, prediction)` is called with vectors of them; the last one may extend past the end.
template <u32 kTerms, class F>
H5L_INLINE void run(const Term (&terms)[kMaxActiveAxes], u32* at, u32 length, F&& use) {
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
inline void mix(u32* out, u32 length, const u32* const (&from)[4], const u32 (&weights)[4]) {
  const u32 *const a = from[0], *const b = from[1], *const c = from[2], *const d = from[3];
  const u32 w0 = weights[0], w1 = weights[1], w2 = weights[2], w3 = weights[3];
  for_lanes(out, length, [&](u32 k) {
    store_lanes(out + k,
                w0 * load_lanes(a + k) + w1 * load_lanes(b + k) + w2 * load_lanes(c + k) + w3 * load_lanes(d + k));
  });
}

// Fills the ghosts of an axis with contiguous places, in each of `count` rows that are `stride` apart.
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
      for (u32 i = 0; i < 4; ++i) sum += ghosts[g].weights[i] * at[ghosts[g].from[i]];
      at[ghosts[g].place] = sum;
    }
  }
}

// Entries of a part along w and z that are processed while they are in the cache: all, or one or two planes of one w.
struct Slab {
  u32 w_begin, w_end;
  u32 z_begin, z_end;
};

// Fills the ghosts of an inner axis in a part with even places along that axis.
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
      for (u32 g = 0; g < axis.ghost_count; ++g) {
        const Ghost& ghost = axis.ghosts[g];
        const u32* from[4];
        for (u32 i = 0; i < 4; ++i) from[i] = at + ghost.from[i] * stride;
        mix(at + ghost.place * stride, length, from, ghost.weights);
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

// Predicts a part slab by slab; the other parts must be complete. For an offset in the part, MakeUse returns the
// function that takes the predictions from there on.
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
      step = block;  // skips places without entries
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
      // Another rule: that of the interior with a ghost, with the entry before as all other neighbours.
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
        mix(plan_.ghosts, now, from, w);
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
  u32 inner_ = 0;  // number of terms along inner axes
  u32 outer_weight_ = 0;
  u32 axes_[kMaxActiveAxes] = {};
  const u32* from_[kMaxActiveAxes] = {};
  i64 strides_[kMaxActiveAxes] = {};
  Term terms_[kMaxActiveAxes] = {};
};

}  // namespace h5lossy::H5L_TARGET::interp::levels
