// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// What Interp's encoder chooses after a survey (docs/design/interp-encoder.md, "Choosing"): the estimated cost of a
// tile in each form, weights, bases, and axes.
#pragma once

#include "codecs/interp/bins.h"
#include "codecs/interp/format.h"
#include "codecs/interp/masks.h"
#include "codecs/interp/survey.h"
#include "codecs/interp/units.h"

namespace h5lossy::H5L_TARGET::interp {

// ---------------------------------------------------------------------------------------------------------------------
// Forms that have been tried; their costs are in units of 1/16 bit

inline constexpr u32 kMaxPatches = kTileValues / 2;

// A form in which a tile may be written.
struct Form {
  bool is_lorenzo = false;
  bool is_fine = false;
  bool is_closed = false;
  Rule rule = {};  // of interpolation
  u32 lorenzo_axes = 0;
  u32 unit_code = 0;  // of closed forms
  u32 grade = 0;      // of closed forms
};

inline constexpr u64 kCostUnits = kCostsPerBit / 16;  // converts estimates, in 1/8192 bit, to costs

// Whether another form is tried: its estimate is less than 31/32 of this form's cost.
H5L_FN bool is_beaten(u64 cost, u64 estimate) { return cost - cost / 32 >= estimate / kCostUnits; }

// Whether a tile is also tried without its mask value (or with it, if it was first tried without): 8/9 of the estimate
// for that is less than this cost.
H5L_FN bool is_rivalled(u64 cost, u64 estimate) { return cost >= (estimate - estimate / 9) / kCostUnits; }

// Whether the best form, if it is closed, is also tried with finer units on coarse levels. This does not pay if values
// cost more, because the rounding of coarse levels then causes little of what is left to code.
H5L_FN bool may_have_finer_units(u32 count, u64 cost) {
  constexpr u64 kMost = 12;  // of the cost per value
  return count >= 1024 && cost < kMost * count;
}

// The units that an encoder tries: 0, 2, 3.
H5L_FN constexpr u32 next_unit_code(u32 code) { return code == 0 ? 2 : code + 1; }

// A payload whose estimate exceeds the stored tile by more than this is not written. The excess of a payload over its
// estimate (the 384 bytes of room_of, and twice kMaskLoss) fits in the codec's spare bytes.
inline constexpr u32 kSlack = 64;
static_assert(kSlack + 384 + 2 * kMaskLoss <= kPayloadSpare);

// Whether a form becomes the best one: not if it is larger than the stored tile, whatever the coder achieves. `bytes`
// is the size of exceptions and patches.
template <class T>
H5L_FN bool is_worth_keeping(u64 coding_cost, u32 bytes, u64 least, u32 raw_bytes) {
  const u64 room = u64{kMostHeadBytes} + sizeof(T) + bytes + coding_cost / 128;
  return coding_cost + u64{128} * bytes < least && room < raw_bytes + kSlack;
}

// ---------------------------------------------------------------------------------------------------------------------
// Costs of a tile, in 1/8192 bit

// The number of values of each parity along an interpolated axis.
H5L_FN u32 odd_values(u32 extent, u32 half_step) {
  return extent - 1 > half_step ? (extent - 2 - half_step) / (2 * half_step) + 1 : 0;
}
H5L_FN u32 even_values(u32 extent, u32 half_step) {
  return (extent - 1) / (2 * half_step) + 1 + ((extent - 1) % (2 * half_step) != 0);
}

// The cost of a value on each level from the second on. Errors are assumed to grow from level to level as they do from
// the first to the second. Codes do not show this growth if they are all 0 there, although coarse levels are most of
// the cost of smooth data.
class CoarseCosts {
 public:
  H5L_FN explicit CoarseCosts(const u64 (&costs)[kSurveyLevels], const u64 (&magnitudes)[kSurveyLevels])
      : cost_(costs[1]), magnitude_(limited(magnitudes[1] + 16)), first_(codes_of(magnitude_)) {
    const u64 finest = magnitudes[0] + 16, coarser = magnitudes[1] + 16;
    growth_ = coarser <= finest ? 16 : coarser >= kMostGrowth * finest ? 16 * kMostGrowth : 16 * coarser / finest;
  }
  // The cost on the second level; then, at each call, on the next one.
  H5L_FN u64 next() {
    const u64 codes = codes_of(magnitude_);
    magnitude_ = limited(magnitude_ * growth_ / 16);
    return cost_ + (codes > first_ ? codes - first_ : 0);
  }

 private:
  static constexpr u64 kMostGrowth = 4;
  H5L_FN static constexpr u64 limited(u64 magnitude) { return magnitude < 1u << 27 ? magnitude : 1u << 27; }
  // The cost of 32 errors of this magnitude, rounded to whole steps; most small errors become 0.
  H5L_FN static u64 codes_of(u64 magnitude) {
    constexpr u64 step = 16 * kWholeStep;
    return group_cost(kGroupValues * magnitude * magnitude / (magnitude + step / 4) / step) *
           (kCostsPerBit / 16 / kGroupValues);
  }

  u64 cost_, magnitude_, first_, growth_;
};

// Adds the average loss of real tiles: values of a block of residuals are further apart than those of a group, and
// predictions come from values that are off by up to the bound.
H5L_FN u64 with_losses(u64 cost, u64 count) {
  const u64 least = count * group_cost(0) * (kCostsPerBit / 16 / kGroupValues), most = count * kCostsPerBit;
  const u64 limited = cost < most ? cost : most;
  return cost + (limited > least ? (limited - least) / 4 : 0);
}

// The cost of the values whose coordinates along the axes of a set are 0: each is predicted by the one before it along
// the last axis on which its coordinate is not 0.
H5L_FN u64 cost_of_first(const Survey& survey, const u32 (&extents)[kAxes], u32 set) {
  u64 cost = 0, values = 1;
  for (u32 a = 0; a < kAxes; ++a) {
    if ((set & axis_bit(a)) != 0) continue;
    cost += values * (extents[a] - 1) * survey.lorenzo[axis_bit(a)];
    values *= extents[a];
  }
  return cost;
}

// The cost of interpolation: a sum over the sets of active axes along which coordinates are odd.
inline constexpr u64 kNoForm = ~u64{0} >> 8;
class InterpolationCosts {
 public:
  H5L_FN InterpolationCosts(const Survey& survey, const u32 (&extents)[kAxes], u32 axes)
      : survey_(survey), extents_(extents), axes_(axes) {
    u32 longest = 1;
    for (u32 a = 0; a < kAxes; ++a) {
      all_ *= extents[a];
      if ((axes & axis_bit(a)) != 0 && extents[a] > 1) {
        active_[count_++] = a;
        longest = extents[a] > longest ? extents[a] : longest;
      } else {
        others_ *= extents[a];
      }
    }
    while ((1u << top_) < longest - 1) ++top_;
  }

  H5L_FN u32 sets() const { return 1u << count_; }  // including set 0, that of the first values
  H5L_FN u64 of(u32 odd) const {
    u32 set = 0;
    for (u32 i = 0; i < count_; ++i) set |= (odd >> i & 1) != 0 ? axis_bit(active_[i]) : 0;
    CoarseCosts coarse(survey_.interpolation[set], survey_.magnitudes[set]);
    u64 cost = 0;
    for (u32 level = 0; level <= top_; ++level) {
      u64 values = others_;
      for (u32 i = 0; i < count_ && level < top_; ++i) {
        const u32 extent = extents_[active_[i]];
        values *= (odd >> i & 1) != 0 ? odd_values(extent, 1u << level) : even_values(extent, 1u << level);
      }
      cost += values * (level == 0 ? survey_.interpolation[set][0] : coarse.next());
    }
    return cost;
  }
  // `sum` is the sum over all sets except 0.
  H5L_FN u64 total(u64 sum) const {
    if (count_ == 0) return kNoForm;
    return with_losses(cost_of_first(survey_, extents_, axes_) + sum, all_);
  }

 private:
  const Survey& survey_;
  const u32 (&extents_)[kAxes];
  u32 axes_, active_[kAxes] = {}, count_ = 0, top_ = 1;
  u64 all_ = 1, others_ = 1;  // number of values, and of those that are first along all active axes
};

H5L_FN u64 interpolation_cost(const Survey& survey, const u32 (&extents)[kAxes], u32 axes) {
  const InterpolationCosts costs(survey, extents, axes);
  u64 sum = 0;
  for (u32 odd = 1; odd < costs.sets(); ++odd) sum += costs.of(odd);
  return costs.total(sum);
}

// The cost of a chunk in which each tile takes its cheaper form. If both forms cost nearly the same on average, it is
// less than either.
H5L_FN u64 cost_of_either(u64 one, u64 other) {
  const u64 less = one < other ? one : other, more = one < other ? other : one;
  return less - (2 * less > more ? (2 * less - more) / 8 : 0);
}

// The last axis with more than one value; the first axis if there is none.
H5L_FN u32 last_axis(const u32 (&extents)[kAxes]) {
  u32 last = 0;
  for (u32 a = 0; a < kAxes; ++a) last = extents[a] > 1 ? axis_bit(a) : last;
  return last;
}

// The cost of differences along the axes of a set.
H5L_FN u64 lorenzo_cost_of(const Survey& survey, const u32 (&extents)[kAxes], u32 set) {
  u64 others = 1;
  for (u32 a = 0; a < kAxes; ++a) {
    if ((set & axis_bit(a)) == 0) {
      others *= extents[a];
    } else if (extents[a] == 1) {
      return kNoForm;
    }
  }
  u64 cost = cost_of_first(survey, extents, set);
  for (u32 part = set; part != 0; part = (part - 1) & set) {
    u64 values = others;
    for (u32 a = 0; a < kAxes; ++a) values *= (part & axis_bit(a)) != 0 ? extents[a] - 1 : 1;
    cost += values * survey.lorenzo[part];
  }
  return cost;
}

// The least cost over all sets of axes except `except`, and the set that has it.
H5L_FN u64 lorenzo_cost(const Survey& survey, const u32 (&extents)[kAxes], u32& best, u32 except = 0) {
  u64 least = kNoForm;
  best = last_axis(extents);
  for (u32 set = 1; set < kAxisSets; ++set) {
    if (set == except) continue;
    const u64 cost = lorenzo_cost_of(survey, extents, set);
    if (cost < least) {
      least = cost;
      best = set;
    }
  }
  return least;
}

// When decoded data is encoded again, the weights with which it was decoded should be found: with these, values differ
// from their predictions by whole steps. So the weights are chosen for which this holds at most places of a sample.
// Values whose predictions along the axes are nearly equal say nothing about weights.
inline constexpr u32 kWeightSets = kWeightCodes * kWeightCodes * kWeightCodes;

// How many sets of weights are tried for recognised rules of this many active axes.
H5L_FN u32 weight_sets(u32 active) { return active < 2 ? 1 : active == 2 ? kWeightCodes * kWeightCodes : kWeightSets; }

H5L_FN Rule rule_of(u32 weight_set) {
  return {
      {weight_set % kWeightCodes, weight_set / kWeightCodes % kWeightCodes, weight_set / kWeightCodes / kWeightCodes}};
}

// The samples are places of a tile, for each set of odd axes. The more the predictions along the axes differ (in
// 16ths), the more a value says about weights, so each round takes the places with at least a certain difference.
inline constexpr u32 kRulePlaces = 4096, kRuleSamples = 128;  // examined, and used
inline constexpr u32 kRuleRounds = 3;

struct RulePlace {
  i32 fine = 0;                    // the value's fine point
  u32 along[kMaxActiveAxes] = {};  // predictions along odd axes
};

// Returns the round in which place n counts; kRuleRounds if in none. fine_point_at(place, fine) is false if the value
// at a place has no fine point.
template <class FinePoint>
H5L_FN u32 find_rule_place(const Shape& shape, u32 odd, u32 n, FinePoint fine_point_at, RulePlace& found) {
  constexpr u32 kLeast[kRuleRounds] = {1024, 64, 1};
  u32 at[kAxes], place = 0;
  for (u32 a = 0; a < kAxes; ++a) at[a] = static_cast<u32>(u64{(n + 1) * kSpread[a]} * shape.extents[a] >> 32);
  for (u32 i = 0; i < shape.active; ++i) {
    const u32 a = shape.active_axes[i];
    at[a] = (at[a] & ~1u) | (odd >> i & 1);
    if (at[a] + 1 >= shape.extents[a]) return kRuleRounds;
  }
  for (u32 a = 0; a < kAxes; ++a) place += at[a] * shape.strides[a];
  if (!fine_point_at(place, found.fine)) return kRuleRounds;
  i32 lowest = 0, highest = 0;
  bool is_first = true;
  for (u32 i = 0; i < kMaxActiveAxes; ++i) {
    found.along[i] = 0;
    if ((odd >> i & 1) == 0) continue;
    const u32 a = shape.active_axes[i];
    const Row row = row_of(at[a], 1, shape.extents[a], false);
    for (u32 k = 0; k < row.points; ++k) {
      i32 fine;
      const i32 distance = row.distances[k] * static_cast<i32>(shape.strides[a]);
      if (!fine_point_at(static_cast<u32>(static_cast<i32>(place) + distance), fine)) return kRuleRounds;
      found.along[i] += static_cast<u32>(row.weights[k]) * static_cast<u32>(fine);
    }
    const i32 sum = static_cast<i32>(found.along[i]);
    lowest = is_first || sum < lowest ? sum : lowest;
    highest = is_first || sum > highest ? sum : highest;
    is_first = false;
  }
  const u32 spread = static_cast<u32>(highest) - static_cast<u32>(lowest);
  for (u32 round = 0; round < kRuleRounds; ++round) {
    if (spread >= kLeast[round]) return round;
  }
  return kRuleRounds;
}

// Whether a value differs from its prediction with these weights by whole steps.
H5L_FN u32 matches_rule(const Blend& blend, u32 active, const u32 (&along)[kMaxActiveAxes], i32 fine,
                        const Grade& grade) {
  u32 sum = 128;
  for (u32 i = 0; i < active; ++i) sum += blend.weights[i] * along[i];
  return ((fine - grade.rounded(static_cast<i32>(sum) >> 8)) & (kUnit - 1)) == 0 ? 1 : 0;
}

// Among the rules with at least one axis of the largest weight, the rule with the most matches; the first of equals.
H5L_FN Rule best_rule(const u32 (&matches)[kWeightSets], u32 sets, u32 active) {
  u32 best = 0;
  for (u32 set = 1; set < sets; ++set) {
    const Rule rule = rule_of(set);
    bool has_heaviest = false;
    for (u32 i = 0; i < active; ++i) has_heaviest = has_heaviest || rule.weights[i] == 0;
    if (has_heaviest && matches[set] > matches[best]) best = set;
  }
  return rule_of(best);
}

// At most one value in this many may be beyond the grade of a closed form, and so an exception. For isolated values
// that are far larger than the rest, such as hot pixels, a higher grade would make all predictions less precise.
inline constexpr u32 kBeyondShare = 128;

// Whether a closed form of this grade cannot have a value with this position, since its integer might be no fine point.
H5L_FN bool is_beyond(i32 position, u32 grade) {
  const u32 most = (u32{kParts} << (kPlainBits + grade)) - kUnit * kParts / 2 - 1;
  return (static_cast<u32>(position) + most > 2 * most) & (position != kNone<i32>);
}

// The first value's integer in a closed form: a multiple of 2 to the power `grade` if it is not kept.
H5L_FN i32 first_base(i32 position, u32 grade) {
  if (position % kParts == 0) return position / kParts;
  return nearest_point(position, 1u << grade);
}

// Whether the first value of a closed form has to be an exception: it is kept, and integers could not be counted from
// it.
H5L_FN bool is_no_base(i32 position, const Grade& grade) {
  return position != kNone<i32> && position % kParts == 0 && position / kParts % grade.distance != 0;
}

// Rounds to multiples of 16 steps.
H5L_FN i32 rounded_base(i32 fine) {
  constexpr i32 round = 16 * kUnit;
  return (fine + round / 2) & -round;
}

#if !defined(__CUDACC__)

template <class T>
Rule recognise_rule(const Shape& shape, const i32* positions, const Grade& grade) {
  const u32 sets = weight_sets(shape.active);
  u32 matches[kWeightSets] = {};
  const auto fine_point_at = [&](u32 place, i32& fine) {
    fine = fine_point_of<T>(positions[place]);
    return positions[place] != kNone<i32>;
  };
  for (u32 odd = 1; odd < 1u << shape.active; ++odd) {
    if (count_ones(odd) < 2) continue;
    Blend blends[kWeightSets];
    for (u32 set = 0; set < sets; ++set) blends[set] = blend_of(rule_of(set), odd);
    u32 samples = 0;
    for (u32 step = 0; step < kRulePlaces * kRuleRounds && samples < kRuleSamples; ++step) {
      RulePlace found;
      if (find_rule_place(shape, odd, step % kRulePlaces, fine_point_at, found) != step / kRulePlaces) continue;
      ++samples;
      for (u32 set = 0; set < sets; ++set) {
        matches[set] += matches_rule(blends[set], shape.active, found.along, found.fine, grade);
      }
    }
  }
  return best_rule(matches, sets, shape.active);
}

// The base of a closed form: the first value's fine point. If the first value is an exception, it is the next value's,
// but rounded to 16 steps: after decoding, that value may lie on another fine point, and the base should stay the same.
template <class T>
i32 closed_base(const i32* positions, u32 count, u32 grade) {
  if (positions[0] != kNone<i32>) return first_base(positions[0], grade);
  return rounded_base(first_fine_point<T>(positions, count));
}

// How many values are beyond a grade. Not inlined, since the loop around it has conditions, and GCC then says that it
// could not vectorize this one.
[[gnu::noinline]] inline u32 count_beyond(const i32* positions, u32 count, u32 grade) {
  u32 beyond = 0;
  for (u32 i = 0; i < count; ++i) beyond += is_beyond(positions[i], grade) ? 1 : 0;  // vectorized
  return beyond;
}

// The grade of a closed form: the least beyond which there are only a few values, which become exceptions.
template <class T>
u32 closed_grade(const i32* positions, u32 count) {
  u32 grade = 0;
  while (grade < kMostGrade<T> && count_beyond(positions, count, grade) > count / kBeyondShare) ++grade;
  return grade;
}

// Hides the positions of values that a closed form of this grade cannot have, while it exists.
template <class T>
class HiddenPositions {
 public:
  HiddenPositions(i32* positions, u32 count, u32 grade) : positions_(positions) {
    if (count != 0 && is_no_base(positions[0], Grade(grade))) hide(0);
    for (u32 i = 0; grade < kMostGrade<T> && i < count; ++i) {
      if (is_beyond(positions[i], grade)) hide(i);
    }
  }
  ~HiddenPositions() {
    for (u32 i = 0; i < hidden_; ++i) positions_[places_[i]] = hidden_positions_[i];
  }
  HiddenPositions(const HiddenPositions&) = delete;
  HiddenPositions& operator=(const HiddenPositions&) = delete;
  u32 count() const { return hidden_; }

 private:
  static constexpr u32 kMost = kTileValues / kBeyondShare + 1;

  void hide(u32 place) {
    places_[hidden_] = place;
    hidden_positions_[hidden_++] = positions_[place];
    positions_[place] = kNone<i32>;
  }

  i32* positions_;
  u32 hidden_ = 0, places_[kMost];
  i32 hidden_positions_[kMost];
};

#endif

// Candidate sets of axes for a chunk: those of three axes, then of two, then of one, in the order of w, z, y, x. If the
// chunk has more than two axes, sets of one axis are not tried.
struct AxisCandidates {
  u32 count = 0;
  u32 axes[kAxisSets];
};
H5L_FN AxisCandidates candidates_of(const u32 (&dims)[kAxes]) {
  AxisCandidates candidates;
  u32 all = 0;
  for (u32 a = 0; a < kAxes; ++a) all |= dims[a] > 1 ? axis_bit(a) : 0;
  const u32 rank = count_ones(all);
  for (u32 size = kMaxActiveAxes; size > (rank > 2 ? 1u : 0u); --size) {
    for (u32 axes = kAxesMask; axes > 0; --axes) {
      if ((axes & ~all) == 0 && count_ones(axes) == size) candidates.axes[candidates.count++] = axes;
    }
  }
  return candidates;
}

// The cost per value of a full tile, in 1/256 of 1/8192 bit, from the costs of its forms.
H5L_FN u64 cost_of_value(const Survey& survey, const u32 (&extents)[kAxes], u64 interpolation, u64 lorenzo) {
  u64 values = 1;
  for (const u32 extent : extents) values *= extent;
  const u64 cost = cost_of_either(interpolation, lorenzo) + mask_cost(survey, extents, kBitsOfChunkChange) + kTileCost;
  const u64 per_value = cost * 256 / values;
  return per_value + per_value / (8 * extents[kAxes - 1]);  // short rows take longer
}
H5L_FN u64 cost_with_axes(const Survey& survey, const u32 (&dims)[kAxes], u32 axes) {
  u32 extents[kAxes], unused;
  cut(dims, axes, extents);
  return cost_of_value(survey, extents, interpolation_cost(survey, extents, axes),
                       lorenzo_cost(survey, extents, unused));
}

// Whether decoded data may have been interpolated along a set of axes. Where one coordinate is odd in its tile and the
// others are even, a value can be compared with its prediction without knowing the weights: do they differ by whole
// steps? Places where all values lie on bins say nothing.
inline constexpr u32 kAxisPlaces = 512, kAxisSamples = 64;  // for each set of axes: examined, and used

enum class AxisSample : u32 { none, other, match };

class AxisSampler {
 public:
  H5L_FN AxisSampler(const u32 (&dims)[kAxes], u32 axes) : axes_(axes) {
    u64 count = 1;
    for (u32 a = kAxes; a-- > 0; count *= dims[a]) {
      dims_[a] = dims[a];
      strides_[a] = count;
    }
    cut(dims, axes, extents_);
    for (u32 a = 0; a < kAxes; ++a) {
      if ((axes & axis_bit(a)) != 0) active_[actives_++] = a;
    }
  }

  // fine_point(place, fine) is false if the value at a place is no fine point.
  template <class T, class FinePoint>
  H5L_FN AxisSample sample(u32 n, FinePoint fine_point) const {
    const u32 odd = active_[n % actives_];
    u64 place = 0;
    u32 local = 0, extent = 0;  // along the odd axis, within the tile
    for (u32 a = 0; a < kAxes; ++a) {
      u32 at = static_cast<u32>(u64{(n + 1) * kSpread[a]} * dims_[a] >> 32);
      const u32 begin = at - at % extents_[a];
      if ((axes_ & axis_bit(a)) != 0) at = begin + ((at - begin) & ~1u);
      if (a == odd) {
        local = at - begin + 1;
        extent = dims_[a] - begin < extents_[a] ? dims_[a] - begin : extents_[a];
        at = begin + local;
      }
      place += at * strides_[a];
    }
    if (local + 1 >= extent) return AxisSample::none;
    i32 value;
    if (!fine_point(place, value)) return AxisSample::other;
    const Row row = row_of(local, 1, extent, false);
    u32 sum = 0;
    bool is_usable = true;
    i32 bits = value;
    const Grade grade(grade_of<T>(static_cast<i32>(static_cast<u32>(value) * kParts)));
    for (u32 k = 0; k < row.points && is_usable; ++k) {
      i32 near = 0;
      const i64 distance = i64{row.distances[k]} * static_cast<i64>(strides_[odd]);
      is_usable = fine_point(place + static_cast<u64>(distance), near);
      sum += static_cast<u32>(row.weights[k]) * static_cast<u32>(near);
      bits |= near;
    }
    if (is_usable && (bits & (kUnit - 1)) == 0) return AxisSample::none;
    const i32 prediction = grade.rounded(static_cast<i32>(16 * sum + 128) >> 8);
    return is_usable && ((value - prediction) & (kUnit - 1)) == 0 ? AxisSample::match : AxisSample::other;
  }

 private:
  u32 axes_, dims_[kAxes], extents_[kAxes];
  u32 active_[kMaxActiveAxes] = {}, actives_ = 0;
  u64 strides_[kAxes];
};

// The fraction of matches for a set of axes, in 256ths.
H5L_FN u32 axis_share(u32 matches, u32 samples) { return samples < kAxisSamples / 4 ? 0 : 256 * matches / samples; }

// The sets of axes along which decoded data may have been interpolated, as a bit set; all of them if the data is not
// decoded, or has changed too much since.
H5L_FN u32 axes_of_shares(const u32 (&shares)[kAxisSets]) {
  u32 most = 0, found = 0;
  for (const u32 share : shares) most = share > most ? share : most;
  if (most < 128) return ~0u;
  for (u32 axes = 0; axes < kAxisSets; ++axes) found |= shares[axes] + 32 >= most ? 1u << axes : 0;
  return found;
}

#if !defined(__CUDACC__)
// The set among `allowed` (a bit set) with the least cost per value in full tiles; the first of equals.
inline u32 cheapest_axes(const Survey& survey, const u32 (&dims)[kAxes], u32 allowed) {
  const AxisCandidates candidates = candidates_of(dims);
  u64 least = ~u64{0};
  u32 best = 0;
  for (u32 c = 0; c < candidates.count; ++c) {
    if ((allowed >> candidates.axes[c] & 1) == 0) continue;
    const u64 per_value = cost_with_axes(survey, dims, candidates.axes[c]);
    if (per_value >= least) continue;
    least = per_value;
    best = candidates.axes[c];
  }
  return best;
}

template <class T>
u32 recognise_axes(const Lattice<T>& lattice, const ValueReader<T>& reader, const u32 (&dims)[kAxes]) {
  const AxisCandidates candidates = candidates_of(dims);
  u32 shares[kAxisSets] = {};
  for (u32 c = 0; c < candidates.count; ++c) {
    const AxisSampler sampler(dims, candidates.axes[c]);
    u32 samples = 0, matches = 0;
    for (u32 n = 0; n < kAxisPlaces && samples < kAxisSamples; ++n) {
      const AxisSample sample =
          sampler.template sample<T>(n, [&](u64 place, i32& fine) { return reader.fine_point(lattice, place, fine); });
      samples += sample != AxisSample::none;
      matches += sample == AxisSample::match;
    }
    shares[candidates.axes[c]] = axis_share(matches, samples);
  }
  return axes_of_shares(shares);
}

#endif

}  // namespace h5lossy::H5L_TARGET::interp
