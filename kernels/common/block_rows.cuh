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

// Result of quantizing a row value by value.
template <class T>
struct RowBins {
  u32 exceptions = 0;  // bit i: value i
  bool has_ordinary = true;
  T first = 0, last = 0;  // bins of the first and the last value that is not an exception
};

// Replaces each value of the row by its bin. Exceptions get theirs in fill_forward.
template <class T, class Q>
H5L_DEVICE RowBins<T> bins_one_by_one(const Q& q, u8* rows, u32 inside) {
  RowBins<T> found;
  found.has_ordinary = false;
  H5L_NO_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
    if ((inside >> i & 1) == 0) continue;
    Word<T>* const value = value_in_rows<kRowBytes<T>, Word<T>>(rows, thread(), i);
    Word<T> bin = 0;
    if (!bin_of(q, *value, bin)) {
      found.exceptions |= u32{1} << i;
      continue;
    }
    const T number = number_of_bin<T>(bin);
    *value = bit_cast<Word<T>>(number);
    if (!found.has_ordinary) found.first = number;
    found.has_ordinary = true;
    found.last = number;
  }
  return found;
}

// Gives exceptions the bin of the preceding value; `last` precedes the row.
template <class T>
H5L_DEVICE void fill_forward(u8* rows, u32 inside, u32 exceptions, T last) {
  H5L_NO_UNROLL for (u32 i = 0; i < kThreadValues; ++i) {
    if ((inside >> i & 1) == 0) continue;
    T* const number = value_in_rows<kRowBytes<T>, T>(rows, thread(), i);
    if ((exceptions >> i & 1) != 0) *number = last;
    last = *number;
  }
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
