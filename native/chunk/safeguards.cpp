// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/safeguards.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "chunk/integers.h"
#include "chunk/params.h"

namespace h5lossy {
namespace {

static_assert(kMostCuts == 2 * H5L_MAX_THRESHOLDS + 2);

// The first number of the type that is not below a number.
template <class T>
T first_from(double number) {
  constexpr T largest = std::numeric_limits<T>::max(), infinity = std::numeric_limits<T>::infinity();
  if (number > largest) return infinity;
  if (number < -largest) return -largest;
  const T nearest = static_cast<T>(number);
  return nearest < number ? std::nextafter(nearest, infinity) : nearest;
}

template <class T>
T first_above(double number) {
  const T first = first_from<T>(number);
  return first == number ? std::nextafter(first, std::numeric_limits<T>::infinity()) : first;
}

template <class T>
Cuts cuts_of(const h5l_params& params, const Quantizer& quantizer) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  Cuts cuts;
  const auto add = [&](T number) { cuts.numbers[cuts.count++] = static_cast<double>(number); };
  for (std::uint32_t i = 0; i < params.threshold_count; ++i) {
    add(first_from<T>(params.thresholds[i]));
    add(first_above<T>(params.thresholds[i]));
  }
  if (params.has_valid_range != 0) {
    add(first_from<T>(params.valid_min));
    add(first_above<T>(params.valid_max));
  }
  double* const end = cuts.numbers + cuts.count;
  std::sort(cuts.numbers, end);
  cuts.count = static_cast<u32>(std::unique(cuts.numbers, end) - cuts.numbers);
  const bool is_free = step_rule(params).is_free;
  if (is_free && quantizer.kind != BoundKind::pointwise_relative) {
    cuts.reach = static_cast<double>(std::nextafter(static_cast<T>(quantizer.bound), infinity));
  }
  return cuts;
}

}  // namespace

bool has_safeguards(const h5l_params& params) { return params.threshold_count != 0 || params.has_valid_range != 0; }

h5l_status check_safeguards(const h5l_params& params, const Message& why) {
  if (!has_safeguards(params)) return H5L_OK;
  if (params.threshold_count > H5L_MAX_THRESHOLDS) {
    return why.fail(H5L_UNSUPPORTED, "at most %d thresholds are allowed, got %u; leave some out", H5L_MAX_THRESHOLDS,
                    params.threshold_count);
  }
  if (params.bound_kind == H5L_BOUND_LOSSLESS) {
    return why.fail(H5L_INVALID_ARGUMENT, "lossless keeps all values; leave out thresholds and valid range");
  }
  bool only_zero = params.has_valid_range == 0;
  for (std::uint32_t i = 0; i < params.threshold_count; ++i) {
    only_zero = only_zero && params.thresholds[i] == 0;
    if (std::isfinite(params.thresholds[i])) continue;
    return why.fail(H5L_INVALID_ARGUMENT, "a threshold must be a finite number, got %.17g", params.thresholds[i]);
  }
  const bool is_range = std::isfinite(params.valid_min) && std::isfinite(params.valid_max) &&
                        params.valid_min <= params.valid_max;
  if (params.has_valid_range != 0 && !is_range) {
    return why.fail(H5L_INVALID_ARGUMENT, "the valid range must be two finite numbers, the smaller one first, got "
                    "%.17g and %.17g", params.valid_min, params.valid_max);
  }
  if (params.value_class == H5L_CLASS_COMPLEX) {
    return why.fail(H5L_UNSUPPORTED, "complex numbers have no thresholds and no valid range; leave them out");
  }
  if (has_integers(params) && !only_zero) {
    return why.fail(H5L_UNSUPPORTED,
                    "of integers and halves 0 is the only threshold, and there is no valid range; give exact values, or "
                    "lossless, or convert the data to float32");
  }
  return H5L_OK;
}

Cuts make_cuts(const h5l_params& params, const Quantizer& quantizer) {
  return params.value_bytes == 4 ? cuts_of<float>(params, quantizer) : cuts_of<double>(params, quantizer);
}

}  // namespace h5lossy
