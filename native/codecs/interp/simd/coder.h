// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's coder (codecs/interp/coder.h) for AVX-512 and AVX2: a block of 32 codes at a time, and 16 or 32 lanes at a
// time. Otherwise the definition.
#pragma once

#include "codecs/interp/coder.h"
#include "codecs/interp/tile_codes.h"

#if defined(H5L_AVX512)
#include "codecs/interp/simd/coder_avx512.h"
#elif defined(H5L_AVX2)
#include "codecs/interp/simd/coder_avx2.h"
#endif

namespace h5lossy::H5L_TARGET::interp::simd {

#if !defined(H5L_AVX512) && !defined(H5L_AVX2)
using Blocks = Definition;
#endif

template <class I>
inline void plan_coding(const I* codes, u32 count, Coding& plan) {
  plan_coding_with<Blocks>(codes, count, plan);
}

template <class I>
inline void shorten_coding(const I* codes, u32 count, Coding& plan, u8* scratch) {
  shorten_coding_with<Blocks>(codes, count, plan, scratch);
}

template <class I>
inline u32 write_codes(const I* codes, u32 count, const Coding& plan, u8* out, u8* scratch) {
  return write_codes_with<Blocks>(codes, count, plan, out, scratch);
}

using ReadScratch = interp::ReadScratch<Blocks>;

template <class I>
inline bool read_codes(const Head& head, const Units& units, const u8* in, u32 bytes, u32 count, I* steps,
                       ReadScratch& scratch) {
  return read_codes_with<Blocks>(head, units, in, bytes, count, steps, scratch);
}

}  // namespace h5lossy::H5L_TARGET::interp::simd
