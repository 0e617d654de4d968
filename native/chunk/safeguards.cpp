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

template <class T>
using Word = scalar::Word<T>;

static_assert(kMostCuts == 2 * H5L_MAX_THRESHOLDS + 2);

// The smallest number of the type that is not below a given number.
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
  if (quantizer.kind != BoundKind::pointwise_relative) {
    cuts.reach = static_cast<double>(std::nextafter(static_cast<T>(quantizer.bound), infinity));
  }
  return cuts;
}

// Moves values near a cut. A moved value does not move again.
template <class T>
class Moves {
 public:
  explicit Moves(const Quantizer& quantizer)
      : quantizer_(quantizer), bound_(static_cast<T>(quantizer.bound)), step_(static_cast<T>(quantizer.step)) {}

  [[nodiscard]] bool is_near(Word<T> bits) const {
    return scalar::is_near_cut(quantizer_.cuts, std::bit_cast<T>(bits)) && !is_fill(bits);
  }

  // x itself if it is a fine point, or if no other rule applies. Beyond the limit of bins x is an exception in any
  // case, and the multiple of the step that is nearest to x may itself be nearer to the next one, by the rounded
  // quotient.
  [[nodiscard]] T move(T x) const {
    const T fine = step_ / kFineUnit, number = std::round(x / fine);
    const bool may_be_fine = std::abs(number) <= static_cast<T>(kMostFine<T>) && number * fine == x;
    if (may_be_fine && is_fine_number<T>(static_cast<int>(number))) return x;
    if (std::abs(x / step_) >= static_cast<T>(scalar::kBinLimit<T>)) return x;
    const T bin = nearest_bin(x);
    if (!scalar::are_parted(quantizer_.cuts, x, bin)) return is_good(x, bin) ? bin : x;
    const T middle = middle_beside(x, bin);
    const bool is_good_middle =
        !scalar::are_parted(quantizer_.cuts, x, middle) && is_good(x, middle) && nearest_bin(middle) == bin;
    return is_good_middle ? middle : x;
  }

 private:
  [[nodiscard]] T nearest_bin(T x) const { return std::round(x / step_) * step_ + T{0}; }

  [[nodiscard]] bool is_fill(Word<T> bits) const { return quantizer_.has_fill && bits == quantizer_.fill_bits; }

  [[nodiscard]] bool is_good(T x, T other) const {
    return std::abs(x - other) < bound_ && !is_fill(std::bit_cast<Word<T>>(other));
  }

  // About the middle of the numbers in x's bin that the cuts leave on x's side, but not a fine point, since an
  // exception takes fewer bits.
  [[nodiscard]] T middle_beside(T x, T bin) const {
    T low = bin - step_ / 2, high = bin + step_ / 2;
    for (u32 i = 0; i < quantizer_.cuts->count; ++i) {
      const T cut = static_cast<T>(quantizer_.cuts->numbers[i]);
      if (cut <= x) low = std::max(low, cut);
      if (cut > x) high = std::min(high, cut);
    }
    return low + (high - low) * (T{63} / 128);
  }

  const Quantizer& quantizer_;
  T bound_, step_;
};

template <class T>
void move_values(const Quantizer& quantizer, bool is_swapped, std::span<std::uint8_t> values) {
  constexpr std::size_t batch = 512;
  const Moves<T> moves(quantizer);
  Word<T> words[batch];
  for (std::size_t begin = 0; begin < values.size(); begin += sizeof words) {
    const std::span<std::uint8_t> here = values.subspan(begin, std::min(sizeof words, values.size() - begin));
    const std::size_t count = here.size() / sizeof(T);
    std::memcpy(words, here.data(), here.size());
    if (is_swapped) copy_swapped(here.data(), reinterpret_cast<std::uint8_t*>(words), here.size(), sizeof(T));
    u32 found = 0;  // a separate loop, so that compilers vectorize it: most batches have no such value
    for (u32 c = 0; c < quantizer.cuts->count; ++c) {
      const T cut = static_cast<T>(quantizer.cuts->numbers[c]), reach = static_cast<T>(quantizer.cuts->reach);
      for (std::size_t i = 0; i < count; ++i) found += std::abs(std::bit_cast<T>(words[i]) - cut) < reach ? 1 : 0;
    }
    if (found == 0) continue;
    for (std::size_t i = 0; i < count; ++i) {
      if (moves.is_near(words[i])) words[i] = std::bit_cast<Word<T>>(moves.move(std::bit_cast<T>(words[i])));
    }
    std::memcpy(here.data(), words, here.size());
    if (is_swapped) copy_swapped(reinterpret_cast<const std::uint8_t*>(words), here.data(), here.size(), sizeof(T));
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
