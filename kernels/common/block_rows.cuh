// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Shared by encoders of fixed-length blocks. A thread holds 32 values: a block, or half of one. Bins and differences
// stay numbers of the value's type, which is exact and takes fewer instructions than integers. The format is in
// docs/format/block-codecs.md.
#pragma once

#include "codecs/blocks.h"
#include "kernels/common/lookback.cuh"
#include "kernels/common/quantizing.cuh"

namespace h5lossy::H5L_TARGET::blocks {

inline constexpr u32 kThreadValues = 32;

// A thread's exceptions, and where its shares of their section are.
struct ThreadExceptions {
  u32 exceptions;  // bit i: value i of the thread
  u16 bits_at;
  u8 mask_at, has_mask : 1, has_bits : 1;
};

template <class T>
inline constexpr u32 kRowBytes = kThreadValues * sizeof(T);

// Bits of a difference with its sign in the lowest bit, from word_of_difference. Above them is the exponent of 2^m.
template <class T>
inline constexpr Word<T> kDifferenceBits = (Word<T>{2} << kMantissaBits<T>)-1;

template <class T>
H5L_DEVICE Word<T> word_of_difference(T difference) {
  constexpr Word<T> whole_bits = kWholeBits<T>;
  const Word<T> bits = bit_cast<Word<T>>(difference);
  const Word<T> sum = bit_cast<Word<T>>(add(without_sign(difference), bit_cast<T>(whole_bits)));
  if constexpr (sizeof(T) == 4) {
    return funnel_left(bits, sum, 1);
  } else {
    return sum << 1 | bits >> 63;
  }
}

template <class T>
H5L_DEVICE T number_of_bin(Word<T> bin) {
  return static_cast<T>(static_cast<typename FloatTraits<T>::Int>(bin));
}

template <class T>
H5L_DEVICE Word<T> bin_of_number(T number) {
  return static_cast<Word<T>>(static_cast<typename FloatTraits<T>::Int>(number));
}

// Quantizes a row again after one of its values has failed: turns each value into a bin, as a floating-point number,
// and returns the exceptions. fill_forward gives these a bin; their own bits stay in the row of values.
template <class T>
H5L_DEVICE u32 repeat_bins(const AbsoluteQuantizer<T>& q, u8* rows, u32 inside, T (&bins)[kThreadValues]) {
  const u32 exceptions = repeat_row<kRowBytes<T>>(
      q, rows, inside, [](T bin) { return bit_cast<Word<T>>(bin); }, [](Word<T> bits) { return bits; });
  load_row<kRowBytes<T>>(rows, bins);
  return exceptions;
}
template <class T, class Q>
H5L_DEVICE u32 repeat_bins(const Q& q, u8* rows, u32 inside, T (&bins)[kThreadValues]) {
  u32 exceptions = 0;
  H5L_NO_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
    if ((inside >> i & 1) == 0) continue;
    Word<T>* const value = value_in_rows<kRowBytes<T>, Word<T>>(rows, thread(), i);
    Word<T> bin = 0;
    if (bin_of(q, *value, bin)) {
      *value = bit_cast<Word<T>>(number_of_bin<T>(bin));
    } else {
      exceptions |= u32{1} << i;
    }
  }
  load_row<kRowBytes<T>>(rows, bins);
  return exceptions;
}

// The first and the last bin of the thread's ordinary values.
template <class T>
struct RowEnds {
  T first = 0, last = 0;
};
template <class T>
H5L_DEVICE RowEnds<T> ends_of(const T (&bins)[kThreadValues], u32 ordinary) {
  RowEnds<T> ends;
  H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
    if ((ordinary >> i & 1) != 0) ends.last = bins[i];
    if ((ordinary >> (kThreadValues - 1 - i) & 1) != 0) ends.first = bins[kThreadValues - 1 - i];
  }
  return ends;
}

// Gives exceptions the bin of the preceding ordinary value; `last` precedes the row. All other values are outside the
// chunk.
template <class T>
H5L_DEVICE void fill_forward(T (&bins)[kThreadValues], u32 ordinary, u32 exceptions, T last) {
  H5L_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
    if ((ordinary >> i & 1) != 0) last = bins[i];
    if ((exceptions >> i & 1) != 0) bins[i] = last;
  }
}

// Whether all of the thread's exceptions have these bits. They are still in its row.
template <class T>
H5L_DEVICE bool are_all(const u8* rows, u32 exceptions, Word<T> bits) {
  constexpr u32 at_once = kPieceBytes / sizeof(T);
  bool are_equal = true;
  H5L_NO_UNROLL for (u32 piece = 0; exceptions != 0; ++piece, exceptions >>= at_once) {
    Word<T> words[at_once];
    load_piece<kRowBytes<T>>(rows, piece, words);
    H5L_UNROLL for (u32 k = 0; k < at_once; ++k) are_equal &= (exceptions >> k & 1) == 0 || words[k] == bits;
  }
  return are_equal;
}

// Zeros the values outside the chunk.
template <class T>
H5L_DEVICE void clear_outside(u8* rows, u32 inside) {
  H5L_NO_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
    if ((inside >> i & 1) == 0) *value_in_rows<kRowBytes<T>, Word<T>>(rows, thread(), i) = 0;
  }
}

// Stores the lowest `planes` bits of the thread's words as bit planes, `stride` words apart. Called by all threads of a
// warp. Plane 0 holds signs. A zero difference may carry a sign (-0.0), which is cleared except for the values in
// `signed_anyway`.
template <u32 max_planes, class W>
H5L_DEVICE void store_planes(const W (&words)[32], u32 planes, u32 stride, u32 signed_anyway, u32* out) {
  constexpr u32 sections = (max_planes + 7) / 8;
  u32 used = signed_anyway;
  H5L_UNROLL for (u32 s = sections - 1; s < sections; --s) {
    if (!any_in_warp(planes > 8 * s)) continue;
    u32 rows[8];
    H5L_UNROLL for (u32 r = 0; r < 8; ++r) {
      rows[r] = gather_bytes(half_of(words[7 - r], s), half_of(words[15 - r], s), half_of(words[23 - r], s),
                             half_of(words[31 - r], s), s % 4);
    }
    transpose_bytes(rows);
    H5L_UNROLL for (u32 c = s == 0 ? 1 : 0; c < 8 && 8 * s + c < max_planes; ++c) used |= rows[c];
    if (s == 0) rows[0] &= used;
    H5L_UNROLL for (u32 c = 0; c < 8; ++c) {
      if (8 * s + c < planes) out[(8 * s + c) * stride] = rows[c];
    }
  }
}

// The bit of a thread's first value in a plane.
inline constexpr u32 kFirstInPlane = 0x80;

// Writes single payload words, word-aligned, and adds them to the checksum.
class WordWriter {
 public:
  H5L_DEVICE WordWriter(u8* payload, u32 tile) : payload_(reinterpret_cast<u32*>(payload)), salt_(salt_of(tile, 0)) {}
  H5L_DEVICE void put(u32 at, u32 word) {
    payload_[at] = word;
    sum_ += mix(word + at * kWordSalt + salt_);
  }
  // Stores a value at word `at`.
  H5L_DEVICE void put_value(u32 at, u32 bits) { put(at, bits); }
  H5L_DEVICE void put_value(u32 at, u64 bits) {
    put(at, static_cast<u32>(bits));
    put(at + 1, static_cast<u32>(bits >> 32));
  }
  [[nodiscard]] H5L_DEVICE u32 sum() const { return sum_; }

 private:
  u32* payload_;
  u32 salt_;
  u32 sum_ = 0;
};

}  // namespace h5lossy::H5L_TARGET::blocks
