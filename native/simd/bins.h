// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Values to bins of the block codecs (bin_of() of codecs/blocks.h) and back, a block at a time. With rows in registers each
// quantizer has a twin that keeps its constants in registers and gives the same bins; else the definition, in loops.
#pragma once

#include "codecs/blocks.h"
#include "codecs/groups.h"
#include "codecs/portable.h"
#include "simd/rows.h"

namespace h5lossy::H5L_TARGET::simd {

#if defined(H5L_ROWS_VECTOR)

// One bit for each lane of row r, where they stand in a block.
template <u32 r, class W>
H5L_ROWS_FN u64 positions_of(Mask<W> mask) {
#if defined(H5L_ROWS_AVX512)
  return u64{mask} << (r * kLanes<W>);
#else
  return u64{nonzero_lanes<W>(mask)} << (r * kLanes<W>);
#endif
}

// What is tried for a row of values: bins, and which of them are good.
template <class W>
struct Tried {
  Vector<W> bin;
  Mask<W> good;
};

template <class Q>
class LaneQuantizer;

template <class T>
class LaneQuantizer<AbsoluteQuantizer<T>> {
 public:
  using W = Word<T>;

  explicit LaneQuantizer(const AbsoluteQuantizer<T>& q)
      : bound_(all_lanes(q.bound)),
        step_(all_lanes(q.step)),
        inverse_step_(all_lanes(q.inverse_step)),
        has_fill_(q.has_fill),
        fill_bits_(all_lanes(q.fill_bits)) {}

  [[nodiscard]] H5L_ROWS_FN Tried<W> try_once(Vector<W> bits) const {
    const Vector<W> bin = nearest_bin(bits);
    return {bin, good(bits, bin, distance(bits, bin))};
  }

  // With the second chance of quantize().
  [[nodiscard]] H5L_ROWS_FN Tried<W> try_twice(Vector<W> bits) const {
    using Int = typename FloatTraits<T>::Int;
    const Vector<W> bin = nearest_bin(bits);
    const Vector<T> first = distance(bits, bin);
    const Vector<W> sign = (Vector<W>)((Vector<Int>)first >> (kWordBits<W> - 1));
    const Vector<W> neighbour = bin + (sign | 1);  // a NaN's sign does not matter
    const Mask<W> is_good = good(bits, bin, first);
    return {choose(is_good, bin, neighbour), is_good | good(bits, neighbour, distance(bits, neighbour))};
  }

  [[nodiscard]] H5L_ROWS_FN Vector<W> to_bits(Vector<W> bin) const { return (Vector<W>)(to_float(bin) * step_ + T{0}); }

 private:
  [[nodiscard]] H5L_ROWS_FN Vector<W> nearest_bin(Vector<W> bits) const {
    const Vector<T> s = (Vector<T>)bits * inverse_step_;
    const Vector<W> half = ((Vector<W>)s & kSignBit<T>) | W{FloatTraits<T>::below_half};
    return truncated(s + (Vector<T>)half);
  }

  [[nodiscard]] H5L_ROWS_FN Vector<T> distance(Vector<W> bits, Vector<W> bin) const {
    return (Vector<T>)bits - bin_to_float(bin) * step_;
  }

  // See bin_is_good().
  [[nodiscard]] H5L_ROWS_FN Mask<W> good(Vector<W> bits, Vector<W> bin, Vector<T> difference) const {
    const Vector<T> magnitude = (Vector<T>)((Vector<W>)difference & ~kSignBit<T>);
    Mask<W> is_good = is_less(bin + (kBinLimit<T> - 1), all_lanes(static_cast<W>(2 * kBinLimit<T> - 1))) &
                      is_at_most(magnitude, bound_);
    if (has_fill_)
      is_good = is_good & invert<W>(is_equal(bits, fill_bits_)) & invert<W>(is_equal(to_bits(bin), fill_bits_));
    return is_good;
  }

  Vector<T> bound_, step_, inverse_step_;
  bool has_fill_;
  Vector<W> fill_bits_;
};

template <class T>
class LaneQuantizer<blocks::FoldedQuantizer<T>> {
 public:
  using W = Word<T>;

  explicit LaneQuantizer(const blocks::FoldedQuantizer<T>& q)
      : scale_(all_lanes(q.pointwise.scale)),
        half_(all_lanes(q.pointwise.scale / 2)),
        inverse_scale_(all_lanes(q.pointwise.inverse_scale)),
        offset_(all_lanes(q.offset)),
        has_fill_(q.pointwise.has_fill),
        fill_bits_(all_lanes(q.pointwise.fill_bits)) {
    const W up = (kInfinity<T> - 1 - kOne<T>) / q.pointwise.scale;
    bins_ = all_lanes(q.offset + (up < kPointwiseBinLimit<T> ? up : kPointwiseBinLimit<T>));
  }

  [[nodiscard]] H5L_ROWS_FN Tried<W> try_once(Vector<W> bits) const {
    using Int = typename FloatTraits<T>::Int;
    const Vector<W> u = bits & ~kSignBit<T>;
    const Vector<W> distance = u - kOne<T>;
    // See steps_of_distance(): here with its sign, so the quotient may be one off to either side.
    Vector<W> bin = truncated(to_float(distance) * inverse_scale_);
    const Vector<W> rest = distance - bin * scale_;
    bin = choose(is_above(rest, half_), bin + 1, bin);
    bin = choose(is_above(W{0} - half_, rest), bin - 1, bin);
    const Vector<W> folded = bin + offset_;  // at least 1
    constexpr W normals = kInfinity<T> - (kMantissaMask<T> + 1);
    const Mask<W> is_good = is_less(folded - 1, bins_) & is_less(u - (kMantissaMask<T> + 1), all_lanes(normals));
    const Mask<W> is_zero = is_equal(u, Vector<W>{});
    const Vector<W> sign = (Vector<W>)((Vector<Int>)bits >> (kWordBits<W> - 1));
    Tried<W> tried = {choose(is_zero, Vector<W>{}, (folded ^ sign) - sign), is_good | is_zero};
    if (has_fill_) {
      const Mask<W> gives_fill = is_equal((bin * scale_ + kOne<T>) | (bits & kSignBit<T>), fill_bits_);
      tried.good = tried.good & invert<W>(is_equal(bits, fill_bits_)) & (is_zero | invert<W>(gives_fill));
    }
    return tried;
  }

  [[nodiscard]] H5L_ROWS_FN Tried<W> try_twice(Vector<W> bits) const { return try_once(bits); }

  [[nodiscard]] H5L_ROWS_FN Vector<W> to_bits(Vector<W> bin) const {
    using Int = typename FloatTraits<T>::Int;
    const Vector<W> sign = (Vector<W>)((Vector<Int>)bin >> (kWordBits<W> - 1));
    const Vector<W> steps = ((bin ^ sign) - sign) - offset_;
    const Vector<W> bits = ((steps * scale_ + kOne<T>)&~kSignBit<T>) | (bin & kSignBit<T>);
    return choose(is_equal(bin, Vector<W>{}), Vector<W>{}, bits);
  }

 private:
  Vector<W> scale_, half_;
  Vector<T> inverse_scale_;
  Vector<W> offset_;
  bool has_fill_;
  Vector<W> fill_bits_;
  Vector<W> bins_;  // how many a magnitude has
};

template <class T, class Q>
class Bins {
 public:
  using W = Word<T>;

  explicit Bins(const Q& q) : lanes_(q) {}

  // The bins of a block of n values, all good at the first try. False: they may not be.
  template <u32 n>
  H5L_ROWS_FN bool from_values(const u8* values, Rows<n, W>& bins) const {
    Mask<W> good;
#pragma GCC unroll 16
    for (u32 r = 0; r < Rows<n, W>::count; ++r) {
      const Tried<W> tried = lanes_.try_once(load_lanes<W>(values + r * kVectorBytes));
      bins.at[r] = tried.bin;
      good = r == 0 ? tried.good : good & tried.good;
    }
    return all<W>(good);
  }

  // The same of any values. Bit i of the answer: value i is an exception, and has no bin yet.
  template <u32 n>
  H5L_ROWS_FN u64 exceptions(const u8* values, Rows<n, W>& bins) const {
    return blocks::first_bits(n) & ~good_positions<0>(values, bins);
  }

  template <u32 n>
  H5L_ROWS_FN void to_values(const Rows<n, W>& bins, u8* values) const {
#pragma GCC unroll 16
    for (u32 r = 0; r < Rows<n, W>::count; ++r) store_lanes(values + r * kVectorBytes, lanes_.to_bits(bins.at[r]));
  }

 private:
  template <u32 r, u32 n>
  H5L_ROWS_FN u64 good_positions(const u8* values, Rows<n, W>& bins) const {
    const Tried<W> tried = lanes_.try_twice(load_lanes<W>(values + r * kVectorBytes));
    bins.at[r] = tried.bin;
    const u64 here = positions_of<r, W>(tried.good);
    if constexpr (r + 1 < Rows<n, W>::count) return here | good_positions<r + 1>(values, bins);
    return here;
  }

  LaneQuantizer<Q> lanes_;
};

#else

template <u32 n, class T>
bool bins_of_block(const AbsoluteQuantizer<T>& q, const u8* values, Word<T>* bins) {
  return bins_of_group<n>(q, values, bins);
}

template <u32 n, class T>
bool bins_of_block(const blocks::FoldedQuantizer<T>& q, const u8* values, Word<T>* bins) {
  bool good = true;
  for (u32 i = 0; i < n; ++i) good &= blocks::bin_of(q, load<Word<T>>(values + i * sizeof(T)), bins[i]);
  return good;
}

template <class T, class Q>
class Bins {
 public:
  using W = Word<T>;

  explicit Bins(const Q& q) : q_(q) {}

  template <u32 n>
  bool from_values(const u8* values, Rows<n, W>& bins) const {
    return bins_of_block<n>(q_, values, bins.at);
  }

  template <u32 n>
  u64 exceptions(const u8* values, Rows<n, W>& bins) const {
    u64 exceptions = 0;
    for (u32 i = 0; i < n; ++i) {
      if (!blocks::bin_of(q_, load<W>(values + i * sizeof(T)), bins.at[i])) exceptions |= u64{1} << i;
    }
    return exceptions;
  }

  template <u32 n>
  void to_values(const Rows<n, W>& bins, u8* values) const {
    for (u32 i = 0; i < n; ++i) store(values + i * sizeof(T), blocks::bits_of(q_, bins.at[i]));
  }

 private:
  Q q_;
};

#endif

}  // namespace h5lossy::H5L_TARGET::simd
