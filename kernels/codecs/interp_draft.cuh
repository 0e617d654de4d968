// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The second kernel of Interp's encoder: the usual tiles, of which all values but a few, or those that are alike,
// have fine points near each other, and that take the first form that is tried, interpolation in a closed form. Their
// integers have 16 bits, so that a multiprocessor has room for three of them. Whatever turns out to be different is
// left to the third kernel (interp_form.cuh), which does the same for all tiles.
#pragma once

#include "codecs/interp/units.h"
#include "kernels/codecs/interp_plan.cuh"
#include "kernels/codecs/interp_survey.cuh"

namespace h5lossy::H5L_TARGET {
namespace interp {

template <class T, class Q>
inline constexpr bool kHasDrafts = false;
template <class T>
inline constexpr bool kHasDrafts<T, Lattice<T>> = true;

inline constexpr u32 kDraftThreads = 256, kDraftWarps = kDraftThreads / kWarpThreads;

inline constexpr u32 kFewExceptions = 64;
inline constexpr i16 kNoTarget = -32768;  // of an exception

struct DraftShared {
  union {
    // At first twice the fine point below a value, and whether the value is kept, which is replaced by its integer;
    // both relative to base. In the end the codes.
    alignas(16) i16 integers[kTileValues];
    SurveyMemory<kTileGroups> survey;
  };
  union {
    u64 exceptions[kFewExceptions];  // bits
    SmallPassTable passes;
    PlanShared<kDraftWarps> plan;
  };
  Prospects prospects;
  u32 sums[3 * kDraftWarps];
  u32 entries;
};

// By a function, since the compiler does not see where a reference in an object leads.
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

// Calls visit(i, bits) for four values at a time, from i on; bits of values behind the tile's end are those of the
// first. Some are loaded at once, since a load takes longer than what is done with one.
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

// The common bits of `count` exceptions, more than none, as choose_common (codecs/interp/exceptions.h) finds them, and
// their flags.
H5L_DEVICE void describe_exceptions(const u64* bits, u32 count, TileRecord& record) {
  constexpr u32 kSamples = 8;
  const auto count_of = [&](u64 wanted) {
    u32 equal = 0;
    for (u32 i = 0; i < count; ++i) equal += bits[i] == wanted ? 1 : 0;
    return equal;
  };
  u64 common = 0;
  u32 different = ~u32{0};
  const auto try_bits = [&](u64 candidate) {
    const u32 others = count - count_of(candidate);
    if (others < different) {
      common = candidate;
      different = others;
    }
    return 2 * different <= count;
  };
  bool is_found = false;
  for (u32 k = 0; k < kSamples && !is_found; ++k) is_found = try_bits(bits[count * k / kSamples]);
  for (u32 i = 0; i < count && !is_found; ++i) {
    bool is_sample = false;
    for (u32 k = 0; k < kSamples; ++k) is_sample = is_sample || bits[i] == bits[count * k / kSamples];
    if (is_sample) continue;
    try_bits(bits[i]);
    is_found = true;
  }
  record.common = common;
  u32 first = count;
  bool are_alike = true;
  for (u32 i = 0; i < count; ++i) {
    if (bits[i] == common) continue;
    first = first == count ? i : first;
    are_alike = are_alike && bits[i] == bits[first];
  }
  record.exception_flags = first == count ? 0 : are_alike ? kHasOthers | kOthersAreAlike : kHasOthers;
}

// Returns whether the tile has been coded.
template <class T>
H5L_DEVICE bool draft(const StagedPlan& plan, u32 chunk, const Shape& shape, const TilePlace& place,
                      const Quantizer& quantizer, u32 mode, const TileStage<T>& stage) {
  using W = Word<T>;
  DraftShared& shared = draft_shared();
  const Lattice<T> lattice = tile_lattice_of<T>(quantizer);
  const u32 count = shape.count;
  u32 in_use = 0;
  H5L_UNROLL for (u32 a = 0; a < kAxes; ++a) in_use |= shape.extents[a] > 1 ? axis_bit(a) : 0;
  if (count < 2 || shape.axes != in_use || !SmallPassTable::has_room(shape)) return false;
  if ((mode & (kRewritable | kExact)) != 0 || lattice.own.exists()) return false;
  const u32(&dims)[kAxes] = plan.finish.encode.shape.dims;
  const TileValues<T> values(raw_of(plan.finish.encode, chunk), dims, place);

  const PositionLimits<T> limits = position_limits(lattice);
  const auto position_of = [&](W bits) {
    bool is_kept;
    return find_position<true>(lattice, limits, bits, is_kept);
  };
  // The first value that has a position.
  u32 first = 0;
  if (position_of(*values.at(0)) == kNone<i32>) {
    first = count;
    for (u32 i = thread(); i < count && first == count; i += kDraftThreads) {
      if (position_of(values.bits(i)) != kNone<i32>) first = i;
    }
    first = least_of_block<kDraftWarps>(first, shared.sums);
    if (first == count) return false;
  }
  const i32 first_position = position_of(values.bits(first));
  bool may_be_masked = false;
  if (thread() < kMaskPlaces) {
    const u32 at = mask_place(thread(), count);
    may_be_masked = is_repeated(lattice, *values.at(at), *values.at(at + 1));
  }
  if (any_in_block(may_be_masked)) return false;

  survey_tile<kDraftWarps>(shape, values, AbsolutePositions<T>(lattice, true), shared.survey, shared.prospects);
  const Prospects& prospects = shared.prospects;
  if (prospects.interpolation_cost > prospects.lorenzo_cost) return false;

  // What is to be coded.
  const i32 base = first == 0 ? fine_point_of(first_position) : rounded_base(fine_point_of(first_position));
  const bool are_quads = ((shape.extents[3] | dims[3] | place.begin[3]) % 4 |
                          static_cast<u32>(reinterpret_cast<u64>(values.begin()) % sizeof(Quad))) == 0;
  u32* const patched = stage.patched();
  for (u32 w = thread(); w < mask_words(count); w += kDraftThreads) patched[w] = 0;
  sync_block();
  const i32 first_bin = bin_of(first_position);
  u32 sums[2] = {};  // values beside bins, and exceptions
  bool is_other = false, is_constant = true;
  bool has_seen = false, has_several = false;  // exceptions, and such of different bits
  W seen = 0;
  for_fours(values, count, are_quads, [&](u32 i, const W(&bits)[4]) {
    u32 targets[4];
    H5L_UNROLL for (u32 j = 0; j < 4; ++j) {
      bool is_kept;
      const i32 position = find_position<true>(lattice, limits, bits[j], is_kept);
      const bool is_exception = position == kNone<i32>;
      i32 target = 2 * ((position >> 6) - base) + (is_kept ? 1 : 0);
      sums[0] += is_kept && is_beside_bin(position) && i + j < count ? 1 : 0;
      is_other |= !is_exception && (target != static_cast<i16>(target) || target == kNoTarget);
      is_constant &= is_exception || bin_of(position) == first_bin;
      if (is_exception) {
        target = kNoTarget;
        sums[1] += i + j < count ? 1 : 0;
        has_several = has_several || (has_seen && bits[j] != seen);
        has_seen = true;
        seen = bits[j];
      }
      targets[j] = static_cast<u32>(target) & 0xFFFF;
    }
    u32* const to = reinterpret_cast<u32*>(shared.integers + i);
    to[0] = targets[0] | targets[1] << 16;
    to[1] = targets[2] | targets[3] << 16;
  });
  if (any_in_block(is_other) || !any_in_block(!is_constant)) return false;
  sum_over_block<kDraftWarps>(sums, shared.sums);
  const u32 exceptions = sums[1];
  if (sums[0] > count / 128) return false;  // mostly values that were decoded before
  TileRecord record;
  if (exceptions != 0) {
    u32* const mask = stage.mask();
    H5L_NO_UNROLL for (u32 first = warp() * kWarpThreads; first < count; first += kDraftThreads) {
      const u32 i = first + lane(), word = ballot(i < count && shared.integers[i] == kNoTarget);
      if (lane() == 0) mask[i / kMaskBits] = word;
    }
    const bool are_few = exceptions <= kFewExceptions && exceptions <= count / 128;
    if (are_few) {
      sync_block();
      if (warp() == 0) {
        u32 before = 0;
        H5L_NO_UNROLL for (u32 first = 0; first < mask_words(count); first += kWarpThreads) {
          const u32 w = first + lane();
          u32 left = w < mask_words(count) ? mask[w] : 0;
          const u32 end = before + scan_of_warp(ones(left));
          for (u32 i = end - ones(left); left != 0; left &= left - 1, ++i) {
            shared.exceptions[i] = values.bits(w * kMaskBits + lowest_one(left));
          }
          before = shuffle(end, kWarpThreads - 1);
        }
        sync_warp();
        if (lane() == 0) describe_exceptions(shared.exceptions, exceptions, record);
      }
    } else {
      // All alike, and without a bin.
      const u32 of = least_of_block<kDraftWarps>(has_seen ? thread() : kDraftThreads, shared.sums);
      if (thread() == of) shared.exceptions[0] = seen;
      sync_block();
      const W common = static_cast<W>(shared.exceptions[0]);
      T bin;
      if (find_bin(lattice, limits.fill, common, kNone<i32>, bin)) return false;
      if (any_in_block(has_several || (has_seen && seen != common))) return false;
      record.common = common;
    }
    sync_block();
  }

  Form form;
  form.rule = prospects.rule;
  form.is_fine = form.is_closed = true;
  const DraftIntegers integers;
  i16* const codes = stage.template codes<i16>(0);
  i8* const deltas = stage.deltas(0);
  SmallPassTable& table = shared.passes;
  const u32 passes = table.begin_interpolation(shape, form.rule, thread(), kDraftThreads);
  sync_block();
  if (warp() == 0) table.finish_interpolation(shape, passes);
  if (thread() == 0) {
    integers[0] = 0;
    codes[0] = 0;
  }
  if (count + thread() < blocks_of(count) * kBlockCodes) codes[count + thread()] = 0;
  sync_block();
  u32 patches = 0;
  for_phases(shape, passes, [&](u32 from, u32 end) {
    for_quads<kDraftWarps>(table, from, end, [&](const Pass& pass, u32 number) {
      PassQuad quad;
      if (!find_quad(pass, number, quad)) return;
      u32 predicted[kQuad];
      predict_quad<i32>(table, pass, quad, integers, predicted);
      H5L_UNROLL for (u32 j = 0; j < kQuad; ++j) {
        if (!quad.has(j)) break;
        const u32 code = quad.codes[j], at = quad.places[j];
        const i32 prediction = static_cast<i32>(predicted[j]) >> 8;
        i32 target = integers[at];
        if (target == kNoTarget) target = 2 * prediction + 1;
        // As take_target and split_step.
        const i32 distance = (target >> 1) - prediction, steps = (distance + static_cast<i32>(kUnit / 2)) >> kUnitBits;
        const i32 delta = distance - steps * static_cast<i32>(kUnit);
        const bool is_kept = (target & 1) != 0;
        const i32 integer = (target >> 1) - (is_kept ? 0 : delta);
        is_other |= integer != static_cast<i16>(integer) || steps != static_cast<i16>(steps);
        integers[at] = static_cast<i16>(integer);
        codes[code] = static_cast<i16>(steps);
        if (is_kept && delta != 0) {
          ++patches;
          atomic_add(&patched[code / 32], 1u << code % 32);
          deltas[code] = static_cast<i8>(delta);
        }
      }
    });
  });
  if (any_in_block(is_other)) return false;
  for (u32 i = thread(); i < blocks_of(count) * kBlockCodes * sizeof(i16) / sizeof(Quad); i += kDraftThreads) {
    reinterpret_cast<Quad*>(shared.integers)[i] = reinterpret_cast<const Quad*>(codes)[i];
  }
  patches = sum_over_block<kDraftWarps>(patches, shared.sums);
  if (patches > kMaxPatches) return false;
  u32 entries = 0;
  if (patches != 0) {
    if (warp() == 0) {
      entries = patch_entries_by_warp(patched, mask_words(count));
      if (lane() == 0) shared.entries = entries;
    }
    sync_block();
    entries = shared.entries;
  }
  if (entries > 0xFFFF) return false;
  Planner<i32, DraftPlan, i16>(codes, count).plan();
  const u64 cost = shared.plan.plan.cost;
  const u32 bytes = patches_bytes(entries);
  const u64 whole = cost + u64{128} * bytes;
  // What exceptions take need not be known if there is room for the most that it can be.
  const u32 most =
      exceptions == 0 ? 0 : 2 * most_mask_bytes(count) + (kFewExceptions + 1) * static_cast<u32>(sizeof(T)) + 2;
  if (!is_worth_keeping<T>(cost, bytes + most, ~u64{0}, count * static_cast<u32>(sizeof(T))) ||
      is_beaten(whole, prospects.lorenzo_cost) || may_have_finer_units(count, whole)) {
    return false;
  }
  if (thread() == 0) {
    describe(record, form, exceptions != 0, true, base, entries, 0, sizeof(i16));
    record.plan = shared.plan.plan;
    record.is_drafted = 1;
    stage.record() = record;
  }
  for (u32 b = thread(); b < blocks_of(count); b += kDraftThreads) {
    stage.classes()[b] = shared.plan.classes[b];
    stage.candidates()[b] = shared.plan.candidates[b];
  }
  return true;
}

template <class T>
H5L_DEVICE void draft_tiles(const StagedPlan& plan) {
  for_tiles(plan, [&](u32 chunk, u32 tile, const TilePlace& place, const Quantizer& quantizer, u32 mode) {
    const TileStage<T> stage(plan, chunk, tile);
    if (!draft(plan, chunk, place.shape, place, quantizer, mode, stage) && thread() == 0) {
      stage.record().is_drafted = 0;
    }
  });
}

}  // namespace interp
}  // namespace h5lossy::H5L_TARGET
