// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/integers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <new>
#include <numeric>

#include "chunk/params.h"
#include "chunk/word_tables.h"
#include "codecs/integers.h"
#include "frame/swap.h"

namespace h5lossy {
namespace {

using Bytes = std::span<const std::uint8_t>;

// Maps values to ranks: unsigned numbers in the order of the values.
template <class W>
class Ranks {
 public:
  Ranks(const h5l_params& params, Bytes raw)
      : raw_(raw),
        is_swapped_(params.big_endian != 0),
        sign_(params.value_class == H5L_CLASS_SIGNED ? static_cast<W>(W{1} << (8 * sizeof(W) - 1)) : W{0}) {}

  [[nodiscard]] std::size_t count() const { return raw_.size() / sizeof(W); }

  W operator[](std::size_t i) const {
    W value;
    std::memcpy(&value, raw_.data() + i * sizeof(W), sizeof(W));
    return static_cast<W>((is_swapped_ ? swap_bytes(value) : value) ^ sign_);
  }

  [[nodiscard]] W sign() const { return sign_; }

 private:
  Bytes raw_;
  bool is_swapped_;
  W sign_;
};

template <class W>
W distance(W a, W b) {
  return static_cast<W>(a < b ? b - a : a - b);
}

// Tests numbers for divisibility without a division each: multiplied by the inverse of the divisor's odd part, modulo
// 2^W, exactly the multiples give numbers up to the largest quotient.
template <class W>
class MultiplesOf {
 public:
  explicit MultiplesOf(W number)
      : zeros_(std::countr_zero(number)), low_(static_cast<W>((W{1} << zeros_) - 1)), inverse_(1) {
    const W odd = static_cast<W>(number >> zeros_);
    for (int i = 0; i < 6; ++i)
      inverse_ = scalar::product(inverse_, static_cast<W>(2 - scalar::product(odd, inverse_)));
    most_ = static_cast<W>(static_cast<W>(~W{0}) / odd);
  }
  bool has(W number) const { return (number & low_) == 0 && scalar::product(number, inverse_) <= most_; }

 private:
  int zeros_;
  W low_, inverse_, most_;
};

// The greatest common divisor of all differences; 0 if all values are equal. For most chunks it is 1 after a few
// values.
template <class W>
W stride_of(const Ranks<W>& ranks) {
  constexpr std::size_t first_values = 256, block = 4096;
  const std::size_t count = ranks.count();
  const W first = ranks[0];
  W stride = 0;
  std::size_t i = 1;
  for (; i < std::min(first_values, count); ++i) stride = std::gcd(stride, distance(ranks[i], first));
  while (i < count && stride != 1) {
    const std::size_t end = std::min(i + block, count);
    bool all = stride != 0;
    if (all) {
      const MultiplesOf<W> multiples(stride);
      for (std::size_t j = i; j < end; ++j) all &= multiples.has(distance(ranks[j], first));
    }
    for (; !all && i < end; ++i) stride = std::gcd(stride, distance(ranks[i], first));
    i = end;
  }
  return stride;
}

template <class W>
void find_stride(const h5l_params& params, Bytes raw, Quantizer& quantizer) {
  const Ranks<W> ranks(params, raw);
  const W stride = stride_of(ranks);
  scalar::take_stride(quantizer, stride, ranks[0], ranks.sign(), sizeof(W));
}

// Tests whether a value is left out of the range: exact values (the fill value among them), and padding. +0.0 and -0.0
// are equal.
class LeftOut {
 public:
  explicit LeftOut(const h5l_params& params) : params_(params), exact_(exact_values(params)) {}
  bool operator()(std::uint64_t bits) const {
    const bool is_zero = bits == 0 || (is_half(params_.value_class) && bits == 0x8000);
    return (params_.has_fill != 0 && bits == params_.fill_bits) || (params_.maybe_padded != 0 && is_zero) ||
           std::find(exact_.bits, exact_.bits + exact_.count, bits) != exact_.bits + exact_.count;
  }

 private:
  const h5l_params& params_;
  ExactValues exact_;
};

// The bound in counts for a range-relative bound, from the values that are not left out.
template <class W>
std::uint64_t bound_of_range(const h5l_params& params, Bytes raw) {
  const Ranks<W> ranks(params, raw);
  const LeftOut is_left_out(params);
  W least = static_cast<W>(~W{0}), largest = 0;
  for (std::size_t i = 0; i < ranks.count(); ++i) {
    const W rank = ranks[i];
    if (is_left_out(static_cast<W>(rank ^ ranks.sign()))) continue;
    least = std::min(least, rank);
    largest = std::max(largest, rank);
  }
  return scalar::bound_of_integer_range(params.bound, least, largest, sizeof(W));
}

bool is_finite_half(std::uint32_t value_class, std::uint32_t bits) {
  return (bits & 0x7FFF) < (value_class == H5L_CLASS_HALF ? 0x7C00u : 0x7F80u);
}

static_assert(kMostExact == H5L_MAX_EXACT);

// Sets a quantizer's exact values. A fill value of 0 comes back in any case, but other values may become 0 unless it is
// exact.
void take_exact_values(const h5l_params& params, Quantizer& quantizer) {
  const ExactValues values = exact_values(params);
  quantizer.exact_count = std::min(values.count, kMostExact);  // check_params ensures that they fit
  std::copy_n(values.bits, quantizer.exact_count, quantizer.exact);
}

// Whether words are left for the exact values and for the values above them, even if there are no such values.
bool has_room(const h5l_params& params, const Quantizer& quantizer) {
  const bool is_signed = params.value_class != H5L_CLASS_UNSIGNED;
  const std::uint64_t most = ~std::uint64_t{0} >> (64 - 8 * params.value_bytes + (is_signed ? 1 : 0));
  KeptBins kept;
  const MadeBins* const bins = bins_of(rule_of(params.value_class, params.value_bytes, quantizer), kept);
  if (bins == nullptr) throw std::bad_alloc();
  return bins->last + std::uint64_t{2} * std::max(quantizer.exact_count, 1u) <= most;
}

// Half the type's range.
std::uint64_t counts_at_most(std::uint32_t value_bytes) { return ~std::uint64_t{0} >> (65 - 8 * value_bytes); }

std::uint64_t counts_of(const h5l_params& params, Bytes raw) {
  if (params.bound_kind == H5L_BOUND_ABSOLUTE) return bound_in_counts(params.bound, params.value_bytes);
  const auto of_range = params.value_bytes == 1   ? bound_of_range<std::uint8_t>
                        : params.value_bytes == 2 ? bound_of_range<std::uint16_t>
                        : params.value_bytes == 4 ? bound_of_range<std::uint32_t>
                                                  : bound_of_range<std::uint64_t>;
  return of_range(params, raw);
}

Quantizer make_half_quantizer(const h5l_params& params, Bytes raw) {
  Quantizer quantizer;
  if (params.bound_kind == H5L_BOUND_LOSSLESS) return quantizer;
  Quantizer lossy;
  lossy.kind = static_cast<BoundKind>(params.bound_kind);
  lossy.bound = params.bound;
  if (lossy.kind == BoundKind::range_relative) {
    const h5l_range range = half_range(params, raw);
    lossy.bound = absolute_bound(params.bound, range.min, range.max);
    if (lossy.bound == 0) return quantizer;
  }
  take_exact_values(params, lossy);
  return has_room(params, lossy) ? lossy : quantizer;
}

}  // namespace

bool find_bits(const h5l_params& params, std::int64_t number, std::uint64_t& bits) {
  const std::uint32_t width = 8 * params.value_bytes;
  if (is_half(params.value_class)) {
    // Magnitudes are in the order of their bits.
    const auto value = std::fabs(static_cast<double>(number));
    std::uint32_t magnitude = 0;
    for (std::uint32_t step = 0x4000; step != 0; step /= 2) {
      if (is_finite_half(params.value_class, magnitude | step) &&
          half_value(params.value_class, magnitude | step) <= value) {
        magnitude |= step;
      }
    }
    bits = magnitude | (number < 0 ? 0x8000u : 0u);
  } else {
    bits = static_cast<std::uint64_t>(number) & ~std::uint64_t{0} >> (64 - width);
  }
  std::int64_t back = 0;
  return find_number(params, bits, back) && back == number;
}

bool find_number(const h5l_params& params, std::uint64_t bits, std::int64_t& number) {
  if (is_half(params.value_class)) {
    const auto magnitude = static_cast<std::uint32_t>(bits & 0x7FFF);
    if (!is_finite_half(params.value_class, magnitude)) return false;
    const double value = half_value(params.value_class, magnitude);
    if (value != std::floor(value) || value >= 0x1p63) return false;
    number = (bits & 0x8000) != 0 ? -static_cast<std::int64_t>(value) : static_cast<std::int64_t>(value);
    return true;
  }
  const std::uint32_t unused = 64 - 8 * params.value_bytes;
  const auto shifted = static_cast<std::int64_t>(bits << unused);
  number = params.value_class == H5L_CLASS_SIGNED ? shifted >> unused : static_cast<std::int64_t>(bits);
  return true;
}

ExactValues exact_values(const h5l_params& params) {
  ExactValues values;
  const auto add = [&](std::uint64_t bits) {
    std::uint64_t *const end = values.bits + values.count, *const at = std::lower_bound(values.bits, end, bits);
    if (at != end && *at == bits) return;
    std::copy_backward(at, end, end + 1);
    *at = bits;
    ++values.count;
  };
  if (params.has_fill != 0 && fill_must_match_exactly(params)) add(params.fill_bits);
  for (std::uint32_t i = 0; i < params.exact_count; ++i) {
    std::uint64_t bits = 0;
    if (find_bits(params, params.exact[i], bits)) add(bits);
  }
  if (params.threshold_count != 0) add(0);  // the only threshold, which keeps values from changing sign
  return values;
}

h5l_range half_range(const h5l_params& params, Bytes raw) {
  h5l_range range = {};
  const LeftOut is_left_out(params);
  for (std::size_t i = 0; i + 1 < raw.size(); i += 2) {
    const std::uint32_t low = raw[i + (params.big_endian != 0 ? 1 : 0)],
                        high = raw[i + (params.big_endian != 0 ? 0 : 1)];
    const std::uint32_t bits = low | high << 8;
    if (!is_finite_half(params.value_class, bits)) continue;
    if (is_left_out(bits)) continue;
    const double magnitude = half_value(params.value_class, bits & 0x7FFF);
    const double value = (bits & 0x8000) != 0 ? -magnitude : magnitude;
    range.min = range.count == 0 ? value : std::min(range.min, value);
    range.max = range.count == 0 ? value : std::max(range.max, value);
    ++range.count;
  }
  return range;
}

std::uint64_t bound_in_counts(double bound, std::uint32_t value_bytes) {
  const std::uint64_t most = counts_at_most(value_bytes);
  return bound >= static_cast<double>(most) ? most : static_cast<std::uint64_t>(bound);
}

Quantizer integer_quantizer_without_values(const h5l_params& params) {
  Quantizer quantizer;
  const auto kind = static_cast<BoundKind>(params.bound_kind);
  const std::uint64_t bound = kind == BoundKind::absolute   ? bound_in_counts(params.bound, params.value_bytes)
                              : kind == BoundKind::lossless ? 0
                                                            : 1;
  if (bound == 0) return quantizer;
  quantizer.kind = kind;
  quantizer.scale = 2 * bound + 1;
  take_exact_values(params, quantizer);
  return quantizer;
}

Quantizer make_integer_quantizer(const h5l_params& params, Bytes raw) {
  if (is_half(params.value_class)) return make_half_quantizer(params, raw);
  Quantizer quantizer;
  Quantizer lossy;
  lossy.kind = static_cast<BoundKind>(params.bound_kind);
  take_exact_values(params, lossy);
  if (lossy.kind == BoundKind::noise) {
    lossy.scale = params.noise_floor;
    lossy.noise = static_cast<std::uint32_t>(256 * params.bound);
    if (has_room(params, lossy)) return lossy;
  } else if (lossy.kind != BoundKind::lossless) {
    const std::uint64_t bound = counts_of(params, raw);
    lossy.scale = params.wide != 0 ? std::min(bound + 1, counts_at_most(params.value_bytes)) : 2 * bound + 1;
    if (bound != 0) return lossy;
  }
  const auto find = params.value_bytes == 1   ? find_stride<std::uint8_t>
                    : params.value_bytes == 2 ? find_stride<std::uint16_t>
                    : params.value_bytes == 4 ? find_stride<std::uint32_t>
                                              : find_stride<std::uint64_t>;
  find(params, raw, quantizer);
  return quantizer;
}

void describe_integers(const Quantizer& quantizer, FrameHeader& header) {
  const bool has_bins = is_half(header.value_class) && quantizer.kind != BoundKind::lossless;
  header.step_bits = has_bins ? std::bit_cast<std::uint64_t>(quantizer.bound) : quantizer.scale;
  header.noise = quantizer.noise;
  header.exact_count = quantizer.exact_count;
  header.set_exact(quantizer.exact[0], quantizer.exact[1]);
  if (quantizer.stride > 1) header.set_stride(quantizer.base, quantizer.stride);
}

}  // namespace h5lossy
