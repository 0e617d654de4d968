// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The units in which residuals of closed tiles count: steps, or halves and quarters of steps on coarse levels, from
// which everything else is predicted (docs/format/interp.md, "Units").
#pragma once

#include "codecs/interp/format.h"
#include "codecs/interp/grid.h"

namespace h5lossy::H5L_TARGET::interp {

// Predictions of a closed tile are rounded to multiples of 2 to the power of its grade.
struct Grade {
  i32 distance = 1;  // this power
  Grade() = default;
  H5L_FN explicit Grade(u32 grade) : distance(1 << grade) {}
  template <class I>
  H5L_FN I rounded(I prediction) const {
    return static_cast<I>(static_cast<Unsigned<I>>(prediction) + static_cast<u32>(distance) / 2) &
           -static_cast<I>(distance);
  }
};

// How many residuals, from the first in coding order, count quarters of a step, and how many count halves or quarters.
struct Units {
  u32 quarters = 0;
  u32 halves = 0;
  Grade grade = {};
  H5L_FN u32 bits_at(u32 residual) const { return kUnitBits - (residual < halves) - (residual < quarters); }
};

// The number of values on `level` and the levels above.
H5L_FN u32 values_from(const Shape& shape, u32 level) {
  if (level > top_level(shape)) return 0;
  u32 values = shape.count;
  for (u32 i = 0; i < shape.active; ++i) {
    const u32 extent = shape.extents[shape.active_axes[i]];
    values = values / extent * (((extent - 2) >> level) + 2);
  }
  return values;
}

H5L_FN Units units_of(const Shape& shape, u32 code, u32 grade) {
  constexpr u32 kNever = 32;
  constexpr u32 kHalves[kUnitCodes] = {kNever, 3, 3, 2}, kQuarters[kUnitCodes] = {kNever, kNever, 5, 4};
  // With the highest grade, no unit is below half a step.
  const u32 quarters = grade < kHighestGrade ? values_from(shape, kQuarters[code]) : 0;
  return {quarters, values_from(shape, kHalves[code]), Grade(grade)};
}

}  // namespace h5lossy::H5L_TARGET::interp
