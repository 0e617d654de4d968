// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's coder (codecs/interp_coder.h).
#pragma once

#include "codecs/interp_coder.h"

namespace h5lossy::H5L_TARGET::interp::simd {
using Blocks = Definition;
template <class I>
inline void plan_coding(const I* codes, u32 count, i32 unit, Coding& plan) {
  plan_coding_with<Blocks>(codes, count, unit, plan);
}

template <class I>
inline u32 write_codes(const I* codes, u32 count, i32 unit, const Coding& plan, u8* out, u8* scratch) {
  return write_codes_with<Blocks>(codes, count, unit, plan, out, scratch);
}

template <class I>
inline bool read_codes(const Head& head, const u8* in, u32 bytes, u32 count, I* steps, u8* scratch) {
  return read_codes_with<Blocks>(head, in, bytes, count, steps, scratch);
}
}  // namespace h5lossy::H5L_TARGET::interp::simd
