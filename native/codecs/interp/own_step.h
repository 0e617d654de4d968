// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Values that lie on a lattice of their own: integers, packed values, constants. If its step is not smaller than what
// the bound allows, it becomes the step of the chunk, and all values are exact. The rules are in
// docs/design/interp-encoder.md, "The step of the data".
#pragma once

#include "codecs/interp/format.h"
#include "codecs/interp/survey.h"
#include "codecs/interp/values.h"

namespace h5lossy::H5L_TARGET::interp {

// Some ordinary values of a chunk: their distances from the one that is largest in magnitude, in ascending order, and
// its own magnitude.
struct OwnSamples {
  static constexpr u32 kPlaces = 64;
  double numbers[kPlaces + 1];
  u32 count = 0;
};

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
  for (u32 n = 1; n <= OwnSamples::kPlaces; ++n) {
    const Word<T> bits = reader.bits(u64{n * kSpread[kAxes - 1]} * count >> 32);
    if (!is_ordinary<T>(quantizer, bits)) continue;
    const double x = static_cast<double>(bit_cast<T>(bits));
    values[found++] = x;
    if (magnitude(x) > magnitude(largest)) largest = x;
  }
  for (u32 i = 0; i < found; ++i) {
    const double distance = magnitude(subtract(values[i], largest));
    u32 place = samples.count++;
    for (; place > 0 && samples.numbers[place - 1] > distance; --place) {
      samples.numbers[place] = samples.numbers[place - 1];
    }
    samples.numbers[place] = distance;
  }
  samples.numbers[samples.count++] = magnitude(largest);
  return samples;
}
#endif

// How often `step` goes into a number, rounded.
H5L_FN double steps_of(double number, double step) {
  return subtract(add(number / step, kRounding<double>), kRounding<double>);
}

// The step of a lattice that all samples seem to lie on; 0 if it would be smaller than `least`.
H5L_FN double own_step_of(const OwnSamples& samples, double least) {
  const double negligible = least / 8;
  double step = 0;
  for (u32 i = 0; i < samples.count; ++i) {
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

// Makes the step of the data that of the quantizer. False if they have none, or none that is large enough.
template <class T>
bool take_own_step(const Chunk& chunk, Quantizer& quantizer) {
  const ValueReader<T> reader = {chunk.values, chunk.big_endian};
  u64 count = 1;
  for (const u32 n : chunk.dims) count *= n;
  const double step = own_step_of(own_samples<T>(quantizer, reader, count), quantizer.step);
  if (!is_own_step<T>(step, quantizer.step)) return false;
  for (u32 i = 0; i < kStepCandidates; ++i) {
    const T candidate = step_candidate<T>(step, i);
    if (static_cast<double>(candidate) < quantizer.step || !are_bins<T>(quantizer, reader, count, candidate)) continue;
    quantizer.step = static_cast<double>(candidate);
    quantizer.inverse_step = static_cast<double>(T{1} / candidate);
    return true;
  }
  return false;
}
#endif

}  // namespace h5lossy::H5L_TARGET::interp
