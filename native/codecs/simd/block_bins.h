// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Values to bins of the block codecs (bin_of() of codecs/blocks.h) and back, a block at a time. With rows in registers,
// each quantizer has a vector version with its constants in registers and the same bins; otherwise the definition, in
// loops.
#pragma once

#include "codecs/blocks.h"
#include "codecs/groups.h"
#include "codecs/portable.h"
#include "codecs/simd/block_rows.h"
#include "codecs/simd/quantizers.h"

namespace h5lossy::H5L_TARGET::simd {

#if defined(H5L_AVX512) || defined(H5L_AVX2)

// One bit per lane of row r, at its position in the block.
template <u32 r, class W>
H5L_INLINE u64 positions_of(Mask<W> mask) {
  return u64{bits_of<W>(mask)} << (r * kLanes<W>);
}

// Candidates for a row of values: bins, and which of them are good.
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

  explicit LaneQuantizer(const AbsoluteQuantizer<T>& q) : lanes_(q), guards_(q) {}

  [[nodiscard]] H5L_INLINE Tried<W> try_once(Vector<W> bits) const {
    const Vector<W> bin = lanes_.nearest_bin(bits);
    return {bin, good<false>(bits, bin, distance(bits, bin))};
  }

  // Whether no cut lies between the values and the bins of try_once().
  [[nodiscard]] H5L_INLINE Mask<W> keep_sides(Vector<W> bits, Vector<W> bin) const {
    return guards_.allow(bits, to_bits(bin));
  }

  [[nodiscard]] bool have_cuts() const { return guards_.have_cuts(); }

  // Includes the second chance of quantize().
  [[nodiscard]] H5L_INLINE Tried<W> try_twice(Vector<W> bits) const {
    const Vector<W> bin = lanes_.nearest_bin(bits);
    const Vector<T> first = distance(bits, bin);
    const Vector<W> neighbour = lanes_.neighbour(bin, first);
    const Vector<T> second = distance(bits, neighbour);
    const Mask<W> is_good = good<true>(bits, bin, first);
    Mask<W> other_is_good = good<true>(bits, neighbour, second);
    if (guards_.have_cuts()) other_is_good = other_is_good & lanes_.is_closer(second);
    return {choose(is_good, bin, neighbour), is_good | other_is_good};
  }

  [[nodiscard]] H5L_INLINE Vector<W> to_bits(Vector<W> bin) const { return lanes_.to_bits(bin); }

 private:
  [[nodiscard]] H5L_INLINE Vector<T> distance(Vector<W> bits, Vector<W> bin) const {
    return (Vector<T>)bits - lanes_.rebuilt(bin);
  }

  // See bin_is_good().
  template <bool with_cuts>
  [[nodiscard]] H5L_INLINE Mask<W> good(Vector<W> bits, Vector<W> bin, Vector<T> difference) const {
    Mask<W> is_good = is_less(bin + (kBinLimit<T> - 1), all_lanes(static_cast<W>(2 * kBinLimit<T> - 1))) &
                      lanes_.is_close(difference);
    if (guards_.has_fill()) is_good = is_good & guards_.is_not_fill(bits) & guards_.is_not_fill(to_bits(bin));
    if (with_cuts && guards_.have_cuts()) is_good = is_good & guards_.allow(bits, to_bits(bin));
    return is_good;
  }

  AbsoluteLanes<T> lanes_;
  GuardLanes<T> guards_;
};

template <class T>
class LaneQuantizer<blocks::FoldedQuantizer<T>> {
 public:
  using W = Word<T>;

  explicit LaneQuantizer(const blocks::FoldedQuantizer<T>& q)
      : lanes_(q.pointwise), guards_(q.pointwise), offset_(all_lanes(q.offset)) {
    const W up = (kInfinity<T> - 1 - kOne<T>) / q.pointwise.scale;
    bins_ = all_lanes(q.offset + (up < kPointwiseBinLimit<T> ? up : kPointwiseBinLimit<T>));
  }

  [[nodiscard]] H5L_INLINE Tried<W> try_once(Vector<W> bits) const {
    const Vector<W> u = bits & ~kSignBit<T>;
    const Vector<W> bin = lanes_.nearest_bin(u);
    const Vector<W> folded = bin + offset_;  // at least 1
    const Mask<W> is_good = is_less(folded - 1, bins_) & lanes_.is_normal(u);
    const Mask<W> is_zero = is_equal(u, Vector<W>{});
    const Vector<W> sign = sign_of_lanes<T>(bits);
    Tried<W> tried = {choose(is_zero, Vector<W>{}, (folded ^ sign) - sign), is_good | is_zero};
    if (guards_.has_fill()) {
      const Mask<W> gives_no_fill = guards_.is_not_fill(lanes_.rebuilt(bin) | (bits & kSignBit<T>));
      tried.good = tried.good & guards_.is_not_fill(bits) & (is_zero | gives_no_fill);
    }
    return tried;
  }

  [[nodiscard]] H5L_INLINE Mask<W> keep_sides(Vector<W> bits, Vector<W> bin) const {
    return guards_.allow(bits, to_bits(bin)) | is_equal(bits & ~kSignBit<T>, Vector<W>{});
  }

  [[nodiscard]] bool have_cuts() const { return guards_.have_cuts(); }

  [[nodiscard]] H5L_INLINE Tried<W> try_twice(Vector<W> bits) const {
    Tried<W> tried = try_once(bits);
    if (have_cuts()) tried.good = tried.good & keep_sides(bits, tried.bin);
    return tried;
  }

  [[nodiscard]] H5L_INLINE Vector<W> to_bits(Vector<W> bin) const {
    const Vector<W> sign = sign_of_lanes<T>(bin);
    const Vector<W> steps = ((bin ^ sign) - sign) - offset_;
    const Vector<W> bits = (lanes_.rebuilt(steps) & ~kSignBit<T>) | (bin & kSignBit<T>);
    return choose(is_equal(bin, Vector<W>{}), Vector<W>{}, bits);
  }

 private:
  PointwiseLanes<T> lanes_;
  GuardLanes<T> guards_;
  Vector<W> offset_;
  Vector<W> bins_;  // bins per sign
};

template <class T, class Q>
class Bins {
 public:
  using W = Word<T>;

  explicit Bins(const Q& q) : lanes_(q) {}

  // Quantizes a block of n values that all pass with their first candidate. False if one may not.
  template <u32 n>
  H5L_INLINE bool from_values(const u8* values, Rows<n, W>& bins) const {
    Mask<W> good;
#pragma GCC unroll 16
    for (u32 r = 0; r < Rows<n, W>::count; ++r) {
      const Tried<W> tried = lanes_.try_once(load_lanes<W>(values + r * kVectorBytes));
      bins.at[r] = tried.bin;
      good = r == 0 ? tried.good : good & tried.good;
    }
    if (lanes_.have_cuts()) [[unlikely]] {  // checked separately: the loop above is faster without cuts
      for (u32 r = 0; r < Rows<n, W>::count; ++r) {
        good = good & lanes_.keep_sides(load_lanes<W>(values + r * kVectorBytes), bins.at[r]);
      }
    }
    return all<W>(good);
  }

  // Quantizes any n values. Bit i of the result: value i is an exception and has no bin yet.
  template <u32 n>
  H5L_INLINE u64 exceptions(const u8* values, Rows<n, W>& bins) const {
    return blocks::first_bits(n) & ~good_positions<0>(values, bins);
  }

  template <u32 n>
  H5L_INLINE void to_values(const Rows<n, W>& bins, u8* values) const {
#pragma GCC unroll 16
    for (u32 r = 0; r < Rows<n, W>::count; ++r) store_lanes(values + r * kVectorBytes, lanes_.to_bits(bins.at[r]));
  }

 private:
  template <u32 r, u32 n>
  H5L_INLINE u64 good_positions(const u8* values, Rows<n, W>& bins) const {
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

#if defined(H5L_DECODE_ONLY)
}  // namespace h5lossy::H5L_TARGET::simd

namespace h5lossy::H5L_TARGET::blocks {

// For both kinds of bounds, so that the caller's code is compiled only once.
template <class T>
struct EitherQuantizer {
  explicit EitherQuantizer(const Quantizer& quantizer)
      : is_pointwise(quantizer.kind == BoundKind::pointwise_relative),
        absolute(absolute_quantizer<T>(quantizer)),
        folded(is_pointwise ? folded_quantizer<T>(quantizer) : FoldedQuantizer<T>{}) {}

  bool is_pointwise;
  AbsoluteQuantizer<T> absolute;
  FoldedQuantizer<T> folded;
};

}  // namespace h5lossy::H5L_TARGET::blocks

namespace h5lossy::H5L_TARGET::simd {

template <class T>
class Bins<T, blocks::EitherQuantizer<T>> {
 public:
  using W = Word<T>;

  explicit Bins(const blocks::EitherQuantizer<T>& q)
      : is_pointwise_(q.is_pointwise), absolute_(q.absolute), folded_(q.folded) {}

  template <u32 n>
  [[gnu::noinline]] void to_values(const Rows<n, W>& bins, u8* values) const {
    is_pointwise_ ? folded_.to_values(bins, values) : absolute_.to_values(bins, values);
  }

 private:
  bool is_pointwise_;
  Bins<T, AbsoluteQuantizer<T>> absolute_;
  Bins<T, blocks::FoldedQuantizer<T>> folded_;
};
#endif

#endif

}  // namespace h5lossy::H5L_TARGET::simd
