// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The positions of a group's values: in parts of a fine point, relative to the first ordinary value, and limited, so
// that predictions fit 32 bits. Positions on bins are multiples of a whole step.
#pragma once

#include "codecs/blocks.h"
#include "codecs/interp/bins.h"
#include "codecs/interp/format.h"
#include "codecs/interp/values.h"

namespace h5lossy::H5L_TARGET::interp {

inline constexpr i32 kFarthest = 1 << 25;
inline constexpr i32 kWholeStep = kUnit * kParts;
inline constexpr i32 kUnusable = static_cast<i32>(1u << 31);  // of an exception, or outside the box
H5L_FN constexpr i32 nearest_bin(i32 position) { return (position + kWholeStep / 2) >> 10; }

// Both classes define how values are positioned: is_ordinary(bits), and, for a group, first refer_to() with its first
// ordinary value and then position_of(bits). start() and convert() do this for a whole group.
template <class T>
class AbsolutePositions {
 public:
  static constexpr bool kHasFar = true;

  H5L_FN AbsolutePositions(const Lattice<T>& lattice, bool may_close)
      : lattice_(lattice), fill_(fill_of(lattice_)), may_close_(may_close), scale_(lattice_.inverse_fine * kParts) {}

  // The bits that a value is encoded as; the other functions take these.
  H5L_FN Word<T> encoded(Word<T> bits) const { return encoded_as(lattice_, bits); }
  H5L_FN bool is_ordinary(Word<T> bits) const {
    return ((bits & ~kSignBit<T>) < kInfinity<T>)&(bits != fill_) & (bits != lattice_.mask_bits);
  }
  // Whether a group that contains this ordinary value is positioned on bins.
  H5L_FN bool is_far(Word<T> bits) const {
    return !(magnitude(bit_cast<T>(bits)) <= lattice_.fine * static_cast<T>(kFineLimit<T>));
  }
  H5L_FN void refer_to(Word<T> bits, bool any_far) {
    reference_ = bit_cast<T>(bits);
    const bool on_bins = !may_close_ || any_far;
    rounding_ = on_bins ? kWholeStep / 2 : 0;
    mask_ = on_bins ? -kWholeStep : -1;
  }
  H5L_FN i32 position_of(Word<T> bits) const {
    const T t = multiply(subtract(bit_cast<T>(bits), reference_), scale_);
    // A single limit, since compilers need fewer instructions for it; NaN becomes the lower limit.
    constexpr T limit = static_cast<T>(kFarthest);
    const T size = magnitude(t);
    const i32 distance = static_cast<i32>(size < limit ? size : limit);
    const i32 sign = static_cast<i32>(t > 0) - 1;  // no branch, since signs are unpredictable
    const i32 position = (((distance ^ sign) - sign) + rounding_) & mask_;
    return is_ordinary(bits) ? position : kUnusable;
  }

#if !defined(__CUDACC__)
  // False if no value is ordinary.
  bool start(const Word<T>* bits, u32 count) {
    const AbsolutePositions own = *this;
    Word<T> ordinary = 0, far = 0;  // a bit for each value
    for (u32 i = 0; i < count; ++i) {
      const Word<T> bit = own.is_ordinary(bits[i]) ? Word<T>{1} << i : 0;
      ordinary |= bit;
      far |= own.is_far(bits[i]) ? bit : 0;
    }
    if (ordinary != 0) refer_to(bits[lowest_bit(ordinary)], far != 0);
    return ordinary != 0;
  }

  void convert(const Word<T>* bits, u32 count, i32* positions) const {
    const AbsolutePositions own = *this;  // a local copy, which cannot alias positions
    for (u32 i = 0; i < count; ++i) positions[i] = own.position_of(bits[i]);
  }
#endif

 private:
  Lattice<T> lattice_;
  Word<T> fill_;
  bool may_close_;
  T scale_;
  T reference_ = 0;
  i32 rounding_ = 0, mask_ = -1;
};

template <class T>
class PointwisePositions {
 public:
  static constexpr bool kHasFar = false;  // all values are positioned on bins

  H5L_FN explicit PointwisePositions(const blocks::FoldedQuantizer<T>& quantizer) : quantizer_(quantizer) {}

  H5L_FN Word<T> encoded(Word<T> bits) const { return bits; }
  H5L_FN bool is_ordinary(Word<T> bits) const {
    Word<T> bin;
    return blocks::bin_of(quantizer_, bits, bin);
  }
  H5L_FN void refer_to(Word<T> bits, bool) { blocks::bin_of(quantizer_, bits, reference_); }
  H5L_FN i32 position_of(Word<T> bits) const {
    Word<T> bin = 0;
    const bool has_bin = blocks::bin_of(quantizer_, bits, bin);
    return position_of_steps(static_cast<Int<T>>(bin - reference_), has_bin);
  }

#if !defined(__CUDACC__)
  bool start(const Word<T>* bits, u32 count) {
    for (u32 i = 0; i < count; ++i) {
      if (!is_ordinary(bits[i])) continue;
      refer_to(bits[i], false);
      return true;
    }
    return false;
  }

  void convert(const Word<T>* bits, u32 count, i32* positions) const {
    constexpr u32 some = 8 * kBatch;
    Int<T> bins[some];
    for (u32 first = 0; first < count; first += some) {
      const u32 n = count - first < some ? count - first : some;
      const auto* const values = reinterpret_cast<const u8*>(bits + first);
      BinSummary summary;
      find_bins<T>(quantizer_, values, nullptr, n, static_cast<Int<T>>(reference_), bins, summary);
      i32* const to = positions + first;
      for (u32 i = 0; i < n; ++i) to[i] = position_of_steps(bins[i], bins[i] != kNone<Int<T>>);  // vectorized
    }
  }
#endif

 private:
  H5L_FN static i32 position_of_steps(Int<T> steps, bool has_bin) {
    constexpr Int<T> limit = kFarthest / kWholeStep;
    const Int<T> near = steps > limit ? limit : steps < -limit ? -limit : steps;
    return has_bin ? static_cast<i32>(near) * kWholeStep : kUnusable;
  }

  blocks::FoldedQuantizer<T> quantizer_;
  Word<T> reference_ = 0;
};

}  // namespace h5lossy::H5L_TARGET::interp
