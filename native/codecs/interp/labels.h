// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Tiles of integers between which no interpolation makes sense, such as labels: each word equals one of its neighbours
// or a recent word, or is stored as a literal (docs/format/interp.md, "Labels").
#pragma once

#include "codecs/interp/format.h"
#include "codecs/interp/masks.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::interp {

inline constexpr u32 kWordsOutside = 32;  // before the first word, which count as equal to it if it is the base

// Goes through the words of a tile. decide(context, bit) is called for the decisions in order, and returns them;
// literal(word) is called for the words that no decision gives, and returns them. A decoder's functions return what
// they read, and the words are set accordingly. Stops early if goes_on() is false. `runs` has room for a number per
// word.
template <class W, class Coder>
class LabelsWalk {
 public:
  LabelsWalk(const MaskNeighbours& neighbours, u32 count, W base, const u8* words, u16* runs, Coder& coder)
      : neighbours_(neighbours), count_(count), base_(base), words_(words), runs_(runs), coder_(coder) {}

  void run() {
    u32 farthest = 0;
    if constexpr (!Coder::kDecodes) {
      for (const u32 distance : neighbours_.distances) farthest = distance > farthest ? distance : farthest;
    }
    for (u32 first = 0; first < count_ && coder_.goes_on(first); first += 32) {
      if (is_repeated<32>(first, kBreakOf32)) continue;
      for (u32 i = first; i < first + 32 && i < count_; i += 8) {
        if (is_repeated<8>(i, kBreakOf8)) continue;
        if constexpr (!Coder::kDecodes) {
          if (i >= farthest && count_ - i >= 8) {
            code_eight(i);
            continue;
          }
        }
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

  // Whether the words around the `size` words from `first` on are alike: the previous word, and those of the neighbours
  // that are at a distance of `size` or more.
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
    const u32 run = first == 0 ? kWordsOutside : runs_[first - 1];
    for (u32 i = first; i < end; ++i) runs_[i] = static_cast<u16>(run + (i - first + 1));
    coder_.fill(first, end, word);
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
    return find_recent(word, neighbours_with);
  }

  // Finds a word that equals none of its neighbours.
  template <class NeighboursWith>
  W find_recent(W word, const NeighboursWith& neighbours_with) {
    u32 r = 0;
    for (; r < recents_; ++r) {
      if (neighbours_with(recent_[r]) == 0 && coder_.decide(0, u32{word == recent_[r]}) != 0) break;
    }
    const W result = r < recents_ ? recent_[r] : coder_.literal(word);
    // A literal may equal one of them, although no encoder writes such a literal.
    for (r = 0; r < recents_ && recent_[r] != result;) ++r;
    if (r == recents_) {
      recents_ += recents_ < kRecentWords ? 1 : 0;
      r = recents_ - 1;
    }
    for (; r > 0; --r) recent_[r] = recent_[r - 1];
    recent_[0] = result;
    return result;
  }

  // Codes eight words whose neighbours are all in the tile. An encoder knows the words, so it compares all of them at
  // once: a vector has a lane for each.
  void code_eight(u32 first) {
    using Lanes [[gnu::vector_size(8 * sizeof(W))]] = W;
    const u8* const from = words_ + first * sizeof(W);
    Lanes words, near[kNeighbours];
    memcpy(&words, from, sizeof words);
#pragma GCC unroll 8
    for (u32 k = 0; k < kNeighbours; ++k) {
      const u32 distance = neighbours_.distances[k];
      near[k] = Lanes{} + base_;
      if (distance != 0) memcpy(&near[k], from - distance * sizeof(W), sizeof near[k]);
    }
    const auto find_neighbours_with = [&](const Lanes& candidates, Lanes& found) {
      found = Lanes{};
#pragma GCC unroll 8
      for (u32 k = 0; k < kNeighbours; ++k) found |= reinterpret_cast<Lanes>(near[k] == candidates) & W{1} << k;
    };
    Lanes equal, contexts[kNeighbours];
    find_neighbours_with(words, equal);
#pragma GCC unroll 8
    for (u32 k = 0; k < kNeighbours; ++k) find_neighbours_with(near[k], contexts[k]);
    for (u32 lane = 0; lane < 8; ++lane) {
      const auto same = static_cast<u32>(equal[lane]), nearest = same & (0 - same);
      const auto context_of = [&](u32 set) {
        return static_cast<u32>(contexts[31 - count_leading_zeros(set & (0 - set))][lane]);
      };
      // Neighbours before the nearest one that equals the word; all if there is none.
      for (u32 left = (nearest - 1) & ((1u << kNeighbours) - 1); left != 0;) {
        const u32 context = context_of(left);
        coder_.decide(context, 0);
        left &= ~context;
      }
      const W word = words[lane];
      if (same != 0) {
        coder_.decide(context_of(nearest), 1);
      } else {
        find_recent(word, [&](W recent) {
          u32 found = 0;
          for (const Lanes& neighbour : near) found |= neighbour[lane] == recent ? 1 : 0;
          return found;
        });
      }
      set(first + lane, word);
    }
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

// Literals are relative to the base, and all of a tile have the same size.
inline constexpr u32 kHasShortBase = 8;  // in byte 2 of the head, with log2 of the bytes of a literal

// Tiles with more decisions are not coded as labels, since they take long to decode. Most decisions of labels cost far
// less than a bit, so small tiles may have more of them than words. A walk is stopped only between units of 32 words.
inline constexpr u32 kMostLabelDecisions = kTileValues + kTileValues / 2;
inline constexpr u32 kDecisionsBytes = 2 * (kMostLabelDecisions + 5 + kMaskBits * (kNeighbours + kRecentWords));
// Then literals and coded decisions, each of which takes less than the limit, except for the last unit of words.
inline constexpr u32 kLabelsScratchBytes = kDecisionsBytes + kTileValues / 2;

#if !defined(H5L_DECODE_ONLY)
template <class W>
struct LabelsWriter {
  static constexpr bool kDecodes = false;
  DecisionWriter decisions;
  u64 most;
  u32 count;
  W base;
  u32 literal_bytes;
  u8* literals_end;
  u64 cost;  // in 1/16 bit, of everything but decisions
  bool is_over = false;
  u64 cost_so_far() const { return cost + decisions.cost(); }
  // Gives up if the words so far cost more than their share of the limit plus a quarter of the limit.
  bool goes_on(u32 first) {
    const u64 so_far = cost_so_far();
    is_over = is_over || so_far >= most || so_far * 4 * count >= most * (4 * first + count);
    is_over = is_over || decisions.count() > kMostLabelDecisions;
    return !is_over;
  }
  static void put(u32, W) {}
  static void fill(u32, u32, W) {}
  u32 decide(u32 context, u32 bit) { return decisions.next(context, bit); }
  W literal(W word) {
    const W number = static_cast<W>(word - base);
    memcpy(literals_end, &number, literal_bytes);
    literals_end += literal_bytes;
    cost += u64{128} * literal_bytes;
    return word;
  }
};

// Returns the end of the payload; nullptr if the words cost at least `cost`. Otherwise `cost` is set to their cost.
// `scratch` has kLabelsScratchBytes.
template <class T>
u8* write_labels(const MaskNeighbours& neighbours, u32 count, const u8* words, u16* runs, u8* scratch, u8* out,
                 u64& cost) {
  Int<T> least = static_cast<Int<T>>(load<Word<T>>(words)), greatest = least;
  for (u32 i = 0; i < count; ++i) {
    const auto word = static_cast<Int<T>>(load<Word<T>>(words + i * sizeof(T)));
    least = word < least ? word : least;
    greatest = word > greatest ? word : greatest;
  }
  const auto base = static_cast<Word<T>>(least);
  const u64 range = static_cast<Word<T>>(static_cast<Word<T>>(greatest) - base);
  const u32 literal_bytes = literal_bytes_of(range);
  u8* const literals = scratch + kDecisionsBytes;
  LabelsWriter<Word<T>> writer = {
      DecisionWriter(neighbours, scratch), cost, count, base, literal_bytes, literals, kLabelOverhead};
  LabelsWalk<Word<T>, LabelsWriter<Word<T>>>(neighbours, count, base, words, runs, writer).run();
  if (!writer.goes_on(count)) return nullptr;
  cost = writer.cost_so_far();
  const bool is_short = least == static_cast<short>(least);
  out[0] = out[1] = out[3] = 0;
  out[2] = static_cast<u8>(kIsLabels | (is_short ? kHasShortBase : 0) | (31 - count_leading_zeros(literal_bytes)));
  out += kLeastHeadBytes;
  memcpy(out, &base, is_short ? 2 : sizeof base);
  out += is_short ? 2 : sizeof base;
  const u32 bytes = static_cast<u32>(writer.literals_end - literals);
  store(out, static_cast<u16>(bytes / literal_bytes));
  memcpy(out + 2, literals, bytes);
  out += 2 + bytes;
  if (bytes % 2 != 0) *out++ = 0;
  return write_decisions(scratch, writer.decisions.count(), scratch + kLabelsScratchBytes, out);
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
  void fill(u32 first, u32 end, W word) const {
    for (u32 i = first; i < end; ++i) put(i, word);
  }
  u32 decide(u32 context, u32) { return decisions.next(context); }
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
  LabelsWalk<Word<T>, LabelsReader<Word<T>>>(neighbours, count, base, words, runs, reader).run();
  return reader.is_complete && reader.literals == reader.literals_end && reader.decisions.finish() == end;
}

}  // namespace h5lossy::H5L_TARGET::interp
