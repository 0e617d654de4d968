// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Permutations of the 64 bytes of a vector, known at compile time. For AVX-512 VBMI only.
#pragma once

#include <immintrin.h>

#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::simd {

struct Permutation {
  alignas(64) u8 sources[64];
};

// The permutation that moves byte `source(i)` to place i.
template <class Source>
constexpr Permutation permutation(Source source) {
  Permutation result = {};
  for (u32 i = 0; i < 64; ++i) result.sources[i] = static_cast<u8>(source(i));
  return result;
}

inline __m512i permute(const Permutation& permutation, __m512i bytes) {
  return _mm512_permutexvar_epi8(_mm512_load_si512(permutation.sources), bytes);
}

}  // namespace h5lossy::H5L_TARGET::simd
