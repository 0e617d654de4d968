// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/wide_bins.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "frame/swap.h"

namespace h5lossy {
namespace {

__extension__ using Int128 = __int128;

// V is the type of the values.
template <class V>
class WideBins {
 public:
  // Holds sums of a value and a step.
  using Number = std::conditional_t<sizeof(V) == 8, Int128, std::conditional_t<sizeof(V) == 4, std::int64_t, int>>;

  WideBins(const h5l_params& params, const Quantizer& quantizer, std::size_t count)
      : params_(params),
        quantizer_(quantizer),
        step_(static_cast<Number>(quantizer.scale)),
        first_(nearest(Limits::min())),
        last_(nearest(Limits::max())) {
    const std::size_t rows = params.rank < 2 ? 1 : params.shape[params.rank - 2];
    length_ = params.rank == 0 ? count : params.shape[params.rank - 1];
    if (length_ == 0 || rows == 0 || count % (rows * length_) != 0) length_ = count;
    slice_ = length_ == count ? count : rows * length_;
  }

  [[nodiscard]] std::size_t slice() const { return slice_; }

  // `multiples` has room for one slice. It holds those of the previous slice until this slice's replace them.
  void move(std::span<const std::uint8_t> raw, std::uint8_t* moved, Number* multiples) const {
    const std::size_t count = raw.size() / sizeof(V);
    for (std::size_t i = 0, place = 0; i < count; ++i, place = place + 1 == slice_ ? 0 : place + 1) {
      Number& at = multiples[place];
      const Number predicted = i < slice_ ? from_left_and_above(&at, place) : at;
      at = predicted;
      write(choose(read(raw.data() + i * sizeof(V)), at), moved + i * sizeof(V));
    }
  }

 private:
  using W = std::make_unsigned_t<V>;
  using Limits = std::numeric_limits<V>;

  [[nodiscard]] V read(const std::uint8_t* at) const {
    W word;
    std::memcpy(&word, at, sizeof word);
    return static_cast<V>(params_.big_endian != 0 ? swap_bytes(word) : word);
  }
  void write(V value, std::uint8_t* at) const {
    const W word = params_.big_endian != 0 ? swap_bytes(static_cast<W>(value)) : static_cast<W>(value);
    std::memcpy(at, &word, sizeof word);
  }

  [[nodiscard]] Number floor_of_steps(Number number) const { return number / step_ - (number % step_ < 0 ? 1 : 0); }
  [[nodiscard]] Number nearest(Number number) const { return floor_of_steps(number + step_ / 2); }

  [[nodiscard]] bool is_exact(V value) const {
    const u64* const end = quantizer_.exact + quantizer_.exact_count;
    return std::find(&quantizer_.exact[0], end, u64{static_cast<W>(value)}) != end;
  }

  // The median of left, above, and left + above - above-left (JPEG-LS, ITU-T T.87, A.4.1).
  [[nodiscard]] Number from_left_and_above(const Number* at, std::size_t place) const {
    const bool has_left = place % length_ != 0, has_above = place >= length_;
    if (!has_left && !has_above) return 0;
    const Number *const row_above = at - length_, left = has_left ? at[-1] : *row_above;
    if (!has_left || !has_above) return left;
    const Number above = *row_above, sum = left + above - row_above[-1];
    return std::clamp(sum, std::min(left, above), std::max(left, above));
  }

  // The value that a multiple of the step decodes to.
  [[nodiscard]] V middle(Number multiple) const {
    return static_cast<V>(std::clamp(multiple * step_, Number{Limits::min()}, Number{Limits::max()}));
  }

  // The nearest value to an exact one, on the side of `value`, that is not exact.
  [[nodiscard]] V beside_exact(V exact, V value) const {
    do exact = static_cast<V>(value > exact ? exact + 1 : exact - 1);
    while (is_exact(exact));
    return exact;
  }

  // The decoded value for a value. `multiple` is the predicted multiple on entry, and the chosen one on return.
  V choose(V value, Number& multiple) const {
    if (is_exact(value)) return value;
    const Number floor = floor_of_steps(value), lower = std::max(floor, first_), upper = std::min(floor + 1, last_);
    const V below = middle(lower), above = middle(upper);
    if (value == below || value == above) {  // decoded before, or equal to such a value
      multiple = value == below ? lower : upper;
      return value;
    }
    const bool has_below = !is_exact(below), has_above = !is_exact(above);
    if (!has_below && !has_above) return beside_exact(nearest(value) == lower ? below : above, value);
    multiple = std::clamp(multiple, has_below ? lower : upper, has_above ? upper : lower);
    return multiple == lower ? below : above;
  }

  const h5l_params& params_;
  const Quantizer& quantizer_;
  Number step_, first_, last_;
  std::size_t length_, slice_;
};

template <class V>
Array<std::uint8_t> move(const h5l_params& params, const Quantizer& quantizer, std::span<const std::uint8_t> raw) {
  const WideBins<V> bins(params, quantizer, raw.size() / sizeof(V));
  Array<std::uint8_t> moved = allocate<std::uint8_t>(raw.size());
  const auto multiples = allocate<typename WideBins<V>::Number>(bins.slice());
  if (moved == nullptr || multiples == nullptr) return nullptr;
  std::fill_n(multiples.get(), bins.slice(), 0);  // each is set before it is read, but compilers do not see that
  bins.move(raw, moved.get(), multiples.get());
  return moved;
}

}  // namespace

Array<std::uint8_t> in_wide_bins(const h5l_params& params, const Quantizer& quantizer,
                                 std::span<const std::uint8_t> raw) {
  const bool is_signed = params.value_class == H5L_CLASS_SIGNED;
  switch (params.value_bytes) {
    case 1:
      return is_signed ? move<std::int8_t>(params, quantizer, raw) : move<std::uint8_t>(params, quantizer, raw);
    case 2:
      return is_signed ? move<std::int16_t>(params, quantizer, raw) : move<std::uint16_t>(params, quantizer, raw);
    case 4:
      return is_signed ? move<std::int32_t>(params, quantizer, raw) : move<std::uint32_t>(params, quantizer, raw);
    default:
      return is_signed ? move<std::int64_t>(params, quantizer, raw) : move<std::uint64_t>(params, quantizer, raw);
  }
}

}  // namespace h5lossy
