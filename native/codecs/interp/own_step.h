// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Values that lie on a lattice of their own: integers, decimals, packed values, constants. If its step is not smaller
// than what the bound allows, it takes the place of the chunk's, and all values are exact. The rules are in
// docs/design/interp-encoder.md, "The step of the data".
#pragma once

#include "codecs/interp/format.h"
#include "codecs/interp/survey.h"
#include "codecs/interp/values.h"

namespace h5lossy::H5L_TARGET::interp {

// Some ordinary values of a chunk: their distances from the one that is largest in magnitude, and from their
// neighbours, in ascending order, and its own magnitude.
struct OwnSamples {
  static constexpr u32 kPlaces = 64;
  double numbers[2 * kPlaces + 1];
  u32 count = 0;
  double largest = 0;   // with its sign
  double half_ulp = 0;  // of it
};

// Half the distance to the next larger number of the type, in magnitude.
template <class T>
H5L_FN double half_ulp(T x) {
  const T size = magnitude(x), next = bit_cast<T>(static_cast<Word<T>>(bit_cast<Word<T>>(size) + 1));
  return static_cast<double>(subtract(next, size)) / 2;
}

H5L_FN u64 sample_place(u32 n, u64 count) { return u64{n * kSpread[kAxes - 1]} * count >> 32; }

template <class T>
H5L_FN bool is_ordinary(const Quantizer& quantizer, Word<T> bits) {
  return (bits & ~kSignBit<T>) < kInfinity<T> && !(quantizer.has_fill && bits == quantizer.fill_bits);
}

#if !defined(__CUDACC__)
template <class T>
OwnSamples own_samples(const Quantizer& quantizer, const ValueReader<T>& reader, u64 count) {
  OwnSamples samples;
  double values[OwnSamples::kPlaces], largest = 0;
  u32 found = 0;
  const auto insert = [&samples](double distance) {
    u32 place = samples.count++;
    for (; place > 0 && samples.numbers[place - 1] > distance; --place) {
      samples.numbers[place] = samples.numbers[place - 1];
    }
    samples.numbers[place] = distance;
  };
  for (u32 n = 1; n <= OwnSamples::kPlaces; ++n) {
    const u64 place = sample_place(n, count);
    const Word<T> bits = reader.bits(place);
    if (!is_ordinary<T>(quantizer, bits)) continue;
    const double x = static_cast<double>(bit_cast<T>(bits));
    values[found++] = x;
    if (magnitude(x) > magnitude(largest)) largest = x;
    if (place + 1 == count) continue;
    const Word<T> next = reader.bits(place + 1);
    if (is_ordinary<T>(quantizer, next)) insert(magnitude(subtract(static_cast<double>(bit_cast<T>(next)), x)));
  }
  for (u32 i = 0; i < found; ++i) insert(magnitude(subtract(values[i], largest)));
  samples.numbers[samples.count++] = magnitude(largest);
  samples.largest = largest;
  samples.half_ulp = half_ulp(static_cast<T>(largest));
  return samples;
}
#endif

// How often `step` goes into a number, rounded.
H5L_FN double steps_of(double number, double step) {
  return subtract(add(number / step, kRounding<double>), kRounding<double>);
}

// Steps above this are found in spite of the rounding of values.
H5L_FN double coarse_step(const OwnSamples& samples, double least) {
  const double coarse = 64 * samples.half_ulp;
  return coarse > least ? coarse : least;
}

// The step of a lattice that all samples seem to lie on; 0 if it would be smaller than `least`. One that has an offset
// need not hold 0.
H5L_FN double own_step_of(const OwnSamples& samples, double least, bool has_offset) {
  const double negligible = least / 8;
  double step = 0;
  for (u32 i = 0; i + u32{has_offset} < samples.count; ++i) {
    double number = samples.numbers[i];
    if (number == 0) continue;
    if (step == 0) step = number;
    while (number >= negligible) {  // Euclid's algorithm, with remainders that may be negative
      if (!(step >= least && number / step < 0x1p50)) return 0;
      const double rest = magnitude(subtract(number, multiply(steps_of(number, step), step)));
      if (rest < negligible) break;
      number = step;
      step = rest;
    }
    // Ever larger multiples say ever more precisely how large it is.
    const double steps = steps_of(samples.numbers[i], step);
    if (steps != 0) step = samples.numbers[i] / steps;
  }
  return step >= least ? step : 0;
}

// Whether a value is a bin of this step, or none that has one.
template <class T>
H5L_FN bool is_own_bin(Word<T> fill, T step, T inverse, Word<T> bits) {
  const T x = bit_cast<T>(bits), s = multiply(x, inverse);
  const T bin = subtract(add(s, kRounding<T>), kRounding<T>);
  const bool is_bin = magnitude(s) < static_cast<T>(kInterpBinLimit<T> - 1) && multiply(bin, step) == x;
  const bool has_none = (bits & ~kSignBit<T>) >= kInfinity<T> || bits == fill;
  return is_bin || has_none;
}

// Whether a step of the data may become the quantizer's.
template <class T>
H5L_FN bool is_own_step(double step, double least) {
  return step >= least && step <= 2 * FloatTraits<T>::max_bound;
}

// The steps that are tried, of which the first counts that is not too small and gives all values: the nearest number of
// the type, and those beside it.
inline constexpr u32 kStepCandidates = 3;
template <class T>
H5L_FN T step_candidate(double step, u32 i) {
  const auto nearest = bit_cast<Word<T>>(static_cast<T>(step));
  return bit_cast<T>(static_cast<Word<T>>(i == 0 ? nearest : i == 1 ? nearest - 1 : nearest + 1));
}

// ---------------------------------------------------------------------------------------------------------------------
// Lattices that no step of the type gives

// Multiples of 1/n, which decimals are; none if the step is not near that.
H5L_FN OwnLattice decimal_lattice(double step, double least) {
  if (step == 0) return {};
  const double per_unit = 1 / step, whole = steps_of(1, step);
  const bool is_near = whole >= 1 && magnitude(subtract(per_unit, whole)) < 1.0 / 64 && 1 / whole >= least;
  return is_near ? OwnLattice{whole, 0} : OwnLattice{};
}

// The corrections (a, b) of a step and an offset with which a value's point is rounded to the value: a convex polygon,
// since each value allows what lies between two parallel lines.
struct Corrections {
  static constexpr u32 kMost = 24;
  double a[kMost], b[kMost];
  u32 count;

  // Leaves those with sign·(t·a + b - limit) >= 0; all if there are none.
  H5L_FN void cut(double t, double limit, double sign) {
    double heights[kMost];
    u32 below = 0;
    for (u32 i = 0; i < count; ++i) {
      heights[i] = multiply(sign, subtract(add(multiply(t, a[i]), b[i]), limit));
      below += heights[i] < 0 ? 1 : 0;
    }
    if (below == 0 || below == count || count == kMost) return;
    const Corrections before = *this;
    count = 0;
    for (u32 i = 0; i < before.count; ++i) {
      const u32 next = i + 1 == before.count ? 0 : i + 1;
      if (heights[i] >= 0) push(before.a[i], before.b[i]);
      if ((heights[i] < 0) == (heights[next] < 0)) continue;
      const double part = heights[i] / subtract(heights[i], heights[next]);
      push(add(before.a[i], multiply(part, subtract(before.a[next], before.a[i]))),
           add(before.b[i], multiply(part, subtract(before.b[next], before.b[i]))));
    }
  }

 private:
  H5L_FN void push(double new_a, double new_b) {
    if (count == kMost) return;
    a[count] = new_a;
    b[count++] = new_b;
  }
};

inline constexpr u32 kFitPlaces = 2048;

// The step of packed values, whose lattice has an offset. Doubles were rounded twice, of their product and of their
// sum, so that no correction would give them back.
template <class T>
H5L_FN double packed_step(const OwnSamples& samples, double least) {
  return sizeof(T) == 4 ? own_step_of(samples, least, true) : 0;
}

// Whether a step is so much larger than another one that it comes first.
H5L_FN bool is_larger(double step, double other) { return step > multiply(1.5, other); }

// Packed values that were computed as doubles and then rounded to float: step and offset have to be right to a small
// part of this rounding. `bits_at(i)` are those of a value of the chunk.
template <class T, class F>
H5L_FN OwnLattice fitted_lattice(const Quantizer& quantizer, const OwnSamples& samples, double step, u64 count,
                                 F bits_at) {
  const double longest = samples.count < 2 ? 0 : samples.numbers[samples.count - 2];
  const double steps = step == 0 ? 0 : steps_of(longest, step);
  if (steps < 1) return {};
  const double reach = 8 * samples.half_ulp;
  Corrections all = {{-reach, reach, reach, -reach}, {-reach, -reach, reach, reach}, 4};
  for (u32 n = 1; n <= kFitPlaces; ++n) {
    const Word<T> bits = bits_at(sample_place(n, count));
    if (!is_ordinary<T>(quantizer, bits)) continue;
    const T x = bit_cast<T>(bits);
    const double distance = subtract(static_cast<double>(x), samples.largest);
    const double number = steps_of(distance, step), rest = subtract(distance, multiply(number, step));
    if (magnitude(rest) > reach) continue;
    all.cut(number / steps, add(rest, half_ulp(x)), -1);
    all.cut(number / steps, subtract(rest, half_ulp(x)), 1);
  }
  double a = 0, b = 0;
  for (u32 i = 0; i < all.count; ++i) {
    a = add(a, all.a[i]);
    b = add(b, all.b[i]);
  }
  return {1 / add(step, a / all.count / steps), add(samples.largest, b / all.count)};
}

// Whether a lattice is worth it though some values are none of its points, and become exceptions.
template <class T>
H5L_FN bool is_worth_it(const OwnLattice& own, double least, u64 others, u64 count) {
  constexpr u32 bits_of_exception = 8 * sizeof(T) + 16;
  return multiply(static_cast<double>(others), bits_of_exception) <=
         multiply(static_cast<double>(count), subtract(1, multiply(least, own.points_per_unit)));
}

// The quantizer gets a step near the lattice's, which the header states and the choice of axes uses.
template <class T>
H5L_FN void take_lattice(const OwnLattice& own, Quantizer& quantizer) {
  const T step = static_cast<T>(1 / own.points_per_unit);
  quantizer.step = static_cast<double>(step);
  quantizer.inverse_step = static_cast<double>(T{1} / step);
  quantizer.stride = bit_cast<u64>(own.points_per_unit);
  quantizer.base = bit_cast<u64>(own.offset);
}

// Whether a value is neither a point nor without one anyway.
template <class T>
H5L_FN bool is_beside_points(const Quantizer& quantizer, const OwnLattice& own, Word<T> fill, Word<T> bits) {
  return number_of<T>(own, fill, bits) == kNoMask<T> && is_ordinary<T>(quantizer, bits);
}

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

// Whether there is such a lattice, and few enough of the values are none of its points.
template <class T>
bool are_points(const Quantizer& quantizer, const ValueReader<T>& reader, u64 count, const OwnLattice& own) {
  if (!own.exists() || !is_own_step<T>(1 / own.points_per_unit, quantizer.step)) return false;
  constexpr u64 kSome = 1024;
  const Word<T> fill = quantizer.has_fill ? static_cast<Word<T>>(quantizer.fill_bits) : kNoMask<T>;
  u64 others = 0;
  for (u64 first = 0; first < count; first += kSome) {
    const u64 end = count - first < kSome ? count : first + kSome;
    u32 here = 0;
    for (u64 i = first; i < end; ++i) here += is_beside_points<T>(quantizer, own, fill, reader.bits(i)) ? 1 : 0;
    others += here;
    if (!is_worth_it<T>(own, quantizer.step, others, count)) return false;
  }
  return true;
}

// Makes a step that of the quantizer if all values are bins of it, or of a number beside it.
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

// Makes the step of the data that of the quantizer. False if they have none, or none that is large enough.
template <class T>
bool take_own_step(const Chunk& chunk, Quantizer& quantizer) {
  const ValueReader<T> reader = {chunk.values, chunk.big_endian};
  u64 count = 1;
  for (const u32 n : chunk.dims) count *= n;
  const OwnSamples samples = own_samples<T>(quantizer, reader, count);
  const double least = quantizer.step, coarse = coarse_step(samples, least);
  const double step = own_step_of(samples, coarse, false), packed = packed_step<T>(samples, coarse);
  const auto take = [&](const OwnLattice& own) {
    if (!are_points<T>(quantizer, reader, count, own)) return false;
    take_lattice<T>(own, quantizer);
    return true;
  };
  const auto take_packed = [&] {
    return take(fitted_lattice<T>(quantizer, samples, packed, count, [&](u64 place) { return reader.bits(place); }));
  };
  const bool is_packed_first = is_larger(packed, step);
  if (is_packed_first && take_packed()) return true;
  if (take_step(reader, count, step, quantizer) || take(decimal_lattice(step, least))) return true;
  if (!is_packed_first && take_packed()) return true;
  return coarse > least && take_step(reader, count, own_step_of(samples, least, false), quantizer);
}
#endif

}  // namespace h5lossy::H5L_TARGET::interp
