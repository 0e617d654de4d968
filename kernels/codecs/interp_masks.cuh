// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Masks of a tile's values. They are defined in codecs/interp/masks.h: a chain of decisions, each of which gets its
// context from the bits before it, and its odds from earlier decisions in that context.
//
// An encoder knows all bits. It lists the decisions, with a thread per bit of a word; then finds their odds, with a
// thread per context that occurs among them; then runs the rANS. A decoder's decisions are a chain, which one thread
// follows. The other threads find the contexts of a word's bits, as far as the words before it give them: lane k has
// the bits of neighbour k for a whole word. Encoder and decoder both use one warp.
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
        shared.frequencies[lowest_one(left)] = static_cast<u16>(frequency_of_odds(odds));
        odds = odds_after(odds, u32{(bits & left & (0 - left)) != 0});
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
    const auto push = [&](const DecisionStep& step) {
      if (lane() == 0) shared.words[words] = static_cast<u16>(state);
      const bool gives_word = state >= step.limit;
      words += gives_word ? 1 : 0;
      state = gives_word ? state >> 16 : state;
      // state / frequency * 2048 + state % frequency + the frequencies before
      const u32 quotient = static_cast<u32>((u64{state} * step.factor + step.addend) >> 32) >> step.shift;
      state += quotient * step.others + step.before;
    };
    if (n == kWarpThreads) {
      constexpr u32 at_once = 4;
      H5L_NO_UNROLL for (u32 k = kWarpThreads; k != 0; k -= at_once) {
        DecisionStep steps[at_once];
        H5L_UNROLL for (u32 j = 0; j < at_once; ++j) steps[j] = shared.steps[k - 1 - j];
        H5L_UNROLL for (u32 j = 0; j < at_once; ++j) push(steps[j]);
      }
    } else {
      H5L_NO_UNROLL for (u32 k = n; k-- > 0;) push(shared.steps[k]);
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

// The odds of all contexts, and the contexts of the bits of the word that is read.
struct MaskOdds {
  alignas(8) u32 of[kMaskContexts];
  alignas(8) u8 contexts[kMaskBits];  // as the words before give them, without the bit before each
};

// What the bits of a word add to contexts of later bits in it, and which neighbours say whether an octet may differ
// from what is around it. Of a byte that stands for a context, bit k - 1 is that of neighbour k.
struct OctetRules {
  u64 near_contexts = 0;   // what a bit adds to the eight bytes from its own context on
  u64 far_contexts = 0;    // all neighbours at a distance of an octet or more, in each byte
  u64 distances = 0;       // a byte per neighbour
  u32 of_octets = 0;       // a byte per octet: the neighbours of its bits that are in the octets before, in this word
  bool has_twins = false;  // whether another neighbour is the bit before, too

  H5L_DEVICE explicit OctetRules(const MaskNeighbours& neighbours) {
    H5L_UNROLL for (u32 k = 1; k < kNeighbours; ++k) {
      const u32 distance = neighbours.distances[k], bit = k - 1;
      if (distance != 0 && distance < 8) near_contexts |= u64{1} << (8 * distance + bit);
      if (distance >= 8) far_contexts |= 0x0101010101010101ull << bit;
      if (distance < kMaskBits) distances |= u64{distance} << 8 * bit;
      H5L_UNROLL for (u32 i = 8; i < kMaskBits; i += 8) {
        if (distance != 0 && distance < i + 8) of_octets |= 1u << (i + bit);
      }
      has_twins = has_twins || distance == 1;
    }
  }
};

// A byte per bit of an octet: 0 or 1.
H5L_DEVICE u64 bytes_of_octet(u32 octet) {
  const auto of_four = [](u32 bits) { return bits * 0x00204081u & 0x01010101u; };
  return of_four(octet & 15) | u64{of_four(octet >> 4)} << 32;
}

// The rANS of a mask, run by one thread. A decision is a chain of dependent instructions, so their latency counts: the
// states after either value of a bit are computed before the bit is known, and no decision branches.
class MaskChain {
 public:
  H5L_DEVICE MaskChain(const u8* words, u32 count, u32 state, MaskOdds& odds)
      : words_(words), count_(count), odds_(odds), state_(state) {
    load_words();
  }

  H5L_DEVICE u32 decide(u32 context) {
    const u32 odds = odds_.of[context], bit = decide_at(frequency_of_odds(odds)) ? 1 : 0;
    odds_.of[context] = odds_after(odds, bit);
    refill();
    return bit;
  }

  // Decides the first `size` bits of a word, given the bit before. Bits of the last octet after them are undefined.
  H5L_DEVICE u32 decide_word(const OctetRules& rules, u32 size, u32 before) {
    u32 word = 0;
    H5L_NO_UNROLL for (u32 i = 0; i < size; i += 8) {
      u64 contexts = *reinterpret_cast<const u64*>(odds_.contexts + i);
      H5L_NO_UNROLL for (u32 left = rules.of_octets >> i & 0xFF; left != 0; left &= left - 1) {
        const u32 bit = lowest_one(left), moved = word << (rules.distances >> 8 * bit & 0xFF);
        contexts |= bytes_of_octet(moved >> i & 0xFF) << bit;
      }
      const bool may_break = (contexts & rules.far_contexts) == (before != 0 ? rules.far_contexts : 0);
      u32 octet = (0 - before) & 0xFF;
      if (!may_break || decide(kBreakOf8 + before) != 0) {
        if (size - i < 8 || rules.has_twins) {
          octet = decide_bits(contexts, rules.near_contexts, before, size - i);
        } else if (rules.near_contexts != 0) {
          octet = decide_octet<true>(contexts, rules.near_contexts, before);
        } else {
          octet = decide_octet<false>(contexts, 0, before);
        }
      }
      word |= octet << i;
      before = octet >> 7;
    }
    return word;
  }
  [[nodiscard]] H5L_DEVICE bool is_done() const { return used_ == count_ && state_ == kMaskStart; }

 private:
  static constexpr u32 kQueuedWords = 4;

  // Whether a bit is 1, by the frequency of a 1. At most kQueuedWords decisions come between two calls of refill().
  H5L_DEVICE bool decide_at(u32 frequency) {
    const u32 zeros = kFrequencySum - frequency, slot = state_ % kFrequencySum, high = state_ >> kFrequencyBits;
    const u32 after_0 = high * zeros + slot, after_1 = high * frequency + slot - zeros;
    const bool is_1 = slot >= zeros;
    const u32 state = is_1 ? after_1 : after_0;
    const bool takes_word = state < kMaskStart;
    state_ = takes_word ? permute(static_cast<u32>(queue_), state, 0x5410) : state;
    queue_ = takes_word ? queue_ >> 16 : queue_;
    taken_ += takes_word ? 1 : 0;
    return is_1;
  }

  // Each byte of `contexts` is the context of a bit, but for bits of this octet. The odds in both contexts that a bit
  // may have are loaded before the bit before it is decided; one of them may be what that decision changes.
  template <bool has_near>
  H5L_DEVICE u32 decide_octet(u64 contexts, u64 near_contexts, u32 before) {
    const auto both_of = [&](u32 context) { return *reinterpret_cast<const u64*>(odds_.of + 2 * context); };
    u32 context = static_cast<u32>(contexts & 0xFF);
    const u64 first = both_of(context);
    u32 octet = 0, odds = static_cast<u32>(before != 0 ? first >> 32 : first);
    H5L_UNROLL for (u32 j = 0; j < 8; ++j) {
      contexts >>= 8;
      const u32 next = static_cast<u32>(contexts & 0xFF);
      const u64 both = both_of(next);
      const bool is_same = next == context;
      const bool is_1 = decide_at(frequency_of_odds(odds));
      const u32 after = odds_after(odds, is_1 ? 1 : 0);
      odds_.of[2 * context + before] = after;
      odds = is_1 ? static_cast<u32>(both >> 32) : static_cast<u32>(both);
      if (is_same && is_1 == (before != 0)) odds = after;
      before = is_1 ? 1 : 0;
      if constexpr (has_near) contexts |= is_1 ? near_contexts >> 8 : 0;
      octet |= before << j;
      context = next;
      if (j % kQueuedWords == kQueuedWords - 1) refill();
    }
    return octet;
  }
  // The same for the last bits of a mask, or whatever the neighbours are.
  H5L_DEVICE u32 decide_bits(u64 contexts, u64 near_contexts, u32 before, u32 size) {
    u32 octet = 0;
    H5L_NO_UNROLL for (u32 j = 0; j < 8 && j < size; ++j) {
      before = decide(static_cast<u32>(contexts & 0xFF) << 1 | before);
      octet |= before << j;
      contexts = (contexts | (before != 0 ? near_contexts : 0)) >> 8;
    }
    return octet;
  }

  H5L_DEVICE void refill() {
    if (taken_ != 0) {
      used_ += taken_;
      taken_ = 0;
      load_words();
    }
  }
  H5L_DEVICE void load_words() {
    queue_ = 0;
    H5L_UNROLL for (u32 k = 0; k < kQueuedWords; ++k) {
      if (used_ + k < count_) queue_ |= u64{half_at(words_ + kWordBytes * (used_ + k))} << 16 * k;
    }
  }

  const u8* const words_;
  const u32 count_;
  MaskOdds& odds_;
  u64 queue_ = 0;                     // the next words
  u32 state_, used_ = 0, taken_ = 0;  // words before the queue's, and from it
};

// Goes through a mask as MaskWalk does. The first thread has the chain.
H5L_DEVICE void walk_mask_by_warp(const MaskNeighbours& neighbours, u32 count, u32* mask, MaskOdds& odds,
                                  MaskChain& chain) {
  // Lane k has the bits of neighbour k for a word: they are in words `back` and `back` - 1 before it, from bit `shift`
  // on.
  const u32 distance = lane() < kNeighbours ? distance_of(neighbours, lane()) : 0;
  const u32 back = (distance + kMaskBits - 1) / kMaskBits, shift = (0 - distance) % kMaskBits;
  const OctetRules rules(neighbours);
  u32 low = 0, high = 0, before = 0;
  H5L_NO_UNROLL for (u32 w = 0; w < mask_words(count); ++w) {
    const u32 size = count - w * kMaskBits < kMaskBits ? count - w * kMaskBits : kMaskBits;
    const u32 inside = inside_of(w, count), window = funnel_right(low, high, shift);
    const u32 next = back > 2 && w + 2 >= back ? mask[w + 2 - back] : 0;  // long before it is needed
    u32 word = (0 - before) & inside, breaks = 1;
    if (!any_in_warp(distance >= kMaskBits && window != 0 - before)) {
      if (lane() == 0) breaks = chain.decide(kBreakOf32 + before);
      breaks = shuffle(breaks, 0);
    }
    if (breaks != 0) {
      u32 context = 0;
      H5L_UNROLL for (u32 k = 1; k < kNeighbours; ++k) context |= (shuffle(window, k) >> lane() & 1) << (k - 1);
      odds.contexts[lane()] = static_cast<u8>(context);
      sync_warp();
      if (lane() == 0) word = chain.decide_word(rules, size, before) & inside;
      word = shuffle(word, 0);
    }
    if (lane() == 0) mask[w] = word;
    sync_warp();  // the contexts have been read, and the word can be
    low = back == 1 ? word : high;
    high = back == 2 ? word : next;
    before = word >> (kMaskBits - 1);
  }
}

// The end of the mask at `from`; nullptr if it does not fit.
H5L_DEVICE const u8* mask_end(const u8* from, const u8* end) {
  if (end - from < 6) return nullptr;
  const u32 words = half_at(from);
  return end - from < 6 + 2 * static_cast<i64>(words) ? nullptr : from + 6 + 2 * words;
}

// Reads a mask that is known to fit. False if it is corrupt.
H5L_DEVICE bool read_mask_by_warp(const MaskNeighbours& neighbours, u32 count, const u8* from, MaskOdds& odds,
                                  u32* mask) {
  for (u32 context = lane(); context < kMaskContexts; context += kWarpThreads) {
    odds.of[context] = first_odds(neighbours, context);
  }
  sync_warp();
  MaskChain chain(from + 6, half_at(from), half_at(from + 2) | half_at(from + 4) << 16, odds);
  walk_mask_by_warp(neighbours, count, mask, odds, chain);
  return shuffle(u32{chain.is_done()}, 0) != 0;
}

}  // namespace h5lossy::H5L_TARGET::interp
