// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/safeguards.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "chunk/auto_size.h"
#include "chunk/integers.h"
#include "chunk/params.h"
#include "codecs/bounds.h"
#include "frame/swap.h"

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

// Where values may be moved to.
template <class T>
class Points {
 public:
  explicit Points(const Quantizer& quantizer)
      : quantizer_(quantizer),
        bound_(static_cast<T>(quantizer.bound)),
        step_(static_cast<T>(quantizer.step)),
        fine_(step_ / kFineUnit) {}

  // x itself if it is a point, or if none is near enough.
  [[nodiscard]] T choose(T x) const {
    const T number = std::round(x / fine_);
    if (is_fine(number) && number * fine_ == x) return x;
    const T bin = std::round(x / step_) * step_ + T{0};
    if (is_good(x, bin)) return bin;
    for (T unit = T{kFineUnit} / 2; unit >= 1; unit /= 2) {  // coarse ones take fewer bits
      const T nearest = std::round(x / (unit * fine_)) * unit, other = nearest + (nearest * fine_ < x ? unit : -unit);
      for (const T near : {nearest, other}) {
        const T point = near * fine_ + T{0};
        if (is_fine(near) && is_good(x, point)) return point;
      }
    }
    return x;
  }

 private:
  [[nodiscard]] static bool is_fine(T number) { return std::abs(number) <= static_cast<T>(kMostFine<T>); }
  [[nodiscard]] bool is_good(T x, T point) const {
    const bool is_fill = quantizer_.has_fill && std::bit_cast<scalar::Word<T>>(point) == quantizer_.fill_bits;
    if (is_fill || !(std::abs(x - point) < bound_)) return false;
    const Cuts& cuts = *quantizer_.cuts;
    return std::none_of(cuts.numbers, cuts.numbers + cuts.count, [&](double cut) {
      return (static_cast<double>(x) < cut) != (static_cast<double>(point) < cut);
    });
  }

  const Quantizer& quantizer_;
  T bound_, step_, fine_;
};

template <class T>
void move_values(const Quantizer& quantizer, bool is_swapped, std::span<std::uint8_t> values) {
  using Word = scalar::Word<T>;
  const Points<T> points(quantizer);
  for (std::size_t i = 0; i < values.size(); i += sizeof(T)) {
    Word word;
    std::memcpy(&word, values.data() + i, sizeof word);
    const Word bits = is_swapped ? swap_bytes(word) : word;
    const T x = std::bit_cast<T>(bits);
    if (!scalar::is_near_cut(quantizer.cuts, x) || (quantizer.has_fill && bits == quantizer.fill_bits)) continue;
    const auto moved = std::bit_cast<Word>(points.choose(x));
    word = is_swapped ? swap_bytes(moved) : moved;
    std::memcpy(values.data() + i, &word, sizeof word);
  }
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
  const bool is_range =
      std::isfinite(params.valid_min) && std::isfinite(params.valid_max) && params.valid_min <= params.valid_max;
  if (params.has_valid_range != 0 && !is_range) {
    return why.fail(H5L_INVALID_ARGUMENT,
                    "the valid range must be two finite numbers, the smaller one first, got "
                    "%.17g and %.17g",
                    params.valid_min, params.valid_max);
  }
  if (params.value_class == H5L_CLASS_COMPLEX) {
    return why.fail(H5L_UNSUPPORTED, "complex numbers have no thresholds and no valid range; leave them out");
  }
  if (has_integers(params) && !only_zero) {
    return why.fail(
        H5L_UNSUPPORTED,
        "of integers and halves 0 is the only threshold, and there is no valid range; give exact values, or "
        "lossless, or convert the data to float32");
  }
  return H5L_OK;
}

Array<std::uint8_t> move_from_cuts(const h5l_params& params, const Quantizer& quantizer,
                                   std::span<const std::uint8_t> raw) {
  Array<std::uint8_t> moved = allocate<std::uint8_t>(raw.size());
  if (moved == nullptr) return nullptr;
  std::memcpy(moved.get(), raw.data(), raw.size());
  const std::span<std::uint8_t> values(moved.get(), raw.size());
  params.value_bytes == 4 ? move_values<float>(quantizer, params.big_endian != 0, values)
                          : move_values<double>(quantizer, params.big_endian != 0, values);
  return moved;
}

Cuts make_cuts(const h5l_params& params, const Quantizer& quantizer) {
  return params.value_bytes == 4 ? cuts_of<float>(params, quantizer) : cuts_of<double>(params, quantizer);
}

}  // namespace h5lossy
