// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The survey of a chunk or a tile (docs/design/interp-encoder.md, "Survey"): a warp per group, a thread per value of
// the group. It is defined by Surveyor (codecs/interp/survey.h).
#pragma once

#include "codecs/interp/choice.h"
#include "codecs/interp/mask_value.h"
#include "codecs/interp/survey.h"
#include "kernels/codecs/interp_tile.cuh"

namespace h5lossy::H5L_TARGET::interp {

static_assert(kGroupValues == kWarpThreads);

// The results of a group.
struct GroupFindings {
  u32 ordinary;
  u32 error_sums[kAxes], error_counts[kAxes];  // at the finest level
  u32 pairs[kAxes], changes[kAxes];
  u32 sums[kAxisSets], usable[kAxisSets];  // of differences
  i32 errors[kAxes][kSurveyLevels][kGroupValues];
};

template <u32 most>
struct SurveyMemory {
  Survey survey;
  GroupFindings groups[most];
};

// The same as interpolation_cost; a thread per set of odd axes.
H5L_DEVICE u64 interpolation_cost_by_warp(const Survey& survey, const u32 (&extents)[kAxes], u32 axes) {
  const InterpolationCosts costs(survey, extents, axes);
  return costs.total(sum_of_warp(lane() != 0 && lane() < costs.sets() ? costs.of(lane()) : u64{0}));
}

// The same as lorenzo_cost; a thread per set of axes.
H5L_DEVICE u64 lorenzo_cost_by_warp(const Survey& survey, const u32 (&extents)[kAxes], u32& best, u32 except = 0) {
  static_assert(kAxisSets <= kWarpThreads);
  const u32 set = lane();
  const u64 own = set == 0 || set >= kAxisSets || set == except ? kNoForm : lorenzo_cost_of(survey, extents, set);
  u64 least = own;
  for (u32 by = 16; by != 0; by /= 2) {
    const u64 other = shuffle_xor(least, by);
    least = other < least ? other : least;
  }
  best = least == kNoForm ? last_axis(extents) : lowest_one(ballot(own == least));
  return least;
}

// What is known of a tile before it is coded.
struct Prospects {
  u64 interpolation_cost, lorenzo_cost, second_cost, mask_cost;  // estimates, in 1/8192 bit
  Rule rule;
  u32 lorenzo_axes, second_axes;
  [[nodiscard]] H5L_DEVICE u64 cost() const {
    return (interpolation_cost < lorenzo_cost ? interpolation_cost : lorenzo_cost) + mask_cost;
  }
};

// `Values` gives the bits of the value at a place.
template <class T, class Positions, u32 warps, class Values = const Word<T>*>
class WarpSurveyor {
  using W = Word<T>;

 public:
  // For a box whose values are `strides` apart. Interpolation may work along the axes `along`.
  H5L_DEVICE WarpSurveyor(const Values& values, const u32 (&dims)[kAxes], const u32 (&strides)[kAxes],
                          const Positions& positions, u32 along)
      : values_(values), positions_(positions), along_(along) {
    H5L_UNROLL for (u32 a = 0; a < kAxes; ++a) {
      dims_[a] = dims[a];
      strides_[a] = strides[a];
      if (dims[a] > 1) set_ |= axis_bit(a);
    }
    along_ &= set_;
    shape_group(dims, shape_);
    u32 rest = lane();
    H5L_UNROLL for (u32 a = kAxes; a-- > 0;) {
      at_[a] = rest % shape_[a];
      rest /= shape_[a];
    }
    is_there_ = rest == 0;
    count_ = shape_[1] * shape_[2] * shape_[3];
  }

  // Called by the whole thread block; ends with a barrier.
  template <u32 most>
  H5L_DEVICE void run(u32 groups, SurveyMemory<most>& memory) {
    H5L_NO_UNROLL for (u32 g = warp(); g < groups; g += warps) visit(g, memory.groups[g]);
    sync_block();
    Survey& survey = memory.survey;
    H5L_NO_UNROLL for (u32 task = warp(); task < kAxes + kAxisSets + 1; task += warps) {
      if (task < kAxes) {
        add_up_axis(task, groups, memory);
      } else if (task < kAxes + kAxisSets) {
        add_up_set(task - kAxes, groups, memory);
      } else {
        u32 exceptions = 0;
        for (u32 g = lane(); g < groups; g += kWarpThreads) exceptions += count_ - memory.groups[g].ordinary;
        exceptions = sum_of_warp(exceptions);
        if (lane() == 0) survey.exceptions = u64{exceptions} * kCostsPerBit / (u64{groups} * count_);
      }
    }
    sync_block();
    H5L_NO_UNROLL for (u32 task = warp(); task < kAxisSets * kSurveyLevels; task += warps) {
      measure_interpolation(task / kSurveyLevels, task % kSurveyLevels, groups, memory);
    }
    sync_block();
    if (thread() < kAxisSets) {  // a level without findings is like the one before
      u64(&costs)[kSurveyLevels] = survey.interpolation[thread()];
      u64(&magnitudes)[kSurveyLevels] = survey.magnitudes[thread()];
      for (u32 level = 0; level < kSurveyLevels; ++level) {
        if (costs[level] == kUnknown) costs[level] = level == 0 ? 0 : costs[level - 1];
        if (magnitudes[level] == kUnknown) magnitudes[level] = level == 0 ? 0 : magnitudes[level - 1];
      }
    }
    sync_block();
  }

 private:
  static constexpr u64 kUnknown = ~u64{0};
  static constexpr W kOutside = kInfinity<T>;  // has no position, like other exceptions

  // The value of the thread, moved by the same number of values along each axis of a set.
  H5L_DEVICE W load_moved(const u32 (&origin)[kAxes], u32 set, i32 move) const {
    bool is_inside = is_there_;
    u64 place = 0;
    H5L_UNROLL for (u32 a = 0; a < kAxes; ++a) {
      const u32 at = origin[a] + at_[a] + ((set & axis_bit(a)) != 0 ? static_cast<u32>(move) : 0);
      is_inside = is_inside && at < dims_[a];
      place += u64{at} * strides_[a];
    }
    return is_inside ? positions_.encoded(values_[place]) : kOutside;
  }

  H5L_DEVICE void visit(u32 g, GroupFindings& group) {
    u32 origin[kAxes];
    H5L_UNROLL for (u32 a = 0; a < kAxes; ++a) {
      const u32 fraction = (g + 1) * kSpread[a] + 0x9E3779B9u;
      origin[a] = static_cast<u32>(u64{fraction} * (dims_[a] - shape_[a] + 1) >> 32);
    }
    const W bits = load_moved(origin, 0, 0);
    const bool is_ordinary = is_there_ && positions_.is_ordinary(bits);
    const u32 ordinary = ballot(is_ordinary);
    bool any_far = false;
    // NVRTC 12.4 crashes on a ballot that is known to be empty.
    if constexpr (Positions::kHasFar) any_far = any_in_warp(is_ordinary && positions_.is_far(bits));
    if (lane() == 0) {
      group.ordinary = ones(ordinary);
      H5L_UNROLL for (u32 a = 0; a < kAxes; ++a) {
        group.error_sums[a] = group.error_counts[a] = group.changes[a] = 0;
        group.pairs[a] = (set_ & axis_bit(a)) != 0 ? count_ : 0;
      }
      H5L_NO_UNROLL for (u32 set = 0; set < kAxisSets; ++set) group.sums[set] = group.usable[set] = 0;
    }
    if (ordinary == 0) return;
    sync_warp();
    positions_.refer_to(shuffle(bits, lowest_one(ordinary)), any_far);
    const i32 here = positions_.position_of(bits);
    i32 back[kAxes];
    measure_differences(origin, here, group, back);
    H5L_UNROLL for (u32 a = 0; a < kAxes; ++a) {
      if ((along_ & axis_bit(a)) != 0) measure_errors(a, origin, here, back[a], group);
    }
    sync_warp();
  }

  // Measures the errors of interpolation along one axis, at half steps 1 and 2.
  H5L_DEVICE void measure_errors(u32 axis, const u32 (&origin)[kAxes], i32 here, i32 back, GroupFindings& group) const {
    const u32 set = axis_bit(axis);
    H5L_UNROLL for (u32 level = 0; level < kSurveyLevels; ++level) {
      const i32 s = 1 << level;
      const i32 a = positions_.position_of(load_moved(origin, set, -3 * s));
      i32 b = level == 0 ? back : positions_.position_of(load_moved(origin, set, -s));
      i32 c = positions_.position_of(load_moved(origin, set, s));
      const i32 d = positions_.position_of(load_moved(origin, set, 3 * s));
      if (dims_[axis] == 2) {  // each value predicts the other
        c = c == kUnusable ? b : c;
        b = c;
      }
      const bool takes_two = dims_[axis] < 7 && dims_[axis] > 2;  // hardly any value has four
      const bool has_two = here != kUnusable && b != kUnusable && c != kUnusable;
      const bool has_four = has_two && a != kUnusable && d != kUnusable;
      const u32 middle = static_cast<u32>(b) + static_cast<u32>(c), outer = static_cast<u32>(a) + static_cast<u32>(d);
      const i32 four = static_cast<i32>(9 * middle - outer) >> 4, two = static_cast<i32>(middle) >> 1;
      const i32 error = static_cast<i32>(static_cast<u32>(here) - static_cast<u32>(has_four ? four : two));
      group.errors[axis][level][lane()] = has_two ? error : kUnusable;
      if (level != 0) continue;
      const bool is_typical = has_four || (takes_two && has_two);
      const u32 sum = sum_of_warp(is_typical ? static_cast<u32>(error < 0 ? -error : error) : 0u);
      const u32 count = ones(ballot(is_typical));
      if (lane() == 0) {
        group.error_sums[axis] = sum;
        group.error_counts[axis] = count;
      }
    }
  }

  // Measures the differences along each set of axes: sums over the corners of a box, with alternating signs. `back`
  // becomes the positions one step back along each axis.
  H5L_DEVICE void measure_differences(const u32 (&origin)[kAxes], i32 here, GroupFindings& group,
                                      i32 (&back)[kAxes]) const {
    i32 sums[kAxisSets];
    u32 usable = 0;  // a bit for each set
    H5L_UNROLL for (u32 set = 0; set < kAxisSets; ++set) {
      sums[set] = 0;
      if ((set & ~set_) != 0) continue;
      const i32 corner = set == 0 ? here : positions_.position_of(load_moved(origin, set, -1));
      H5L_UNROLL for (u32 a = 0; a < kAxes; ++a) {
        if (set == axis_bit(a)) back[a] = corner;
      }
      const i32 bin = nearest_bin(corner);
      usable |= corner != kUnusable ? 1u << set : 0;
      sums[set] = (count_ones(set) & 1) != 0 ? -bin : bin;
    }
    H5L_UNROLL for (u32 a = 0; a < kAxes; ++a) {
      if ((set_ & axis_bit(a)) == 0) continue;
      const bool differs = (here != kUnusable) != ((usable >> axis_bit(a) & 1) != 0);
      const bool is_inside = is_there_ && (origin[a] != 0 || at_[a] != 0);
      const u32 pairs = ones(ballot(is_inside)), changes = ones(ballot(is_inside && differs));
      if (lane() == 0) {
        group.pairs[a] = pairs;
        group.changes[a] = changes;
      }
    }
    H5L_UNROLL for (u32 a = 0; a < kAxes; ++a) {
      H5L_UNROLL for (u32 set = 0; set < kAxisSets; ++set) {
        if ((set & axis_bit(a)) == 0) continue;
        const u32 rest = set ^ axis_bit(a);
        sums[set] = static_cast<i32>(static_cast<u32>(sums[set]) + static_cast<u32>(sums[rest]));
        if ((usable >> rest & 1) == 0) usable &= ~(1u << set);
      }
    }
    H5L_UNROLL for (u32 set = 1; set < kAxisSets; ++set) {
      if ((set & ~set_) != 0) continue;
      const bool is_usable = (usable >> set & 1) != 0;
      const u32 sum = sum_of_warp(is_usable ? static_cast<u32>(sums[set] < 0 ? -sums[set] : sums[set]) : 0u);
      const u32 count = ones(ballot(is_usable));
      if (lane() == 0) {
        group.sums[set] = sum;
        group.usable[set] = count;
      }
    }
  }

  // Called by a warp, a thread per group.
  template <u32 most>
  H5L_DEVICE void add_up_axis(u32 a, u32 groups, SurveyMemory<most>& memory) const {
    u64 errors = 0;
    u32 errors_seen = 0, pairs = 0, changes = 0;
    for (u32 g = lane(); g < groups; g += kWarpThreads) {
      const GroupFindings& group = memory.groups[g];
      errors += group.error_sums[a];
      errors_seen += group.error_counts[a];
      pairs += group.pairs[a];
      changes += group.changes[a];
    }
    errors = sum_of_warp(errors);
    errors_seen = sum_of_warp(errors_seen);
    pairs = sum_of_warp(pairs);
    changes = sum_of_warp(changes);
    if (lane() != 0) return;
    const u64 error = errors_seen == 0 ? kNoError : 16 * (errors + 8) / errors_seen;
    memory.survey.errors[a] = errors_seen != 0 && error == kNoError ? 1 : error;
    memory.survey.changes[a] = pairs == 0 ? kCostsPerBit : u64{changes} * kCostsPerBit / pairs;
  }

  template <u32 most>
  H5L_DEVICE void add_up_set(u32 set, u32 groups, SurveyMemory<most>& memory) const {
    CostSum sum;
    for (u32 g = lane(); g < groups; g += kWarpThreads) {
      const GroupFindings& group = memory.groups[g];
      sum.add(group.sums[set], group.usable[set], group.ordinary);
    }
    const u64 mean = mean_of_warp(sum);
    if (lane() == 0) memory.survey.lorenzo[set] = set == 0 || (set & ~set_) != 0 ? 0 : mean;
  }

  H5L_DEVICE static u64 mean_of_warp(CostSum& sum) {
    sum.cost = sum_of_warp(sum.cost);
    sum.groups = sum_of_warp(sum.groups);
    return sum.mean();
  }

  template <u32 most>
  H5L_DEVICE void measure_interpolation(u32 set, u32 level, u32 groups, SurveyMemory<most>& memory) const {
    Survey& survey = memory.survey;
    u64 cost = 0, mean = 0;
    if (set != 0 && (set & ~along_) == 0 && count_ones(set) <= kMaxActiveAxes) {
      const Weights weights = weights_of(survey.errors, set);
      const Blend blend = blend_of(weights.rule, (1u << weights.count) - 1);
      CostSum total;
      u64 magnitude = 0, errors_seen = 0;
      H5L_NO_UNROLL for (u32 g = lane(); g < groups; g += kWarpThreads) {
        const GroupFindings& group = memory.groups[g];
        if (group.ordinary == 0) {
          total.add(0, 0, 0);
          continue;
        }
        u32 codes = 0, errors = 0, count = 0;
        H5L_NO_UNROLL for (u32 v = 0; v < kGroupValues; ++v) {
          u32 sum = 8;
          bool is_usable = true;
          H5L_UNROLL for (u32 k = 0; k < kMaxActiveAxes; ++k) {
            if (k >= weights.count || blend.weights[k] == 0) continue;
            const i32 error = group.errors[weights.axes[k]][level][v];
            is_usable = is_usable && error != kUnusable;
            sum += blend.weights[k] * static_cast<u32>(error);
          }
          const i32 error = static_cast<i32>(sum) >> 4, code = nearest_bin(error);
          codes += is_usable ? static_cast<u32>(code < 0 ? -code : code) : 0u;
          errors += is_usable ? static_cast<u32>(error < 0 ? -error : error) : 0u;
          count += is_usable ? 1 : 0;
        }
        total.add(codes, count, group.ordinary);
        magnitude += errors;
        errors_seen += count;
      }
      magnitude = sum_of_warp(magnitude);
      errors_seen = sum_of_warp(errors_seen);
      const u64 own_mean = mean_of_warp(total);
      cost = total.groups != 0 ? own_mean : kUnknown;
      mean = errors_seen != 0 ? 16 * magnitude / errors_seen : kUnknown;
    }
    if (lane() != 0) return;
    survey.interpolation[set][level] = cost;
    survey.magnitudes[set][level] = mean;
  }

  const Values values_;
  Positions positions_;
  u32 dims_[kAxes], strides_[kAxes], shape_[kAxes];
  u32 at_[kAxes];  // of the thread's value in a group
  u32 along_;
  u32 set_ = 0;  // axes with more than one value
  u32 count_;    // values of a group
  bool is_there_;
};

// Called by the whole thread block; ends with a barrier.
template <u32 warps, class T, class Positions>
H5L_DEVICE void survey_tile(const Shape& shape, const TileValues<T>& values, const Positions& positions,
                            SurveyMemory<kTileGroups>& memory, Prospects& prospects) {
  WarpSurveyor<T, Positions, warps> surveyor(values.begin(), shape.extents, values.strides(), positions, shape.axes);
  const u32 fit = shape.count / 1024;
  surveyor.run(fit < 4 ? 4 : fit > kTileGroups ? kTileGroups : fit, memory);
  const Survey& found = memory.survey;
  if (warp() == 0) {
    const u64 cost = interpolation_cost_by_warp(found, shape.extents, shape.axes);
    if (lane() == 0) prospects.interpolation_cost = cost;
  } else if (warp() == 1) {
    u32 axes, second_axes;
    const u64 cost = lorenzo_cost_by_warp(found, shape.extents, axes);
    const u64 second_cost = lorenzo_cost_by_warp(found, shape.extents, second_axes, axes);
    if (lane() == 0) {
      prospects.lorenzo_cost = cost;
      prospects.lorenzo_axes = axes;
      prospects.second_cost = second_cost;
      prospects.second_axes = second_axes;
    }
  } else if (thread() == 2 * kWarpThreads) {
    prospects.rule = weights_of(found.errors, shape.axes).rule;
  } else if (thread() == 3 * kWarpThreads) {
    prospects.mask_cost = mask_cost(found, shape.extents);
  }
  sync_block();
}

// ---------------------------------------------------------------------------------------------------------------------
// Values at some places of a tile, a thread per place; value_at(i) are their bits

struct MaskPlaces {
  u64 bits[kMaskPlaces];
  u32 equal[kMaskPlaces];
};

// The same as find_mask_value (codecs/interp/mask_value.h). Called by the whole thread block; ends with a barrier.
template <class T, class Q, class ValueAt>
H5L_DEVICE MaskValue<T> find_mask(const Q& q, u32 count, ValueAt value_at, MaskPlaces& places) {
  Word<T> bits = 0;
  bool is_used = false;
  if (thread() < kMaskPlaces) {
    const u32 place = mask_place(thread(), count);
    bits = value_at(place);
    is_used = is_repeated(q, bits, value_at(place + 1));
    places.bits[thread()] = is_used ? bits : kNoMask<T>;
  }
  if (!any_in_block(is_used)) return {};
  if (thread() < kMaskPlaces) {
    u32 equal = 0;
    for (u32 i = 0; i < kMaskPlaces; ++i) equal += places.bits[i] == bits ? 1 : 0;
    places.equal[thread()] = is_used ? equal : 0;
  }
  sync_block();
  u32 best = 0;
  for (u32 n = 1; n < kMaskPlaces; ++n) best = places.equal[n] > places.equal[best] ? n : best;
  const u32 frequency = places.equal[best];
  const Word<T> mask = static_cast<Word<T>>(places.bits[best]);
  sync_block();
  if constexpr (kHasWords<Q>) {
    const T other = bit_cast<T>(bits), value = bit_cast<T>(mask);
    const bool is_used_here = thread() < kMaskPlaces;
    const bool has_less = any_in_block(is_used_here && other < value);
    const bool has_greater = any_in_block(is_used_here && other > value);
    return frequency < (has_less && has_greater ? kLeastRepeatedInside : kLeastRepeated) ? MaskValue<T>()
                                                                                         : MaskValue<T>{mask, mask};
  } else {
    return frequency >= kLeastRepeated ? mask_value_of(q, mask) : MaskValue<T>();
  }
}

}  // namespace h5lossy::H5L_TARGET::interp
