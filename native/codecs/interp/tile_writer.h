// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Codes a tile of Interp in one form after another, and writes the best one.
#pragma once

#include "codecs/interp/bins.h"
#include "codecs/interp/choice.h"
#include "codecs/interp/exceptions.h"
#include "codecs/interp/labels.h"
#include "codecs/interp/mask_value.h"
#include "codecs/interp/memory.h"
#include "codecs/interp/patches.h"
#include "codecs/interp/prediction.h"
#include "codecs/interp/tile_codes.h"

namespace h5lossy::H5L_TARGET::interp {

// Values have fine points if their bound is absolute; code that only decodes need not know this.
template <class Q>
[[maybe_unused]] inline constexpr bool kHasFinePoints = false;
template <class T>
inline constexpr bool kHasFinePoints<Lattice<T>> = true;

template <class T, class Q>
class TileWriter {
 public:
  // `originals` are the values; `values` may be the numbers of their points. A stored value takes `value_bytes`.
  TileWriter(const Q& q, const Shape& shape, const Summary& summary, const u8* values, const u8* originals,
             u32 value_bytes, u8* payload, Memory<T>& memory)
      : plain_(q),
        q_(q),
        shape_(shape),
        neighbours_(mask_neighbours_of(shape.extents)),
        summary_(summary),
        values_(values),
        originals_(originals),
        raw_bytes_(shape.count * value_bytes),
        payload_(payload),
        memory_(memory) {}

  u32 count() const { return shape_.count; }
  // Writes the best form. Returns the size of the payload; kStoreTile if there is none.
  u32 size() {
    flush();
    return size_;
  }
  // Free memory between two attempts.
  u8* scratch() { return reinterpret_cast<u8*>(memory_.narrow.codes[next_]); }
  // The number of patches of the last closed form tried; kTileValues if it was impossible.
  u32 patches() const { return patches_; }
  // The cost of the best form so far.
  u64 cost() const { return least_; }

  // From now on, forms have other exceptions: those of a lattice with this mask value, or of the plain lattice. The
  // positions must be those of that lattice.
  void mask(const Q& q, const MaskValue<T>& mask, const Summary& summary) {
    q_ = q;
    mask_ = mask;
    is_masked_ = q.mask_bits != kNoMask<T>;
    summary_ = summary;
    has_bins_ = false;
  }

  // Codes the tile in a form, and writes it if it is the best so far. Returns its cost without the exceptions, which is
  // what a survey estimates. A closed form with `most_patches` patches or more is not written.
  u64 attempt(const Form& form, u32 most_patches = kTileValues) {
    if (form.is_closed || form.is_fine) {
      if constexpr (kHasFinePoints<Q>) return attempt_fine(form, most_patches);
      return kNoCost;
    }
    return attempt_bins(form);
  }

  // Tries to code the words of integers as labels. These take long to decode, so another form is preferred even if it
  // costs a little more.
  void attempt_labels() {
    u64 cost = kMostLabelCost * count();
    const u8* const end = write_labels<T>(neighbours_, count(), originals_, reinterpret_cast<u16*>(scratch()),
                                          memory_.narrow.coder_scratch(), payload_, cost);
    if (end == nullptr) return;
    least_ = cost + cost / 16;
    take_size(end);
  }

  // Tries finer units on coarse levels, if the best form is closed and cheap. If values cost more, this does not pay,
  // because the rounding of coarse levels then causes little of what is left to code.
  void attempt_finer_units() {
    if (!is_kept_ || !may_have_finer_units(count(), least_)) return;
    Form form = memory_.coded[next_ ^ 1].form;
    if (!form.is_closed) return;
    for (u32 code = next_unit_code(form.unit_code); code < kUnitCodes; ++code) {
      const u64 before = least_;
      form.unit_code = code;
      attempt_fine(form, kTileValues);
      if (least_ == before) return;
    }
  }

 private:
  bool are_words() const { return origin_of_words<T>(plain_) != nullptr; }

  static constexpr u64 kNoCost = ~u64{0};

  u64 attempt_fine(const Form& form, u32 most_patches) {
    const HiddenPositions<T> hidden(memory_.positions, form.is_closed && summary_.may_be_graded ? count() : 0,
                                    form.grade);
    const i32 base = form.is_closed ? closed_base<T>(memory_.positions, count(), form.grade)
                                    : first_fine_point<T>(memory_.positions, count());
    has_bins_ = false;
    Arrays<i32>& arrays = memory_.narrow;
    i32* const integers = arrays.integers;
    i32* const codes = arrays.codes[next_];
    Patches patches = {arrays.additions.patches, kMaxPatches};
    const bool has_exceptions = summary_.exceptions + summary_.without_fine + hidden.count() != 0;
    if (has_exceptions) find_exceptions(memory_.positions, count(), memory_.mask);
    if (form.is_closed) {
      const Units units = units_of(shape_, form.unit_code, form.grade);
      patches_ = kTileValues;
      code_interpolation<true>(shape_, form.rule, memory_.positions, base, integers, codes, arrays.prediction, units,
                               has_exceptions);
      if (has_exceptions && !are_near(integers, count())) return kNoCost;
      const u32 ends[] = {units.quarters, units.halves, count()};
      u32 begin = 0;
      for (const u32 end : ends) {
        if (begin == end) continue;
        if (!split_steps(codes, begin, end, units.bits_at(begin), patches)) return kNoCost;
        begin = end;
      }
      patches_ = patches.count;
      if (patches_ >= most_patches) return kNoCost;
    } else {
      fine_points<T>(memory_.positions, count(), base, integers);
      if (!code_open(form, has_exceptions, true, arrays)) return kNoCost;
    }
    return finish(form, has_exceptions, true, base, arrays, patches);
  }

  u64 attempt_bins(const Form& form) {
    if (has_bins_ && form.is_lorenzo) return attempt_bins(form, memory_.narrow);
    bins_ = {};
    base_ = first_bin(q_, values_, memory_.positions, count());
    find_bins<T>(q_, values_, memory_.positions, count(), base_, memory_.narrow.integers, bins_);
    if (sizeof(T) == 4 || bins_.is_narrow) {
      stand_in(memory_.narrow);
      has_bins_ = form.is_lorenzo && !(bins_.exceptions != 0 && are_words());  // Lorenzo does not change them
      return attempt_bins(form, memory_.narrow);
    }
    flush();  // wide integers overwrite the codes of the form that was kept
    bins_ = {};
    find_bins<T>(q_, values_, memory_.positions, count(), base_, memory_.wide.integers, bins_);
    stand_in(memory_.wide);
    return attempt_bins(form, memory_.wide);
  }

  // Finds the exceptions among bins, and integers for exceptions that have a nearest bin.
  template <class I>
  void stand_in(Arrays<I>& arrays) {
    if (bins_.exceptions != 0) find_exceptions(arrays.integers, count(), memory_.mask);
    if constexpr (kHasFinePoints<Q>) {
      if (bins_.placed != 0 && !are_words())
        place_exceptions(q_, values_, count(), base_, bins_.is_narrow, arrays.integers);
    }
  }

  template <class I>
  u64 attempt_bins(const Form& form, Arrays<I>& arrays) {
    const bool has_exceptions = bins_.exceptions != 0;
    if (!code_open(form, has_exceptions, bins_.is_narrow, arrays)) return kNoCost;
    Patches patches = {arrays.additions.patches, kMaxPatches};
    if constexpr (kHasFinePoints<Q>) {
      const u32* const mask = has_exceptions ? memory_.mask : nullptr;
      if (summary_.beside_bins != 0 && !patch_bins(q_, values_, memory_.positions, mask, 0, count(), patches)) {
        return kNoCost;
      }
    }
    return finish(form, has_exceptions, bins_.is_narrow, base_, arrays, patches);
  }

  // False if the integers, including those that stand for exceptions, are too far from each other.
  template <class I>
  bool code_open(const Form& form, bool has_exceptions, bool is_narrow, Arrays<I>& arrays) {
    I* const integers = arrays.integers;
    I* const codes = codes_of(arrays);
    if (form.is_lorenzo) {
      if (has_exceptions && are_words()) {
        predict_exceptions(shape_, form.lorenzo_axes, memory_.mask, integers);
      } else if (has_exceptions) {
        fill_exceptions(shape_, I{0}, integers);
      }
      code_lorenzo(shape_, form.lorenzo_axes, integers, codes, reinterpret_cast<I*>(arrays.prediction));
      return true;
    }
    code_interpolation<false>(shape_, form.rule, integers, I{0}, integers, codes, arrays.prediction, {},
                              has_exceptions);
    if (sizeof(I) == 8 || !has_exceptions) return sizeof(I) == 8 || is_narrow;
    u32 excess = 0;
    for (u32 i = 0; i < count(); ++i) excess |= narrow_excess(static_cast<u32>(integers[i]));
    return is_narrow_excess(excess);
  }

  template <class I>
  u64 finish(const Form& form, bool has_exceptions, bool is_narrow, i64 base, Arrays<I>& arrays,
             const Patches& patches) {
    Coded<T>& coded = memory_.coded[next_];
    coded.form = form;
    coded.has_exceptions = has_exceptions;
    coded.is_narrow = is_narrow;
    coded.base = base;
    coded.patch_entries = measure_patches(patches);
    if (coded.patch_entries > 0xFFFF) return kNoCost;
    coded.codes = count();
    if (has_exceptions && are_words()) {
      u32* const mask = memory_.mask;
      if (are_left_out(count_bits(mask, count()), count())) {
        order_mask(shape_, form.is_lorenzo, mask, arrays.additions.others);
        coded.codes = leave_out(arrays.additions.others, count(), codes_of(arrays));
      }
    }
    plan_coding(codes_of(arrays), coded.codes, coded.coding);
    u32 bytes = patches_bytes(coded.patch_entries);
    u64 cost = 0;  // including a handicap for masks, which take long to decode
    const auto is_best = [&] {
      const u64 own = coded.coding.cost + u64{128} * bytes, handicap = are_words() && is_masked_ ? own / 4 : 0;
      cost = own + handicap;
      return is_worth_keeping<T>(coded.coding.cost + handicap, bytes, least_, raw_bytes_);
    };
    const u64 surveyed = coded.coding.cost + u64{128} * bytes;
    if (!is_best()) return surveyed;  // whatever the size of the exceptions
    if (has_exceptions) {
      measure_section(memory_.mask, arrays.additions.others);
      bytes += section_.bytes;
      if (!is_best()) return surveyed;
    }
    least_ = cost;
    memcpy(memory_.patches, patches.at, patches.count * sizeof(Patch));
    patch_count_ = patches.count;
    memcpy(memory_.best_mask, memory_.mask, sizeof memory_.mask);
    if constexpr (sizeof(I) == 8) {
      write(arrays, coded, arrays.codes[0]);
    } else {
      is_kept_ = true;
      next_ ^= 1;
    }
    return surveyed;
  }

  // The memory for the codes of the form being tried.
  template <class I>
  I* codes_of(Arrays<I>& arrays) const {
    return arrays.codes[sizeof(I) == 4 ? next_ : 0];
  }

  // Writes the form that was kept for later.
  void flush() {
    has_bins_ = false;
    if (is_kept_) write(memory_.narrow, memory_.coded[next_ ^ 1], memory_.narrow.codes[next_ ^ 1]);
    is_kept_ = false;
  }

  // Measures the section of a mask, unless it is the one measured last.
  void measure_section(u32* mask, u32* others) {
    const u32 bytes = mask_words(count()) * sizeof(u32);
    if (section_.bytes != 0 && memcmp(memory_.measured, mask, bytes) == 0) return;
    memcpy(memory_.measured, mask, bytes);
    section_ = measure_exceptions<T>(neighbours_, mask, originals_, count(), others, memory_.decisions);
  }

  template <class I>
  void write(Arrays<I>& arrays, Coded<T>& coded, const I* codes) {
    Head head;
    shorten_coding(codes, coded.codes, coded.coding, arrays.coder_scratch());
    head.predictor = coded.form.is_lorenzo ? kLorenzo : kFourPoints;
    head.is_fine = coded.form.is_fine;
    head.is_closed = coded.form.is_closed;
    head.unit_code = coded.form.unit_code;
    head.grade = coded.form.grade;
    head.lanes = coded.coding.lanes;
    head.has_exceptions = coded.has_exceptions;
    head.is_narrow = coded.is_narrow;
    head.model = coded.coding.model;
    head.set = coded.coding.set;
    head.escape_bytes = coded.coding.escape_bytes;
    head.raw_planes = coded.coding.raw_planes;
    head.has_own_table = coded.coding.has_own_table;
    memcpy(head.own_table, coded.coding.own_table, sizeof head.own_table);
    for (u32 i = 0; i < kMaxActiveAxes; ++i) head.weights[i] = coded.form.is_lorenzo ? 0 : coded.form.rule.weights[i];
    head.lorenzo_axes = coded.form.lorenzo_axes;
    head.patches = coded.patch_entries;
    head.base = coded.base;
    head.own_lattice = own_lattice_of(plain_);
    if (const Word<T>* const origin = origin_of_words<T>(plain_)) {
      head.base = static_cast<Int<T>>(static_cast<Word<T>>(static_cast<Word<T>>(head.base) + *origin));
    }
    u8* next = write_head<T>(head, payload_);
    if (head.has_exceptions) {
      measure_section(memory_.best_mask, arrays.additions.others);
      next =
          write_exceptions(section_, memory_.best_mask, originals_, count(), memory_.decisions, arrays.coder_scratch(),
                           next, [&](Word<T> bits) { return mask_.stored_bits(plain_, head.is_fine, bits); });
    }
    next = write_patches({memory_.patches, kMaxPatches, patch_count_}, next);
    next += write_codes(codes, coded.codes, coded.coding, next, arrays.coder_scratch());
    take_size(next);
  }

  void take_size(const u8* end) {
    const u32 size = static_cast<u32>(end - payload_);
    size_ = size < raw_bytes_ ? size : kStoreTile;
  }

  const Q& plain_;
  Q q_;  // possibly with a mask value
  MaskValue<T> mask_;
  bool is_masked_ = false;  // values with the mask value's bits are exceptions
  const Shape& shape_;
  const MaskNeighbours neighbours_;
  Summary summary_;
  const u8* values_;
  const u8* originals_;
  u32 raw_bytes_;
  u8* payload_;
  Memory<T>& memory_;
  BinSummary bins_;
  i64 base_ = 0;           // of bins
  bool has_bins_ = false;  // the integers are bins, including those of exceptions, and the mask belongs to them
  ExceptionsPlan<T> section_ = {};  // the section measured last
  u64 least_ = kNoCost;
  u32 patch_count_ = 0;
  u32 next_ = 0;          // which set of codes is free
  bool is_kept_ = false;  // the other codes are those of the best form, to be written when all forms have been tried
  u32 size_ = kStoreTile;
  u32 patches_ = kTileValues;
};

}  // namespace h5lossy::H5L_TARGET::interp
