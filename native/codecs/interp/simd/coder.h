// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's coder (codecs/interp/coder.h) for AVX-512 and AVX2: processes a block of 32 codes at a time, and 16 or 32
// lanes at a time. Other backends use the definition.
#pragma once

#if defined(H5L_AVX512)
#include "codecs/interp/simd/coder_avx512.h"
#elif defined(H5L_AVX2)
#include "codecs/interp/simd/coder_avx2.h"
#else
#include "codecs/interp/coder.h"
namespace h5lossy::H5L_TARGET::interp::simd {
using Blocks = Definition;
}
#endif
