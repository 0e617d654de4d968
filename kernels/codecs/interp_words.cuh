// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Integers in Interp's encoder (on a CPU: codecs/interp/integers.h). A kernel converts the values of chunks to words;
// all later ones encode these, by the rules for floats and those below.
#pragma once

#include "codecs/interp/values.h"
#include "kernels/codecs/interp_lorenzo.cuh"
#include "kernels/codecs/interp_survey.cuh"
#include "kernels/codecs/interp_tile.cuh"
#include "kernels/common/integers.cuh"

namespace h5lossy::H5L_TARGET {
namespace interp {

// The lattice of a tile's words, as lattice_of_words makes it. The chunk's exact values have words of their own.
template <class T>
struct TileWords : Lattice<T> {
  bool has_exact = false;
};

template <class T>
inline constexpr bool kHasWords<TileWords<T>> = true;

}  // namespace interp

template <class T>
struct QuantizerAs<T, interp::TileWords<T>> {
  H5L_DEVICE static interp::TileWords<T> make(const Quantizer&) { return {interp::lattice_of_words<T>(0)}; }
};

namespace interp {

// A rank as a word of more bits. `zero` is the rank of 0.
template <class T>
H5L_DEVICE Word<T> word_of_rank(u64 rank, u64 zero) {
  return static_cast<Word<T>>(rank - zero);
}

// The lattice of a chunk's words, for the origin 0.
template <class T>
H5L_DEVICE TileWords<T> words_of(const StagedPlan& plan, u32 chunk) {
  const WordLattice& lattice = plan.finish.encode.lattices[chunk];
  TileWords<T> words = {lattice_of_words<T>(0)};
  // 0 is listed first, and has a number like other values; other exact values are consecutive.
  const u32 first = lattice.exact_count != 0 && lattice.exact[0].value == lattice.zero ? 1 : 0;
  words.has_exact = lattice.exact_count > first;
  if (!words.has_exact) return words;
  words.exact = word_of_rank<T>(lattice.exact[first].word, lattice.zero);
  words.exact_count = lattice.exact_count - first;
  return words;
}

template <class T>
H5L_DEVICE void set_origin(TileWords<T>& words, Word<T> origin) {
  words.origin = origin;
  if (!words.has_exact) words.exact = static_cast<Word<T>>(origin ^ kSignBit<T>);
}

// Calls visit() with a word of the size of a value; those of the lane type T only.
template <class T, class Visit>
H5L_DEVICE void with_value(u32 value_bytes, Visit visit) {
  if constexpr (sizeof(T) == 4) {
    value_bytes == 1 ? visit(u8{}) : visit(u16{});
  } else {
    value_bytes == 4 ? visit(u32{}) : visit(u64{});
  }
}

// Converts the values of chunks to words. Several loads are in flight at once, since a load takes longer than the rest.
template <class T>
H5L_DEVICE void make_words(const StagedPlan& plan) {
  constexpr u32 at_once = 4;
  const gpu::EncodePlan& encode = plan.finish.encode;
  const u32 parts = plan.most_tiles, step = parts * kThreads;
  H5L_NO_UNROLL for (u32 item = block_number(); item < encode.chunks * parts; item += grid_blocks()) {
    const u32 chunk = item / parts, first = item % parts * kThreads + thread();
    const WordLattice& lattice = encode.lattices[chunk];
    const u8* const raw = raw_of(encode, chunk);
    auto* const to = reinterpret_cast<Word<T>*>(plan.words + chunk * plan.words_stride);
    with_value<T>(plan.finish.value_bytes, [&](auto value) {
      using V = decltype(value);
      const ValueWords<V> words(lattice);
      const V* const values = reinterpret_cast<const V*>(raw);
      H5L_NO_UNROLL for (u64 begin = first; begin < encode.shape.count; begin += at_once * step) {
        V own[at_once];
        H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
          const u64 i = begin + k * u64{step};
          own[k] = values[i < encode.shape.count ? i : begin];
        }
        words.to_words(own);
        H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
          const u64 i = begin + k * u64{step};
          if (i < encode.shape.count) to[i] = word_of_rank<T>(own[k], lattice.zero);
        }
      }
    });
  }
}

// The values of a chunk as numbers, for the survey: those of exact values are no numbers.
template <class T>
class NumberValues {
 public:
  H5L_DEVICE NumberValues(const StagedPlan& plan, u32 chunk)
      : raw_(raw_of(plan.finish.encode, chunk)),
        quantizer_(quantizer_of(plan.finish.encode, chunk)),
        bytes_(plan.finish.value_bytes),
        is_signed_(plan.finish.value_class != H5L_CLASS_UNSIGNED) {}

  H5L_DEVICE Word<T> operator[](u64 place) const {
    u64 bits = 0;
    with_value<T>(bytes_, [&](auto value) { bits = reinterpret_cast<const decltype(value)*>(raw_)[place]; });
    if (bits != 0 && is_exact(quantizer_, bits)) return kNoMask<T>;
    const u32 unused = 64 - 8 * bytes_;
    return bit_cast<Word<T>>(is_signed_ ? static_cast<T>(static_cast<i64>(bits << unused) >> unused)
                                        : static_cast<T>(bits));
  }

 private:
  const u8* raw_;
  const Quantizer& quantizer_;
  u32 bytes_;
  bool is_signed_;
};

template <class T, class Q>
struct ValuesOfChunk {
  using Type = const Word<T>*;
};
template <class T>
struct ValuesOfChunk<T, TileWords<T>> {
  using Type = NumberValues<T>;
};
template <class T, class Q>
using ValuesOf = typename ValuesOfChunk<T, Q>::Type;

// For the survey of a tile of words.
template <class T>
class WordPositions : public AbsolutePositions<T> {
 public:
  H5L_DEVICE explicit WordPositions(const TileWords<T>& words) : AbsolutePositions<T>(words, false), words_(words) {}
  H5L_DEVICE Word<T> encoded(Word<T> word) const { return number_of_word(words_, word); }

 private:
  TileWords<T> words_;
};

// Gives exceptions the integers that Lorenzo predicts for them; the others are known. Rows are predicted one behind the
// other, except that those whose coordinates have the same sum do not depend on each other. Begins and ends with a
// barrier.
template <u32 warps, class I, class Integers>
H5L_DEVICE void predict_exceptions(const Shape& shape, u32 axes, const u32* mask, Integers integers) {
  using U = Unsigned<I>;
  const u32(&extents)[kAxes] = shape.extents;
  const u32 length = extents[3], slices = extents[0] * extents[1];
  const auto integer_at = [&](u32 i) { return static_cast<U>(static_cast<I>(integers[i])); };
  // What is predicted for value i from values before its row; `there` has the axes along which there are values before
  // it. `links` says whether the value before it in the row is to be added.
  const auto predict = [&](u32 i, u32 there, bool& links) {
    // If there are none along the axes, the prediction is along the last axis that has some.
    const u32 set = (there & axes) != 0 ? there & axes : there & (0 - there);
    links = (set & axis_bit(3)) != 0;
    U sum = 0;
    H5L_NO_UNROLL for (u32 part = set; part != 0; part = (part - 1) & set) {
      if (part == axis_bit(3)) continue;
      u32 back = 0;
      H5L_UNROLL for (u32 a = 0; a < kAxes; ++a) back += (part & axis_bit(a)) != 0 ? shape.strides[a] : 0;
      const U other = integer_at(i - back);
      sum += (ones(part) & 1) != 0 ? other : U{0} - other;
    }
    return sum;
  };
  const auto predict_row = [&](u32 row, u32 before) {
    H5L_NO_UNROLL for (u32 first = 0; first < length; first += kWarpThreads) {
      const u32 x = first + lane(), i = row * length + x;
      const bool is_exception = x < length && (mask[i / kMaskBits] >> i % kMaskBits & 1) != 0;
      if (!any_in_warp(is_exception)) continue;
      sync_warp();  // the integers before these are complete
      bool links = false;
      U own = x < length && !is_exception ? integer_at(i) : U{0};
      if (is_exception) own = predict(i, before | (x != 0 ? axis_bit(3) : 0), links);
      if (lane() == 0 && links) {
        own += integer_at(i - 1);
        links = false;
      }
      // Sums since the last value that is not linked to the one before it.
      const u32 starts = ballot(!links), start = 31 - count_leading_zeros(starts & (lanes_below() | 1u << lane()));
      U sum = own;
      H5L_UNROLL for (u32 by = 1; by < kWarpThreads; by *= 2) {
        const U other = shuffle_up(sum, by);
        sum += lane() >= start + by ? other : U{0};
      }
      if (is_exception) put(integers[i], static_cast<I>(sum));
    }
  };
  sync_block();
  const u32 fronts = extents[0] + extents[1] + extents[2] - 2;
  H5L_NO_UNROLL for (u32 front = 0; front < fronts; ++front) {
    H5L_NO_UNROLL for (u32 first = 0; first < slices; first += warps * kWarpThreads) {
      // A slice has at most one of these rows. The warps share the slices, and a thread looks at one of them.
      const u32 slice = first + lane() * warps + warp(), z = slice % extents[1], w = slice / extents[1];
      const u32 y = front - w - z, row = slice * extents[2] + y;  // no y if there is none
      const u32 before = (y != 0 ? axis_bit(2) : 0) | (z != 0 ? axis_bit(1) : 0) | (w != 0 ? axis_bit(0) : 0);
      u32 due = ballot(slice < slices && y < extents[2]);
      H5L_NO_UNROLL for (; due != 0; due &= due - 1) {
        const u32 k = lowest_one(due);
        predict_row(shuffle(row, k), shuffle(before, k));
      }
    }
    sync_block();
  }
}

}  // namespace interp
}  // namespace h5lossy::H5L_TARGET
