// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Tiles of integers that have no neighbours between them, such as labels: each word is one of those around it, or one
// that was there before, or is kept (docs/format/interp.md, "Labels").
#pragma once

#include "codecs/interp/format.h"
#include "codecs/interp/masks.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::interp {

inline constexpr u32 kRecentWords = 4;
inline constexpr u32 kWordsOutside = 32;  // before the first one, that count as equal to it if it is the base

// Goes through the words of a tile: decide(context, bit) gets the decisions in order, and returns them; literal(word)
// the words that no decision gives, and returns them. Those of a decoder know them by themselves, and the words become
// what they say. Ends early if goes_on() is false. `runs` has room for a number for each word.
template <class W, class Coder>
class LabelsWalk {
 public:
  LabelsWalk(const MaskNeighbours& neighbours, u32 count, W base, const u8* words, u16* runs, Coder& coder)
      : neighbours_(neighbours), count_(count), base_(base), words_(words), runs_(runs), coder_(coder) {}

  void run() {
    for (u32 first = 0; first < count_ && coder_.goes_on(first); first += 32) {
      if (is_repeated<32>(first, kBreakOf32)) continue;
      for (u32 i = first; i < first + 32 && i < count_; i += 8) {
        if (is_repeated<8>(i, kBreakOf8)) continue;
        for (u32 j = i; j < i + 8 && j < count_; ++j) set(j, find(j));
      }
    }
  }

 private:
  W at(u32 i) const { return load<W>(words_ + i * sizeof(W)); }
  W before(u32 i, u32 distance) const { return distance != 0 && distance <= i ? at(i - distance) : base_; }
  void set(u32 i, W word) {
    const bool is_alike = word == before(i, 1);
    runs_[i] = static_cast<u16>(!is_alike ? 1 : i == 0 ? kWordsOutside + 1 : runs_[i - 1] + 1u);
    coder_.put(i, word);
  }

  // Whether the words around the `size` from `first` on are alike: the one before, and those of neighbours that are
  // `size` or further back.
  template <u32 size>
  bool are_alike(u32 first, W word) const {
    for (const u32 distance : neighbours_.distances) {
      if (distance < size) continue;
      if (distance >= first + size) {
        if (word != base_) return false;
        continue;
      }
      const u32 last = first + size - 1 - distance;
      if (at(last) != word || runs_[last] < size) return false;
    }
    return true;
  }

  template <u32 size>
  bool is_repeated(u32 first, u32 context) {
    const W word = before(first, 1);
    if (!are_alike<size>(first, word)) return false;
    const u32 end = first + size < count_ ? first + size : count_;
    u32 breaks = 0;
    if constexpr (!Coder::kDecodes) {
      for (u32 i = first; i < end; ++i) breaks |= at(i) != word ? 1 : 0;
    }
    if (coder_.decide(context, breaks) != 0) return false;
    for (u32 i = first; i < end; ++i) set(i, word);
    return true;
  }

  W find(u32 i) {
    const W word = Coder::kDecodes ? W{0} : at(i);
    W near[kNeighbours];
    for (u32 k = 0; k < kNeighbours; ++k) near[k] = before(i, neighbours_.distances[k]);
    const auto neighbours_with = [&](W candidate) {
      u32 found = 0;
      for (u32 k = 0; k < kNeighbours; ++k) found |= (near[k] == candidate ? 1u : 0u) << k;
      return found;
    };
    u32 seen = 0;
    for (u32 k = 0; k < kNeighbours; ++k) {
      if ((seen >> k & 1) != 0) continue;
      const u32 context = neighbours_with(near[k]);
      seen |= context;
      if (coder_.decide(context, u32{word == near[k]}) != 0) return near[k];
    }
    u32 r = 0;
    for (; r < recents_; ++r) {
      if (neighbours_with(recent_[r]) == 0 && coder_.decide(0, u32{word == recent_[r]}) != 0) break;
    }
    const W result = r < recents_ ? recent_[r] : coder_.literal(word);
    // A literal can be one of them, too, though not an encoder's.
    for (r = 0; r < recents_ && recent_[r] != result;) ++r;
    if (r == recents_) {
      recents_ += recents_ < kRecentWords ? 1 : 0;
      r = recents_ - 1;
    }
    for (; r > 0; --r) recent_[r] = recent_[r - 1];
    recent_[0] = result;
    return result;
  }

  const MaskNeighbours& neighbours_;
  const u32 count_;
  const W base_;
  const u8* const words_;
  u16* const runs_;
  Coder& coder_;
  W recent_[kRecentWords] = {};
  u32 recents_ = 0;
};

// ---------------------------------------------------------------------------------------------------------------------
// A tile of labels: head of four bytes | base | u16 number of literals | literals | decisions, as of a mask

// Literals are counted from the base. Their size is that of all of a tile.
inline constexpr u32 kIsLabels = 128, kHasShortBase = 8;  // in byte 2 of the head, besides log2 of a literal's bytes

// Tiles with more decisions are no labels. A walk is stopped between units of 32 words.
inline constexpr u32 kMostLabelDecisions = kTileValues;
inline constexpr u64 kMostLabelCost = 2 * 16;  // of a word
inline constexpr u32 kLabelsScratchBytes = 2 * (kMostLabelDecisions + 5 + kMaskBits * (kNeighbours + kRecentWords));

template <class T>
struct LabelsPlan {
  Word<T> base = 0;
  u32 literals = 0;
  u32 literal_bytes = 1;
  u64 cost = ~u64{0};  // in 1/16 bit; without head and base
};

#if !defined(H5L_DECODE_ONLY)
template <class W>
struct LabelsMeter {
  static constexpr bool kDecodes = false;
  DecisionMeter meter;
  u64 most;
  u32 count, literal_cost;
  u32 literals = 0, decisions = 0;
  bool is_over = false;
  // Gives up if the words so far cost more than their share of the most, and a quarter of it.
  bool goes_on(u32 first) {
    is_over = is_over || meter.cost >= most || meter.cost * 4 * count >= most * (4 * first + count);
    is_over = is_over || decisions > kMostLabelDecisions;
    return !is_over;
  }
  static void put(u32, W) {}
  u32 decide(u32 context, u32 bit) {
    ++decisions;
    return meter.next(context, bit);
  }
  W literal(W word) {
    meter.cost += literal_cost;
    ++literals;
    return word;
  }
};

// Its cost is no less than `most` if it is not worth it.
template <class T>
LabelsPlan<T> measure_labels(const MaskNeighbours& neighbours, u32 count, const u8* words, u64 most, u16* runs) {
  Int<T> least = static_cast<Int<T>>(load<Word<T>>(words)), greatest = least;
  for (u32 i = 0; i < count; ++i) {
    const auto word = static_cast<Int<T>>(load<Word<T>>(words + i * sizeof(T)));
    least = word < least ? word : least;
    greatest = word > greatest ? word : greatest;
  }
  LabelsPlan<T> plan;
  plan.base = static_cast<Word<T>>(least);
  const u64 range = static_cast<Word<T>>(static_cast<Word<T>>(greatest) - plan.base);
  while (plan.literal_bytes < 8 && range >> 8 * plan.literal_bytes != 0) plan.literal_bytes *= 2;
  constexpr u64 kOverhead = 128 * 10;
  LabelsMeter<Word<T>> meter = {{MaskModel(neighbours), kOverhead}, most, count, 128 * plan.literal_bytes};
  LabelsWalk(neighbours, count, plan.base, words, runs, meter).run();
  plan.literals = meter.literals;
  plan.cost = meter.goes_on(count) ? meter.meter.cost : ~u64{0};
  return plan;
}

template <class W>
struct LabelsWriter {
  static constexpr bool kDecodes = false;
  DecisionWriter decisions;
  W base;
  u32 literal_bytes;
  u8* literals;
  static bool goes_on(u32) { return true; }
  static void put(u32, W) {}
  u32 decide(u32 context, u32 bit) { return decisions.next(context, bit); }
  W literal(W word) {
    const W number = static_cast<W>(word - base);
    memcpy(literals, &number, literal_bytes);
    literals += literal_bytes;
    return word;
  }
};

// `scratch` has kLabelsScratchBytes. Returns the end.
template <class T>
u8* write_labels(const LabelsPlan<T>& plan, const MaskNeighbours& neighbours, u32 count, const u8* words, u16* runs,
                 u8* scratch, u8* out) {
  const auto base = static_cast<Int<T>>(plan.base);
  const bool is_short = base == static_cast<short>(base);
  out[0] = out[1] = out[3] = 0;
  out[2] = static_cast<u8>(kIsLabels | (is_short ? kHasShortBase : 0) | (31 - count_leading_zeros(plan.literal_bytes)));
  out += kLeastHeadBytes;
  memcpy(out, &base, is_short ? 2 : sizeof base);
  out += is_short ? 2 : sizeof base;
  store(out, static_cast<u16>(plan.literals));
  LabelsWriter<Word<T>> writer = {DecisionWriter(neighbours, scratch), plan.base, plan.literal_bytes, out + 2};
  LabelsWalk(neighbours, count, plan.base, words, runs, writer).run();
  out = writer.literals;
  if (plan.literals * plan.literal_bytes % 2 != 0) *out++ = 0;
  return writer.decisions.finish(out);
}
#endif

template <class W>
struct LabelsReader {
  static constexpr bool kDecodes = true;
  DecisionReader decisions;
  u8* words;
  W base;
  u32 literal_bytes;
  const u8* literals;
  const u8* literals_end;
  bool is_complete = true;
  bool goes_on(u32) const { return is_complete; }
  void put(u32 i, W word) const { store(words + i * sizeof(W), word); }
  u32 decide(u32 context, u32 bit) { return decisions.next(context, bit); }
  W literal(W) {
    if (literals == literals_end) {
      is_complete = false;
      return base;
    }
    W number = 0;
    memcpy(&number, literals, literal_bytes);
    literals += literal_bytes;
    return static_cast<W>(base + number);
  }
};

H5L_FN bool are_labels(const u8* payload, u32 bytes) {
  return bytes >= kLeastHeadBytes && (payload[2] & kIsLabels) != 0;
}

// False if the payload is corrupt.
template <class T>
bool read_labels(const MaskNeighbours& neighbours, u32 count, const u8* from, const u8* end, u8* words, u16* runs) {
  const u32 head = from[2], literal_bytes = 1u << (head & 3);
  const bool is_short = (head & kHasShortBase) != 0;
  if ((from[0] | from[1] | from[3]) != 0 || (head & ~(kIsLabels | kHasShortBase | 3u)) != 0) return false;
  from += kLeastHeadBytes;
  const u32 base_bytes = is_short ? 2 : sizeof(T);
  if (literal_bytes > sizeof(T) || end - from < static_cast<i64>(base_bytes + 2)) return false;
  const auto base =
      is_short ? static_cast<Word<T>>(static_cast<Int<T>>(static_cast<short>(load<u16>(from)))) : load<Word<T>>(from);
  from += base_bytes;
  const u32 bytes = load<u16>(from) * literal_bytes, padded = bytes + bytes % 2;
  from += 2;
  if (end - from < static_cast<i64>(padded) || (padded != bytes && from[bytes] != 0)) return false;
  LabelsReader<Word<T>> reader = {
      DecisionReader(neighbours, from + padded, end), words, base, literal_bytes, from, from + bytes};
  LabelsWalk(neighbours, count, base, words, runs, reader).run();
  return reader.is_complete && reader.literals == reader.literals_end && reader.decisions.finish() == end;
}

}  // namespace h5lossy::H5L_TARGET::interp
