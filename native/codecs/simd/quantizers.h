// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The quantizers of codecs/bounds.h for vectors of values: the same bins, with the constants in registers. Shared by
// all codecs; the range of bins, and exceptions, are the codec's.
#pragma once

#include "codecs/bounds.h"
#include "codecs/simd/lanes.h"

#if defined(H5L_AVX512) || defined(H5L_AVX2)

namespace h5lossy::H5L_TARGET::simd {

// All ones in lanes that are negative as signed numbers.
template <class T>
inline Vector<Word<T>> sign_of_lanes(Vector<Word<T>> lanes) {
  using Int = typename FloatTraits<T>::Int;
  return (Vector<Word<T>>)((Vector<Int>)lanes >> (8 * sizeof(T) - 1));
}

// What a value must not decode to: the fill value, or a number on the other side of a cut.
template <class T>
class GuardLanes {
 public:
  using W = Word<T>;

  // Without a fill value, its bits are those of a NaN, which is an exception anyway.
  template <class Q>
  explicit GuardLanes(const Q& q)
      : fill_(all_lanes(q.has_fill ? q.fill_bits : ~W{0})), has_fill_(q.has_fill), cuts_(q.cuts) {}

  [[nodiscard]] bool has_fill() const { return has_fill_; }

  [[nodiscard]] bool have_cuts() const { return cuts_ != nullptr; }

  [[nodiscard]] Mask<W> is_not_fill(Vector<W> bits) const { return invert<W>(is_equal(bits, fill_)); }

  // Whether values may come back as `rebuilt`.
  [[nodiscard]] Mask<W> allow(Vector<W> bits, Vector<W> rebuilt) const {
    Mask<W> allowed = is_not_fill(bits) & is_not_fill(rebuilt);
    for (u32 i = 0; cuts_ != nullptr && i < cuts_->count; ++i) allowed = allowed & keeps_side(i, bits, rebuilt);
    return allowed;
  }

 private:
  // See is_cut_off().
  [[nodiscard]] Mask<W> keeps_side(u32 i, Vector<W> bits, Vector<W> rebuilt) const {
    const Vector<T> x = (Vector<T>)bits, to = (Vector<T>)rebuilt, cut = all_lanes(static_cast<T>(cuts_->numbers[i]));
    const Vector<T> distance = (Vector<T>)((Vector<W>)(x - cut) & ~kSignBit<T>);
    const Mask<W> is_far = is_at_most(all_lanes(static_cast<T>(cuts_->reach)), distance);
    const Mask<W> is_equal = is_at_most(x, to) & is_at_most(to, x);
    return (is_far | is_equal) & invert<W>(is_at_most(cut, x) ^ is_at_most(cut, to));
  }

  Vector<W> fill_;
  bool has_fill_;
  const Cuts* cuts_;
};

template <class T>
class AbsoluteLanes {
 public:
  using W = Word<T>;

  explicit AbsoluteLanes(const AbsoluteQuantizer<T>& q)
      : bound_(all_lanes(q.bound)), step_(all_lanes(q.step)), inverse_step_(all_lanes(q.inverse_step)) {}

  // See steps_to_truncate().
  [[nodiscard]] Vector<W> nearest_bin(Vector<W> bits) const {
    const Vector<T> s = (Vector<T>)bits * inverse_step_;
    const Vector<W> half = ((Vector<W>)s & kSignBit<T>) | W{FloatTraits<T>::below_half};
    return truncated(s + (Vector<T>)half);
  }

  // Decodes bins in range, except for the sign of zero.
  [[nodiscard]] Vector<T> rebuilt(Vector<W> bin) const { return bin_to_float(bin) * step_; }

  // Decodes any bins.
  [[nodiscard]] Vector<W> to_bits(Vector<W> bin) const { return (Vector<W>)(to_float(bin) * step_ + T{0}); }

  [[nodiscard]] Mask<W> is_close(Vector<T> difference) const {
    return is_at_most((Vector<T>)((Vector<W>)difference & ~kSignBit<T>), bound_);
  }

  [[nodiscard]] Mask<W> is_closer(Vector<T> difference) const {
    return invert<W>(is_at_most(bound_, (Vector<T>)((Vector<W>)difference & ~kSignBit<T>)));
  }

  // The second chance of quantize(): the neighbouring bin on the value's side. A NaN's sign does not matter.
  [[nodiscard]] static Vector<W> neighbour(Vector<W> bin, Vector<T> difference) {
    return bin + (sign_of_lanes<T>((Vector<W>)difference) | 1);
  }

 private:
  Vector<T> bound_, step_, inverse_step_;
};

template <class T>
class PointwiseLanes {
 public:
  using W = Word<T>;

  explicit PointwiseLanes(const PointwiseQuantizer<T>& q)
      : scale_(all_lanes(q.scale)),
        half_(all_lanes(q.scale / 2)),
        inverse_scale_(all_lanes(T{1} / static_cast<T>(q.scale))) {}

  // The bin of a magnitude without a division, which vectors lack: the quotient is off by at most one, in either
  // direction, and is corrected. A bin beyond the limit stays beyond it, which is all that is needed
  // (docs/design/bound.md).
  [[nodiscard]] Vector<W> nearest_bin(Vector<W> magnitude) const {
    const Vector<W> distance = magnitude - kOne<T>;
    Vector<W> bin = truncated(to_float(distance) * inverse_scale_);
    const Vector<W> rest = distance - bin * scale_;
    bin = choose(is_above(rest, half_), bin + 1, bin);
    return choose(is_above(W{0} - half_, rest), bin - 1, bin);
  }

  // Decodes a magnitude, if its bin is good.
  [[nodiscard]] Vector<W> rebuilt(Vector<W> bin) const { return bin * scale_ + kOne<T>; }

  [[nodiscard]] static Mask<W> is_normal(Vector<W> magnitude) {
    constexpr W normals = kInfinity<T> - (kMantissaMask<T> + 1);
    return is_less(magnitude - (kMantissaMask<T> + 1), all_lanes(normals));
  }

 private:
  Vector<W> scale_, half_;
  Vector<T> inverse_scale_;
};

}  // namespace h5lossy::H5L_TARGET::simd

#endif
