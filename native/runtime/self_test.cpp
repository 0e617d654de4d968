// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "runtime/self_test.h"

#include <bit>

#include "codecs/bounds.h"
#include "frame/checksum.h"
#include "runtime/float_environment.h"

namespace h5lossy {
namespace {

// Whole groups, for the vector code, and a remainder, for the scalar code.
constexpr std::uint32_t kValues = 1041;

// Sum over all payloads and all decoded values below. tests/test_self_test.py derives it from the reference codec.
constexpr std::uint32_t kExpectedSum = 0xE240C4BC;

// Knuth's MMIX generator: the same values on every machine.
class Numbers {
 public:
  std::uint64_t next() {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return state_ >> 11;
  }

 private:
  std::uint64_t state_ = 46412;
};

// Values from 512 to 2048. With a bound of 1e-3, one in a hundred float32 values is within the bound only if the
// product is rounded, or only if it is fused.
template <class T>
void fill_with_fractions(Numbers& numbers, std::uint8_t* values) {
  using W = scalar::Word<T>;
  constexpr W low = W{scalar::FloatTraits<T>::bias + 9} << scalar::kMantissaBits<T>;
  constexpr W two_binades = 2 * scalar::kMantissaMask<T> + 1;
  for (std::uint32_t i = 0; i < kValues; ++i) {
    scalar::store<W>(values + i * sizeof(T), low + (static_cast<W>(numbers.next()) & two_binades));
  }
}

// Multiples of 0.5 and their neighbours, of both signs, and some subnormals: with a bound of 0.5 they lie at the edges
// of bins.
template <class T>
void fill_with_halves(Numbers& numbers, std::uint8_t* values) {
  using W = scalar::Word<T>;
  for (std::uint32_t i = 0; i < kValues; ++i) {
    const std::uint64_t number = numbers.next();
    W bits = std::bit_cast<W>(static_cast<T>(number % 4096 + 1) / 2);
    bits += static_cast<W>((number >> 12) % 3) - 1;
    if ((number >> 16) % 64 == 0) bits = static_cast<W>((number >> 22) % 4096);
    if ((number >> 15) % 2 == 1) bits |= scalar::kSignBit<T>;
    scalar::store<W>(values + i * sizeof(T), bits);
  }
  // The last value is the edge of bin 0 itself.
  scalar::store<W>(values + (kValues - 1) * sizeof(T), scalar::kSignBit<T> | scalar::FloatTraits<T>::below_half);
}

// On the stack: the result is kept for the process, so it must not depend on an allocation.
struct Memory {
  alignas(64) std::uint8_t workspace[48 << 10];
  std::uint8_t payload[20 << 10];
};

template <class T>
std::uint32_t sum_of(const TileFunctions& functions, const Quantizer& quantizer, const std::uint8_t* values,
                     Memory& memory) {
  std::uint8_t decoded[kValues * sizeof(T)] = {};
  const Box run = {{1, 1, 1, kValues}};
  const Tile tile = {kValues, 1, &run};
  const std::uint32_t size = functions.encode(quantizer, 0, tile, values, memory.payload, memory.workspace);
  if (size == kStoreTile || !functions.decode(quantizer, 0, tile, memory.payload, size, decoded, memory.workspace)) {
    return 0;
  }
  return checksum({memory.payload, size}, 0) + checksum(decoded, 1);
}

template <class T>
std::uint32_t sum_of(const TileFunctions& functions, Memory& memory) {
  Numbers numbers;
  std::uint8_t values[kValues * sizeof(T)];
  Quantizer absolute, pointwise;
  absolute.kind = BoundKind::absolute;
  pointwise.kind = BoundKind::pointwise_relative;
  fill_with_fractions<T>(numbers, values);
  std::uint32_t sum = sum_of<T>(functions, scalar::make_absolute<T>(absolute, 1e-3), values, memory);
  sum += 3 * sum_of<T>(functions, scalar::make_pointwise<T>(pointwise, 1e-3), values, memory);
  fill_with_halves<T>(numbers, values);
  sum += 5 * sum_of<T>(functions, scalar::make_absolute<T>(absolute, 0.5), values, memory);
  // Bin 0 must decode to +0.0, never to the fill value -0.0, for small negative values, too.
  absolute.has_fill = true;
  absolute.fill_bits = scalar::kSignBit<T>;
  return sum + 11 * sum_of<T>(functions, scalar::make_absolute<T>(absolute, 0.5), values, memory);
}

}  // namespace

h5l_status self_test(const Backend& backend, const Message& why) {
  const FloatEnvironment environment;
  const Codec& codec = *lossless_codec(backend.codecs, 0).codec;
  Memory memory;
  const std::uint32_t sum = sum_of<float>(codec.float32, memory) + 7 * sum_of<double>(codec.float64, memory);
  if (sum == kExpectedSum) return H5L_OK;
  return why.fail(
      H5L_INTERNAL,
      "the %s backend gives wrong results on this machine (self test: %08x, expected %08x); was it compiled with "
      "-ffast-math or without -ffp-contract=off?",
      backend.name, sum, kExpectedSum);
}

}  // namespace h5lossy
