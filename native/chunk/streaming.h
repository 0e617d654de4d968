// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Prefetching, and non-temporal stores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace h5lossy {

// Output of at least this size uses non-temporal stores (Tile::non_temporal). Smaller output may still be in the
// last-level cache when it is read, and HDF5 reads a decoded chunk at once.
inline constexpr std::size_t kStreamedBytes = std::size_t{32} << 20;

inline void prefetch(std::span<const std::uint8_t> bytes) {
  for (std::size_t i = 0; i < bytes.size(); i += 64) __builtin_prefetch(bytes.data() + i);
}

// Makes non-temporal stores visible to other threads before later stores.
inline void finish_streaming() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace h5lossy
