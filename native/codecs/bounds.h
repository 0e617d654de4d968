// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// How the user's float64 bound becomes a quantizer that never violates it, and how values are quantized. All codecs use
// these quantizers, so all of them give a value the same bin, or make it an exception. The rules are in
// docs/format/pfpl.md, "Encoding a tile", the proofs in docs/design/bound.md.
#pragma once

#include "codecs/bits.h"
#include "codecs/codec.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET {

// Properties of a value's type.
template <class T>
struct FloatTraits;

template <>
struct FloatTraits<float> {
  using Word = u32;
  using Int = i32;
  static constexpr u32 mantissa_bits = 23;
  static constexpr u32 bias = 127;
  static constexpr u32 below_half = 0x3EFFFFFFu;  // bits of the largest float below 0.5
  static constexpr double min_bound = 0x1p-126;
  static constexpr double max_bound = 0x1p124;
};

template <>
struct FloatTraits<double> {
  using Word = u64;
  using Int = i64;
  static constexpr u32 mantissa_bits = 52;
  static constexpr u32 bias = 1023;
  static constexpr u64 below_half = 0x3FDFFFFFFFFFFFFFull;
  static constexpr double min_bound = 0x1p-1022;
  static constexpr double max_bound = 0x1p1020;
};

template <class T>
using Word = typename FloatTraits<T>::Word;

template <class T>
inline constexpr u32 kMantissaBits = FloatTraits<T>::mantissa_bits;

template <class T>
inline constexpr Word<T> kSignBit = Word<T>{1} << (8 * sizeof(T) - 1);

template <class T>
inline constexpr Word<T> kMantissaMask = ~Word<T>{0} >> (8 * sizeof(T) - kMantissaBits<T>);

// Bits of infinity: all ones in the exponent.
template <class T>
inline constexpr Word<T> kInfinity = static_cast<Word<T>>(~kSignBit<T> & ~kMantissaMask<T>);

// Bits of 1.0.
template <class T>
inline constexpr Word<T> kOne = Word<T>{FloatTraits<T>::bias} << kMantissaBits<T>;

// The limit of a bin's magnitude. It must not be raised: idempotence depends on it (docs/design/bound.md).
template <class T>
inline constexpr Word<T> kBinLimit = Word<T>{1} << (kMantissaBits<T> - 1);

template <class T>
H5L_FN T magnitude(T x) {
  return bit_cast<T>(static_cast<Word<T>>(bit_cast<Word<T>>(x) & ~kSignBit<T>));
}

// Whether a value is so near to a cut that it must come back unchanged. GPUs leave chunks with safeguards to the host.
template <class T>
H5L_FN bool is_near_cut(const Cuts* cuts, T x) {
  if constexpr (kIsForGpu) return false;
  for (u32 i = 0; cuts != nullptr && i < cuts->count; ++i) {
    if (magnitude(subtract(x, static_cast<T>(cuts->numbers[i]))) < static_cast<T>(cuts->reach)) return true;
  }
  return false;
}

// Whether a cut lies between two values.
template <class T>
H5L_FN bool are_parted(const Cuts* cuts, T a, T b) {
  for (u32 i = 0; cuts != nullptr && i < cuts->count; ++i) {
    const T cut = static_cast<T>(cuts->numbers[i]);
    if ((a < cut) != (b < cut)) return true;
  }
  return false;
}

// Whether safeguards forbid that x comes back as `rebuilt`.
template <class T>
H5L_FN bool is_cut_off(const Cuts* cuts, T x, T rebuilt) {
  if constexpr (kIsForGpu) return false;
  return are_parted(cuts, x, rebuilt) || (x != rebuilt && is_near_cut(cuts, x));
}

// ---------------------------------------------------------------------------------------------------------------------
// Absolute. Range-relative bounds become absolute bounds of the chunk.

template <class T>
struct AbsoluteQuantizer {
  T bound;
  T step;
  T inverse_step;
  bool has_fill;
  Word<T> fill_bits;
  const Cuts* cuts;
};

template <class T>
H5L_FN AbsoluteQuantizer<T> absolute_quantizer(const Quantizer& q) {
  return {static_cast<T>(q.bound),           static_cast<T>(q.step),
          static_cast<T>(q.inverse_step),    q.has_fill,
          static_cast<Word<T>>(q.fill_bits), q.cuts};
}

// Decodes a bin. Bins are signed numbers in unsigned words.
//
// Adding +0.0 makes sure that bin 0 is +0.0: with SSE 4.1 or on AArch64, GCC turns the encoder's cast to an integer and
// back into one rounding instruction, which returns -0.0 for -0.3.
template <class T>
H5L_FN T rebuild(const AbsoluteQuantizer<T>& q, Word<T> bin) {
  return add(multiply(static_cast<T>(static_cast<typename FloatTraits<T>::Int>(bin)), q.step), T{0});
}

// x in steps, shifted so that truncation rounds to nearest, ties away from zero. The shift is pred(0.5): with 0.5, the
// value just below half a step would be rounded up and miss its bound by an ulp.
template <class T>
H5L_FN T steps_to_truncate(const AbsoluteQuantizer<T>& q, T x) {
  const T s = multiply(x, q.inverse_step);
  const Word<T> sign = bit_cast<Word<T>>(s) & kSignBit<T>;
  return add(s, bit_cast<T>(static_cast<Word<T>>(FloatTraits<T>::below_half | sign)));
}

// Whether `bin` may represent x. The subtraction rounds, and yet the test is exact (docs/design/bound.md). NaN fails
// the ordered comparison.
template <class T>
H5L_FN bool bin_is_good(const AbsoluteQuantizer<T>& q, Word<T> bin, T x, T rebuilt, T difference) {
  const bool in_range = bin + (kBinLimit<T> - 1) < 2 * kBinLimit<T> - 1;
  const bool close = magnitude(difference) <= q.bound;
  return in_range && close && !(q.has_fill && bit_cast<Word<T>>(rebuilt) == q.fill_bits) &&
         !is_cut_off(q.cuts, x, rebuilt);
}

// Quantizes x. False if x is an exception.
template <class T>
H5L_FN bool quantize(const AbsoluteQuantizer<T>& q, Word<T> bits, Word<T>& bin) {
  if (q.has_fill && bits == q.fill_bits) return false;
  const T x = bit_cast<T>(bits);
  const T t = steps_to_truncate(q, x);
  if (!(magnitude(t) < static_cast<T>(kBinLimit<T> + 1))) return false;  // also for NaN, whose cast is undefined
  bin = static_cast<Word<T>>(static_cast<typename FloatTraits<T>::Int>(t));
  T rebuilt = rebuild(q, bin);
  T difference = subtract(x, rebuilt);
  if (bin_is_good(q, bin, x, rebuilt, difference)) return true;

  // Second chance: rounding put the nearest bin just out of reach; its neighbour on x's side may be within.
  bin = difference < 0 ? bin - 1 : bin + 1;
  rebuilt = rebuild(q, bin);
  difference = subtract(x, rebuilt);
  // If a cut made the first candidate fail, a rounded distance of B may be more than B.
  return bin_is_good(q, bin, x, rebuilt, difference) &&
         (kIsForGpu || q.cuts == nullptr || magnitude(difference) < q.bound);
}

// ---------------------------------------------------------------------------------------------------------------------
// Pointwise-relative: bins of S steps of the bit pattern, which is a piecewise linear logarithm. No floating point.

template <class T>
struct PointwiseQuantizer {
  Word<T> scale;  // S = 2 E + 1
  bool has_fill;
  Word<T> fill_bits;
  const Cuts* cuts;
};

template <class T>
H5L_FN PointwiseQuantizer<T> pointwise_quantizer(const Quantizer& q) {
  return {static_cast<Word<T>>(q.scale), q.has_fill, static_cast<Word<T>>(q.fill_bits), q.cuts};
}

// Limit of a magnitude's bins, in both directions.
template <class T>
inline constexpr Word<T> kPointwiseBinLimit = kBinLimit<T> / 2 - 2;

// |x'| of a bin; wraps for bins of a corrupt frame.
template <class T>
H5L_FN Word<T> rebuild(const PointwiseQuantizer<T>& q, Word<T> bin) {
  return static_cast<Word<T>>((kOne<T> + bin * q.scale) & ~kSignBit<T>);
}

// Quantizes the magnitude of a normal number. False if it is an exception. Zeros are left to the codec.
template <class T>
H5L_FN bool quantize(const PointwiseQuantizer<T>& q, Word<T> bits, Word<T>& bin) {
  const Word<T> u = bits & ~kSignBit<T>;
  const bool normal = u > kMantissaMask<T> && u < kInfinity<T>;
  if (!normal || (q.has_fill && bits == q.fill_bits)) return false;
  const bool below_one = u < kOne<T>;
  const Word<T> distance = below_one ? kOne<T> - u : u - kOne<T>;
  const Word<T> steps = (distance + q.scale / 2) / q.scale;  // nearest; S is odd, so there are no ties
  if (steps > kPointwiseBinLimit<T>) return false;
  bin = below_one ? Word<T>{0} - steps : steps;
  const Word<T> rebuilt = kOne<T> + bin * q.scale;
  if (rebuilt <= kMantissaMask<T> || rebuilt >= kInfinity<T>) return false;
  const Word<T> signed_bits = rebuilt | (bits & kSignBit<T>);
  return !(q.has_fill && signed_bits == q.fill_bits) &&
         !is_cut_off(q.cuts, bit_cast<T>(bits), bit_cast<T>(signed_bits));
}

// ---------------------------------------------------------------------------------------------------------------------
// From the user's bound to a quantizer: once for a chunk, on the host.

// The largest T that exceeds neither `bound` nor the format's limit. Rounding up would loosen the bound.
template <class T>
H5L_FN T narrow_bound(double bound) {
  if (bound >= FloatTraits<T>::max_bound) return static_cast<T>(FloatTraits<T>::max_bound);
  const T nearest = static_cast<T>(bound);
  if (static_cast<double>(nearest) <= bound) return nearest;
  return bit_cast<T>(static_cast<Word<T>>(bit_cast<Word<T>>(nearest) - 1));
}

// Kind and fill value are kept; if the bound is too small for bins, the quantizer is lossless.
template <class T>
H5L_FN Quantizer make_absolute(Quantizer quantizer, double bound, const StepRule& rule = {}) {
  const T narrow = narrow_bound<T>(bound);
  if (!(static_cast<double>(narrow) >= rule.least_bound * FloatTraits<T>::min_bound)) {
    quantizer.kind = BoundKind::lossless;
    return quantizer;
  }
  const T step = 2 * multiply(narrow, static_cast<T>(rule.share));
  quantizer.bound = static_cast<double>(narrow);
  quantizer.step = static_cast<double>(step);
  quantizer.inverse_step = static_cast<double>(T{1} / step);
  return quantizer;
}

// The absolute bound of a range-relative one over [min, max], all finite and `relative` above 0. 0 if only lossless
// satisfies it.
H5L_FN double bound_of_range(double relative, double min, double max) {
  constexpr double largest = 0x1.fffffffffffffp1023;
  if (!(max > min)) return 0;
  const double range = subtract(max, min);
  double bound = range <= largest ? multiply(relative, range)
                                  : multiply(2.0, multiply(relative, subtract(multiply(max, 0.5), multiply(min, 0.5))));
  if (bound == 0) return 0;
  if (!(bound <= largest)) bound = largest;
  // Two roundings above, each by at most half an ulp.
  const u64 bits = bit_cast<u64>(bound);
  return bits <= 2 ? 0 : bit_cast<double>(bits - 2);
}

template <class T>
H5L_FN Quantizer make_pointwise(Quantizer quantizer, double bound) {
  constexpr u64 limit = u64{1} << (kMantissaBits<T> - 1);
  const double exact = bound * static_cast<double>(u64{1} << kMantissaBits<T>);  // exact: a power of two
  const u64 half_width = exact >= static_cast<double>(limit) ? limit : static_cast<u64>(exact);
  if (half_width == 0) {
    quantizer.kind = BoundKind::lossless;
    return quantizer;
  }
  quantizer.scale = 2 * half_width + 1;
  return quantizer;
}

// The word of a quantizer in a frame's header, and the quantizer that a decoder makes of it.
H5L_FN u64 step_bits_of(const Quantizer& quantizer) {
  if (quantizer.kind == BoundKind::lossless) return 0;
  return quantizer.kind == BoundKind::pointwise_relative ? quantizer.scale : bit_cast<u64>(quantizer.step);
}
H5L_FN Quantizer quantizer_of_step(BoundKind kind, u64 step_bits) {
  Quantizer quantizer;
  quantizer.kind = kind;
  quantizer.step = bit_cast<double>(step_bits);
  quantizer.scale = step_bits;
  return quantizer;
}

}  // namespace h5lossy::H5L_TARGET
