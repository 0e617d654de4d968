// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Shared by codecs with fixed-length blocks: the integer of a value, the bits of a block, and the sizes of a tile's
// parts. The format is in docs/format/block-codecs.md.
#pragma once

#include "codecs/bits.h"
#include "codecs/bounds.h"
#include "codecs/codec.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::blocks {

// ---------------------------------------------------------------------------------------------------------------------
// From values to integers. An absolute bin is already an integer.

template <class T>
H5L_FN bool bin_of(const AbsoluteQuantizer<T>& q, Word<T> bits, Word<T>& bin) {
  return quantize(q, bits, bin);
}

template <class T>
H5L_FN Word<T> bits_of(const AbsoluteQuantizer<T>& q, Word<T> bin) {
  return bit_cast<Word<T>>(rebuild(q, bin));
}

// Pointwise-relative: sign and magnitude in one integer, ordered like the values; 0 is +0.0.
template <class T>
struct FoldedQuantizer {
  PointwiseQuantizer<T> pointwise;
  Word<T> offset;  // K + 1: maps the bin of a magnitude to a positive number
};

template <class T>
H5L_FN FoldedQuantizer<T> folded_quantizer(const Quantizer& quantizer) {
  const PointwiseQuantizer<T> pointwise = pointwise_quantizer<T>(quantizer);
  constexpr Word<T> smallest_normal = kMantissaMask<T> + 1;
  const Word<T> steps_down = (kOne<T> - smallest_normal) / pointwise.scale;
  return {pointwise, (steps_down < kPointwiseBinLimit<T> ? steps_down : kPointwiseBinLimit<T>)+1};
}

template <class T>
H5L_FN bool bin_of(const FoldedQuantizer<T>& q, Word<T> bits, Word<T>& bin) {
  const bool is_fill = q.pointwise.has_fill && bits == q.pointwise.fill_bits;
  if ((bits & ~kSignBit<T>) == 0) {
    bin = 0;
    return !is_fill;
  }
  if (!quantize(q.pointwise, bits, bin)) return false;
  bin += q.offset;
  if ((bits & kSignBit<T>) != 0) bin = Word<T>{0} - bin;
  return true;
}

template <class T>
H5L_FN Word<T> bits_of(const FoldedQuantizer<T>& q, Word<T> bin) {
  const bool negative = (bin & kSignBit<T>) != 0;
  const Word<T> rebuilt = rebuild(q.pointwise, static_cast<Word<T>>((negative ? Word<T>{0} - bin : bin) - q.offset));
  const Word<T> bits = rebuilt | (bin & kSignBit<T>);
  return bin == 0 ? 0 : bits;
}

// ---------------------------------------------------------------------------------------------------------------------
// Bits of a block

// Number of bits without leading zeros.
template <class W>
H5L_FN u32 width_of(W number) {
  return number == 0 ? 0 : kWordBits<W> - count_leading_zeros(number);
}

// A difference with its sign in the lowest bit and its magnitude above. Its bits go to the block's planes, from the
// lowest up.
template <class W>
H5L_FN W to_sign_last(W difference) {
  const W negative = difference >> (kWordBits<W> - 1);
  const W magnitude = (difference ^ (W{0} - negative)) + negative;
  return static_cast<W>(magnitude << 1 | negative);
}

template <class W>
H5L_FN W from_sign_last(W word) {
  const W negative = word & 1;
  return ((word >> 1) ^ (W{0} - negative)) + negative;
}

// The position that predicts position i > 0 of a run.
H5L_FN constexpr u32 before_in_run(u32 i) { return i - 1; }

// A plane of a block of n values, as a little-endian number.
template <u32 n>
using Plane = Select<n == 32, u32, u64>;

// Transposes eight rows to eight planes: byte g of row j holds eight bits of value 8 g + j, and becomes byte g of plane
// 7 - j, in which value 8 g + i has bit 7 - i. Its own inverse. Works on squares of 8 x 8 bits, one per byte of a row,
// see transpose_level; two rows of 32 bits share a word.
H5L_FN void transpose_rows(u64 (&rows)[4]) {
  for (u32 i = 0; i < 2; ++i) {
    const u64 swapped = (rows[i] ^ (rows[i + 2] >> 4)) & kLowHalves<4, u64>;
    rows[i] ^= swapped;
    rows[i + 2] ^= swapped << 4;
  }
  for (u32 i = 0; i < 4; i += 2) {
    const u64 swapped = (rows[i] ^ (rows[i + 1] >> 2)) & kLowHalves<2, u64>;
    rows[i] ^= swapped;
    rows[i + 1] ^= swapped << 2;
  }
  for (u32 i = 0; i < 4; ++i) {
    const u64 swapped = (rows[i] ^ (rows[i] >> 33)) & kLowHalves<1, u32>;
    rows[i] ^= swapped | swapped << 33;
  }
}

H5L_FN void transpose_rows(u64 (&rows)[8]) {
  for (u32 i = 0; i < 4; ++i) {
    const u64 swapped = (rows[i] ^ (rows[i + 4] >> 4)) & kLowHalves<4, u64>;
    rows[i] ^= swapped;
    rows[i + 4] ^= swapped << 4;
  }
  for (u32 half = 0; half < 8; half += 4) {
    for (u32 i = half; i < half + 2; ++i) {
      const u64 swapped = (rows[i] ^ (rows[i + 2] >> 2)) & kLowHalves<2, u64>;
      rows[i] ^= swapped;
      rows[i + 2] ^= swapped << 2;
    }
  }
  for (u32 i = 0; i < 8; i += 2) {
    const u64 swapped = (rows[i] ^ (rows[i + 1] >> 1)) & kLowHalves<1, u64>;
    rows[i] ^= swapped;
    rows[i + 1] ^= swapped << 1;
  }
}

// 64-bit words that hold eight rows of n bits.
template <u32 n>
inline constexpr u32 kRowWords = n / 8;

H5L_FN u64 swap_halves(u64 word) { return word << 32 | word >> 32; }

// Planes are written up to 64 bytes at a time: this many bytes after the last one may be overwritten.
inline constexpr u32 kPlanesOverrun = 56;

// Writes the lowest `planes` bits of n words as planes, and returns their end. The first word is masked with
// `first_mask`.
template <u32 n, class W>
H5L_FN u8* store_planes(const W* words, W first_mask, u32 planes, u8* out) {
  for (u32 first = 0; first < planes; first += 8) {
    alignas(16) Plane<n> bytes[8];
    for (u32 j = 0; j < 8; ++j) {
      Plane<n> row = 0;
      for (u32 g = 0; g < n / 8; ++g) row |= static_cast<Plane<n>>(words[8 * g + j] >> first & 0xFF) << (8 * g);
      bytes[j] = row;
    }
    u64 rows[kRowWords<n>];
    memcpy(rows, bytes, sizeof rows);
    rows[0] &= ~u64{0xFF} | (first_mask >> first & 0xFF);
    transpose_rows(rows);
    const u32 end = planes - first < 8 ? planes - first : 8;
    if constexpr (n == 32) {
      for (u32 p = 0; p < end; p += 2) store(out + 4 * p, swap_halves(rows[3 - p / 2]));
    } else {
      for (u32 p = 0; p < end; ++p) store(out + 8 * p, rows[7 - p]);
    }
    out += end * (n / 8);
  }
  return out;
}

// First half of the inverse of store_planes: planes to bytes of the words, as rows; 8 rows for up to 8 planes. Returns
// the end of the planes.
template <u32 n>
H5L_FN const u8* load_planes(const u8* from, u32 planes, Plane<n>* bytes) {
  for (u32 first = 0; first < planes; first += 8, bytes += 8) {
    const u32 end = planes - first < 8 ? planes - first : 8;
    u64 rows[kRowWords<n>] = {};
    if constexpr (n == 32) {
      for (u32 p = 0; p + 2 <= end; p += 2) rows[3 - p / 2] = swap_halves(load<u64>(from + 4 * p));
      if (end % 2 != 0) rows[3 - end / 2] = u64{load<u32>(from + 4 * (end - 1))} << 32;
    } else {
      for (u32 p = 0; p < end; ++p) rows[7 - p] = load<u64>(from + 8 * p);
    }
    transpose_rows(rows);
    memcpy(bytes, rows, sizeof rows);
    from += end * (n / 8);
  }
  return from;
}

// Rows for planes of magnitudes of `width` bits, and of signs.
template <u32 width>
inline constexpr u32 kMaxRows = (width + 1 + 7) / 8 * 8;

// Second half: rows to words.
template <u32 n, class W>
H5L_FN void words_of_rows(const Plane<n>* bytes, u32 planes, W* words) {
  for (u32 g = 0; g < n / 8; ++g) {
    for (u32 j = 0; j < 8; ++j) words[8 * g + j] = static_cast<W>(bytes[j] >> (8 * g) & 0xFF);
  }
  for (u32 first = 8; first < planes; first += 8) {
    bytes += 8;
    for (u32 g = 0; g < n / 8; ++g) {
      for (u32 j = 0; j < 8; ++j) words[8 * g + j] |= static_cast<W>(bytes[j] >> (8 * g) & 0xFF) << first;
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Parts of a tile

// Blocks that share words in the section of exceptions.
inline constexpr u32 kGroupBlocks = 32;

H5L_FN constexpr u32 padded(u32 bytes) { return (bytes + 3) & ~u32{3}; }

// Bytes of a block's planes; blocks of width 0 have none.
template <u32 n>
H5L_FN constexpr u32 planes_bytes(u32 width) {
  return width == 0 ? 0 : (width + 1) * (n / 8);
}

// The first `count` bits.
H5L_FN constexpr u64 first_bits(u32 count) { return count >= 64 ? ~u64{0} : (u64{1} << count) - 1; }

// The positions of a tile's blocks (n in each) that have values.
template <u32 n>
class Insides {
 public:
  // A run of values: all blocks are full except the last one.
  H5L_FN explicit Insides(u32 values)
      : blocks_((values + n - 1) / n), last_(first_bits(values - (blocks_ == 0 ? 0 : blocks_ - 1) * n)) {}
  // A mask for each block.
  H5L_FN Insides(u32 blocks, const u64* masks) : blocks_(blocks), masks_(masks) {}

  H5L_FN u32 blocks() const { return blocks_; }
  H5L_FN bool is_run() const { return masks_ == nullptr; }
  H5L_FN u64 operator[](u32 block) const {
    if (masks_ != nullptr) return masks_[block];
    return block + 1 == blocks_ ? last_ : first_bits(n);
  }

 private:
  u32 blocks_;
  u64 last_ = 0;
  const u64* masks_ = nullptr;
};

// Moves bit i to the i-th position in `inside`, and back. The identity if `inside` has no gaps.
H5L_FN u64 to_positions(u64 values, u64 inside) {
  if ((inside & (inside + 1)) == 0) return values;
  u64 positions = 0;
  for (; inside != 0; inside &= inside - 1, values >>= 1) {
    if ((values & 1) != 0) positions |= inside & (~inside + 1);
  }
  return positions;
}

H5L_FN u64 to_values(u64 positions, u64 inside) {
  if ((inside & (inside + 1)) == 0) return positions;
  u64 values = 0;
  for (u32 i = 0; inside != 0; inside &= inside - 1, ++i) {
    if ((positions & inside & (~inside + 1)) != 0) values |= u64{1} << i;
  }
  return values;
}

H5L_FN u32 lowest_bit(u64 word) { return count_ones(~word & (word - 1)); }

}  // namespace h5lossy::H5L_TARGET::blocks
