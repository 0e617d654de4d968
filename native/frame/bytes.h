// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Little-endian numbers in bytes at any address.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace h5lossy {

// The codecs also read words directly from memory, so swapping here would not make them work on big-endian machines.
static_assert(std::endian::native == std::endian::little, "h5lossy runs on little-endian machines");

inline std::uint32_t read_u32(const std::uint8_t* from) {
  std::uint32_t number;
  std::memcpy(&number, from, sizeof number);
  return number;
}

inline void write_u32(std::uint8_t* to, std::uint32_t number) { std::memcpy(to, &number, sizeof number); }

}  // namespace h5lossy
