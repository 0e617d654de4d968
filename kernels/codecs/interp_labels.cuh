// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Which tiles of integers may be labels (codecs/interp/labels.h), for which there is no kernel. Most of those that look
// like labels at some places are none, since they have too many literals.
#pragma once

#include "codecs/interp/format.h"
#include "codecs/interp/mask_value.h"
#include "codecs/interp/masks.h"
#include "kernels/codecs/interp_tile.cuh"

namespace h5lossy::H5L_TARGET::interp {

// Whether words look like labels at some places, a thread per place; number_at(i) gives their numbers. `scratch` has
// two words for each warp.
template <class T, u32 warps, class NumberAt>
H5L_DEVICE bool are_like_labels(u32 count, NumberAt number_at, u32* scratch) {
  u32 sums[2] = {};  // words that equal the next one, and those that are far from it
  if (thread() < kMaskPlaces) {
    const u32 place = mask_place(thread(), count);
    const Word<T> bits = number_at(place), next = number_at(place + 1);
    sums[0] = bits == next ? 1 : 0;
    sums[1] = is_jump<T>(bits, next) ? 1 : 0;
  }
  sum_over_block<warps>(sums, scratch);
  return may_be_labels(sums[0], sums[1]);
}

// Finds words of a tile that are surely literals.
template <class T, u32 warps>
class Literals {
  using W = Word<T>;

 public:
  // `mask` has room for a bit for each word.
  H5L_DEVICE Literals(const TileValues<T>& values, const Shape& shape, u32* mask)
      : values_(values), shape_(shape), mask_(mask) {}

  // Whether they alone cost more than labels may. Called by the whole thread block. `ends_of_warps` has two words for
  // each warp, `sums` one.
  H5L_DEVICE bool are_many(u64* ends_of_warps, u32* sums) const {
    constexpr W sign = kSignBit<T>;
    u64 ends[2] = {};  // the greatest of all words, and the complement of the least, as unsigned numbers
    for_bits<warps>(values_, shape_, [&](u32, bool is_there, W word) {
      const W key = word ^ sign, complement = static_cast<W>(~key);
      if (is_there && key > ends[0]) ends[0] = key;
      if (is_there && complement > ends[1]) ends[1] = complement;
    });
    H5L_UNROLL for (u32 k = 0; k < 2; ++k) {
      ends[k] = largest_of_warp(ends[k]);
      if (lane() == 0) ends_of_warps[k * warps + warp()] = ends[k];
    }
    sync_block();
    for (u32 w = 0; w < warps; ++w) {
      H5L_UNROLL for (u32 k = 0; k < 2; ++k) {
        const u64 other = ends_of_warps[k * warps + w];
        ends[k] = other > ends[k] ? other : ends[k];
      }
    }
    const W least = static_cast<W>(~ends[1]), base = least ^ sign;
    const u32 literal_bytes = literal_bytes_of(static_cast<W>(ends[0] - least));
    // Words that equal none of their neighbours are literals, unless they are recent.
    const MaskNeighbours neighbours = mask_neighbours_of(shape_.extents);
    for_bits<warps>(values_, shape_, [&](u32 i, bool is_there, W word) {
      bool is_apart = is_there;
      H5L_NO_UNROLL for (u32 k = 0; is_apart && k < kNeighbours; ++k) {
        const u32 distance = neighbours.distances[k];
        is_apart = word != (distance != 0 && distance <= i ? values_.bits(i - distance) : base);
      }
      const u32 apart = ballot(is_apart);
      if (lane() == 0) mask_[i / kMaskBits] = apart;
    });
    sync_block();
    u32 literals = 0;
    for (u32 i = thread(); i < shape_.count; i += warps * kWarpThreads) {
      literals += (mask_[i / kMaskBits] >> lane() & 1) != 0 && is_literal(i) ? 1 : 0;
    }
    literals = sum_over_block<warps>(literals, sums);
    return kLabelOverhead + u64{128} * literal_bytes * literals >= kMostLabelCost * shape_.count;
  }

 private:
  // Whether a word that equals none of its neighbours is surely a literal: there are four other words among those like
  // it that come before, or none is left.
  H5L_DEVICE bool is_literal(u32 i) const {
    constexpr u32 kMostSeen = 32;
    const W word = values_.bits(i);
    W recent[kRecentWords - 1] = {};
    u32 different = 0, w = i / kMaskBits, left = mask_[w] & lanes_below();
    H5L_NO_UNROLL for (u32 seen = 0; seen < kMostSeen; ++seen) {
      if (left == 0) {
        if (w == 0) return true;
        left = mask_[--w];
        continue;
      }
      const u32 last = 31 - count_leading_zeros(left);
      const W other = values_.bits(w * kMaskBits + last);
      left ^= 1u << last;
      bool is_new = true;
      H5L_UNROLL for (u32 k = 0; k < kRecentWords - 1; ++k) is_new = is_new && !(k < different && recent[k] == other);
      if (other == word) return false;
      if (!is_new) continue;
      if (different == kRecentWords - 1) return true;
      H5L_UNROLL for (u32 k = 0; k < kRecentWords - 1; ++k) recent[k] = k == different ? other : recent[k];
      ++different;
    }
    return false;
  }

  const TileValues<T>& values_;
  const Shape& shape_;
  u32* const mask_;
};

}  // namespace h5lossy::H5L_TARGET::interp
