// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The value range of a chunk, for range-relative bounds. Each backend has its own function, with equal results.
#pragma once

#include "codecs/portable.h"

namespace h5lossy {

// Which values are valid: finite ones that are not the fill value.
struct ValidValues {
  u64 fill_bits;
  bool has_fill;
  bool skip_zeros;  // zeros are invalid
  bool is_swapped;  // values are in the other byte order
};

struct FoundRange {
  double min, max;  // never -0; both 0 if no value is valid
  u64 count;        // of valid values
};

struct RangeFunctions {
  FoundRange (*float32)(const ValidValues& valid, const u8* values, u64 count);
  FoundRange (*float64)(const ValidValues& valid, const u8* values, u64 count);
};

}  // namespace h5lossy
