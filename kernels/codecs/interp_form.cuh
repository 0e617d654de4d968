// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The fourth kernel of Interp's encoder: a thread block per tile that the kernels before have left (interp_draft.cuh).
// It tries the forms that a tile may take, as interp.cpp does on a CPU, and leaves the codes of the best one, their
// plan, its exceptions and its patches to the next kernel.
//
// The integers of a form are in shared memory (64-bit ones: in the tile's stage). At first, each place holds what is to
// be coded, and then the value's integer replaces it, since later passes need only the integers of earlier ones.
#pragma once

#include "codecs/interp/units.h"
#include "kernels/codecs/interp_draft.cuh"
#include "kernels/codecs/interp_labels.cuh"
#include "kernels/codecs/interp_masks.cuh"
#include "kernels/codecs/interp_plan.cuh"
#include "kernels/codecs/interp_survey.cuh"
#include "kernels/codecs/interp_words.cuh"

namespace h5lossy::H5L_TARGET {
namespace interp {

inline constexpr u32 kFormThreads = 512, kFormWarps = kFormThreads / kWarpThreads;

// A sample of recognised weights: where a value is, and its predictions along the odd axes.
struct RuleSample {
  i32 fine;
  u32 along[kMaxActiveAxes];
};

struct FormShared {
  union {
    alignas(16) i32 integers[kTileValues];
    SurveyMemory<kTileGroups> survey;
    struct {
      u32 rounds[3][128];  // a bit per place: whether it is a sample of the round
      u32 matches[kWeightSets];
      u32 count;
      RuleSample samples[128];
    } rule;
    MaskPlaces mask_places;
  };
  union {
    PassTable passes;
    PlanShared<kFormWarps> plan;
  };
  u32 mask[kMaxMaskWords];     // exceptions of the form being tried
  u32 patched[kMaxMaskWords];  // places of its patches; of integers, its exceptions in coding order
  Prospects prospects;
  u32 sums[8 * kFormWarps];
  u64 samples[8];
  MaskShared masks;
  u32 entries, mask_bytes;
  TileRecord record;
};

// Functions, since the compiler cannot tell which memory a reference stored in an object refers to.
H5L_DEVICE FormShared& form_shared() { return *reinterpret_cast<FormShared*>(shared_memory()); }

struct FormPlan {
  static constexpr u32 kWarpsHere = kFormWarps;
  H5L_DEVICE static PlanShared<kFormWarps>& shared() { return form_shared().plan; }
  template <class I>
  H5L_DEVICE static Unsigned<I> number(const I* codes, u32 b) {
    return number_of_code<I>(codes, b);
  }
};

struct FormIntegers {
  H5L_DEVICE i32& operator[](u32 i) const { return form_shared().integers[i]; }
};

}  // namespace interp

template <>
inline constexpr u32 kThreadsWith<interp::FormShared> = interp::kFormThreads;

namespace interp {

template <class T, class Q>
class FormFinder {
  using W = Word<T>;
  static constexpr u64 kNoCost = ~u64{0};
  static constexpr bool kHasGrades = kIsLattice<Q> && kMostGrade<T> != 0;

 public:
  H5L_DEVICE FormFinder(const StagedPlan& plan, u32 chunk, u32 tile, const TilePlace& place, const Quantizer& quantizer,
                        u32 mode)
      : shape_(place.shape),
        mode_(mode),
        value_bytes_(kHasWords<Q> ? plan.finish.value_bytes : static_cast<u32>(sizeof(T))),
        q_(quantizer_as<T, Q>(quantizer)),
        values_(encoded_of<kHasWords<Q>>(plan, chunk), plan.finish.encode.shape.dims, place),
        stage_(plan, chunk, tile) {
    if constexpr (kIsLattice<Q>) limits_ = position_limits(q_);
    if constexpr (kHasWords<Q>) q_ = words_of<T>(plan, chunk);
  }

  // Returns whether the tile is to be left to the host.
  H5L_DEVICE bool run() {
    if (thread() == 0) shared().record = {};
    if constexpr (kHasWords<Q>) find_origin();
    classify();
    const bool has_form = count() >= 2 && !find_constant();
    if constexpr (kHasWords<Q>) {
      if (has_form && are_maybe_labels()) {
        finish_record();
        return true;
      }
    }
    if (has_form) choose_mask();
    finish_record();
    return false;
  }

 private:
  H5L_DEVICE static FormShared& shared() { return form_shared(); }
  H5L_DEVICE u32 count() const { return shape_.count; }
  H5L_DEVICE u32 raw_bytes() const { return shape_.count * value_bytes_; }

  // Calls visit(i, is_there) for all values; the values of a warp are adjacent, and make a word of a mask.
  template <class Visit>
  H5L_DEVICE void for_values(Visit visit) const {
    H5L_NO_UNROLL for (u32 first = warp() * kWarpThreads; first < count(); first += kFormThreads) {
      visit(first + lane(), first + lane() < count());
    }
  }

  // The bits that a value is encoded as. Exceptions keep the bits that they have in the chunk.
  H5L_DEVICE W encoded(W bits) const {
    if constexpr (kHasWords<Q>) {
      return number_of_word(q_, bits);
    } else if constexpr (kIsLattice<Q>) {
      return encoded_as(q_, bits);
    } else {
      return bits;
    }
  }
  H5L_DEVICE W value_at(u32 i) const { return encoded(values_.bits(i)); }

  // Calls visit(i, is_there, bits) for all values.
  template <class Visit>
  H5L_DEVICE void for_bits(Visit visit) const {
    interp::for_bits<kFormWarps>(values_, shape_, visit);
  }

  H5L_DEVICE i32 position_of(W bits, bool& is_kept) const {
    if constexpr (kIsLattice<Q>) {
      return find_position<true>(q_, limits_, bits, is_kept);
    } else {
      is_kept = false;
      return kNone<i32>;
    }
  }
  H5L_DEVICE i32 position_of(W bits) const {
    bool is_kept;
    return position_of(bits, is_kept);
  }

  // Finds the bin of a value; false if it has none.
  H5L_DEVICE bool bin_of_value(W bits, W& bin) const {
    if constexpr (kHasWords<Q>) {
      bin = integer_of(bit_cast<T>(bits));
      return is_bin_of_words(q_, bits);
    } else if constexpr (kIsLattice<Q>) {
      T number;
      const bool has_bin = find_bin(q_, limits_.fill, bits, position_of(bits), number);
      bin = integer_of(number);
      return has_bin;
    } else {
      return blocks::bin_of(q_, bits, bin);
    }
  }

  // -------------------------------------------------------------------------------------------------------------------
  // What the values are

  H5L_CALLED void classify() {
    u32 sums[4] = {};    // exceptions, others without a fine point, kept values beside bins, and other bits
    u32 beyond[3] = {};  // beyond each grade
    const W first_bits = values_.bits(0);
    for_bits([&](u32, bool is_there, W given) {
      if (!is_there) return;
      sums[3] += given != first_bits ? 1 : 0;
      const W bits = encoded(given);
      if constexpr (kIsLattice<Q>) {
        bool is_kept;
        const i32 position = position_of(bits, is_kept);
        sums[2] += is_kept && is_beside_bin(position) ? 1 : 0;
        if (position != kNone<i32>) {
          H5L_UNROLL for (u32 g = 0; kHasGrades && g < 3; ++g) beyond[g] += is_beyond(position, g) ? 1 : 0;
          return;
        }
        T bin;
        const bool has_bin = find_bin(q_, limits_.fill, bits, kNone<i32>, bin);
        ++sums[has_bin ? 1 : 0];
      } else {
        W bin;
        sums[0] += bin_of_value(bits, bin) ? 0 : 1;
      }
    });
    sum_over_block<kFormWarps>(sums, shared().sums);
    summary_ = {sums[0], sums[1], sums[2]};
    are_alike_ = sums[3] == 0;
    if constexpr (kHasGrades) find_grade(beyond);
  }

  // Finds the grade of closed forms, and how many values are exceptions of these only.
  H5L_DEVICE void find_grade(u32 (&beyond)[3]) {
    sum_over_block<kFormWarps>(beyond, shared().sums);
    grade_ = grade_of_counts<T>(beyond, count());
    hidden_ = grade_ < kMostGrade<T> ? beyond[grade_] : 0;
    const i32 first = position_of(value_at(0));
    if (first != kNone<i32> && closed_position(0, first) == kNone<i32>) hidden_ += 1;
  }
  // The position that value i has in a closed form.
  [[nodiscard]] H5L_DEVICE i32 closed_position(u32 i, i32 position) const {
    if constexpr (kHasGrades) {
      const bool is_hidden =
          (grade_ < kMostGrade<T> && is_beyond(position, grade_)) || (i == 0 && is_no_base(position, Grade(grade_)));
      return is_hidden ? kNone<i32> : position;
    } else {
      return position;
    }
  }

  // Words are counted from that of the first value that is not exact, or of the last value.
  H5L_DEVICE void find_origin() {
    W origin = values_.bits(0);
    const auto is_exact = [&](W word) { return word - q_.exact < q_.exact_count; };
    if (q_.has_exact && is_exact(origin)) {
      u32 first = count() - 1;
      for_bits([&](u32 i, bool is_there, W word) { first = is_there && i < first && !is_exact(word) ? i : first; });
      origin = values_.bits(least_of_block<kFormWarps>(first, shared().sums));
    }
    set_origin(q_, origin);
  }

  // Whether all values of the tile decode to the same bits, in which case it needs no form.
  H5L_DEVICE bool find_constant() {
    if (summary_.exceptions == count()) {
      if (!are_alike_) return false;
      set_constant(values_.bits(0));
    } else {
      if (summary_.exceptions != 0 || summary_.beside_bins != 0) return false;
      W bin;
      bin_of_value(value_at(0), bin);
      H5L_NO_UNROLL for (u32 first = 0; first < count(); first += kFormThreads) {
        const u32 i = first + thread();
        W own = bin;
        const bool is_other = i < count() && (!bin_of_value(value_at(i), own) || own != bin);
        if (any_in_block(is_other)) return false;
      }
      set_constant(bits_of_bin(q_, static_cast<i64>(static_cast<Int<T>>(bin))));
    }
    return true;
  }

  H5L_DEVICE void set_constant(W bits) const {
    if (thread() != 0) return;
    shared().record.kind = TileKind::constant;
    shared().record.constant = bits;
  }

  // -------------------------------------------------------------------------------------------------------------------
  // The choice of a form

  // Tries a tile that has a mask value with it and without it.
  H5L_DEVICE void choose_mask() {
    if constexpr (kIsLattice<Q> || kHasWords<Q>) {
      const MaskValue<T> mask = find_mask();
      if (mask.exists()) {
        u64 costs[2];
        if (thread() == 0) {
          shared().record.mask = mask.bits;
          shared().record.masked_as = mask.stored;
        }
        const auto look_at = [&](u32 i) {
          q_.mask_bits = i == 0 ? kNoMask<T> : mask.bits;
          has_bins_ = false;
          classify();
        };
        H5L_NO_UNROLL for (u32 i = 0; i < 2; ++i) {
          if (i != 0) look_at(i);
          survey_positions();
          costs[i] = shared().prospects.cost();
        }
        const u32 first = costs[1] < costs[0] ? 1 : 0;
        if (first == 0) look_at(0);
        H5L_NO_UNROLL for (u32 turn = 0; turn < 2; ++turn) {
          const u32 other = first ^ 1;
          if (turn != 0) {
            count_section();
            if (!is_rivalled(least_, costs[other])) return;
            look_at(other);
          }
          const u64 before = least_;
          choose_form();
          if (least_ < before) attempt_finer_units();
        }
        return;
      }
    }
    choose_form();
    attempt_finer_units();
  }

  H5L_CALLED MaskValue<T> find_mask() {
    return interp::find_mask<T>(q_, count(), [&](u32 i) { return value_at(i); }, shared().mask_places);
  }

  // Labels are encoded by the host.
  H5L_DEVICE bool are_maybe_labels() {
    const auto word_at = [&](u32 i) { return value_at(i); };
    return are_like_labels<T, kFormWarps>(count(), word_at, shared().sums) && !have_many_literals();
  }
  H5L_CALLED bool have_many_literals() {
    Literals<T, kFormWarps> literals(values_, shape_, shared().mask);
    return literals.are_many(shared().plan.wide_sums, shared().sums);
  }

  // Surveys the tile with its current mask value.
  H5L_DEVICE void survey_positions() {
    if constexpr (kHasWords<Q>) {
      survey(WordPositions<T>(q_));
    } else {
      survey(AbsolutePositions<T>(q_, can_close()));
    }
  }

  [[nodiscard]] H5L_DEVICE bool can_close() const {
    const bool is_rewritable = (mode_ & (kRewritable | kExact)) != 0;
    return !is_rewritable && summary_.without_fine <= count() / 128 && shape_.active != 0;
  }

  H5L_DEVICE void choose_form() {
    if constexpr (kIsLattice<Q>) {
      const bool is_decoded = summary_.beside_bins > count() / 128;
      if (can_close() && is_decoded) {
        Form form;
        form.is_fine = form.is_closed = true;
        form.grade = grade_;
        form.rule = recognise_rule();
        H5L_NO_UNROLL for (; form.unit_code < kUnitCodes; form.unit_code = next_unit_code(form.unit_code)) {
          attempt(form, count() / 8);
          if (patches_ <= count() / 1024) return;
        }
      }
      survey_positions();
      attempt_both(can_close());
      if (!is_decoded) return;
      // Forms on fine points that are not closed: no value needs a patch.
      Form form;
      form.is_lorenzo = form.is_fine = true;
      form.lorenzo_axes = shared().prospects.lorenzo_axes;
      attempt(form);
      if (shape_.active == 0) return;
      form = {};
      form.is_fine = true;
      form.rule = shared().prospects.rule;
      attempt(form);
    } else if constexpr (kHasWords<Q>) {
      survey_positions();
      attempt_both(false);
    } else {
      survey(PointwisePositions<T>(q_));
      attempt_both(false);
    }
  }

  template <class Positions>
  H5L_CALLED void survey(const Positions& positions) {
    sync_block();  // the integers are no longer needed
    survey_tile<kFormWarps>(shape_, values_, positions, shared().survey, shared().prospects);
  }

  H5L_DEVICE u64 attempt_lorenzo() {
    const Prospects& prospects = shared().prospects;
    Form form;
    form.is_lorenzo = true;
    form.lorenzo_axes = prospects.lorenzo_axes;
    const u64 cost = attempt(form);
    if (64 * prospects.second_cost >= 65 * prospects.lorenzo_cost) return cost;
    form.lorenzo_axes = prospects.second_axes;
    const u64 second = attempt(form);
    return second < cost ? second : cost;
  }

  H5L_DEVICE void attempt_both(bool is_closed) {
    const u64 of_interpolation = shared().prospects.interpolation_cost, of_lorenzo = shared().prospects.lorenzo_cost;
    Form interpolation;
    interpolation.rule = shared().prospects.rule;
    interpolation.is_fine = interpolation.is_closed = is_closed;
    interpolation.grade = is_closed ? grade_ : 0;
    if (shape_.active == 0) {
      attempt_lorenzo();
    } else if (of_interpolation <= of_lorenzo) {
      if (is_beaten(attempt(interpolation), of_lorenzo)) attempt_lorenzo();
    } else if (is_beaten(attempt_lorenzo(), of_interpolation)) {
      attempt(interpolation);
    }
  }

  // Tries finer units on coarse levels.
  H5L_DEVICE void attempt_finer_units() {
    if (!may_have_finer_units(count(), least_) || !best_is_narrow_ || !best_.is_closed) return;
    count_section();
    if (!may_have_finer_units(count(), least_)) return;
    Form form = best_;
    for (u32 code = next_unit_code(form.unit_code); code < kUnitCodes; ++code) {
      const u64 before = least_;
      form.unit_code = code;
      attempt(form);
      if (least_ == before) return;
    }
  }

  // -------------------------------------------------------------------------------------------------------------------
  // Trying one form. All functions are called by the whole thread block.

  // Returns the cost without the exceptions. A closed form with `most_patches` patches or more is not kept.
  H5L_CALLED u64 attempt(const Form& form, u32 most_patches = kTileValues) {
    sync_block();  // the previous contents are no longer needed
    if constexpr (kIsLattice<Q>) {
      if (form.is_closed) return attempt_closed(form, most_patches);
      if (form.is_fine) return attempt_fine(form);
    }
    return attempt_bins(form);
  }

  // The first value for which `has_one` is true; count() if there is none.
  template <class HasOne>
  H5L_DEVICE u32 first_value(HasOne has_one) {
    if (has_one(0, value_at(0))) return 0;
    u32 first = count();
    for_values([&](u32 i, bool is_there) {
      if (is_there && i < first && has_one(i, value_at(i))) first = i;
    });
    return least_of_block<kFormWarps>(first, shared().sums);
  }

  // The fine point of the first value that has one, 0 if none has one; of a closed form, what closed_base gives.
  H5L_CALLED i32 base_of_fine_points(bool is_closed) {
    const auto position_at = [&](u32 i, W bits) {
      const i32 position = position_of(bits);
      return is_closed ? closed_position(i, position) : position;
    };
    const u32 first = first_value([&](u32 i, W bits) { return position_at(i, bits) != kNone<i32>; });
    if (first == count()) return 0;
    const i32 position = position_at(first, value_at(first));
    if (is_closed && first == 0) return first_base(position, grade_);
    const i32 fine = fine_point_of<T>(position);
    return is_closed ? rounded_base(fine) : fine;
  }

  H5L_DEVICE u64 attempt_closed(const Form& form, u32 most_patches) {
    has_bins_ = false;
    const i32 base = base_of_fine_points(true);
    const bool has_exceptions = summary_.exceptions + summary_.without_fine + hidden_ != 0;
    const Units units = units_of(shape_, form.unit_code, form.grade);
    patches_ = kTileValues;
    const FormIntegers integers;
    i32* const codes = stage_.template codes<i32>(next_);
    i8* const deltas = stage_.deltas(next_);
    clear(shared().patched);
    for_bits([&](u32 i, bool is_there, W bits) {
      const i32 position = is_there ? closed_position(i, position_of(encoded(bits))) : kNone<i32>;
      if (is_there) integers[i] = position;
      note_exceptions(i, is_there && position == kNone<i32>);
    });
    interpolate<i32>(form.rule, integers, base, codes, [&](i32 target, i32 predicted, u32 code, i32& integer) {
      const i32 prediction = units.grade.rounded(predicted);
      const u32 unit_bits = units.bits_at(code);
      i32 delta;
      const i32 step = split_step(take_target<true>(target, prediction, unit_bits, integer), unit_bits, delta);
      if (delta != 0) {
        atomic_add(&shared().patched[code / 32], 1u << code % 32);
        deltas[code] = static_cast<i8>(delta);
      }
      return step;
    });
    if (has_exceptions) {
      bool any_far = false;
      for_values([&](u32 i, bool is_there) { any_far = any_far || (is_there && interp::is_far(integers[i])); });
      if (any_in_block(any_far)) return kNoCost;
    }
    const u32 patches = count_patches();
    if (patches > kMaxPatches) return kNoCost;
    patches_ = patches;
    if (patches >= most_patches) return kNoCost;
    return finish(form, has_exceptions, true, base, codes, patches);
  }

  // On fine points, not closed.
  H5L_DEVICE u64 attempt_fine(const Form& form) {
    has_bins_ = false;
    const i32 base = base_of_fine_points(false);
    const bool has_exceptions = summary_.exceptions + summary_.without_fine != 0;
    const FormIntegers integers;
    clear(shared().patched);
    for_bits([&](u32 i, bool is_there, W bits) {
      const i32 position = is_there ? position_of(encoded(bits)) : kNone<i32>;
      if (is_there) integers[i] = position == kNone<i32> ? kNone<i32> : fine_point_of<T>(position) - base;
      note_exceptions(i, is_there && position == kNone<i32>);
    });
    i32* const codes = stage_.template codes<i32>(next_);
    if (!code_open(form, has_exceptions, true, integers, codes)) return kNoCost;
    return finish(form, has_exceptions, true, base, codes, 0);
  }

  H5L_DEVICE u64 attempt_bins(const Form& form) {
    if (has_bins_ && form.is_lorenzo) return attempt_bins<i32>(form, FormIntegers(), bins_.exceptions != 0);
    const u32 first = first_value([&](u32, W bits) {
      W bin;
      return bin_of_value(bits, bin);
    });
    W bin = 0;
    if (first < count()) bin_of_value(value_at(first), bin);
    base_ = static_cast<i64>(static_cast<Int<T>>(bin));
    find_bins<i32>(FormIntegers());
    if (sizeof(T) == 4 || bins_.is_narrow) {
      // Lorenzo does not change them, except for the exceptions of integers.
      has_bins_ = form.is_lorenzo && !(kHasWords<Q> && bins_.exceptions != 0);
      return attempt_bins<i32>(form, FormIntegers(), bins_.exceptions != 0);
    }
    has_bins_ = false;
    best_is_narrow_ = false;
    find_bins<i64>(stage_.integers());
    return attempt_bins<i64>(form, stage_.integers(), bins_.exceptions != 0);
  }

  // Finds bins relative to the base, their exceptions, and integers for exceptions that have a nearest bin.
  template <class I, class Integers>
  H5L_CALLED void find_bins(Integers bins) {
    W excess = 0;
    u32 exceptions = 0;
    for_bits([&](u32 i, bool is_there, W bits) {
      W bin = 0;
      const bool has_bin = is_there && bin_of_value(encoded(bits), bin);
      const W difference = bin - static_cast<W>(base_);
      if (has_bin) excess |= narrow_excess(difference);
      if (is_there) bins[i] = has_bin ? static_cast<I>(difference) : kNone<I>;
      exceptions += is_there && !has_bin ? 1 : 0;
      note_exceptions(i, is_there && !has_bin);
    });
    exceptions = sum_over_block<kFormWarps>(exceptions, shared().sums);
    bins_ = {exceptions, 0, !any_in_block(!is_narrow_excess(excess))};
    if (exceptions == 0) return;
    if constexpr (kIsLattice<Q>) {
      for_values([&](u32 i, bool is_there) {
        if (!is_there || i == 0 || (shared().mask[i / 32] >> i % 32 & 1) == 0) return;
        const W bits = value_at(i);
        W difference;
        if (has_place(bits, difference)) bins[i] = static_cast<I>(difference);
      });
    }
    sync_block();
  }

  // The integer that takes the place of an exception of a form on bins; false if it has none.
  H5L_DEVICE bool has_place(W bits, W& difference) const {
    if (!has_nearest_bin(q_, limits_.fill, bits)) return false;
    const T s = multiply(bit_cast<T>(bits), q_.inverse_step);
    difference = integer_of(subtract(add(s, kRounding<T>), kRounding<T>)) - static_cast<W>(base_);
    return !bins_.is_narrow || is_narrow_excess(narrow_excess(difference));
  }

  template <class I, class Integers>
  H5L_DEVICE u64 attempt_bins(const Form& form, Integers integers, bool has_exceptions) {
    I* const codes = stage_.template codes<I>(next_);
    clear(shared().patched);
    if (!code_open(form, has_exceptions, bins_.is_narrow, integers, codes)) return kNoCost;
    u32 patches = 0;
    if constexpr (kIsLattice<Q>) {
      if (summary_.beside_bins != 0) {
        patch_bins();
        patches = count_patches();
        if (patches > kMaxPatches) return kNoCost;
      }
    }
    return finish(form, has_exceptions, bins_.is_narrow, base_, codes, patches);
  }

  // Patches kept values that are not on a bin.
  H5L_DEVICE void patch_bins() {
    i8* const deltas = stage_.deltas(next_);
    for_bits([&](u32 i, bool is_there, W bits) {
      bool is_kept = false;
      i32 delta = 0;
      if (is_there) {
        const i32 position = position_of(encoded(bits), is_kept);
        delta = (position >> 6) - kUnit * bin_of(position);  // of kept values
        is_kept = is_kept && (bins_.exceptions == 0 || (shared().mask[i / 32] >> i % 32 & 1) == 0);
      }
      const u32 patched = ballot(is_kept && delta != 0);
      if (is_kept && delta != 0) deltas[i] = static_cast<i8>(delta);
      if (lane() == 0) shared().patched[i / 32] = patched;
    });
  }

  // False if the integers, including those that stand for exceptions, are too far from each other.
  template <class I, class Integers>
  H5L_CALLED bool code_open(const Form& form, bool has_exceptions, bool is_narrow, Integers integers, I* codes) {
    if (form.is_lorenzo) {
      sync_block();
      if constexpr (kHasWords<Q>) {
        if (has_exceptions) predict_exceptions<kFormWarps, I>(shape_, form.lorenzo_axes, shared().mask, integers);
      } else {
        if (has_exceptions) fill_exceptions<kFormWarps>(shape_, integers, kNone<I>);
      }
      code_lorenzo<kFormWarps, I>(shape_, form.lorenzo_axes, shared().passes, integers, [&](u32 at, I code, u32 place) {
        codes[at] = code;
        if constexpr (kHasWords<Q>) {
          if (has_exceptions && (shared().mask[place / 32] >> place % 32 & 1) != 0) note_code_of_exception(at);
        }
      });
      pad(codes);
      return true;
    }
    interpolate<I>(form.rule, integers, I{0}, codes, [&](I target, I prediction, u32 code, I& integer) {
      if constexpr (kHasWords<Q>) {
        if (target == kNone<I>) note_code_of_exception(code);
      }
      return take_target<false>(target, prediction, 0, integer);
    });
    if (sizeof(I) == 8 || !has_exceptions) return sizeof(I) == 8 || is_narrow;
    u32 excess = 0;
    for_values([&](u32 i, bool is_there) { excess |= is_there ? narrow_excess(static_cast<u32>(integers[i])) : 0; });
    return !any_in_block(!is_narrow_excess(excess));
  }

  // -------------------------------------------------------------------------------------------------------------------
  // Interpolation

  // Makes the passes; only warp 0 may use the first one before the next barrier. Contains a barrier itself, after which
  // earlier writes of all threads are visible.
  H5L_CALLED u32 make_passes(const Rule& rule) {
    const u32 passes = shared().passes.begin_interpolation(shape_, rule, thread(), kFormThreads);
    sync_block();
    if (warp() == 0) {
      shared().passes.finish_interpolation(shape_, passes);
      sync_warp();
    }
    return passes;
  }

  // take(target, prediction, number of the code, integer) returns the code. The integers replace the targets.
  template <class I, class Integers, class Take>
  H5L_DEVICE void interpolate(const Rule& rule, Integers integers, I base, I* codes, Take take) {
    PassTable& table = shared().passes;
    const u32 passes = make_passes(rule);
    if (warp() == 0) code_first_pass(table.passes[0], integers, base, codes, take);
    sync_block();
    for_phases(shape_, passes, [&](u32 from, u32 end) {
      for_quads<kFormWarps>(table, from, end, [&](const Pass& pass, u32 number) {
        PassQuad quad;
        if (!find_quad(pass, number, quad)) return;
        Unsigned<I> predicted[kQuad];
        predict_quad<I>(table, pass, quad, integers, predicted);
        H5L_UNROLL for (u32 j = 0; j < kQuad; ++j) {
          if (!quad.has(j)) break;
          const u32 code = quad.codes[j], place = quad.places[j];
          I integer;
          codes[code] = take(integers[place], static_cast<I>(predicted[j]) >> 8, code, integer);
          integers[place] = integer;
        }
      });
    });
    pad(codes);
  }

  // Pads the codes to whole blocks.
  template <class I>
  H5L_DEVICE void pad(I* codes, u32 used) const {
    const u32 i = used + thread();
    if (i < blocks_of(used) * kBlockCodes) codes[i] = 0;
    sync_block();
  }
  template <class I>
  H5L_DEVICE void pad(I* codes) const {
    pad(codes, count());
  }

  // -------------------------------------------------------------------------------------------------------------------
  // Exceptions and patches

  H5L_DEVICE void note_code_of_exception(u32 code) const {
    atomic_add(&shared().patched[code / kMaskBits], 1u << code % kMaskBits);
  }

  // Removes the codes of exceptions if there are many, except the tile's first code. Returns how many codes are left;
  // zeros fill their last block.
  template <class I>
  H5L_CALLED u32 leave_out(u32 exceptions, I* codes) {
    if (!are_left_out(exceptions, count())) return count();
    u32 left = 0;
    H5L_NO_UNROLL for (u32 first = 0; first < count(); first += kFormThreads) {
      static_assert(kFormWarps <= kWarpThreads && kMaskBits == kWarpThreads);
      const u32 w = first / kMaskBits + lane();
      u32 here = lane() < kFormWarps && w < mask_words(count()) ? ~shared().patched[w] & inside_of(w, count()) : 0;
      if (w == 0) here |= 1;
      const u32 end = scan_of_warp(ones(here)), all = shuffle(end, kWarpThreads - 1);
      const u32 before = shuffle(end - ones(here), warp()), own = shuffle(here, warp());
      const bool stays = (own >> lane() & 1) != 0;
      const I code = stays ? codes[first + thread()] : I{0};
      sync_block();  // the codes have been read; those of the next round are behind these
      if (stays) codes[left + before + ones(own & lanes_below())] = code;
      left += all;
    }
    pad(codes, left);
    return left;
  }

  H5L_DEVICE void note_exceptions(u32 i, bool is_exception) const {
    const u32 exceptions = ballot(is_exception);
    if (lane() == 0) shared().mask[i / kMaskBits] = exceptions;
  }

  H5L_DEVICE void clear(u32* mask) const {
    for (u32 w = thread(); w < mask_words(count()); w += kFormThreads) mask[w] = 0;
    sync_block();
  }

  H5L_DEVICE u32 count_patches() {
    sync_block();
    u32 patches = 0;
    for (u32 w = thread(); w < mask_words(count()); w += kFormThreads) patches += ones(shared().patched[w]);
    return sum_over_block<kFormWarps>(patches, shared().sums);
  }

  // The number of entries in the section of patches.
  H5L_DEVICE u32 measure_patches(u32 patches) {
    if (patches == 0) return 0;
    if (warp() == 0) {
      const u32 entries = patch_entries_by_warp(shared().patched, mask_words(count()));
      if (lane() == 0) shared().entries = entries;
    }
    sync_block();
    return shared().entries;
  }

  // It takes long to measure the section of exceptions. So forms with the same exceptions are compared without it; once
  // it matters, it is measured and added to the least cost.

  // Whether the form has the same exceptions as the section that was found last.
  H5L_DEVICE bool has_section() const {
    if (!has_section_) return false;
    bool differs = false;
    for (u32 w = thread(); w < mask_words(count()); w += kFormThreads) {
      differs = differs || stage_.measured()[w] != shared().mask[w];
    }
    return !any_in_block(differs);
  }

  H5L_CALLED void find_section() {
    u32 exceptions = 0;
    for (u32 w = thread(); w < mask_words(count()); w += kFormThreads) {
      stage_.measured()[w] = shared().mask[w];
      exceptions += ones(shared().mask[w]);
    }
    exceptions = sum_over_block<kFormWarps>(exceptions, shared().sums);
    has_section_ = true;
    section_bytes_ = 0;
    common_ = choose_common(exceptions, different_);
    flags_ = 0;
    if (different_ == 0) return;
    u32* const others = stage_.others();
    u32 first = count();
    for_exceptions([&](u32 i, bool is_exception, W bits) {
      const bool is_other = is_exception && bits != common_;
      if (is_other && i < first) first = i;
      const u32 word = ballot(is_other);
      if (lane() == 0) others[i / kMaskBits] = word;
    });
    first = least_of_block<kFormWarps>(first, shared().sums);
    const W first_bits = values_.bits(first);
    bool has_third = false;
    for_exceptions([&](u32, bool is_exception, W bits) {
      has_third = has_third || (is_exception && bits != common_ && bits != first_bits);
    });
    flags_ = any_in_block(has_third) ? kHasOthers : kHasOthers | kOthersAreAlike;
  }

  // The size of the section without its masks.
  [[nodiscard]] H5L_DEVICE u32 bytes_beside_masks() const {
    const u32 others = flags_ == 0 ? 0 : (flags_ & kOthersAreAlike) != 0 ? 1 : different_;
    return (1 + others) * static_cast<u32>(sizeof(T)) + 2;
  }
  [[nodiscard]] H5L_DEVICE u32 most_section_bytes() const {
    return bytes_beside_masks() + (flags_ == 0 ? 1 : 2) * most_mask_bytes(count());
  }

  H5L_CALLED void measure_section() {
    if (section_bytes_ != 0) return;
    const MaskNeighbours neighbours = mask_neighbours_of(shape_.extents);
    sync_block();  // the masks are complete
    if (warp() == 0) {
      u16* const list = reinterpret_cast<u16*>(stage_.payload());  // there is no payload yet
      MaskShared& masks = shared().masks;
      u32 bytes = measure_mask_by_warp(neighbours, count(), stage_.measured(), masks, list);
      if (flags_ != 0) bytes += measure_mask_by_warp(neighbours, count(), stage_.others(), masks, list);
      if (lane() == 0) shared().mask_bytes = bytes;
    }
    sync_block();
    section_bytes_ = bytes_beside_masks() + shared().mask_bytes;
  }

  // Adds the section's size to the least cost, if it is not included yet.
  H5L_DEVICE void count_section() {
    if (!lacks_section_) return;
    measure_section();
    if constexpr (kHasWords<Q>) {
      least_without_handicap_ += u64{128} * section_bytes_;
      least_ = least_without_handicap_ + handicap(least_without_handicap_);
    } else {
      least_ += u64{128} * section_bytes_;
    }
    lacks_section_ = false;
  }

  // Calls visit(i, whether value i is an exception, the bits of the exception) for all values.
  template <class Visit>
  H5L_DEVICE void for_exceptions(Visit visit) const {
    for_values([&](u32 i, bool) {
      const u32 word = shared().mask[i / kMaskBits];
      const bool is_exception = (word >> lane() & 1) != 0;
      visit(i, is_exception, is_exception ? values_.bits(i) : W{0});
    });
  }

  // The most frequent bits among eight exceptions that are far apart and the first exception that equals none of these;
  // the first of equally frequent ones.
  H5L_DEVICE W choose_common(u32 exceptions, u32& different) {
    constexpr u32 kSamples = 8;
    static_assert(kSamples <= kFormWarps);
    if (warp() < kSamples) {
      u32 number = static_cast<u32>(u64{exceptions} * warp() / kSamples);
      for (u32 first = 0;; first += kWarpThreads) {
        const u32 w = first + lane();
        const u32 bits = w < mask_words(count()) ? shared().mask[w] : 0;
        const u32 end = scan_of_warp(ones(bits)), all = shuffle(end, kWarpThreads - 1);
        if (number >= all) {
          number -= all;
          continue;
        }
        const u32 begin = end - ones(bits);
        if (number >= begin && number < end) {
          u32 left = bits;
          for (u32 k = begin; k < number; ++k) left &= left - 1;
          shared().samples[warp()] = values_.bits(w * kMaskBits + lowest_one(left));
        }
        break;
      }
    }
    sync_block();
    W samples[kSamples];
    u32 equal[kSamples] = {};
    for (u32 k = 0; k < kSamples; ++k) samples[k] = static_cast<W>(shared().samples[k]);
    u32 first = count();
    for_exceptions([&](u32 i, bool is_exception, W bits) {
      bool is_new = is_exception;
      H5L_UNROLL for (u32 k = 0; k < kSamples; ++k) {
        const bool is_equal = is_exception && bits == samples[k];
        equal[k] += is_equal ? 1 : 0;
        is_new = is_new && !is_equal;
      }
      if (is_new && i < first) first = i;
    });
    sum_over_block<kFormWarps>(equal, shared().sums);
    first = least_of_block<kFormWarps>(first, shared().sums);
    W common = 0;
    different = count();
    for (u32 k = 0; k < kSamples; ++k) {
      if ((samples[k] != common || k == 0) && exceptions - equal[k] < different) {
        common = samples[k];
        different = exceptions - equal[k];
      }
      if (2 * different <= exceptions) return common;
    }
    if (first == count()) return common;
    const W candidate = values_.bits(first);
    u32 alike = 0;
    for_exceptions([&](u32, bool is_exception, W bits) { alike += is_exception && bits == candidate ? 1 : 0; });
    alike = sum_over_block<kFormWarps>(alike, shared().sums);
    if (exceptions - alike < different) {
      common = candidate;
      different = exceptions - alike;
    }
    return common;
  }

  // -------------------------------------------------------------------------------------------------------------------
  // The best form

  // Masks take long to decode, so masked tiles of integers count for more than they cost.
  [[nodiscard]] H5L_DEVICE u64 handicap(u64 cost) const {
    if constexpr (kHasWords<Q>) {
      return q_.mask_bits != kNoMask<T> ? cost / 4 : 0;
    } else {
      return 0;
    }
  }
  [[nodiscard]] H5L_DEVICE bool is_worth_it(u64 cost, u32 bytes, u64 least) const {
    return is_worth_keeping<T>(cost + handicap(cost + u64{128} * bytes), bytes, least, raw_bytes());
  }

  // Keeps the form if it is the best so far. Returns its cost without the exceptions.
  template <class I>
  H5L_CALLED u64 finish(const Form& form, bool has_exceptions, bool is_narrow, i64 base, I* codes, u32 patches) {
    const u32 entries = measure_patches(patches);
    if (entries > 0xFFFF) return kNoCost;
    u32 coded = count();
    if constexpr (kHasWords<Q>) coded = leave_out(bins_.exceptions, codes);
    Planner<I, FormPlan>(codes, coded).plan();
    const u64 cost = shared().plan.plan.cost;
    u32 bytes = patches_bytes(entries);
    const u64 surveyed = cost + u64{128} * bytes;
    const bool is_known = has_exceptions && has_section();
    if (!is_known) count_section();
    bool lacks_section = false;
    // With more bytes, no form is worth keeping.
    if (has_exceptions && is_worth_it(cost, bytes, least_)) {
      if (!is_known) find_section();
      lacks_section = (lacks_section_ || least_ == kNoCost) && is_worth_it(cost, bytes + most_section_bytes(), kNoCost);
      if (!lacks_section) {
        count_section();
        measure_section();
        bytes += section_bytes_;
      }
    }
    if (!is_worth_it(cost, bytes, least_)) return surveyed;
    lacks_section_ = lacks_section;
    least_ = cost + u64{128} * bytes;
    if constexpr (kHasWords<Q>) {
      least_without_handicap_ = least_;
      least_ += handicap(least_);
      base = static_cast<Int<T>>(static_cast<W>(static_cast<W>(base) + q_.origin));
    }
    best_ = form;
    best_is_narrow_ = sizeof(I) == 4;
    if (thread() == 0) {
      TileRecord& record = shared().record;
      describe(record, form, has_exceptions, is_narrow, base, entries, next_, sizeof(I));
      record.head.own_lattice = own_lattice_of(q_);
      record.codes = coded;
      record.plan = shared().plan.plan;
      record.common = common_;
      record.exception_flags = flags_;
    }
    for (u32 b = thread(); b < blocks_of(count()); b += kFormThreads) {
      stage_.classes()[b] = shared().plan.classes[b];
      stage_.candidates()[b] = shared().plan.candidates[b];
      stage_.mask()[b] = shared().mask[b];
      stage_.patched()[b] = shared().patched[b];
    }
    next_ ^= 1;
    return surveyed;
  }

  H5L_DEVICE void finish_record() const {
    sync_block();
    static_assert(sizeof(TileRecord) % 8 == 0 && sizeof(TileRecord) / 8 <= kFormThreads);
    const u64* const from = reinterpret_cast<const u64*>(&shared().record);
    if (thread() < sizeof(TileRecord) / 8) reinterpret_cast<u64*>(&stage_.record())[thread()] = from[thread()];
  }

  // -------------------------------------------------------------------------------------------------------------------
  // Recognised weights

  H5L_CALLED u32 find_place(u32 odd, u32 number, RulePlace& found) const {
    return find_rule_place(
        shape_, odd, number,
        [&](u32 place, i32& fine) {
          const i32 position = position_of(value_at(place));
          if (position == kNone<i32>) return false;
          fine = fine_point_of<T>(position);
          return true;
        },
        found);
  }

  H5L_CALLED Rule recognise_rule() {
    auto& memory = shared().rule;
    const u32 sets = weight_sets(shape_.active);
    sync_block();
    if (thread() < kWeightSets) memory.matches[thread()] = 0;
    H5L_NO_UNROLL for (u32 odd = 1; odd < 1u << shape_.active; ++odd) {
      if (ones(odd) < 2) continue;
      sync_block();
      H5L_NO_UNROLL for (u32 first = warp() * kWarpThreads; first < kRulePlaces; first += kFormThreads) {
        RulePlace found;
        const u32 round = find_place(odd, first + lane(), found);
        H5L_UNROLL for (u32 r = 0; r < kRuleRounds; ++r) {
          const u32 bits = ballot(round == r);
          if (lane() == 0) memory.rounds[r][first / 32] = bits;
        }
      }
      sync_block();
      // The samples of all rounds, in order, up to the limit.
      if (warp() == 0) {
        u32 before = 0;
        H5L_NO_UNROLL for (u32 first = 0; first < kRuleRounds * 128 && before < kRuleSamples; first += kWarpThreads) {
          const u32 w = first + lane();
          u32 bits = memory.rounds[w / 128][w % 128];
          const u32 end = before + scan_of_warp(ones(bits));
          for (u32 number = end - ones(bits); bits != 0 && number < kRuleSamples; ++number, bits &= bits - 1) {
            RulePlace found;
            find_place(odd, w % 128 * 32 + lowest_one(bits), found);
            RuleSample& sample = memory.samples[number];
            sample.fine = found.fine;
            for (u32 i = 0; i < kMaxActiveAxes; ++i) sample.along[i] = found.along[i];
          }
          before = shuffle(end, kWarpThreads - 1);
        }
        if (lane() == 0) memory.count = before < kRuleSamples ? before : kRuleSamples;
      }
      sync_block();
      for (u32 set = thread(); set < sets; set += kFormThreads) {
        const Blend blend = blend_of(rule_of(set), odd);
        for (u32 k = 0; k < memory.count; ++k) {
          const RuleSample& sample = memory.samples[k];
          memory.matches[set] += matches_rule(blend, shape_.active, sample.along, sample.fine, Grade(grade_));
        }
      }
    }
    sync_block();
    return best_rule(memory.matches, sets, shape_.active);
  }

  const Shape shape_;
  const u32 mode_;
  const u32 value_bytes_;
  Q q_;  // possibly with a mask value
  PositionLimits<T> limits_ = {};
  const TileValues<T> values_;
  const TileStage<T> stage_;
  Summary summary_;
  u32 grade_ = 0, hidden_ = 0;  // of closed forms: their grade, and exceptions that other forms do not have
  bool are_alike_ = false;
  BinSummary bins_;
  i64 base_ = 0;           // of bins
  bool has_bins_ = false;  // the integers are bins, including those of exceptions, and the mask belongs to them
  // Describes the section of exceptions found last; its mask is in the stage.
  W common_ = 0;
  u32 flags_ = 0, different_ = 0;
  u32 section_bytes_ = 0;  // 0 if not measured
  bool has_section_ = false;
  u64 least_ = kNoCost;
  u64 least_without_handicap_ = kNoCost;  // of integers
  bool lacks_section_ = false;            // whether least_ lacks the section
  Form best_;
  bool best_is_narrow_ = false;
  u32 next_ = 0;  // which set of codes is free
  u32 patches_ = kTileValues;
};

template <class T, class Q>
H5L_DEVICE void find_forms(const StagedPlan& plan) {
  for_tiles<kHasWords<Q>>(plan, [&](u32 chunk, u32 tile, const TilePlace& place, const Quantizer& quantizer, u32 mode) {
    if constexpr (kHasDrafts<T, Q>) {
      if (TileStage<T>(plan, chunk, tile).record().is_drafted != 0) return;
    }
    const bool is_left = FormFinder<T, Q>(plan, chunk, tile, place, quantizer, mode).run();
    if constexpr (kHasWords<Q>) {
      if (is_left && thread() == 0) atomic_add(plan.are_left + chunk, 1);
    }
  });
}

}  // namespace interp
}  // namespace h5lossy::H5L_TARGET
