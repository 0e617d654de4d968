// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The quantizer of a setting, for tests of code below the C API.
#pragma once

#include "codecs/bounds.h"
#include "values.h"

namespace h5lossy::test {

template <class T>
Quantizer make_quantizer(const Setting& setting, bool has_fill, Bits<T> fill) {
  Quantizer quantizer;
  quantizer.kind = static_cast<BoundKind>(setting.kind);
  quantizer.has_fill = has_fill;
  quantizer.fill_bits = fill;
  if (setting.kind == H5L_BOUND_LOSSLESS) return quantizer;
  if (setting.kind == H5L_BOUND_POINTWISE_RELATIVE) return scalar::make_pointwise<T>(quantizer, setting.bound);
  return scalar::make_absolute<T>(quantizer, setting.bound);
}

}  // namespace h5lossy::test
