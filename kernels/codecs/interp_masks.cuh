// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Masks of a tile's values. The definition is in codecs/interp/masks.h: a chain of decisions, each of which has its
// context from the bits before it, and its odds from earlier decisions with that context.
//
// An encoder knows all bits: all threads list the decisions, a word each, and then each context has a thread that goes
// through the list. A decoder is one warp; lane k has the bits of neighbour k for a whole word, so a context is a
// ballot.
#pragma once

#include "codecs/interp/masks.h"
#include "kernels/codecs/interp_stage.cuh"

namespace h5lossy::H5L_TARGET::interp {

// What a MaskModel begins with.
H5L_DEVICE u32 first_odds(const MaskNeighbours& neighbours, u32 context) {
  u32 odds = kEvenOdds;
  for (u32 k = 0; k < kNeighbours; ++k) {
    const u32 weight = weight_of_neighbour(neighbours, k);
    odds = (context >> k & 1) != 0 ? odds + weight : odds - weight;
  }
  return context < kBreakOf32 ? odds & 0xFFFF : kOddsOfBreak;
}

// ---------------------------------------------------------------------------------------------------------------------
// Encoders. All functions are called by the whole thread block, which has met since the mask was written.

inline constexpr u32 kDecisionsAtOnce = 1024;
inline constexpr u32 kContextGroups = (kMaskContexts + kWarpThreads - 1) / kWarpThreads;

struct MaskShared {
  alignas(16) u16 decisions[kDecisionsAtOnce];
  u32 totals[16];  // of warps
};

// Calls visit(context, bit) for the decisions of a word.
template <class Visit>
H5L_DEVICE void for_decisions(const MaskNeighbours& neighbours, u32 count, const u32* mask, u32 w, Visit visit) {
  const u32 first = w * kMaskBits, inside = inside_of(w, count), word = mask[w];
  u32 before = w == 0 ? 0 : mask[w - 1] >> (kMaskBits - 1), windows[kNeighbours];
  H5L_UNROLL for (u32 k = 0; k < kNeighbours; ++k) {
    const u32 distance = neighbours.distances[k];
    windows[k] = bits_before(mask, first, distance, kMaskBits);
    if (distance != 0 && distance < kMaskBits) windows[k] |= word << distance;
  }
  // Whether the bits around the `size` from this one on are alike: see MaskWalk.
  const auto are_alike = [&](u32 at, u32 size, u32 ones_of_size) {
    bool differ = false;
    H5L_UNROLL for (u32 k = 0; k < kNeighbours; ++k) {
      const u32 around = windows[k] >> at & ones_of_size;
      differ = differ || (neighbours.distances[k] >= size && around != ((0 - before) & ones_of_size));
    }
    return !differ;
  };
  if (are_alike(0, kMaskBits, ~u32{0})) {
    const u32 breaks = u32{word != ((0 - before) & inside)};
    visit(kBreakOf32 + before, breaks);
    if (breaks == 0) return;
  }
  H5L_NO_UNROLL for (u32 i = 0; i < kMaskBits && (inside >> i) != 0; i += 8) {
    const u32 bits = word >> i & 0xFF;
    if (are_alike(i, 8, 0xFF)) {
      const u32 breaks = u32{bits != ((0 - before) & inside >> i & 0xFF)};
      visit(kBreakOf8 + before, breaks);
      if (breaks == 0) continue;
    }
    H5L_NO_UNROLL for (u32 j = 0; j < 8 && (inside >> i >> j) != 0; ++j) {
      u32 context = 0;
      H5L_UNROLL for (u32 k = 0; k < kNeighbours; ++k) context |= (windows[k] >> i >> j & 1) << k;
      before = bits >> j & 1;
      visit(context, before);
    }
  }
}

// Lists the decisions in order: twice their contexts, and the bits. Returns how many there are.
template <u32 warps>
H5L_DEVICE u32 list_decisions(const MaskNeighbours& neighbours, u32 count, const u32* mask, MaskShared& shared,
                              u16* list) {
  constexpr u32 share = kMaxMaskWords / (warps * kWarpThreads);
  const u32 words = mask_words(count), begin = thread() * share;
  const u32 end = begin + share < words ? begin + share : words;
  u32 own = 0;
  H5L_NO_UNROLL for (u32 w = begin; w < end; ++w) {
    for_decisions(neighbours, count, mask, w, [&](u32, u32) { ++own; });
  }
  const u32 up_to = scan_of_warp(own);
  if (lane() == kWarpThreads - 1) shared.totals[warp()] = up_to;
  sync_block();
  u32 at = up_to - own, all = 0;
  for (u32 i = 0; i < warps; ++i) {
    at += i < warp() ? shared.totals[i] : 0;
    all += shared.totals[i];
  }
  H5L_NO_UNROLL for (u32 w = begin; w < end; ++w) {
    for_decisions(neighbours, count, mask, w,
                  [&](u32 context, u32 bit) { list[at++] = static_cast<u16>(context << 1 | bit); });
  }
  sync_block();
  return all;
}

// Calls visit(i, frequency of a 1, bit) for all decisions of a list, each by a thread that has its context. Others may
// be written to the list by visit().
template <u32 warps, class Visit>
H5L_DEVICE void for_frequencies(const MaskNeighbours& neighbours, const u16* list, u32 all, MaskShared& shared,
                                Visit visit) {
  constexpr u32 groups = (kContextGroups + warps - 1) / warps;  // of contexts, that a warp has
  u32 odds[groups];
  H5L_UNROLL for (u32 g = 0; g < groups; ++g) {
    odds[g] = first_odds(neighbours, (g * warps + warp()) * kWarpThreads + lane());
  }
  H5L_NO_UNROLL for (u32 first = 0; first < all; first += kDecisionsAtOnce) {
    sync_block();
    for (u32 i = thread(); i < kDecisionsAtOnce; i += warps * kWarpThreads) {
      shared.decisions[i] = first + i < all ? list[first + i] : u16{0xFFFF};  // no one's
    }
    sync_block();
    const u32 n = all - first < kDecisionsAtOnce ? all - first : kDecisionsAtOnce;
    H5L_NO_UNROLL for (u32 begin = 0; begin < n; begin += 8) {
      const Quad eight = *reinterpret_cast<const Quad*>(shared.decisions + begin);
      const u32 pairs[4] = {eight.x, eight.y, eight.z, eight.w};
      H5L_UNROLL for (u32 k = 0; k < 8; ++k) {
        const u32 decision = pairs[k / 2] >> 16 * (k % 2) & 0xFFFF;
        H5L_UNROLL for (u32 g = 0; g < groups; ++g) {
          if (decision >> 6 != g * warps + warp() || (decision >> 1) % kWarpThreads != lane()) continue;
          const u32 bit = decision & 1;
          visit(first + begin + k, frequency_of_odds(odds[g]), bit);
          odds[g] = odds_after(odds[g], bit);
        }
      }
    }
  }
}

// The rANS of a mask, backwards, by a warp: decisions are frequencies and bits. Words are put where the decisions were.
// Returns how many there are. Each thread prepares one decision, the chain is the same in all.
H5L_DEVICE u32 write_decisions(u16* decisions, u32 all, u8* out) {
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
  return all - words_at;
}

// Bytes as measure_mask says, in all threads. `list` has kMaskScratchBytes.
template <u32 warps>
H5L_CALLED u32 measure_mask_by_block(const MaskNeighbours& neighbours, u32 count, const u32* mask, MaskShared& shared,
                                     u16* list) {
  const u32 all = list_decisions<warps>(neighbours, count, mask, shared, list);
  u32 cost = 0;
  for_frequencies<warps>(neighbours, list, all, shared,
                         [&](u32, u32 f, u32 bit) { cost += kFrequencyCosts.of[bit != 0 ? f : kFrequencySum - f]; });
  cost = sum_of_warp(cost);
  sync_block();
  if (lane() == 0) shared.totals[warp()] = cost;
  sync_block();
  cost = 0;
  for (u32 i = 0; i < warps; ++i) cost += shared.totals[i];
  sync_block();
  return 8 + cost / 128;
}

// Returns the mask's end in `out`, which is even, in all threads. `scratch` has kMaskScratchBytes.
template <u32 warps>
H5L_CALLED u8* write_mask_by_block(const MaskNeighbours& neighbours, u32 count, const u32* mask, MaskShared& shared,
                                   u8* scratch, u8* out) {
  u16* const decisions = reinterpret_cast<u16*>(scratch);
  const u32 all = list_decisions<warps>(neighbours, count, mask, shared, decisions);
  for_frequencies<warps>(neighbours, decisions, all, shared,
                         [&](u32 i, u32 frequency, u32 bit) { decisions[i] = static_cast<u16>(frequency << 1 | bit); });
  sync_block();
  if (warp() == 0) {
    const u32 words = write_decisions(decisions, all, out);
    if (lane() == 0) shared.totals[0] = words;
  }
  sync_block();
  out += 6 + 2 * shared.totals[0];
  sync_block();
  return out;
}

// ---------------------------------------------------------------------------------------------------------------------
// Decoders

struct MaskOdds {
  u16 ones[kMaskContexts];

  H5L_DEVICE void begin(const MaskNeighbours& neighbours) {
    sync_warp();
    for (u32 context = lane(); context < kMaskContexts; context += kWarpThreads) {
      ones[context] = static_cast<u16>(first_odds(neighbours, context));
    }
    sync_warp();
  }
  H5L_DEVICE void learn(u32 context, u32 odds, u32 bit) {
    sync_warp();  // it has been read
    if (lane() == 0) ones[context] = odds_after(odds, bit);
    sync_warp();
  }
};

// Goes through a mask, which is 0 at first, as MaskWalk does: decide(context) returns the decisions in order.
template <class Decide>
H5L_DEVICE void walk_mask_by_warp(const MaskNeighbours& neighbours, u32 count, u32* mask, Decide decide) {
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
    u32 known = alike;
    if ((is_known || are_alike(0, kMaskBits, ~u32{0})) && decide(kBreakOf32 + before) == 0) {
      run += kMaskBits;
    } else {
      known = 0;
      H5L_NO_UNROLL for (u32 i = 0; i < kMaskBits && (inside >> i) != 0; i += 8) {
        u32 octet = (0 - before) & inside >> i & 0xFF;
        if (are_alike(i, 8, 0xFF) && decide(kBreakOf8 + before) == 0) {
          window |= moved(octet, i);
          run += 8;
        } else {
          octet = 0;
          H5L_NO_UNROLL for (u32 j = 0; j < 8 && (inside >> i >> j) != 0; ++j) {
            const u32 bit = decide(ballot((window >> i >> j & 1) != 0));
            octet |= bit << j;
            window |= moved(bit, i + j);
            run = bit == before ? run + 1 : 1;
            before = bit;
          }
        }
        known |= octet << i;
      }
    }
    sync_warp();
    if (lane() == 0) mask[w] = known;
    sync_warp();
  }
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
  walk_mask_by_warp(neighbours, count, mask, [&](u32 context) {
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
