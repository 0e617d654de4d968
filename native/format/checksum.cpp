// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "format/checksum.h"

#include <cstring>

#include "format/bytes.h"

namespace h5lossy {
namespace {

// The finaliser of MurmurHash3: a bijection, so any change of one word changes the sum.
constexpr std::uint32_t mix(std::uint32_t h) {
  h ^= h >> 16;
  h *= 0x85EBCA6Bu;
  h ^= h >> 13;
  h *= 0xC2B2AE35u;
  return h ^ (h >> 16);
}

}  // namespace

std::uint32_t checksum(std::span<const std::uint8_t> bytes, std::uint32_t tile, std::uint32_t first_word) {
  const std::uint32_t seed = tile * 0x85EBCA77u + first_word * 0x9E3779B9u;
  const std::uint32_t words = static_cast<std::uint32_t>(bytes.size() / 4);
  std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i < words; ++i) {
    sum += mix(read_u32(bytes.data() + std::size_t{4} * i) + (i + 1) * 0x9E3779B9u + seed);
  }
  if (const std::size_t rest = bytes.size() % 4; rest != 0) {
    std::uint8_t last[4] = {};
    std::memcpy(last, bytes.data() + std::size_t{4} * words, rest);
    sum += mix(read_u32(last) + (words + 1) * 0x9E3779B9u + seed);
  }
  return sum;
}

}  // namespace h5lossy
