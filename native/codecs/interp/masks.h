// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Masks of a tile's values, each bit coded in the context of its neighbours (docs/format/interp.md, "Masks").
//
// A mask has a bit per value of a tile, in raster order, in words of 32 bits; bits after the last value are 0.
#pragma once

#include "codecs/blocks.h"
#include "codecs/interp/grid.h"
#include "codecs/interp/tables.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::interp {

inline constexpr u32 kMaskBits = 32;
inline constexpr u32 kMaxMaskWords = kTileValues / kMaskBits;
H5L_FN constexpr u32 mask_words(u32 count) { return (count + kMaskBits - 1) / kMaskBits; }

H5L_FN u32 count_bits(const u32* mask, u32 count) {
  u32 bits = 0;
  for (u32 w = 0; w < mask_words(count); ++w) bits += count_ones(mask[w]);
  return bits;
}

// Whether the codes of this many exceptions are left out; only for integers, and if exceptions are many.
H5L_FN bool are_left_out(u32 exceptions, u32 count) { return 32 * exceptions > count; }

// The bits of word w of a mask that belong to a value.
H5L_FN u32 inside_of(u32 w, u32 count) {
  return static_cast<u32>(blocks::first_bits(count - w * kMaskBits < kMaskBits ? count - w * kMaskBits : kMaskBits));
}

// ---------------------------------------------------------------------------------------------------------------------
// Neighbours

inline constexpr u32 kNeighbours = 8;

// The distances back to the neighbours of a bit; 0 for none. The first `near` of them share a face with it.
struct MaskNeighbours {
  u32 distances[kNeighbours];
  u32 near;
};

H5L_FN MaskNeighbours mask_neighbours_of(const u32 (&extents)[kAxes]) {
  u32 strides[kAxes], axes = 0, stride = 1;
  for (u32 a = kAxes; a-- > 0; stride *= extents[a]) {
    if (extents[a] > 1) strides[axes++] = stride;
  }
  if (axes < 2) return {{1, 2, 3, 4}, 1};
  const u32 r = strides[1];
  if (axes == 2) return {{1, r, r - 1, r + 1, 2, 2 * r, r - 2, r + 2}, 2};
  const u32 s = strides[2];
  return {{1, r, s, r - 1, s + 1, s - 1, s + r, s - r}, 3};
}

// The probabilities of decisions, in 65536ths: that a bit is 1, by its neighbours, and that 32 or 8 bits differ from
// those around them, which are all 0 or all 1.
inline constexpr u32 kBreakOf32 = 1u << kNeighbours, kBreakOf8 = kBreakOf32 + 2, kMaskContexts = kBreakOf8 + 2;
inline constexpr u32 kEvenOdds = 32768, kOddsOfBreak = 1024;

// What a neighbour initially adds to the odds of a bit if it is 1, and subtracts if it is 0.
H5L_FN u32 weight_of_neighbour(const MaskNeighbours& neighbours, u32 k) {
  return neighbours.distances[k] == 0 ? 0 : k < neighbours.near ? 3 * 2048 : 2048;
}

// The frequency of a 1, out of 2048, and the odds after a decision.
H5L_FN u32 frequency_of_odds(u32 odds) {
  constexpr u32 kLeast = 8;
  const u32 f = odds >> 5;
  return f < kLeast ? kLeast : f > kFrequencySum - kLeast ? kFrequencySum - kLeast : f;
}
H5L_FN u32 odds_after(u32 odds, u32 bit) { return bit != 0 ? odds + ((65535u - odds) >> 4) : odds - (odds >> 4); }

struct MaskModel {
  u16 ones[kMaskContexts];

  H5L_FN explicit MaskModel(const MaskNeighbours& neighbours) {
    ones[0] = kEvenOdds;
    for (u32 k = 0; k < kNeighbours; ++k) {
      const u32 weight = weight_of_neighbour(neighbours, k);
      for (u32 context = 0; context < 1u << k; ++context) {
        ones[context + (1u << k)] = static_cast<u16>(ones[context] + weight);
        ones[context] = static_cast<u16>(ones[context] - weight);
      }
    }
    for (u32 context = kBreakOf32; context < kMaskContexts; ++context) ones[context] = kOddsOfBreak;
  }

  H5L_FN u32 frequency(u32 context) const { return frequency_of_odds(ones[context]); }
  H5L_FN void learn(u32 context, u32 bit) { ones[context] = static_cast<u16>(odds_after(ones[context], bit)); }
};

// `size` bits of a mask (at most 32), beginning `distance` before bit `first`, which is a multiple of 8. Bits from
// `first` on, and those before the mask, are 0.
H5L_FN u32 bits_before(const u32* mask, u32 first, u32 distance, u32 size) {
  const u32 left = distance < size ? distance : size;
  u64 bits = 0;
  if (distance > first) {
    if (distance - first >= size) return 0;
    bits = u64{mask[0]} << (distance - first);
  } else {
    const u32 from = first - distance, w = from / kMaskBits;
    bits = mask[w] >> from % kMaskBits;
    if (from % kMaskBits != 0 && (w + 1) * kMaskBits < first)
      bits |= u64{mask[w + 1]} << (kMaskBits - from % kMaskBits);
  }
  return static_cast<u32>(bits & blocks::first_bits(left));
}

// Goes through a mask: code(context, bit) is called for the decisions in order, and returns them. A decoder's function
// returns what it reads, and the mask, initially 0, is set accordingly.
template <class Code>
class MaskWalk {
 public:
  H5L_FN MaskWalk(const MaskNeighbours& neighbours, u32 count, u32* mask, Code& code)
      : neighbours_(neighbours), count_(count), mask_(mask), code_(code) {
    for (const u32 distance : neighbours.distances) {
      farthest_ = distance > farthest_ ? distance : farthest_;
    }
    for (u32 k = 1; k < kNeighbours; ++k) {
      const u32 distance = neighbours.distances[k];
      if (distance != 0 && distance < 8) near_contexts_ |= u64{1} << (8 * distance + k);
    }
  }

  H5L_FN void run() {
    for (u32 w = 0; w < mask_words(count_); ++w) {
      const u32 first = w * kMaskBits, inside = inside_of(w, count_), word = mask_[w];
      const u32 alike = (0 - before_) & inside;
      if (looks_alike(first) && code_(kBreakOf32 + before_, u32{word != alike}) == 0) {
        mask_[w] = alike;
        run_ += kMaskBits;
        continue;
      }
      mask_[w] = 0;
      for (u32 i = 0; i < kMaskBits && (inside >> i) != 0; i += 8) {
        mask_[w] |= octet(first, i, word >> i & 0xFF, inside >> i & 0xFF) << i;
      }
    }
  }

 private:
  // Transposes eight bytes of eight bits: bit j of byte k becomes bit k of byte j.
  H5L_FN static u64 transposed(u64 x) {
    u64 swapped = (x ^ x >> 7) & 0x00AA00AA00AA00AAull;
    x ^= swapped ^ swapped << 7;
    swapped = (x ^ x >> 14) & 0x0000CCCC0000CCCCull;
    x ^= swapped ^ swapped << 14;
    swapped = (x ^ x >> 28) & 0x00000000F0F0F0F0ull;
    return x ^ swapped ^ swapped << 28;
  }

  // Whether the bits around a word are alike: the previous bit, and the neighbours at a distance of a word or more,
  // which are found here.
  H5L_FN bool looks_alike(u32 first) {
    const u32 expected = 0 - before_;
    const bool is_known = run_ >= farthest_ || (before_ == 0 && run_ >= first);
    bool alike = true;
    for (u32 k = 0; k < kNeighbours; ++k) {
      const u32 distance = neighbours_.distances[k];
      if (distance < kMaskBits) continue;
      windows_[k] = is_known ? expected : bits_before(mask_, first, distance, kMaskBits);
      alike &= windows_[k] == expected;
    }
    return alike;
  }

  // Codes the eight bits from bit i of a word on.
  H5L_FN u32 octet(u32 word, u32 i, u32 bits, u32 inside) {
    const u32 expected = (0 - before_) & 0xFF, alike = expected & inside;
    u32 windows[kNeighbours];
    bool is_alike = true;
    for (u32 k = 0; k < kNeighbours; ++k) {
      const u32 distance = neighbours_.distances[k];
      windows[k] = distance < kMaskBits ? bits_before(mask_, word + i, distance, 8) : windows_[k] >> i & 0xFF;
      is_alike &= distance < 8 || windows[k] == expected;
    }
    if (is_alike && code_(kBreakOf8 + before_, u32{bits != alike}) == 0) {
      run_ += 8;
      return alike;
    }
    u64 contexts = 0;  // a byte per bit
    for (u32 k = 1; k < kNeighbours; ++k) contexts |= u64{windows[k]} << 8 * k;
    contexts = transposed(contexts);
    u32 known = 0;
    for (u32 j = 0; j < 8 && (inside >> j) != 0; ++j, contexts >>= 8) {
      const u32 bit = code_(static_cast<u32>(contexts & 0xFE) | before_, bits >> j & 1);
      known |= bit << j;
      contexts |= bit != 0 ? near_contexts_ : 0;
      run_ = bit == before_ ? run_ + 1 : 1;
      before_ = bit;
    }
    return known;
  }

  const MaskNeighbours& neighbours_;
  const u32 count_;
  u32* const mask_;
  Code& code_;
  u32 farthest_ = 0;
  u64 near_contexts_ = 0;          // what a bit adds to the contexts of later bits
  u32 before_ = 0, run_ = 0;       // the previous bit, and how many bits before it are equal
  u32 windows_[kNeighbours] = {};  // the neighbours of a word's bits at a distance of a word or more
};

template <class Code>
H5L_FN void walk_mask(const MaskNeighbours& neighbours, u32 count, u32* mask, Code&& code) {
  MaskWalk<Code>(neighbours, count, mask, code).run();
}

// ---------------------------------------------------------------------------------------------------------------------
// A coded mask: u16 number of words | u32 state | u16 words

inline constexpr u32 kMaskStart = 1u << 16;  // the encoder's first state
inline constexpr u32 kMostDecisions = kMaxMaskWords * (1 + 4 + kMaskBits);
inline constexpr u32 kMaskScratchBytes = kMostDecisions * 2;
// How much larger a mask can be than its measure: the state is at least 32 times a decision's frequency, so rounding
// makes it at most 33/32 times too large, which is 0.045 bit.
inline constexpr u32 kMaskLoss = kMostDecisions * 45 / 8000 + 2;

// Collects decisions, in two bytes each, with the frequency of a 1 above the bit, and adds up their cost.
class DecisionWriter {
 public:
  H5L_FN DecisionWriter(const MaskNeighbours& neighbours, u8* decisions)
      : model_(neighbours), decisions_(decisions), end_(decisions) {}
  H5L_FN u32 next(u32 context, u32 bit) {
    const u32 ones = model_.frequency(context);
    cost_ += kFrequencyCosts.of[bit != 0 ? ones : kFrequencySum - ones];
    store(end_, static_cast<u16>(ones << 1 | bit));
    end_ += 2;
    model_.learn(context, bit);
    return bit;
  }
  H5L_FN u64 cost() const { return cost_; }  // in 1/16 bit
  H5L_FN u32 count() const { return static_cast<u32>(end_ - decisions_) / 2; }

 private:
  MaskModel model_;
  u8* const decisions_;
  u8* end_;
  u64 cost_ = 0;
};

H5L_TABLE ByFrequency<u64> kReciprocals = by_frequency(reciprocal_of);

// Writes the collected decisions, and returns the end. The memory before `scratch_end`, up to two bytes per decision,
// is free.
H5L_FN u8* write_decisions(const u8* decisions, u32 count, u8* scratch_end, u8* out) {
  u8* words = scratch_end;  // words are made in reverse order
  u32 state = kMaskStart;
  for (u32 i = count; i-- > 0;) {
    const u32 decision = load<u16>(decisions + u64{2} * i), ones = decision >> 1, bit = decision & 1;
    const u32 frequency = bit != 0 ? ones : kFrequencySum - ones;
    if (state >> (32 - kFrequencyBits) >= frequency) {
      words -= 2;
      store(words, static_cast<u16>(state));
      state >>= 16;
    }
    // The same as (state / frequency << kFrequencyBits) + state % frequency + sum of the frequencies before.
    const u32 quotient = quotient_of(state, kReciprocals.of[frequency]), others = kFrequencySum - frequency;
    state += quotient * others + (bit != 0 ? others : 0);
  }
  const u32 bytes = static_cast<u32>(scratch_end - words);
  store(out, static_cast<u16>(bytes / 2));
  store(out + 2, state);
  memcpy(out + 6, words, bytes);
  return out + 6 + bytes;
}

// A mask's decisions, in `decisions`, which has kMaskScratchBytes.
struct MeasuredMask {
  u32 bytes;  // that write_decisions writes; the actual size is up to kMaskLoss more, or a few less
  u32 decisions;
};
H5L_FN MeasuredMask measure_mask(const MaskNeighbours& neighbours, u32 count, u32* mask, u8* decisions) {
  DecisionWriter writer(neighbours, decisions);
  walk_mask(neighbours, count, mask, [&](u32 context, u32 bit) { return writer.next(context, bit); });
  return {8 + static_cast<u32>(writer.cost() / 128), writer.count()};
}

// Reads decisions from any bytes.
class DecisionReader {
 public:
  H5L_FN DecisionReader(const MaskNeighbours& neighbours, const u8* from, const u8* end)
      : model_(neighbours), from_(from), last_(from) {
    const i64 words = end - from < 6 ? -1 : load<u16>(from);
    if (words < 0 || end - from < 6 + 2 * words) {
      missing_ = 1;
      return;
    }
    state_ = load<u32>(from + 2);
    from_ = from + 6;
    last_ = from_ + 2 * words;
  }
  H5L_FN u32 next(u32 context) {
    const u32 ones = model_.frequency(context), slot = state_ & (kFrequencySum - 1), zeros = kFrequencySum - ones;
    const u32 bit = slot >= zeros;
    state_ = (state_ >> kFrequencyBits) * (bit != 0 ? ones : zeros) + slot - (bit != 0 ? zeros : 0);
    if (state_ < kMaskStart) {
      const bool is_there = from_ != last_;
      missing_ += !is_there;
      state_ = state_ << 16 | (is_there ? load<u16>(from_) : 0u);
      from_ += is_there ? 2 : 0;
    }
    model_.learn(context, bit);
    return bit;
  }
  // The end of the decisions; nullptr if they were corrupt.
  H5L_FN const u8* finish() const { return missing_ == 0 && from_ == last_ && state_ == kMaskStart ? from_ : nullptr; }

 private:
  MaskModel model_;
  const u8 *from_, *last_;
  u32 state_ = 0, missing_ = 0;
};

// Reads a mask, and returns its end; nullptr if it is corrupt.
H5L_FN const u8* read_mask(const MaskNeighbours& neighbours, u32 count, const u8* from, const u8* end, u32* mask) {
  memset(mask, 0, mask_words(count) * sizeof(u32));
  DecisionReader reader(neighbours, from, end);
  walk_mask(neighbours, count, mask, [&](u32 context, u32) { return reader.next(context); });
  return reader.finish();
}

}  // namespace h5lossy::H5L_TARGET::interp
