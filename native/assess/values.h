// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Classifies a pair of values, checks it against the bound, and combines moments. Shared by all backends and the GPU.
#pragma once

#if !defined(__CUDACC__)
#include <math.h>
#endif

#include "assess/kernels.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET {

template <class T>
using Word = Select<sizeof(T) == 8, u64, u32>;

// The exponent's bits, all set in NaN and infinities.
template <class T>
inline constexpr Word<T> kExponent = sizeof(T) == 4 ? Word<T>{0x7F800000u} : static_cast<Word<T>>(0x7FF0000000000000u);

template <class T>
H5L_FN bool is_finite(Word<T> bits) {
  return (bits & kExponent<T>) != kExponent<T>;
}

template <class T>
H5L_FN bool is_nan(Word<T> bits) {
  return (bits & ~(Word<T>{1} << (8 * sizeof(T) - 1))) > kExponent<T>;
}

// Swaps byte order.
#if defined(__CUDA_ARCH__)
H5L_FN u32 swapped(u32 word) { return __byte_perm(word, 0, 0x0123); }
H5L_FN u64 swapped(u64 word) {
  return u64{swapped(static_cast<u32>(word))} << 32 | swapped(static_cast<u32>(word >> 32));
}
#else
H5L_FN u32 swapped(u32 word) { return __builtin_bswap32(word); }
H5L_FN u64 swapped(u64 word) { return __builtin_bswap64(word); }
#endif

// Whether |d + r| is above high + low. d and r are a difference and its rest, high + low a limit rounded down.
H5L_FN bool is_above(double d, double r, double high, double low) {
  const double size = fabs(d);
  return size > high || (size == high && copysign(1.0, d) * r > low);
}

// a - b as the rounded difference and its rest (Knuth, The Art of Computer Programming, volume 2, 4.2.2, theorem B).
H5L_FN double difference(double a, double b, double& rest) {
  const double d = a - b;
  const double minus_b = d - a;
  rest = (a - (d - minus_b)) - (b + minus_b);
  return d;
}

// a * b as the rounded product and its rest, for factors near 1 (T. J. Dekker, A floating-point technique for extending
// the available precision, 1971). Avoids a fused multiply-add, which not every machine has.
H5L_FN double multiply(double a, double b, double& rest) {
  constexpr double kSplitter = 134217729.0;  // 2^27 + 1: halves of 26 bits
  const double scaled_a = kSplitter * a, scaled_b = kSplitter * b;
  const double high_a = scaled_a - (scaled_a - a), high_b = scaled_b - (scaled_b - b);
  const double low_a = a - high_a, low_b = b - high_b;
  const double product = a * b;
  rest = low_a * low_b - (((product - high_a * high_b) - low_a * high_b) - high_a * low_b);
  return product;
}

// Whether |y - x| is above the bound, in exact arithmetic. Both are finite, and they differ.
H5L_FN bool breaks_absolute(const h5l_assess_params& params, double x, double y) {
  double rest = 0;
  double d = difference(y, x, rest);
  if (is_finite<double>(bit_cast<u64>(d))) return is_above(d, rest, params.limit[0], params.limit[1]);
  // Both are above 2^969, so halves of them are exact.
  d = difference(y / 2, x / 2, rest);
  return is_above(d, rest, params.half_limit[0], params.half_limit[1]);
}

H5L_FN bool breaks_pointwise(double bound, double x, double y) {
  double rest = 0;
  const double d = difference(y, x, rest);
  if (!is_finite<double>(bit_cast<u64>(d))) return true;  // |x| is below 2^1024, and the bound below 1
  const double size = fabs(d);
  const double limit = bound * fabs(x);
  if (size != limit) return size > limit;  // rounding keeps the order
  if (size == 0) return false;
  // Equal after rounding: the rests decide. Those of the product are exact for factors near 1.
  int of_bound = 0;
  int of_x = 0;
  const double b = frexp(bound, &of_bound);
  const double m = frexp(fabs(x), &of_x);
  const int exponent = of_bound + of_x;
  double product_rest = 0;
  const double product = multiply(b, m, product_rest);
  const double outwards = copysign(1.0, d) * rest;
  if (exponent >= 0) return outwards > ldexp(product_rest, exponent);
  const double scaled = ldexp(size, -exponent);  // near the product, so exact
  return (scaled - product) + (ldexp(outwards, -exponent) - product_rest) > 0;
}

template <class T>
H5L_FN bool breaks(const h5l_assess_params& params, T x, T y) {
  switch (params.bound_kind) {
    case H5L_BOUND_LOSSLESS:
      return bit_cast<Word<T>>(x) != bit_cast<Word<T>>(y);
    case H5L_BOUND_POINTWISE_RELATIVE:
      return breaks_pointwise(params.limit[0], x, y);
    case H5L_BOUND_ABSOLUTE:
      return breaks_absolute(params, x, y);
    default:
      return false;
  }
}

// The kind of a special point, or H5L_SPECIAL_KINDS if it is valid.
template <class T>
H5L_FN u32 kind_of(Word<T> x, Word<T> y, const h5l_assess_params& params) {
  constexpr u32 kValid = H5L_SPECIAL_KINDS;
  const bool same = x == y;
  if (params.has_fill != 0 && x == params.fill_bits) return same ? H5L_SPECIAL_FILL_KEPT : H5L_SPECIAL_FILL_LOST;
  if (is_nan<T>(x)) {
    if (!is_nan<T>(y)) return H5L_SPECIAL_NAN_LOST;
    return same ? H5L_SPECIAL_NAN_KEPT : H5L_SPECIAL_NAN_CHANGED;
  }
  if (!is_finite<T>(x)) return same ? H5L_SPECIAL_INF_KEPT : H5L_SPECIAL_INF_CHANGED;
  if (is_nan<T>(y)) return H5L_SPECIAL_NAN_INTRODUCED;
  return is_finite<T>(y) ? kValid : H5L_SPECIAL_INF_INTRODUCED;
}

// Sums over a leaf of x and the errors e, relative to pivots.
struct SumsAboutPivots {
  double x, e, xx, ee, xe, abs_e, pointwise;
};

H5L_FN assess::Moments moments_of(double n, double pivot_x, double pivot_e, const SumsAboutPivots& sums) {
  const double x_off = sums.x / n;
  const double e_off = sums.e / n;
  const double xx = sums.xx - x_off * x_off * n;
  const double ee = sums.ee - e_off * e_off * n;
  assess::Moments found;
  found.count = n;
  found.mean_x = pivot_x + x_off;
  found.mean_e = pivot_e + e_off;
  found.squares_x = xx > 0 ? xx : 0;
  found.squares_e = ee > 0 ? ee : 0;
  found.products = sums.xe - x_off * e_off * n;
  found.sum_abs_error = sums.abs_e;
  found.sum_pointwise = sums.pointwise;
  return found;
}

// Chan, Golub, LeVeque: Updating formulae and a pairwise algorithm for computing sample variances, 1979.
H5L_FN assess::Moments joined(const assess::Moments& a, const assess::Moments& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const double n = a.count + b.count;
  const double x = b.mean_x - a.mean_x;
  const double e = b.mean_e - a.mean_e;
  const double weight = a.count * (b.count / n);
  assess::Moments sum;
  sum.count = n;
  sum.mean_x = a.mean_x + x * (b.count / n);
  sum.mean_e = a.mean_e + e * (b.count / n);
  sum.squares_x = a.squares_x + b.squares_x + x * x * weight;
  sum.squares_e = a.squares_e + b.squares_e + e * e * weight;
  sum.products = a.products + b.products + x * e * weight;
  sum.sum_abs_error = a.sum_abs_error + b.sum_abs_error;
  sum.sum_pointwise = a.sum_pointwise + b.sum_pointwise;
  return sum;
}

}  // namespace h5lossy::H5L_TARGET
