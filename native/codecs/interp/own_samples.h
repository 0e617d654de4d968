// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Some values of a chunk, and the step of a lattice on which they may lie. The rules are in
// docs/design/interp-encoder.md, "The step of the data".
#pragma once

#include "codecs/interp/survey.h"
#include "codecs/interp/values.h"

namespace h5lossy::H5L_TARGET::interp {

// Some ordinary values of a chunk: their distances from the value with the largest magnitude and from their neighbours,
// in ascending order, and the largest magnitude itself.
struct OwnSamples {
  static constexpr u32 kPlaces = 64;
  double numbers[2 * kPlaces + 1];
  u32 count = 0;
  double largest = 0;   // with its sign
  double half_ulp = 0;  // of the largest value
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

// How many steps a number has, rounded.
H5L_FN double steps_of(double number, double step) {
  return subtract(add(number / step, kRounding<double>), kRounding<double>);
}

// Steps above this are found despite the rounding of values.
H5L_FN double coarse_step(const OwnSamples& samples, double least) {
  const double coarse = 64 * samples.half_ulp;
  return coarse > least ? coarse : least;
}

// The step of a lattice on which all samples seem to lie; 0 if it would be smaller than `least`. A lattice with an
// offset need not contain 0, and its values were rounded, so a step is less precise the smaller the number is from
// which it was found.
H5L_FN double own_step_of(const OwnSamples& samples, double least, bool has_offset) {
  const double negligible = least / 8;
  double step = 0, before = 0;
  for (u32 i = 0; i + u32{has_offset} < samples.count; ++i) {
    double number = samples.numbers[i], limit = negligible;
    if (number == 0) continue;
    if (step == 0) step = number;
    if (has_offset && before != 0) {
      const double rounding = multiply(negligible / 2, add(1, number / before)), most = step / 4;
      const double larger = rounding < most ? rounding : most;
      limit = larger > limit ? larger : limit;
    }
    while (number >= limit) {  // Euclid's algorithm, with remainders that may be negative
      if (!(step >= least && number / step < 0x1p50)) return 0;
      const double rest = magnitude(subtract(number, multiply(steps_of(number, step), step)));
      if (rest < limit) break;
      number = step;
      step = rest;
      limit = negligible;
    }
    // Ever larger multiples determine its size ever more precisely.
    const double steps = steps_of(samples.numbers[i], step);
    if (steps == 0) continue;
    step = samples.numbers[i] / steps;
    before = samples.numbers[i];
  }
  return step >= least ? step : 0;
}

// The step of packed values, whose lattice has an offset. Unpacked doubles have far more bits than their step needs.
// Distances between neighbours that were rounded may be slightly too short.
template <class T>
H5L_FN double packed_step(const OwnSamples& samples, double least) {
  const double coarse = multiply(samples.half_ulp, sizeof(T) == 4 ? 64 : 0x1p20);
  return own_step_of(samples, multiply(15.0 / 16, coarse > least ? coarse : least), true);
}

}  // namespace h5lossy::H5L_TARGET::interp
