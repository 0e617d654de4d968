// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Memory beyond the caches: asking for it in time, and writing to it without reading it first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace h5lossy {

// Results of at least so many bytes are written past the caches (Tile::is_streamed). Of less, much may still be in the last
// cache when it is read: a chunk that HDF5 asks for is, at once.
inline constexpr std::size_t kStreamedBytes = std::size_t{32} << 20;

// Asks for bytes that will be read soon.
inline void prefetch(std::span<const std::uint8_t> bytes) {
  for (std::size_t i = 0; i < bytes.size(); i += 64) __builtin_prefetch(bytes.data() + i);
}

// Stores past the caches come before all that follows, for other threads too. Free where there were none.
inline void finish_streaming() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace h5lossy
