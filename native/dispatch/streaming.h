// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Copies that leave the caches alone: for results so large that nothing of them would still be there when they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace h5lossy {

// Results of at least so many bytes are written past the caches: more than a core's share of the last one is on nearly
// all machines. A chunk that HDF5 asks for is far smaller, and read at once.
inline constexpr std::size_t kStreamedBytes = std::size_t{32} << 20;

// memcpy, by stores that do not read the lines that they write. Call finish_streaming() after the last one.
inline void copy_streaming(std::uint8_t* to, const std::uint8_t* from, std::size_t size) {
#if defined(__SSE2__)
  constexpr std::size_t line = 64;
  const std::size_t head = (line - reinterpret_cast<std::uintptr_t>(to) % line) % line;
  if (size >= head + line) {
    std::memcpy(to, from, head);
    to += head, from += head, size -= head;
    for (; size >= line; to += line, from += line, size -= line) {
      for (std::size_t i = 0; i < line; i += 16) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), bytes);
      }
    }
  }
#endif
  if (size != 0) std::memcpy(to, from, size);
}

// Asks for bytes that will be read soon.
inline void prefetch(const std::uint8_t* bytes, std::size_t size) {
  for (std::size_t i = 0; i < size; i += 64) __builtin_prefetch(bytes + i);
}

// Other threads see the copies after whatever tells them so.
inline void finish_streaming() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace h5lossy
