// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Masks of a tile's values. They are defined in codecs/interp/masks.h: a chain of decisions, each of which gets its
// context from the bits before it, and its odds from earlier decisions in that context.
//
// An encoder knows all bits. It lists the decisions, with a thread per bit of a word; then finds their odds, with a
// thread per context that occurs among them; then runs the rANS. A decoder's decisions are a chain, which one thread
// follows. The other threads have the neighbours: lane k has the bits of neighbour k for a whole word, so a context is
// a ballot. Encoder and decoder both use one warp.
#pragma once

#include "codecs/interp/masks.h"
#include "kernels/codecs/interp_stage.cuh"

namespace h5lossy::H5L_TARGET::interp {

// The first odds of a MaskModel.
H5L_DEVICE u32 first_odds(const MaskNeighbours& neighbours, u32 context) {
  u32 odds = kEvenOdds;
  for (u32 k = 0; k < kNeighbours; ++k) {
    const u32 weight = weight_of_neighbour(neighbours, k);
    odds = (context >> k & 1) != 0 ? odds + weight : odds - weight;
  }
  return context < kBreakOf32 ? odds & 0xFFFF : kOddsOfBreak;
}

// ---------------------------------------------------------------------------------------------------------------------
// Encoders

// What the rANS needs to know of a decision of frequency f. When a state is divided by f, it is below 2^21 f. So with
// 2^(s - 1) < f <= 2^s, the quotient is (state * x + y) >> (31 + s), where x is 2^(31 + s) / f rounded to nearest, and
// y is x if it was rounded down, else 0: x f is off by f / 2 at most, and that times the state does not exceed
// 2^(31 + s).
struct DecisionStep {
  alignas(16) u32 factor;  // x
  u32 addend;              // y
  u32 limit;               // of the state
  u32 shift;               // s - 1
  u32 others, before;      // 2048 - f, and the sum of the frequencies of the symbols before
};

struct MaskShared {
  DecisionStep steps[kWarpThreads];
  u16 words[kWarpThreads];
  u16 odds[kMaskContexts];
  u16 frequencies[kWarpThreads];
};

H5L_DEVICE u32 distance_of(const MaskNeighbours& neighbours, u32 k) {
  u32 distance = 0;
  H5L_UNROLL for (u32 i = 0; i < kNeighbours; ++i) distance = i == k ? neighbours.distances[i] : distance;
  return distance;
}

// Lists the decisions in order, each as twice its context plus its bit. Returns their number.
H5L_DEVICE u32 list_decisions(const MaskNeighbours& neighbours, u32 count, const u32* mask, u16* list) {
  // Each thread has a bit, the octet of that bit, and, within the octet, a neighbour.
  const u32 place = lane() / 8 * 8, distance = distance_of(neighbours, lane() % kNeighbours);
  static_assert(kNeighbours == 8);
  u32 before = 0, all = 0;  // the previous bit, and the number of decisions
  H5L_NO_UNROLL for (u32 w = 0; w < mask_words(count); ++w) {
    const u32 inside = inside_of(w, count), word = mask[w];
    u32 window = bits_before(mask, w * kMaskBits, distance, kMaskBits);
    // Whether the bits around a whole word, or around an octet, are alike: see MaskWalk.
    const bool are_alike = !any_in_warp(distance >= kMaskBits && window != 0 - before);
    if (are_alike) {
      const u32 breaks = u32{word != ((0 - before) & inside)};
      if (lane() == 0) list[all] = static_cast<u16>((kBreakOf32 + before) << 1 | breaks);
      ++all;
      if (breaks == 0) continue;
    }
    if (distance != 0 && distance < kMaskBits) window |= word << distance;
    const u32 octet = word >> place & 0xFF, octet_inside = inside >> place & 0xFF;
    const u32 octet_before = place == 0 ? before : word >> (place - 1) & 1, alike = (0 - octet_before) & 0xFF;
    const u32 differ = ballot(distance >= 8 && (window >> place & 0xFF) != alike);
    const bool may_break = octet_inside != 0 && (differ >> place & 0xFF) == 0;
    const u32 breaks = u32{octet != (alike & octet_inside)};
    const u32 coded = ballot(!may_break || breaks != 0) & inside;
    const u32 of_octets = ballot(may_break && place == lane());
    u32 context = 0;
    H5L_UNROLL for (u32 k = 0; k < kNeighbours; ++k) context |= (shuffle(window, k) >> lane() & 1) << k;
    const u32 at = all + ones(coded & lanes_below()) + ones(of_octets & lanes_below());
    if (place == lane() && may_break) list[at] = static_cast<u16>((kBreakOf8 + octet_before) << 1 | breaks);
    if ((coded >> lane() & 1) != 0) {
      list[at + (of_octets >> lane() & 1)] = static_cast<u16>(context << 1 | (word >> lane() & 1));
    }
    all += ones(coded) + ones(of_octets);
    before = word >> (kMaskBits - 1);
  }
  sync_warp();
  return all;
}

// Calls visit(i, frequency of a 1, bit) for all decisions of a list, one per thread. visit() may overwrite them in the
// list.
template <class Visit>
H5L_DEVICE void for_frequencies(const MaskNeighbours& neighbours, const u16* list, u32 all, MaskShared& shared,
                                Visit visit) {
  constexpr u32 kNoContext = 511;
  static_assert(kMaskContexts <= kNoContext);
  for (u32 context = lane(); context < kMaskContexts; context += kWarpThreads) {
    shared.odds[context] = static_cast<u16>(first_odds(neighbours, context));
  }
  sync_warp();
  u32 next = lane() < all ? list[lane()] : 2 * kNoContext;
  H5L_NO_UNROLL for (u32 first = 0; first < all; first += kWarpThreads) {
    const u32 i = first + lane(), context = next >> 1, bit = next & 1;
    next = i + kWarpThreads < all ? list[i + kWarpThreads] : 2 * kNoContext;
    const u32 bits = ballot(bit != 0);
    u32 peers = ~u32{0};  // decisions with the same context
    H5L_UNROLL for (u32 place = 0; place < 9; ++place) {
      const u32 set = ballot((context >> place & 1) != 0);
      peers &= (context >> place & 1) != 0 ? set : ~set;
    }
    if (i < all && (peers & lanes_below()) == 0) {
      u32 odds = shared.odds[context];
      H5L_NO_UNROLL for (u32 left = peers; left != 0; left &= left - 1) {
        const u32 one = lowest_one(left);
        shared.frequencies[one] = static_cast<u16>(frequency_of_odds(odds));
        odds = odds_after(odds, bits >> one & 1);
      }
      shared.odds[context] = static_cast<u16>(odds);
    }
    sync_warp();
    if (i < all) visit(i, u32{shared.frequencies[lane()]}, bit);
    sync_warp();
  }
}

H5L_DEVICE DecisionStep step_of_decision(u32 f, u32 bit) {
  const u32 s = 32 - count_leading_zeros(f - 1), others = kFrequencySum - f;
  const u64 power = u64{1} << (31 + s);
  const u32 down = static_cast<u32>(power / f), rest = static_cast<u32>(power - u64{down} * f);
  const bool is_up = 2 * rest > f;
  return {down + (is_up ? 1 : 0), rest == 0 || is_up ? 0 : down, f << (32 - kFrequencyBits), s - 1, others,
          bit != 0 ? others : 0};
}

// Runs the rANS of a mask backwards, on decisions given as frequencies and bits. Words replace the decisions. Returns
// the number of words. Each thread prepares one decision; all threads follow the same chain.
H5L_DEVICE u32 write_decisions(u16* decisions, u32 all, MaskShared& shared, u8* out) {
  u32 state = kMaskStart, words_at = all;
  const auto load = [&](u32 end) {  // the decisions before `end` that are processed together
    const u32 n = end % kWarpThreads == 0 ? kWarpThreads : end % kWarpThreads;
    return end != 0 && lane() < n ? u32{decisions[end - n + lane()]} : 2u;
  };
  u32 next = load(all);
  H5L_NO_UNROLL for (u32 end = all; end != 0;) {
    const u32 n = end % kWarpThreads == 0 ? kWarpThreads : end % kWarpThreads;
    const u32 bit = next & 1, frequency_of_1 = next >> 1;
    shared.steps[lane()] = step_of_decision(bit != 0 ? frequency_of_1 : kFrequencySum - frequency_of_1, bit);
    end -= n;
    next = load(end);
    sync_warp();
    u32 words = 0;  // of these decisions
    const auto push = [&](u32 k) {
      const DecisionStep step = shared.steps[k];
      if (state >= step.limit) {
        if (lane() == 0) shared.words[words] = static_cast<u16>(state);
        ++words;
        state >>= 16;
      }
      // state / frequency * 2048 + state % frequency + the frequencies before
      const u32 quotient = static_cast<u32>((u64{state} * step.factor + step.addend) >> 32) >> step.shift;
      state += quotient * step.others + step.before;
    };
    if (n == kWarpThreads) {
      constexpr u32 at_once = 8;
      H5L_NO_UNROLL for (u32 k = kWarpThreads; k != 0; k -= at_once) {
        H5L_UNROLL for (u32 j = 1; j <= at_once; ++j) push(k - j);
      }
    } else {
      H5L_NO_UNROLL for (u32 k = n; k-- > 0;) push(k);
    }
    words_at -= words;
    sync_warp();
    if (lane() < words) decisions[words_at + words - 1 - lane()] = shared.words[lane()];
    sync_warp();  // the steps have been read
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

// The mask's size in bytes, as measure_mask finds it. `list` has kMaskScratchBytes.
H5L_CALLED u32 measure_mask_by_warp(const MaskNeighbours& neighbours, u32 count, const u32* mask, MaskShared& shared,
                                    u16* list) {
  const u32 all = list_decisions(neighbours, count, mask, list);
  u32 cost = 0;
  for_frequencies(neighbours, list, all, shared,
                  [&](u32, u32 f, u32 bit) { cost += kFrequencyCosts.of[bit != 0 ? f : kFrequencySum - f]; });
  return 8 + sum_of_warp(cost) / 128;
}

// Returns the end of the mask in `out`, which is even. `scratch` has kMaskScratchBytes.
H5L_DEVICE u8* write_mask_by_warp(const MaskNeighbours& neighbours, u32 count, const u32* mask, MaskShared& shared,
                                  u8* scratch, u8* out) {
  u16* const decisions = reinterpret_cast<u16*>(scratch);
  const u32 all = list_decisions(neighbours, count, mask, decisions);
  for_frequencies(neighbours, decisions, all, shared,
                  [&](u32 i, u32 frequency, u32 bit) { decisions[i] = static_cast<u16>(frequency << 1 | bit); });
  return out + 6 + 2 * write_decisions(decisions, all, shared, out);
}

// ---------------------------------------------------------------------------------------------------------------------
// Decoders

// The odds of a context, and in the upper half the frequency of a 0 according to them.
struct MaskOdds {
  alignas(8) u32 rates[kMaskContexts];
};
H5L_DEVICE u32 rate_of_odds(u32 odds) { return odds | (kFrequencySum - frequency_of_odds(odds)) << 16; }

// The rANS of a mask, run by one thread. A decision is a chain of dependent instructions, so their latency counts.
class MaskChain {
 public:
  H5L_DEVICE MaskChain(const u8* words, u32 count, u32 state, u32* rates)
      : words_(words), count_(count), rates_(rates), state_(state), next_(count != 0 ? half_at(words) : 0) {}

  H5L_DEVICE u32 decide(u32 context) {
    u32 rate = rates_[context];
    const u32 bit = decide_at(rate);
    rates_[context] = rate;
    return bit;
  }
  // Decides eight bits. Each byte of `contexts` is the context of a bit, except for its bit 0, which is the bit before.
  // The rates of both contexts that a bit may have are loaded before the previous bit is decided. If a decision has the
  // same context as the previous one, it takes the updated rate.
  H5L_DEVICE u32 decide_octet(const u32 (&contexts)[2], u32 before) {
    const auto both_of = [&](u32 j) {
      return *reinterpret_cast<const u64*>(rates_ + (contexts[j / 4] >> 8 * (j % 4) & 0xFE));
    };
    u64 next = both_of(0);
    u32 octet = 0, last = ~u32{0}, rate = 0;
    H5L_UNROLL for (u32 j = 0; j < 8; ++j) {
      const u64 both = next;
      if (j + 1 < 8) next = both_of(j + 1);
      const u32 context = (contexts[j / 4] >> 8 * (j % 4) & 0xFE) | before;
      const u32 loaded = static_cast<u32>(before != 0 ? both >> 32 : both);
      rate = context == last ? rate : loaded;
      before = decide_at(rate);
      rates_[context] = rate;
      last = context;
      octet |= before << j;
    }
    return octet;
  }
  [[nodiscard]] H5L_DEVICE bool is_done() const { return used_ == count_ && state_ == kMaskStart; }

 private:
  // Updates the rate. The results for both values of the bit are computed before the bit is known.
  H5L_DEVICE u32 decide_at(u32& rate) {
    const u32 zeros = rate >> 16, odds = rate & 0xFFFF, slot = state_ % kFrequencySum, high = state_ >> kFrequencyBits;
    const u32 after_0 = high * zeros + slot, after_1 = high * (kFrequencySum - zeros) + slot - zeros;
    const u32 odds_0 = odds_after(odds, 0), odds_1 = odds_after(odds, 1);
    const bool is_1 = slot >= zeros;
    state_ = is_1 ? after_1 : after_0;
    if (state_ < kMaskStart) {
      state_ = state_ << 16 | next_;
      ++used_;
      next_ = used_ < count_ ? half_at(words_ + 2 * used_) : 0;  // long before it is needed
    }
    rate = rate_of_odds(is_1 ? odds_1 : odds_0);
    return is_1 ? 1 : 0;
  }

  const u8* const words_;
  const u32 count_;
  u32* const rates_;
  u32 state_, next_, used_ = 0;
};

// Reads the bits of an octet, by one thread. `contexts` has a byte per bit: its context as the bits before the octet
// give it.
H5L_DEVICE u32 read_octet(const u32 (&contexts)[2], u64 near_contexts, u32 inside, u32 before, MaskChain& chain) {
  if (near_contexts == 0 && inside == 0xFF) return chain.decide_octet(contexts, before);
  u32 octet = 0;
  u64 all = u64{contexts[0]} | u64{contexts[1]} << 32;
  H5L_NO_UNROLL for (u32 j = 0; j < 8 && (inside >> j) != 0; ++j) {
    before = chain.decide((static_cast<u32>(all) & 0xFE) | before);
    octet |= before << j;
    all = (all | (before != 0 ? near_contexts : 0)) >> 8;
  }
  return octet;
}

// Goes through a mask, initially 0, as MaskWalk does. The first thread has the chain.
H5L_DEVICE void walk_mask_by_warp(const MaskNeighbours& neighbours, u32 count, u32* mask, MaskChain& chain) {
  const u32 distance = lane() < kNeighbours ? distance_of(neighbours, lane()) : 0;
  u32 farthest = 0;
  u64 near_contexts = 0;  // what a bit adds to the contexts of later bits
  H5L_UNROLL for (u32 k = 0; k < kNeighbours; ++k) {
    const u32 one = neighbours.distances[k];
    farthest = one > farthest ? one : farthest;
    if (k != 0 && one != 0 && one < 8) near_contexts |= u64{1} << (8 * one + k);
  }
  u32 before = 0, run = 0;  // the previous bit, and how many bits before it are equal
  H5L_NO_UNROLL for (u32 w = 0; w < mask_words(count); ++w) {
    const u32 first = w * kMaskBits, inside = inside_of(w, count), alike = (0 - before) & inside;
    // Whether the bits around the `size` bits from this one on are alike: see MaskWalk.
    u32 window = 0;
    const auto are_alike = [&](u32 at, u32 size, u32 ones_of_size) {
      const u32 around = window >> at & ones_of_size;
      return !any_in_warp(distance >= size && around != ((0 - before) & ones_of_size));
    };
    const bool is_known = run >= farthest || (before == 0 && run >= first);  // that they are alike
    if (is_known) {
      window = (0 - before) & static_cast<u32>(blocks::first_bits(distance < kMaskBits ? distance : kMaskBits));
    } else {
      window = bits_before(mask, first, distance, kMaskBits);
    }
    u32 known = alike, breaks = 1;
    if (is_known || are_alike(0, kMaskBits, ~u32{0})) {
      if (lane() == 0) breaks = chain.decide(kBreakOf32 + before);
      breaks = shuffle(breaks, 0);
    }
    if (breaks == 0) {
      run += kMaskBits;
    } else {
      known = 0;
      H5L_NO_UNROLL for (u32 i = 0; i < kMaskBits && (inside >> i) != 0; i += 8) {
        const u32 here = inside >> i & 0xFF;
        const bool may_break = are_alike(i, 8, 0xFF);
        u32 contexts[2] = {};  // a byte per bit
        const u32 own = window >> i;
        H5L_UNROLL for (u32 j = 0; j < 8; ++j) contexts[j / 4] |= ballot((own & 1u << j) != 0) << 8 * (j % 4);
        u32 octet = (0 - before) & here;
        if (lane() == 0 && (!may_break || chain.decide(kBreakOf8 + before) != 0)) {
          octet = read_octet(contexts, near_contexts, here, before, chain);
        }
        octet = shuffle(octet, 0);
        known |= octet << i;
        if (distance != 0 && distance + i < kMaskBits) window |= octet << (distance + i);
        const u32 n = ones(here), last = octet >> (n - 1) & 1, others = (octet ^ (0 - last)) & here;
        run = others != 0 ? n - 32 + count_leading_zeros(others) : last == before ? run + n : n;
        before = last;
      }
    }
    sync_warp();  // the mask has been read
    if (lane() == 0) mask[w] = known;
    sync_warp();
  }
}

// The end of the mask at `from`; nullptr if it does not fit.
H5L_DEVICE const u8* mask_end(const u8* from, const u8* end) {
  if (end - from < 6) return nullptr;
  const u32 words = half_at(from);
  return end - from < 6 + 2 * static_cast<i64>(words) ? nullptr : from + 6 + 2 * words;
}

// Reads a mask that is known to fit. False if it is corrupt.
H5L_DEVICE bool read_mask_by_warp(const MaskNeighbours& neighbours, u32 count, const u8* from, u32* rates, u32* mask) {
  for (u32 w = lane(); w < mask_words(count); w += kWarpThreads) mask[w] = 0;
  for (u32 context = lane(); context < kMaskContexts; context += kWarpThreads) {
    rates[context] = rate_of_odds(first_odds(neighbours, context));
  }
  sync_warp();
  MaskChain chain(from + 6, half_at(from), half_at(from + 2) | half_at(from + 4) << 16, rates);
  walk_mask_by_warp(neighbours, count, mask, chain);
  return shuffle(u32{chain.is_done()}, 0) != 0;
}

}  // namespace h5lossy::H5L_TARGET::interp
