// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/integers.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "frame/swap.h"

namespace h5lossy {
namespace {

using Bytes = std::span<const std::uint8_t>;

// Values as ranks: unsigned numbers in the order of the values.
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

// Whether numbers are multiples of another one, without a division for each: times the inverse of the odd part, modulo
// 2^W, multiples are the numbers up to the largest quotient.
template <class W>
class MultiplesOf {
 public:
  explicit MultiplesOf(W number)
      : zeros_(std::countr_zero(number)), low_(static_cast<W>((W{1} << zeros_) - 1)), inverse_(1) {
    const W odd = static_cast<W>(number >> zeros_);
    for (int i = 0; i < 6; ++i)
      inverse_ = static_cast<W>(inverse_ * static_cast<W>(2 - static_cast<W>(odd * inverse_)));
    most_ = static_cast<W>(static_cast<W>(~W{0}) / odd);
  }
  bool has(W number) const { return (number & low_) == 0 && static_cast<W>(number * inverse_) <= most_; }

 private:
  int zeros_;
  W low_, inverse_, most_;
};

// The greatest common divisor of all differences; 0 if all values are equal. Most chunks say 1 after a few values.
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
  if (stride <= 1) return;
  // The values' own residue: a rank is `sign` more than its value.
  const W rank = static_cast<W>(ranks[0] % stride), sign = static_cast<W>(ranks.sign() % stride);
  const W base = static_cast<W>(rank >= sign ? rank - sign : rank + (stride - sign));
  if (sizeof(W) == 8 && base != 0) return;  // the header has no room for it
  quantizer.stride = stride;
  quantizer.base = base;
}

}  // namespace

bool is_integer_type(std::uint32_t value_class, std::uint32_t value_bytes) {
  return (value_class == H5L_CLASS_UNSIGNED || value_class == H5L_CLASS_SIGNED) && value_bytes <= 8 &&
         std::has_single_bit(value_bytes);
}

std::uint64_t bound_in_counts(double bound, std::uint32_t value_bytes) {
  const std::uint64_t most = ~std::uint64_t{0} >> (65 - 8 * value_bytes);
  return bound >= static_cast<double>(most) ? most : static_cast<std::uint64_t>(bound);
}

Quantizer make_integer_quantizer(const h5l_params& params, Bytes raw) {
  Quantizer quantizer;
  const bool is_lossless = params.bound_kind == H5L_BOUND_LOSSLESS;
  const std::uint64_t bound = is_lossless ? 0 : bound_in_counts(params.bound, params.value_bytes);
  if (bound != 0) {
    quantizer.kind = BoundKind::absolute;
    quantizer.scale = 2 * bound + 1;
    quantizer.has_fill = params.has_fill != 0 && params.fill_bits != 0;  // 0 is exact in any case
    quantizer.fill_bits = quantizer.has_fill ? params.fill_bits : 0;
    return quantizer;
  }
  const auto find = params.value_bytes == 1   ? find_stride<std::uint8_t>
                    : params.value_bytes == 2 ? find_stride<std::uint16_t>
                    : params.value_bytes == 4 ? find_stride<std::uint32_t>
                                              : find_stride<std::uint64_t>;
  find(params, raw, quantizer);
  return quantizer;
}

void describe_integers(const Quantizer& quantizer, FrameHeader& header) {
  header.header_bytes = kIntegerHeaderBytes;
  header.step_bits = quantizer.scale;
  header.exact_count = quantizer.has_fill ? 1 : 0;
  header.exact_bits = quantizer.fill_bits;
  const bool is_wide = header.value_bytes == 8;
  if (quantizer.stride > 1) header.stride_bits = is_wide ? quantizer.stride : quantizer.base | quantizer.stride << 32;
}

Quantizer integer_quantizer_of(const FrameHeader& header) {
  Quantizer quantizer;
  quantizer.kind = static_cast<BoundKind>(header.bound_kind);
  quantizer.scale = header.step_bits;
  quantizer.has_fill = header.exact_count != 0;
  quantizer.fill_bits = header.exact_bits;
  const bool is_wide = header.value_bytes == 8;
  quantizer.stride = is_wide ? header.stride_bits : header.stride_bits >> 32;
  quantizer.base = is_wide ? 0 : header.stride_bits & 0xFFFFFFFFu;
  return quantizer;
}

}  // namespace h5lossy
