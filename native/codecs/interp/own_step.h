// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Values that lie on a lattice of their own: integers, decimals, packed values, constants. If the step of that lattice
// is not smaller than what the bound allows, it replaces the chunk's step, and all values are exact. The rules are in
// docs/design/interp-encoder.md, "The step of the data".
#pragma once

#include "codecs/interp/own_packed.h"
#include "codecs/interp/values.h"

namespace h5lossy::H5L_TARGET::interp {

// Whether a value is a bin of this step, or can have none: it is not finite, or is the fill value.
template <class T>
H5L_FN bool is_own_bin(Word<T> fill, T step, T inverse, Word<T> bits) {
  const T x = bit_cast<T>(bits), s = multiply(x, inverse);
  const T bin = subtract(add(s, kRounding<T>), kRounding<T>);
  const bool is_bin = magnitude(s) < static_cast<T>(kInterpBinLimit<T> - 1) && multiply(bin, step) == x;
  const bool has_none = (bits & ~kSignBit<T>) >= kInfinity<T> || bits == fill;
  return is_bin || has_none;
}

// Whether a step of the data may replace the quantizer's.
template <class T>
H5L_FN bool is_own_step(double step, double least) {
  return step >= least && step <= 2 * FloatTraits<T>::max_bound;
}

// The steps that are tried: the nearest number of the type, and its neighbours. The first one counts that is not too
// small and reproduces all values.
inline constexpr u32 kStepCandidates = 3;
template <class T>
H5L_FN T step_candidate(double step, u32 i) {
  const auto nearest = bit_cast<Word<T>>(static_cast<T>(step));
  return bit_cast<T>(static_cast<Word<T>>(i == 0 ? nearest : i == 1 ? nearest - 1 : nearest + 1));
}

// ---------------------------------------------------------------------------------------------------------------------
// Lattices whose step is not a number of the type

// Multiples of 1/n, as decimals are; none if the step is not near such a number.
H5L_FN OwnLattice decimal_lattice(double step, double least) {
  if (step == 0) return {};
  const double per_unit = 1 / step, whole = steps_of(1, step);
  const bool is_near = whole >= 1 && magnitude(subtract(per_unit, whole)) < 1.0 / 64 && 1 / whole >= least;
  return is_near ? OwnLattice{whole, 0} : OwnLattice{};
}

// Decimals, sought digit by digit. Where the first numbers have many steps, Euclid's algorithm takes what is left of
// the rounding of values for a step, and finds none. `half_ulp` is that of the largest value.
inline constexpr u32 kMostDigits = 6;
inline constexpr u32 kLeastDecimals = 2;     // the least number of values but zero; the whole chunk is checked after
inline constexpr u32 kLeastWithFactor = 16;  // the same for a common factor
template <class T, class F>
H5L_FN OwnLattice sampled_decimals(const Quantizer& quantizer, double half_ulp, u64 count, F bits_at) {
  const Word<T> fill = quantizer.has_fill ? static_cast<Word<T>>(quantizer.fill_bits) : kNoMask<T>;
  const double rounding = multiply(8, half_ulp), least = quantizer.step > rounding ? quantizer.step : rounding;
  double per_unit = 1;
  for (u32 digits = 0; digits <= kMostDigits && 1 / per_unit >= least; ++digits, per_unit = multiply(10, per_unit)) {
    u32 found = 0, others = 0, not_zero = 0;
    u64 factor = 0;  // the greatest common one
    for (u32 n = 1; n <= OwnSamples::kPlaces && !are_too_many(others, OwnSamples::kPlaces); ++n) {
      const Word<T> bits = bits_at(sample_place(n, count));
      if (!is_ordinary<T>(quantizer, bits)) continue;
      ++found;
      const Word<T> number = number_of<T>({per_unit, 0}, fill, bits);
      if (number == kNoMask<T>) {
        ++others;
        continue;
      }
      u64 rest = static_cast<u64>(magnitude(bit_cast<T>(number)));
      not_zero += rest != 0 ? 1 : 0;
      while (rest != 0) {
        const u64 next = factor % rest;
        factor = rest;
        rest = next;
      }
    }
    if (not_zero < kLeastDecimals || are_too_many(others, found)) continue;
    return {not_zero < kLeastWithFactor ? per_unit : per_unit / static_cast<double>(factor), 0};
  }
  return {};
}

// Whether a step is so much larger than another one that it is tried first.
H5L_FN bool is_larger(double step, double other) { return step > multiply(1.5, other); }

// Whether a lattice is worth using although `others` of the `ordinary` values are not among its points, and become
// exceptions.
template <class T>
H5L_FN bool is_worth_it(const OwnLattice& own, double least, u64 others, u64 ordinary) {
  constexpr u32 bits_of_exception = 8 * sizeof(T) + 16;
  return multiply(static_cast<double>(others), bits_of_exception) <=
         multiply(static_cast<double>(ordinary), subtract(1, multiply(least, own.points_per_unit())));
}

// Gives the quantizer a step near the lattice's, which is stored in the header and used for the choice of axes.
template <class T>
H5L_FN void take_lattice(const OwnLattice& own, Quantizer& quantizer) {
  const T step = static_cast<T>(own.step());
  quantizer.step = static_cast<double>(step);
  quantizer.inverse_step = static_cast<double>(T{1} / step);
  quantizer.stride = bit_cast<u64>(own.d);
  quantizer.base = bit_cast<u64>(own.offset);
}

// How many values were examined, how many of these are ordinary, and how many of the ordinary ones are not points.
struct PointCounts {
  u64 all = 0, ordinary = 0, others = 0;

  // False if the lattice is not worth using even if all remaining values are ordinary points.
  template <class T>
  H5L_FN bool may_be_worth_it(const OwnLattice& own, double least, u64 count) const {
    return is_worth_it<T>(own, least, others, ordinary + (count - all));
  }
};

#if !defined(__CUDACC__)
// Whether all ordinary values of `count` are bins of this step.
template <class T>
bool are_bins(const Quantizer& quantizer, const ValueReader<T>& reader, u64 count, T step) {
  constexpr u64 kSome = 1024;
  const T inverse = T{1} / step;
  const Word<T> fill = quantizer.has_fill ? static_cast<Word<T>>(quantizer.fill_bits) : ~Word<T>{0};
  for (u64 first = 0; first < count; first += kSome) {
    const u64 end = count - first < kSome ? count : first + kSome;
    Word<T> others = 0;
    for (u64 i = first; i < end; ++i) others |= is_own_bin<T>(fill, step, inverse, reader.bits(i)) ? 0 : 1;
    if (others != 0) return false;
  }
  return true;
}

// Whether there is such a lattice, and few enough values are not among its points.
template <class T>
bool are_points(const Quantizer& quantizer, const ValueReader<T>& reader, u64 count, const OwnLattice& own) {
  if (!own.exists() || !is_own_step<T>(own.step(), quantizer.step)) return false;
  constexpr u64 kSome = 1024;
  const Word<T> fill = quantizer.has_fill ? static_cast<Word<T>>(quantizer.fill_bits) : kNoMask<T>;
  PointCounts counts;
  for (u64 first = 0; first < count; first += kSome) {
    const u64 end = count - first < kSome ? count : first + kSome;
    u32 ordinary = 0, others = 0;
    for (u64 i = first; i < end; ++i) {
      const Word<T> bits = reader.bits(i);
      const bool counts_here = is_ordinary<T>(quantizer, bits);
      ordinary += counts_here ? 1 : 0;
      others += counts_here && number_of<T>(own, fill, bits) == kNoMask<T> ? 1 : 0;
    }
    counts = {end, counts.ordinary + ordinary, counts.others + others};
    if (!counts.may_be_worth_it<T>(own, quantizer.step, count)) return false;
  }
  return true;
}

// Sets the quantizer's step to `step`, or to a number next to it, if all values are bins of it.
template <class T>
bool take_step(const ValueReader<T>& reader, u64 count, double step, Quantizer& quantizer) {
  for (u32 i = 0; i < kStepCandidates && is_own_step<T>(step, quantizer.step); ++i) {
    const T candidate = step_candidate<T>(step, i);
    if (static_cast<double>(candidate) < quantizer.step || !are_bins<T>(quantizer, reader, count, candidate)) continue;
    quantizer.step = static_cast<double>(candidate);
    quantizer.inverse_step = static_cast<double>(T{1} / candidate);
    return true;
  }
  return false;
}

// Sets the quantizer's step to the step of the data. False if the data has none, or none that is large enough.
template <class T>
bool take_own_step(const Chunk& chunk, Quantizer& quantizer) {
  const ValueReader<T> reader = {chunk.values, chunk.big_endian};
  u64 count = 1;
  for (const u32 n : chunk.dims) count *= n;
  const OwnSamples samples = own_samples<T>(quantizer, reader, count);
  const double least = quantizer.step, coarse = coarse_step(samples, least);
  const double step = own_step_of(samples, coarse, false), packed = packed_step<T>(samples, least);
  const auto take = [&](const OwnLattice& own) {
    if (!are_points<T>(quantizer, reader, count, own)) return false;
    take_lattice<T>(own, quantizer);
    return true;
  };
  const auto bits_at = [&](u64 place) { return reader.bits(place); };
  const auto take_packed = [&] {
    return packed != 0 && (take(fitted_lattice<T>(quantizer, samples, packed, count, bits_at)) ||
                           take(product_lattice<T>(quantizer, products<T>(quantizer, samples, packed, count, bits_at),
                                                   count, bits_at)));
  };
  const bool is_packed_first = is_larger(packed, step);
  if (is_packed_first && take_packed()) return true;
  if (take_step(reader, count, step, quantizer) || take(decimal_lattice(step, least))) return true;
  if (take(sampled_decimals<T>(quantizer, samples.half_ulp, count, bits_at))) return true;
  if (!is_packed_first && take_packed()) return true;
  return coarse > least && take_step(reader, count, own_step_of(samples, least, false), quantizer);
}
#endif

}  // namespace h5lossy::H5L_TARGET::interp
