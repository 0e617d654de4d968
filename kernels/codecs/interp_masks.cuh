// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Masks of a tile's values by a warp. The definition is in codecs/interp/masks.h: each decision depends on those before,
// so there is one chain of them. But lane k knows the bits of neighbour k for a whole word, so a context is a ballot.
#pragma once

#include "codecs/interp/masks.h"
#include "kernels/codecs/interp_stage.cuh"

namespace h5lossy::H5L_TARGET::interp {

// What MaskModel knows, in shared memory.
struct MaskOdds {
  u16 ones[kMaskContexts];

  H5L_DEVICE void begin(const MaskNeighbours& neighbours) {
    sync_warp();
    for (u32 context = lane(); context < kMaskContexts; context += kWarpThreads) {
      u32 odds = kEvenOdds;
      for (u32 k = 0; k < kNeighbours; ++k) {
        const u32 weight = weight_of_neighbour(neighbours, k);
        odds = (context >> k & 1) != 0 ? odds + weight : odds - weight;
      }
      ones[context] = static_cast<u16>(context < kBreakOf32 ? odds : kOddsOfBreak);
    }
    sync_warp();
  }
  H5L_DEVICE void learn(u32 context, u32 odds, u32 bit) {
    sync_warp();  // it has been read
    if (lane() == 0) ones[context] = odds_after(odds, bit);
    sync_warp();
  }
};

// Goes through a mask as MaskWalk does: code(context, bit) gets the decisions in order, and returns them. The mask of a
// decoder becomes what they say.
template <bool decodes, class Code>
H5L_DEVICE void walk_mask_by_warp(const MaskNeighbours& neighbours, u32 count, u32* mask, Code code) {
  u32 distance = 0;
  H5L_UNROLL for (u32 k = 0; k < kNeighbours; ++k) {
    if (lane() == k) distance = neighbours.distances[k];
  }
  // Bits that the lane's neighbour is of, from bit `at` of the word on.
  const auto moved = [&](u32 bits, u32 at) {
    return distance != 0 && distance + at < kMaskBits ? bits << (distance + at) : 0;
  };
  u32 farthest = 0;
  for (const u32 one : neighbours.distances) farthest = one > farthest ? one : farthest;
  u32 before = 0, run = 0;  // the bit before, and how many like it there were
  H5L_NO_UNROLL for (u32 w = 0; w < mask_words(count); ++w) {
    const u32 first = w * kMaskBits, inside = inside_of(w, count), alike = (0 - before) & inside;
    u32 word = 0;
    if constexpr (!decodes) word = mask[w];
    // Whether the bits around the `size` from this one on are alike: see MaskWalk.
    u32 window = 0;
    const auto are_alike = [&](u32 at, u32 size, u32 ones_of_size) {
      const u32 around = window >> at & ones_of_size;
      return !any_in_warp(distance >= size && around != ((0 - before) & ones_of_size));
    };
    const bool is_known = run >= farthest || (before == 0 && run >= first);  // that they are
    if (is_known) {
      window = (0 - before) & static_cast<u32>(blocks::first_bits(distance < kMaskBits ? distance : kMaskBits));
    } else {
      window = bits_before(mask, first, distance, kMaskBits);
    }
    window |= moved(word, 0);
    u32 known = alike;
    if ((is_known || are_alike(0, kMaskBits, ~u32{0})) && code(kBreakOf32 + before, u32{word != alike}) == 0) {
      run += kMaskBits;
    } else {
      known = 0;
      H5L_NO_UNROLL for (u32 i = 0; i < kMaskBits && (inside >> i) != 0; i += 8) {
        const u32 bits = word >> i & 0xFF;
        u32 octet = (0 - before) & inside >> i & 0xFF;
        if (are_alike(i, 8, 0xFF) && code(kBreakOf8 + before, u32{bits != octet}) == 0) {
          if constexpr (decodes) window |= moved(octet, i);
          run += 8;
        } else {
          octet = 0;
          H5L_NO_UNROLL for (u32 j = 0; j < 8 && (inside >> i >> j) != 0; ++j) {
            const u32 bit = code(ballot((window >> i >> j & 1) != 0), bits >> j & 1);
            octet |= bit << j;
            if constexpr (decodes) window |= moved(bit, i + j);
            run = bit == before ? run + 1 : 1;
            before = bit;
          }
        }
        known |= octet << i;
      }
    }
    if constexpr (decodes) {
      sync_warp();
      if (lane() == 0) mask[w] = known;
      sync_warp();
    }
  }
}

H5L_DEVICE u32 measure_mask_by_warp(const MaskNeighbours& neighbours, u32 count, u32* mask, MaskOdds& model) {
  model.begin(neighbours);
  u32 cost = 0;
  walk_mask_by_warp<false>(neighbours, count, mask, [&](u32 context, u32 bit) {
    const u32 odds = model.ones[context], f = frequency_of_odds(odds);
    cost += kFrequencyCosts.of[bit != 0 ? f : kFrequencySum - f];
    model.learn(context, odds, bit);
    return bit;
  });
  return 8 + cost / 128;
}

// Returns the mask's end in `out`, which is even. `scratch` has kMaskScratchBytes.
H5L_DEVICE u8* write_mask_by_warp(const MaskNeighbours& neighbours, u32 count, u32* mask, MaskOdds& model, u8* scratch,
                                  u8* out) {
  model.begin(neighbours);
  u16* const decisions = reinterpret_cast<u16*>(scratch);
  u32 all = 0;
  walk_mask_by_warp<false>(neighbours, count, mask, [&](u32 context, u32 bit) {
    const u32 odds = model.ones[context];
    if (lane() == 0) decisions[all] = static_cast<u16>(frequency_of_odds(odds) << 1 | bit);
    ++all;
    model.learn(context, odds, bit);
    return bit;
  });
  sync_warp();
  // Words come in the reverse of their order: they are put where the decisions were. Each thread prepares one decision.
  u32 state = kMaskStart, words_at = all;
  H5L_NO_UNROLL for (u32 end = all; end != 0;) {
    const u32 n = end % kWarpThreads == 0 ? kWarpThreads : end % kWarpThreads, begin = end - n;
    const u32 decision = lane() < n ? decisions[begin + lane()] : 2, ones = decision >> 1;
    const u32 own = (decision & 1) != 0 ? ones : kFrequencySum - ones;
    const u64 reciprocal = ((u64{1} << 43) + own - 1) / own;  // as in Rate
    const u32 low = static_cast<u32>(reciprocal), packed = static_cast<u32>(reciprocal >> 32) << 16 | decision;
    sync_warp();
    H5L_NO_UNROLL for (u32 k = n; k-- > 0;) {
      const u32 of_k = shuffle(packed, k), ones_of_k = (of_k & 0xFFFF) >> 1, bit = of_k & 1;
      const u64 reciprocal_of_k = u64{of_k >> 16} << 32 | shuffle(low, k);
      const u32 others = bit != 0 ? kFrequencySum - ones_of_k : ones_of_k, frequency = kFrequencySum - others;
      if (state >> (32 - kFrequencyBits) >= frequency) {
        --words_at;
        if (lane() == 0) decisions[words_at] = static_cast<u16>(state);
        state >>= 16;
      }
      // state / frequency * 2048 + state % frequency + the frequencies before
      const u32 quotient = static_cast<u32>(state * reciprocal_of_k >> 43);
      state += quotient * others + (bit != 0 ? others : 0);
    }
    end = begin;
    sync_warp();
  }
  u16* const halves = reinterpret_cast<u16*>(out);
  if (lane() == 0) {
    halves[0] = static_cast<u16>(all - words_at);
    halves[1] = static_cast<u16>(state);
    halves[2] = static_cast<u16>(state >> 16);
  }
  for (u32 i = lane(); i < all - words_at; i += kWarpThreads) halves[3 + i] = decisions[words_at + i];
  sync_warp();
  return out + 6 + 2 * (all - words_at);
}

// Reads a mask at `from`, and returns its end; nullptr if it is corrupt.
H5L_DEVICE const u8* read_mask_by_warp(const MaskNeighbours& neighbours, u32 count, const u8* from, const u8* end,
                                       MaskOdds& model, u32* mask) {
  for (u32 w = lane(); w < mask_words(count); w += kWarpThreads) mask[w] = 0;
  if (end - from < 6) return nullptr;
  const u32 words = half_at(from);
  u32 state = half_at(from + 2) | half_at(from + 4) << 16;
  from += 6;
  if (end - from < 2 * static_cast<i64>(words)) return nullptr;
  model.begin(neighbours);
  u32 used = 0, next = words != 0 ? half_at(from) : 0u;  // loaded long before it is needed
  walk_mask_by_warp<true>(neighbours, count, mask, [&](u32 context, u32) {
    const u32 odds = model.ones[context], ones = frequency_of_odds(odds);
    const u32 slot = state & (kFrequencySum - 1), zeros = kFrequencySum - ones;
    const u32 bit = slot >= zeros;
    state = (state >> kFrequencyBits) * (bit != 0 ? ones : zeros) + slot - (bit != 0 ? zeros : 0);
    if (state < kMaskStart) {
      state = state << 16 | next;
      ++used;
      next = used < words ? half_at(from + 2 * used) : 0u;
    }
    model.learn(context, odds, bit);
    return bit;
  });
  return used == words && state == kMaskStart ? from + 2 * words : nullptr;
}

}  // namespace h5lossy::H5L_TARGET::interp
