// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The second and the third kernel of Interp's encoder, for usual tiles: their integers are near each other, so that 16
// bits are enough, and a multiprocessor has room for three tiles. All values have fine points, or all have bins, except
// for a few values or for values with the same bits. The second kernel tries interpolation in a closed form, the third
// one all forms. Tiles of words have one kernel, which tries all forms; it takes those without exceptions. All other
// tiles are left to the last of these kernels (interp_form.cuh), which tries the same forms for any tile.
#pragma once

#include "codecs/interp/units.h"
#include "kernels/codecs/interp_labels.cuh"
#include "kernels/codecs/interp_lorenzo.cuh"
#include "kernels/codecs/interp_plan.cuh"
#include "kernels/codecs/interp_survey.cuh"
#include "kernels/codecs/interp_words.cuh"

namespace h5lossy::H5L_TARGET {
namespace interp {

template <class T, class Q>
inline constexpr bool kHasDrafts = false;
template <class T>
inline constexpr bool kHasDrafts<T, Lattice<T>> = true;
template <class T>
inline constexpr bool kHasDrafts<T, TileWords<T>> = true;

inline constexpr u32 kDraftThreads = 256, kDraftWarps = kDraftThreads / kWarpThreads;

inline constexpr u32 kFewExceptions = kTileValues / 128;
inline constexpr i16 kNoTarget = -32768;  // marks an exception

// How a section of exceptions begins.
struct CommonBits {
  u64 common = 0;
  u32 flags = 0;
};

struct DraftShared {
  union {
    // At first, twice the fine point below a value, plus 1 if the value is kept; the integer of the value replaces
    // this. Both are relative to base, or near it. Words are integers from the start. In the end, the codes.
    alignas(16) i16 integers[kTileValues];
    SurveyMemory<kTileGroups> survey;
    MaskPlaces mask_places;
  };
  union {
    u64 exceptions[kFewExceptions];  // bits
    SmallPassTable passes;
    PlanShared<kDraftWarps> plan;
  };
  TilePlace place;
  Prospects prospects;
  CommonBits common;
  i64 base;
  i32 first_position;  // of value 0, or a kept one at base
  i32 first_integer;   // of value 0
  i32 grade;           // of the form that is tried
  u32 sums[4 * kDraftWarps];
  u32 entries;
};

// A function, since the compiler cannot tell which memory a reference stored in an object refers to.
H5L_DEVICE DraftShared& draft_shared() { return *reinterpret_cast<DraftShared*>(shared_memory()); }

struct DraftIntegers {
  H5L_DEVICE i16& operator[](u32 i) const { return draft_shared().integers[i]; }
};

struct DraftPlan {
  static constexpr u32 kWarpsHere = kDraftWarps;
  H5L_DEVICE static PlanShared<kDraftWarps>& shared() { return draft_shared().plan; }
  template <class I>
  H5L_DEVICE static Unsigned<I> number(const i16*, u32 b) {
    return number_of_code<I>(draft_shared().integers, b);
  }
};

}  // namespace interp

template <>
inline constexpr u32 kThreadsWith<interp::DraftShared> = interp::kDraftThreads;

namespace interp {

// Calls visit(i, bits) for four values at a time, from i on; past the tile's end, the bits are those of the first
// value. Several loads are in flight at once, since a load takes longer than processing what it loads.
template <class T, class Visit>
H5L_DEVICE void for_fours(const TileValues<T>& values, u32 count, bool are_quads, Visit visit) {
  constexpr u32 at_once = 2, step = 4 * kDraftThreads;
  H5L_NO_UNROLL for (u32 begin = 4 * thread(); begin < count; begin += at_once * step) {
    Word<T> bits[at_once][4];
    H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
      const u32 i = begin + k * step;
      if (are_quads) {
        const Quad* const from = reinterpret_cast<const Quad*>(values.at(i < count ? i : 0));
        if constexpr (sizeof(T) == 4) {
          const Quad quad = from[0];
          bits[k][0] = quad.x, bits[k][1] = quad.y, bits[k][2] = quad.z, bits[k][3] = quad.w;
        } else {
          H5L_UNROLL for (u32 j = 0; j < 2; ++j) {
            const Quad quad = from[j];
            bits[k][2 * j] = u64{quad.x} | u64{quad.y} << 32;
            bits[k][2 * j + 1] = u64{quad.z} | u64{quad.w} << 32;
          }
        }
      } else {
        H5L_UNROLL for (u32 j = 0; j < 4; ++j) bits[k][j] = *values.at(i + j < count ? i + j : 0);
      }
    }
    H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
      if (begin + k * step < count) visit(begin + k * step, bits[k]);
    }
  }
}

// For `count` exceptions (at least one), as choose_common (codecs/interp/exceptions.h) finds them. Called by a warp.
H5L_DEVICE CommonBits common_of_exceptions(const u64* bits, u32 count) {
  constexpr u32 kSamples = 8;
  const auto count_of = [&](u64 wanted) {
    u32 equal = 0;
    for (u32 i = lane(); i < count; i += kWarpThreads) equal += bits[i] == wanted ? 1 : 0;
    return sum_of_warp(equal);
  };
  // The index of the first exception for which is_one is true; `count` if there is none.
  const auto first_of = [&](auto is_one) {
    u32 first = count;
    for (u32 i = lane(); i < count && first == count; i += kWarpThreads) first = is_one(bits[i]) ? i : first;
    return least_of_warp(first);
  };
  CommonBits found;
  u32 different = ~u32{0};
  const auto try_bits = [&](u64 candidate) {
    const u32 others = count - count_of(candidate);
    if (others < different) {
      found.common = candidate;
      different = others;
    }
    return 2 * different <= count;
  };
  bool is_found = false;
  H5L_NO_UNROLL for (u32 k = 0; k < kSamples && !is_found; ++k) is_found = try_bits(bits[count * k / kSamples]);
  if (!is_found) {
    const u32 first = first_of([&](u64 own) {
      bool is_sample = false;
      H5L_NO_UNROLL for (u32 k = 0; k < kSamples; ++k) is_sample = is_sample || own == bits[count * k / kSamples];
      return !is_sample;
    });
    if (first < count) try_bits(bits[first]);
  }
  const u32 first = first_of([&](u64 own) { return own != found.common; });
  if (first < count) {
    const u64 other = bits[first];
    const bool are_alike = first_of([&](u64 own) { return own != found.common && own != other; }) == count;
    found.flags = are_alike ? kHasOthers | kOthersAreAlike : kHasOthers;
  }
  return found;
}

// The first of the two kernels tries the first form only, and only if that is interpolation; the second one tries all
// forms. One kernel for both would be so large that it would stall on instruction fetches.
template <class T, class Q, bool only_first>
class Drafter {
  using W = Word<T>;
  static constexpr u64 kNoCost = ~u64{0};

 public:
  H5L_DEVICE Drafter(const StagedPlan& plan, u32 chunk, u32 mode, const TileStage<T>& stage)
      : plan_(plan), stage_(stage), chunk_(chunk), mode_(mode) {}

  // Returns whether the tile has been coded. Its place is in shared memory.
  H5L_DEVICE bool run() {
    if constexpr (kHasWords<Q>) return code_words();
    if (count() < 2 || (mode_ & kExact) != 0 || lattice().own.exists() || !look_at_places()) return false;
    survey_tile<kDraftWarps>(shape(), values(), AbsolutePositions<T>(lattice(), can_close_), shared().survey,
                             shared().prospects);
    if (!(only_first ? try_first_form() : choose_form())) return false;
    for (u32 w = thread(); !only_first && next_ == 0 && w < mask_words(count()); w += kDraftThreads) {
      stage_.patched()[w] = stage_.measured()[w];
    }
    return true;
  }

 private:
  // What all threads share is read from shared memory each time, since registers are scarce.
  H5L_DEVICE static DraftShared& shared() { return draft_shared(); }
  H5L_DEVICE static const Shape& shape() { return shared().place.shape; }
  H5L_DEVICE static u32 count() { return shape().count; }
  // Words are counted from the first one; if that is exact, the tile is left to the next kernel.
  H5L_DEVICE Q lattice() const {
    if constexpr (kHasWords<Q>) {
      Q words = words_of<T>(plan_, chunk_);
      set_origin(words, values().bits(0));
      return words;
    } else {
      return tile_lattice_of<T>(plan_.quantizers[chunk_]);
    }
  }
  H5L_DEVICE TileValues<T> values() const {
    return {encoded_of<kHasWords<Q>>(plan_, chunk_), plan_.finish.encode.shape.dims, shared().place};
  }

  H5L_DEVICE static i32 position_of(const Q& lattice, const PositionLimits<T>& limits, W bits) {
    bool is_kept;
    return find_position<true>(lattice, limits, bits, is_kept);
  }
  // Finds the bin of a value; false if it has none.
  H5L_DEVICE static bool bin_of_value(const Q& lattice, const PositionLimits<T>& limits, W bits, i32 position, W& bin) {
    T number;
    const bool has_bin = find_bin(lattice, limits.fill, bits, position, number);
    bin = integer_of(number);
    return has_bin;
  }

  // False if there may be a mask value. Whether closed forms are possible depends on all values; at first, some of them
  // decide, and load() checks this.
  H5L_DEVICE bool look_at_places() {
    const Q own = lattice();
    const PositionLimits<T> limits = position_limits(own);
    bool may_be_masked = false, lacks_fine = false;
    if (thread() < kMaskPlaces) {
      const TileValues<T> all = values();
      const u32 at = mask_place(thread(), count());
      const W bits = *all.at(at);
      W bin;
      may_be_masked = is_repeated(own, bits, *all.at(at + 1));
      lacks_fine = position_of(own, limits, bits) == kNone<i32> && bin_of_value(own, limits, bits, kNone<i32>, bin);
    }
    if (any_in_block(may_be_masked)) return false;
    can_close_ = (mode_ & kRewritable) == 0 && shape().active != 0 &&
                 sum_over_block<kDraftWarps>(lacks_fine ? 1u : 0u, shared().sums) <= kMaskPlaces / 64;
    return true;
  }

  // Which form a tile begins with, Lorenzo or interpolation, and the estimated cost of the other one.
  H5L_DEVICE static bool begins_with_lorenzo() {
    return shared().prospects.lorenzo_cost < shared().prospects.interpolation_cost;
  }
  H5L_DEVICE static u64 rival_cost() {
    return begins_with_lorenzo() ? shared().prospects.interpolation_cost : shared().prospects.lorenzo_cost;
  }
  H5L_DEVICE Form interpolation() const {
    Form form;
    form.rule = shared().prospects.rule;
    form.is_fine = form.is_closed = can_close_;
    return form;
  }

  // False if another form may be better than the closed one, or if the tile is left to a later kernel.
  H5L_DEVICE bool try_first_form() {
    const u64 estimate = shared().prospects.interpolation_cost / kCostUnits;
    if (begins_with_lorenzo() || !can_close_ || is_beaten(estimate, rival_cost()) ||
        may_have_finer_units(count(), estimate)) {
      return false;
    }
    const u64 cost = try_form(interpolation());
    return cost != kNoCost && !is_beaten(cost, rival_cost()) && !may_have_finer_units(count(), cost);
  }

  // Does what attempt_both and attempt_finer_units (interp_form.cuh) do. False if the tile is left to the next kernel.
  // try_form has a single call site, since its code is large.
  H5L_DEVICE bool choose_form() {
    enum class Attempt { interpolation, lorenzo, second_axes, finer_units };
    const Prospects& prospects = shared().prospects;
    Attempt attempt = begins_with_lorenzo() ? Attempt::lorenzo : Attempt::interpolation;
    bool is_rivalled = shape().active != 0;
    u64 of_kind = kNoCost;  // the lower cost of Lorenzo's two sets of axes
    u32 unit_code = 1;
    H5L_NO_UNROLL for (;;) {
      Form form = interpolation();
      form.is_lorenzo = attempt == Attempt::lorenzo || attempt == Attempt::second_axes;
      if (form.is_lorenzo) {
        form.is_fine = form.is_closed = false;
        form.lorenzo_axes = attempt == Attempt::lorenzo ? prospects.lorenzo_axes : prospects.second_axes;
      }
      if (attempt == Attempt::finer_units) form.unit_code = unit_code;
      const u64 before = least_, cost = try_form(form);
      if (cost == kNoCost) return false;
      if (attempt != Attempt::finer_units) {
        of_kind = cost < of_kind ? cost : of_kind;
        if (attempt == Attempt::lorenzo && 64 * prospects.second_cost < 65 * prospects.lorenzo_cost) {
          attempt = Attempt::second_axes;
          continue;
        }
        if (is_rivalled && is_beaten(of_kind, rival_cost())) {
          is_rivalled = false;
          attempt = begins_with_lorenzo() ? Attempt::interpolation : Attempt::lorenzo;
          of_kind = kNoCost;
          continue;
        }
        if (!is_closed_ || !may_have_finer_units(count(), least_)) return true;
        if (best_exceptions_ != 0) return false;  // the exceptions' size matters
        attempt = Attempt::finer_units;
      } else if (least_ == before) {
        return true;
      }
      if (++unit_code == kUnitCodes) return true;
    }
  }

  // The cost of a form without its exceptions; kNoCost if the tile is left to the next kernel.
  H5L_DEVICE u64 try_form(const Form& form) {
    if (!form.is_lorenzo && ((only_first && shape().axes != axes_in_use()) || !SmallPassTable::has_room(shape()))) {
      return kNoCost;
    }
    if constexpr (kHasWords<Q>) {
      if (!load_words()) return kNoCost;
    } else {
      u32* const patched = patched_of(next_);
      for (u32 w = thread(); w < mask_words(count()); w += kDraftThreads) patched[w] = stage_.mask()[w] = 0;
      sync_block();
      if (!(only_first || form.is_closed ? load<true>(true) : load<false>(!form.is_lorenzo))) return kNoCost;
    }
    i16* const codes = stage_.template codes<i16>(next_);
    if (count() + thread() < blocks_of(count()) * kBlockCodes) codes[count() + thread()] = 0;
    const bool fits = !only_first && form.is_lorenzo ? difference(form.lorenzo_axes, codes) : interpolate(form, codes);
    if (any_in_block(!fits)) return kNoCost;
    return finish(form, codes);
  }

  H5L_DEVICE u32 axes_in_use() const {
    u32 axes = 0;
    H5L_UNROLL for (u32 a = 0; a < kAxes; ++a) axes |= shape().extents[a] > 1 ? axis_bit(a) : 0;
    return axes;
  }
  H5L_DEVICE bool are_few() const { return exceptions_ <= count() / 128; }
  H5L_DEVICE u32* patched_of(u32 slot) const { return slot == 0 ? stage_.patched() : stage_.measured(); }

  // -------------------------------------------------------------------------------------------------------------------
  // What is to be coded

  // Whether rows begin and end at multiples of four values, and of 16 bytes.
  H5L_DEVICE bool are_quads(const TileValues<T>& all) const {
    const TilePlace& place = shared().place;
    return ((place.shape.extents[3] | plan_.finish.encode.shape.dims[3] | place.begin[3]) % 4 |
            static_cast<u32>(reinterpret_cast<u64>(all.begin()) % sizeof(Quad))) == 0;
  }
  H5L_DEVICE static void store_four(u32 i, const u32 (&halves)[4]) {
    u32* const to = reinterpret_cast<u32*>(shared().integers + i);
    to[0] = halves[0] | halves[1] << 16;
    to[1] = halves[2] | halves[3] << 16;
  }

  // The first value that has a fine point (in a closed form) or a bin (in another one); count() if there is none.
  template <bool closed>
  H5L_DEVICE static u32 first_value(const TileValues<T>& values, const Q& lattice, const PositionLimits<T>& limits) {
    const auto is_one = [&](u32 i) {
      const W bits = values.bits(i);
      const i32 position = position_of(lattice, limits, bits);
      if constexpr (closed) return position != kNone<i32>;
      W bin;
      return bin_of_value(lattice, limits, bits, position, bin);
    };
    if (is_one(0)) return 0;
    u32 first = count();
    for (u32 i = thread(); i < count() && first == count(); i += kDraftThreads) first = is_one(i) ? i : first;
    return least_of_block<kDraftWarps>(first, shared().sums);
  }

  // Loads targets of closed forms, or bins, and the mask of exceptions; false if the tile is left to the next kernel.
  // For open interpolation, bins become targets as well: kept values, in units of 1.
  template <bool closed>
  H5L_DEVICE bool load(bool are_targets) {
    const Q own = lattice();
    const PositionLimits<T> limits = position_limits(own);
    const TileValues<T> all = values();
    const u32 first = first_value<closed>(all, own, limits);
    if (first == count()) return false;
    const i32 first_position = position_of(own, limits, all.bits(first));
    W first_bin;
    bin_of_value(own, limits, all.bits(first), first_position, first_bin);
    // The grade of a closed form is known at the end. Until then its base is one that has any grade, if there is one.
    const i64 base = !closed      ? static_cast<i64>(static_cast<Int<T>>(first_bin))
                     : first == 0 ? first_base(first_position, kMostGrade<T>)
                                  : rounded_base(fine_point_of<T>(first_position));
    if (thread() == 0) {
      shared().base = base;
      shared().first_position = first == 0 ? first_position : static_cast<i32>(base) * kParts;
      if (!closed) shared().grade = shared().first_integer = 0;
    }
    const bool are_plain = bins_are_plain(own, static_cast<Int<T>>(first_bin));
    u32* const mask = stage_.mask();
    u32* const patched = patched_of(next_);
    i8* const deltas = stage_.deltas(next_);
    u32 sums[4] = {};  // exceptions, others without a fine point, kept values beside bins, and patched values
    u32 beyond = 0;    // values beyond each grade, in ten bits each
    bool is_other = false, is_constant = true;
    bool has_seen = false, has_several = false;  // whether there are exceptions, and with different bits
    W seen = 0;
    for_fours(all, count(), are_quads(all), [&](u32 i, const W(&bits)[4]) {
      u32 targets[4], exceptions = 0, patches = 0;
      H5L_UNROLL for (u32 j = 0; j < 4; ++j) {
        bool is_kept;
        const i32 position = find_position<true>(own, limits, bits[j], is_kept);
        const bool is_there = i + j < count(), has_position = position != kNone<i32>;
        W bin = static_cast<W>(static_cast<Int<T>>(bin_of(position)));
        bool has_bin = has_position;
        if (!closed && (!has_position || !are_plain)) has_bin = bin_of_value(own, limits, bits[j], position, bin);
        const bool is_exception = closed ? !has_position : !has_bin;
        const bool is_beside = is_kept && is_beside_bin(position);
        auto target = static_cast<Int<T>>(closed ? 2 * ((position >> 6) - static_cast<i32>(base)) + (is_kept ? 1 : 0)
                                                 : bin - static_cast<W>(base));
        is_constant &= is_exception || bin == first_bin;
        if (closed && kMostGrade<T> != 0 && is_there && is_beyond(position, 0)) {
          beyond += 1 + (is_beyond(position, 1) ? 1 << 10 : 0) + (is_beyond(position, 2) ? 1 << 20 : 0);
        }
        if (is_exception) {
          exceptions |= is_there ? 1u << j : 0;
          has_several = has_several || (has_seen && bits[j] != seen);
          has_seen = true;
          seen = bits[j];
        }
        bool has_target = !is_exception;
        if (!closed && is_exception && i + j != 0 && has_nearest_bin(own, limits.fill, bits[j])) {
          const T s = multiply(bit_cast<T>(bits[j]), own.inverse_step);
          target = static_cast<Int<T>>(integer_of(subtract(add(s, kRounding<T>), kRounding<T>)) - static_cast<W>(base));
          has_target = true;
        }
        if (!closed && are_targets) {
          is_other |= has_target && target != static_cast<Int<T>>(static_cast<i16>(target));
          target = 2 * static_cast<Int<T>>(static_cast<i16>(target)) + 1;
        }
        is_other |= has_target && (target != static_cast<i16>(target) || target == kNoTarget);
        target = has_target ? target : Int<T>{kNoTarget};
        sums[1] += !has_position && has_bin && is_there ? 1 : 0;
        sums[2] += is_beside && is_there ? 1 : 0;
        if (!closed && is_beside && has_bin && is_there) {
          deltas[i + j] = static_cast<i8>((position >> 6) - static_cast<i32>(kUnit) * bin_of(position));
          patches |= 1u << j;
        }
        targets[j] = static_cast<u32>(target) & 0xFFFF;
      }
      store_four(i, targets);
      sums[0] += ones(exceptions);
      sums[3] += ones(patches);
      if (exceptions != 0) atomic_add(&mask[i / kMaskBits], exceptions << i % kMaskBits);
      if (patches != 0) atomic_add(&patched[i / 32], patches << i % 32);
    });
    if (any_in_block(is_other) || !any_in_block(!is_constant)) return false;
    sum_over_block<kDraftWarps>(sums, shared().sums);
    if (sums[2] > count() / 128) return false;  // most values were decoded before
    // Was the assumption about closed forms right? A closed form needs no check here: its exceptions are few, or are
    // found below to have no bin.
    const bool lacks_fine = sums[1] > count() / 128;
    if (!closed && (mode_ & kRewritable) == 0 && shape().active != 0 && can_close_ == lacks_fine) return false;
    // Forms on fine points and on bins are compared only if they have the same exceptions, or one of them has none.
    if (least_ != kNoCost && sums[0] != 0 && best_exceptions_ != 0 && (sums[0] != best_exceptions_ || !are_plain)) {
      return false;
    }
    if (closed && !find_grade(beyond, static_cast<i32>(base))) return false;
    exceptions_ = sums[0];
    patches_ = sums[3];
    if (exceptions_ == 0 || least_ != kNoCost) return true;

    // The common bits of exceptions, and their flags.
    if (are_few()) {
      sync_block();
      if (warp() == 0) {
        u32 before = 0;
        H5L_NO_UNROLL for (u32 begin = 0; begin < mask_words(count()); begin += kWarpThreads) {
          const u32 w = begin + lane();
          u32 left = w < mask_words(count()) ? mask[w] : 0;
          const u32 end = before + scan_of_warp(ones(left));
          for (u32 i = end - ones(left); left != 0; left &= left - 1, ++i) {
            shared().exceptions[i] = all.bits(w * kMaskBits + lowest_one(left));
          }
          before = shuffle(end, kWarpThreads - 1);
        }
        sync_warp();
        const CommonBits found = common_of_exceptions(shared().exceptions, exceptions_);
        if (lane() == 0) shared().common = found;
      }
    } else {
      // They must all have the same bits, and no bin.
      const u32 of = least_of_block<kDraftWarps>(has_seen ? thread() : kDraftThreads, shared().sums);
      if (thread() == of) shared().common = {seen, 0};
      sync_block();
      const W common = static_cast<W>(shared().common.common);
      W bin;
      if (bin_of_value(own, limits, common, kNone<i32>, bin)) return false;
      if (any_in_block(has_several || (has_seen && seen != common))) return false;
    }
    sync_block();
    return true;
  }

  // Finds the grade of a closed form and the base that belongs to it; integers stay relative to `near`. Of the thread's
  // values, `beyond` says how many are beyond each grade, in ten bits each. False if not all values have the grade.
  H5L_DEVICE bool find_grade(u32 beyond, i32 near) const {
    u32 grade = 0;
    if (kMostGrade<T> != 0 && any_in_block(beyond != 0)) {
      u32 counts[3] = {beyond & 1023, beyond >> 10 & 1023, beyond >> 20};
      sum_over_block<kDraftWarps>(counts, shared().sums);
      grade = grade_of_counts<T>(counts, count());
      H5L_UNROLL for (u32 g = 0; g < kMostGrade<T>; ++g) {
        if (g == grade && counts[g] != 0) return false;
      }
    }
    const i32 position = shared().first_position;
    if (is_no_base(position, Grade(grade))) return false;
    if (thread() == 0) {
      shared().base = first_base(position, grade);
      shared().first_integer = first_base(position, grade) - near;
      shared().grade = static_cast<i32>(grade);
    }
    return true;
  }

  // -------------------------------------------------------------------------------------------------------------------
  // Words. None is an exception, so integers are known before they are predicted, and those of all forms are the same.

  H5L_DEVICE bool code_words() {
    if (count() < 2 || !survey_words() || !choose_form()) return false;
    if (masked_cost_ != kNoForm && is_rivalled(least_, masked_cost_)) return false;
    if (least_ == kNoCost && thread() == 0) {
      stage_.record().kind = TileKind::stored;
      stage_.record().is_drafted = 1;
    }
    return true;
  }

  // False if the words may be labels, or if a mask value may make the tile smaller.
  H5L_DEVICE bool survey_words() {
    Q words = lattice();
    const TileValues<T> all = values();
    const auto number_at = [&](u32 i) { return number_of_word(words, all.bits(i)); };
    if (are_like_labels<T, kDraftWarps>(count(), number_at, shared().sums)) return false;
    words.mask_bits = find_mask<T>(words, count(), number_at, shared().mask_places).bits;
    H5L_NO_UNROLL for (;;) {
      survey_tile<kDraftWarps>(shape(), all, WordPositions<T>(words), shared().survey, shared().prospects);
      if (words.mask_bits == kNoMask<T>) return !is_rivalled(shared().prospects.cost() / kCostUnits, masked_cost_);
      masked_cost_ = shared().prospects.cost();
      words.mask_bits = kNoMask<T>;
    }
  }

  // Loads integers; false if the tile is left to the next kernel. They are relative to the middle of all words that
  // values of up to 16 bits may have, or to the first word, since only differences are coded.
  H5L_DEVICE bool load_words() {
    const Q own = lattice();
    const W middle = static_cast<W>(0x8000 - plan_.finish.encode.lattices[chunk_].zero);
    const W reference = sizeof(T) == 4 ? middle : own.origin;
    if (thread() == 0) shared().base = static_cast<i64>(static_cast<Int<T>>(own.origin));
    bool is_other = false, is_constant = true;
    sync_block();  // the previous contents have been read
    const TileValues<T> all = values();
    for_fours(all, count(), are_quads(all), [&](u32 i, const W(&bits)[4]) {
      u32 integers[4];
      H5L_UNROLL for (u32 j = 0; j < 4; ++j) {
        const auto integer = static_cast<Int<T>>(bits[j] - reference);
        is_other |= integer != static_cast<i16>(integer) || bits[j] - own.exact < own.exact_count;
        is_constant &= bits[j] == own.origin;
        integers[j] = static_cast<u32>(integer) & 0xFFFF;
      }
      store_four(i, integers);
    });
    return !any_in_block(is_other) && any_in_block(!is_constant);
  }

  // -------------------------------------------------------------------------------------------------------------------
  // Forms: each returns whether all integers and codes of the thread fit 16 bits

  H5L_DEVICE bool interpolate(const Form& form, i16* codes) {
    const DraftIntegers integers;
    SmallPassTable& table = shared().passes;
    const u32 passes = table.begin_interpolation(shape(), form.rule, thread(), kDraftThreads);
    sync_block();
    u32* const patched = patched_of(next_);
    i8* const deltas = stage_.deltas(next_);
    const u32 grade_bits = kMostGrade<T> == 0 || kHasWords<Q> ? 0 : static_cast<u32>(shared().grade);
    const Units units = units_of(shape(), form.unit_code, grade_bits);
    const Grade grade = units.grade;
    const auto bits_at = [&](u32 code) { return only_first ? kUnitBits : form.is_closed ? units.bits_at(code) : 0; };
    u32 patches = 0;
    bool fits = true;
    // The same as take_target and split_step.
    const auto take = [&](i32 target, i32 predicted, u32 code, u32 unit_bits, i32& integer) {
      const i32 prediction = grade.rounded(predicted);
      if constexpr (kHasWords<Q>) {
        integer = target;
        fits &= target - prediction == static_cast<i16>(target - prediction);
        return target - prediction;
      }
      if (target == kNoTarget) target = 2 * prediction + 1;
      const i32 distance = (target >> 1) - prediction, steps = (distance + (1 << unit_bits) / 2) >> unit_bits;
      const i32 delta = distance - (steps << unit_bits);
      const bool is_kept = (target & 1) != 0;
      integer = (target >> 1) - (is_kept ? 0 : delta);
      fits &= integer == static_cast<i16>(integer) && steps == static_cast<i16>(steps);
      if (is_kept && delta != 0) {
        ++patches;
        atomic_add(&patched[code / 32], 1u << code % 32);
        deltas[code] = static_cast<i8>(delta);
      }
      return steps;
    };
    if (warp() == 0) {
      table.finish_interpolation(shape(), passes);
      const i32 base = kHasWords<Q> ? i32{integers[0]} : shared().first_integer;
      sync_warp();
      if constexpr (!only_first) {
        code_first_pass(table.passes[0], integers, base, codes, [&](i32 target, i32 before, u32 code, i32& integer) {
          return take(target, before, code, bits_at(code), integer);
        });
      }
    }
    if (only_first && thread() == 0) {
      integers[0] = static_cast<i16>(shared().first_integer);
      codes[0] = 0;
    }
    sync_block();
    const auto code_passes = [&](u32 from, u32 end) {
      for_quads<kDraftWarps>(table, from, end, [&](const Pass& pass, u32 number) {
        PassQuad quad;
        if (!find_quad(pass, number, quad)) return;
        u32 predicted[kQuad];
        predict_quad<i32>(table, pass, quad, integers, predicted);
        const u32 unit_bits = bits_at(pass.begin);
        H5L_UNROLL for (u32 j = 0; j < kQuad; ++j) {
          if (!quad.has(j)) break;
          const u32 code = quad.codes[j], at = quad.places[j];
          i32 integer;
          put(codes[code], take(integers[at], static_cast<i32>(predicted[j]) >> 8, code, unit_bits, integer));
          if constexpr (!kHasWords<Q>) put(integers[at], integer);
        }
      });
    };
    // Words are known, so no pass waits for another one.
    if constexpr (kHasWords<Q>) {
      code_passes(1, passes);
    } else {
      for_phases(shape(), passes, code_passes);
    }
    if (form.is_closed) patches_ = sum_over_block<kDraftWarps>(patches, shared().sums);
    return fits;
  }

  H5L_DEVICE bool difference(u32 axes, i16* codes) {
    const DraftIntegers integers;
    if constexpr (!kHasWords<Q>) {
      if (exceptions_ != 0) fill_exceptions<kDraftWarps>(shape(), integers, i32{kNoTarget});
    }
    bool fits = true;
    code_lorenzo<kDraftWarps, i32>(shape(), axes, shared().passes, integers, [&](u32 at, i32 code, u32) {
      fits &= code == static_cast<i16>(code);
      codes[at] = static_cast<i16>(code);
    });
    return fits;
  }

  // Keeps the form if it is the best so far, and returns its cost without exceptions.
  H5L_DEVICE u64 finish(const Form& form, const i16* codes) {
    for (u32 i = thread(); i < blocks_of(count()) * kBlockCodes * sizeof(i16) / sizeof(Quad); i += kDraftThreads) {
      reinterpret_cast<Quad*>(shared().integers)[i] = reinterpret_cast<const Quad*>(codes)[i];
    }
    sync_block();
    if (patches_ > kMaxPatches) return kNoCost;
    u32 entries = 0;
    if (patches_ != 0) {
      if (warp() == 0) {
        entries = patch_entries_by_warp(patched_of(next_), mask_words(count()));
        if (lane() == 0) shared().entries = entries;
      }
      sync_block();
      entries = shared().entries;
    }
    if (entries > 0xFFFF) return kNoCost;
    Planner<i32, DraftPlan, i16>(codes, count()).plan();
    const u64 cost = shared().plan.plan.cost;
    const u32 bytes = patches_bytes(entries);
    const u64 whole = cost + u64{128} * bytes;
    // The exact size of the exceptions does not matter if even the largest possible one fits.
    const u32 most = exceptions_ == 0 ? 0
                                      : 2 * most_mask_bytes(count()) +
                                            (are_few() ? 1 + exceptions_ : 1) * static_cast<u32>(sizeof(T)) + 2;
    // The least cost of a section of exceptions, for comparing a form that has one with a form that has none.
    constexpr u64 kLeastSection = 128 * (sizeof(T) + 10);
    if (least_ != kNoCost && exceptions_ == 0 && best_exceptions_ != 0) {
      if (whole >= least_ + kLeastSection) return kNoCost;  // the exceptions have to be measured
    } else if (least_ != kNoCost && exceptions_ != 0 && best_exceptions_ == 0) {
      return whole + kLeastSection >= least_ ? whole : kNoCost;
    } else if (whole >= least_) {
      return whole;
    }
    const u32 value_bytes = kHasWords<Q> ? plan_.finish.value_bytes : static_cast<u32>(sizeof(T));
    // Without exceptions, the size is exact, and the tile may be stored.
    if (!is_worth_keeping<T>(cost, bytes + most, ~u64{0}, count() * value_bytes)) return kHasWords<Q> ? whole : kNoCost;
    least_ = whole;
    best_exceptions_ = exceptions_;
    is_closed_ = form.is_closed;
    if (thread() == 0) {
      TileRecord record;
      describe(record, form, exceptions_ != 0, true, shared().base, entries, next_, sizeof(i16));
      if constexpr (!kHasWords<Q>) record.head.grade = static_cast<u32>(shared().grade);
      if constexpr (kHasWords<Q>) record.codes = count();
      record.plan = shared().plan.plan;
      record.is_drafted = 1;
      record.common = shared().common.common;
      record.exception_flags = exceptions_ == 0 ? 0 : shared().common.flags;
      stage_.record() = record;
    }
    for (u32 b = thread(); b < blocks_of(count()); b += kDraftThreads) {
      stage_.classes()[b] = shared().plan.classes[b];
      stage_.candidates()[b] = shared().plan.candidates[b];
    }
    next_ ^= 1;
    return whole;
  }

  const StagedPlan& plan_;
  const TileStage<T> stage_;
  const u32 chunk_, mode_;
  bool can_close_ = false;
  u32 exceptions_ = 0, patches_ = 0;  // of the form being tried
  u64 least_ = kNoCost;               // cost of the best form, without exceptions
  bool is_closed_ = false;            // whether the best form is closed
  u32 best_exceptions_ = 0;           // of the best form
  u32 next_ = 0;                      // which set of codes is free: not that of the best form
  u64 masked_cost_ = kNoForm;         // of words: the estimate with a mask value
};

template <class T, class Q, bool only_first>
H5L_DEVICE void draft_tiles(const StagedPlan& plan) {
  for_tiles<kHasWords<Q>>(plan, [&](u32 chunk, u32 tile, const TilePlace& place, const Quantizer&, u32 mode) {
    const TileStage<T> stage(plan, chunk, tile);
    if constexpr (!only_first && !kHasWords<Q>) {
      if (stage.record().is_drafted != 0) return;
    }
    sync_block();  // the record has been read
    if (thread() == 0) draft_shared().place = place;
    sync_block();
    const bool is_coded = Drafter<T, Q, only_first>(plan, chunk, mode, stage).run();
    if (!is_coded && thread() == 0) stage.record().is_drafted = 0;
  });
}

}  // namespace interp
}  // namespace h5lossy::H5L_TARGET
