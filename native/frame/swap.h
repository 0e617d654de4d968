// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Swaps byte order: frames are little-endian, datasets may be big-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace h5lossy {

inline unsigned char swap_bytes(unsigned char word) { return word; }
inline unsigned short swap_bytes(unsigned short word) { return __builtin_bswap16(word); }
inline unsigned swap_bytes(unsigned word) { return __builtin_bswap32(word); }
inline unsigned long long swap_bytes(unsigned long long word) { return __builtin_bswap64(word); }
inline unsigned long swap_bytes(unsigned long word) {
  return sizeof word == 4 ? swap_bytes(static_cast<unsigned>(word))
                          : static_cast<unsigned long>(swap_bytes(static_cast<unsigned long long>(word)));
}

// Copies `size` bytes of values of 1, 2, 4 or 8 bytes and swaps each value's bytes. `from` and `to` are equal or do not
// overlap.
inline void copy_swapped(const std::uint8_t* from, std::uint8_t* to, std::size_t size, std::uint32_t value_bytes) {
  const auto copy = [&](auto word) {
    for (std::size_t at = 0; at < size; at += sizeof word) {
      std::memcpy(&word, from + at, sizeof word);
      word = swap_bytes(word);
      std::memcpy(to + at, &word, sizeof word);
    }
  };
  switch (value_bytes) {
    case 1:
      return copy(static_cast<unsigned char>(0));
    case 2:
      return copy(static_cast<unsigned short>(0));
    case 4:
      return copy(0u);
    default:
      return copy(0ull);
  }
}

}  // namespace h5lossy
