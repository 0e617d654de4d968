// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "offload/check_chunks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "chunk/integers.h"

namespace h5lossy {
namespace {

constexpr std::uint32_t kShapes[][3] = {{9000}, {90, 100}, {20, 44, 50}};
constexpr double kFill = -999, kBound = 1e-3;

// SplitMix64.
class Numbers {
 public:
  std::uint64_t next() {
    std::uint64_t bits = state_ += 0x9E3779B97F4A7C15u;
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
    return bits ^ bits >> 31;
  }
  double fraction() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  bool one_in(std::uint64_t count) { return next() % count == 0; }

 private:
  std::uint64_t state_ = 46412;
};

// Numbers of about 1; NaN stands for a value without one: a fill value or one of `specials`.
std::vector<double> make_numbers(const h5l_params& params, Field field, Numbers& random) {
  std::vector<double> numbers(count_check_values(params));
  std::vector<double> waves[std::size(kShapes)];  // along each axis
  for (std::uint32_t axis = 0; axis < params.rank; ++axis) {
    for (std::uint32_t i = 0; i < params.shape[axis]; ++i) {
      waves[axis].push_back(std::sin(i / (9.0 + 4 * axis) + axis) / params.rank);
    }
  }
  double walk = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    double wave = 0;
    std::size_t rest = i;
    for (std::uint32_t axis = params.rank; axis-- > 0; rest /= params.shape[axis]) {
      const double size = field == Field::layered && axis != 1 ? 0.05 * (1 + axis) : 1;
      wave += size * waves[axis][rest % params.shape[axis]];
    }
    double& number = numbers[i];
    number = wave;
    if (field == Field::noisy) number += 20 * kBound * random.fraction();
    if (field == Field::rough) number = walk += (random.one_in(500) ? 100 : 0.01) * (random.fraction() - 0.5);
    if (field == Field::masked && (wave > 0.5 || random.one_in(700))) number = std::nan("");
    if (field == Field::packed) number = 2.7315 + 0.01 * std::rint(100 * wave);
    if (field == Field::sparse && !random.one_in(50)) number = 0;
  }
  return numbers;
}

template <class T>
T as_float(double number, Numbers& random) {
  constexpr T infinity = std::numeric_limits<T>::infinity(), tiny = std::numeric_limits<T>::denorm_min();
  const T specials[] = {std::numeric_limits<T>::quiet_NaN(), infinity, -infinity, T{0}, -T{0}, tiny, -3 * tiny,
                        std::numeric_limits<T>::max()};
  if (!std::isnan(number)) return static_cast<T>(number);
  return random.one_in(20) ? specials[random.next() % std::size(specials)] : static_cast<T>(kFill);
}

// An integer of some bytes: a multiple of 3, so that words are ranks of multiples where nothing is added to them.
std::uint64_t as_integer(const h5l_params& params, Field field, double number, Numbers& random) {
  if (std::isnan(number)) return random.one_in(20) ? random.next() : params.fill_bits;
  const double scale = params.value_bytes == 1 ? 12 : params.value_bytes == 2 ? 3000 : 1e6;
  const double base = params.value_class == H5L_CLASS_UNSIGNED ? 3 * scale : 0;
  const std::int64_t whole = 3 * static_cast<std::int64_t>(std::rint(base + scale * number));
  return static_cast<std::uint64_t>(whole) + (field == Field::noisy ? random.next() % 3 : 0);
}

}  // namespace

void set_check_type(h5l_params& params, std::uint32_t value_class, std::uint32_t value_bytes, std::uint32_t rank) {
  params.value_class = value_class;
  params.value_bytes = value_bytes;
  params.rank = rank;
  std::copy_n(kShapes[rank - 1], rank, params.shape);
  params.has_fill = 1;
  params.fill_bits = has_integers(params) ? 77
                     : value_bytes == 4   ? std::bit_cast<std::uint32_t>(static_cast<float>(kFill))
                                          : std::bit_cast<std::uint64_t>(kFill);
  params.bound = params.bound_kind == H5L_BOUND_LOSSLESS         ? 0
                 : !has_integers(params)                         ? kBound
                 : params.bound_kind == H5L_BOUND_RANGE_RELATIVE ? 0.02
                                                                 : 4;
}

std::size_t count_check_values(const h5l_params& params) {
  std::size_t count = 1;
  for (std::uint32_t axis = 0; axis < params.rank; ++axis) count *= params.shape[axis];
  return count;
}

std::vector<std::uint8_t> make_check_chunk(const h5l_params& params, Field field) {
  Numbers random;
  const std::vector<double> numbers = make_numbers(params, field, random);
  const std::size_t bytes = params.value_bytes;
  std::vector<std::uint8_t> chunk(numbers.size() * bytes);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::uint64_t bits = 0;
    if (field == Field::arbitrary || (field == Field::sparse && i >= numbers.size() / 3 * 2)) {
      bits = random.next();
    } else if (has_integers(params)) {
      bits = as_integer(params, field, numbers[i], random);
    } else if (bytes == 4) {
      bits = std::bit_cast<std::uint32_t>(as_float<float>(numbers[i], random));
    } else {
      bits = std::bit_cast<std::uint64_t>(as_float<double>(numbers[i], random));
    }
    std::uint8_t* const value = chunk.data() + i * bytes;
    std::memcpy(value, &bits, bytes);
    if (params.big_endian != 0) std::reverse(value, value + bytes);
  }
  return chunk;
}

}  // namespace h5lossy
