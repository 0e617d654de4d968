// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's coder: classes of 32 codes, interleaved rANS with built-in tables, escapes and raw planes
// (docs/format/interp.md). This code is the definition; simd/coder.h has the same for single instruction sets.
//
// Codes are signed numbers I, i32 or i64. All arithmetic on them wraps around. Their array is padded with zeros to a
// multiple of 32.
#pragma once

#include "codecs/interp/coding.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::interp {

// ---------------------------------------------------------------------------------------------------------------------
// Tables; kernels build only those that they need

// One table per list of frequencies, built by make(frequencies, table).
template <class Table, u32 rows, u32 columns>
struct MadeTables {
  alignas(64) Table of[rows][columns];
};
template <class Table, u32 rows, u32 columns>
constexpr auto make_tables(const u16 (&frequencies)[rows][columns][kSymbols],
                           void (*make)(const u16 (&)[kSymbols], Table&)) {
  MadeTables<Table, rows, columns> made = {};
  for (u32 i = 0; i < rows; ++i) {
    for (u32 j = 0; j < columns; ++j) make(frequencies[i][j], made.of[i][j]);
  }
  return made;
}
static_assert(kClasses == kSymbols);

inline constexpr auto kRates = make_tables(kSymbolFrequencies, make_rates);
inline constexpr auto kClassRates = make_tables(kClassFrequencies, make_rates);

template <u32 rows, u32 columns>
constexpr bool are_complete(const MadeTables<Rate[kSymbols], rows, columns>& rates) {
  for (const auto& row : rates.of) {
    for (const auto& table : row) {
      if (table[kSymbols - 1].sum + table[kSymbols - 1].frequency != kFrequencySum) return false;
    }
  }
  return true;
}
static_assert(are_complete(kRates) && are_complete(kClassRates));

// The decoder's data for the symbol of each slot, in one word: bits 0-11 are the frequency, 12-15 the symbol, 16-31 the
// position of the slot among those of the symbol.
constexpr void make_slots(const u16 (&frequencies)[kSymbols], u32 (&slots)[kFrequencySum]) {
  u32 first = 0;
  for (u32 s = 0; s < kSymbols; ++s) {
    const u32 frequency = frequencies[s];
    for (u32 i = 0; i < frequency; ++i) slots[first + i] = frequency | s << 12 | i << 16;
    first += frequency;
  }
}
inline constexpr auto kSlots = make_tables(kSymbolFrequencies, make_slots);

// A table of the tile's own, for reading. Where small code counts, built-in tables are also built for each tile, since
// that takes only a hundredth of its time, and the tables of all sets take 320 KiB.
struct OwnSlots {
  u32 slots[kEncodes ? 1 : kSymbolTables][kFrequencySum];
};

// For each class, the sum of the frequencies of the classes before it; for searches.
inline constexpr auto kClassSums =
    make_tables<u16[kClasses]>(kClassFrequencies, [](const u16 (&frequencies)[kClasses], u16 (&before)[kClasses]) {
      for (u32 c = 1; c < kClasses; ++c) before[c] = static_cast<u16>(before[c - 1] + frequencies[c - 1]);
    });

struct PlaneCosts {
  u64 costs[kClasses];  // of the candidates, indexed by the first one
};
inline constexpr PlaneCosts kPlaneCosts = [] {
  PlaneCosts all = {};
  for (u32 first = 0; first + kCandidates <= kClasses; ++first) all.costs[first] = plane_costs(first);
  return all;
}();

struct BlockCosts {
  u64 four[kTableSets][kCostRows][kCostSizes];
};
inline constexpr BlockCosts kBlockCosts = [] {
  BlockCosts costs = {};
  for (u32 set = 0; set < kTableSets; ++set) {
    for (u32 row = 0; row < kCostRows; ++row) {
      for (u32 size = 0; size < kCostSizes; ++size) costs.four[set][row][size] = code_costs(set, row, size);
    }
  }
  return costs;
}();

constexpr u64 zero_costs(u32 set) { return kBlockCosts.four[set][0][0] * kBlockCodes; }

// ---------------------------------------------------------------------------------------------------------------------
// Words

// The words of a payload. At most 32 words may be taken between two calls of next(), which returns a pointer to them.
class Words {
 public:
  Words(const u8* in, u32 bytes) : begin_(in), next_(in), end_(in + bytes) {}
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  static constexpr u32 kMostBytes = kMaxLanes * kWordBytes;

  // Returns a pointer to kMostBytes readable bytes, though they may not all be words. Null if more words were taken
  // than exist.
  const u8* next() { return next(next_); }

  // The same if words up to `taken` have been taken.
  const u8* next(const u8* taken) {
    if (end_ - taken >= static_cast<i64>(kMostBytes)) [[likely]]
      return taken;
    next_ = taken;
    return next_in_rest();
  }

  // `next` is the pointer that next() returned, advanced past the words taken.
  void take(const u8* next) { next_ = next; }

  // Number of bytes taken.
  u32 taken() const { return static_cast<u32>(next_ - begin_) + moved_; }

 private:
  // The last bytes are moved to a buffer in which zeros follow them.
  const u8* next_in_rest() {
    if (begin_ != rest_) {
      moved_ = static_cast<u32>(next_ - begin_);
      const u32 left = static_cast<u32>(end_ - next_);
      memcpy(rest_, next_, left);
      begin_ = next_ = rest_;
      end_ = rest_ + left;
    }
    return next_ <= end_ ? next_ : nullptr;
  }

  const u8* begin_;
  const u8* next_;
  const u8* end_;
  u32 moved_ = 0;
  u8 rest_[2 * kMostBytes] = {};
};

// With few lanes, each symbol depends on the previous one of its lane, and words are rare: at most 256 per lane, for
// thousands of symbols. Then a branch, which the processor predicts well, is faster than branchless code.
template <u32 lanes>
inline constexpr bool kWordsAreRare = lanes <= 4;

// A state that has become too small takes in the next word.
template <u32 lanes>
inline u32 refilled(u32 state, const u8*& next) {
  if constexpr (kWordsAreRare<lanes>) {
    if (state >= kFirstState) [[likely]]
      return state;
    next += kWordBytes;
    return state << 16 | load<u16>(next - kWordBytes);
  }
  const u32 is_empty = state < kFirstState;
  const u32 word = load<u16>(next) & (0 - is_empty);
  next += is_empty * kWordBytes;
  return state << 16 * is_empty | word;
}

// Encodes one symbol, after which its state is below 2^32 again. If necessary, a word is first written before `words`.
template <u32 lanes>
inline void push(const Rate& rate, u32& state, u8*& words) {
  u32 x = state;
  if constexpr (kWordsAreRare<lanes>) {
    if (x >= rate.limit) [[unlikely]] {
      words -= kWordBytes;
      store(words, static_cast<u16>(x));
      x >>= 16;
    }
  } else {
    const u32 is_full = x >= rate.limit;
    store(words - kWordBytes, static_cast<u16>(x));
    words -= is_full * kWordBytes;
    x >>= 16 * is_full;
  }
  state = x + rate.sum + quotient_of(x, rate.reciprocal) * (kFrequencySum - rate.frequency);
}

inline u32 after(u32 frequency, u32 sum, u32 state) {
  return frequency * (state >> kFrequencyBits) + (state & (kFrequencySum - 1)) - sum;
}

// Classes: lane i has the blocks i * share to (i + 1) * share - 1; lanes take turns.
template <u32 lanes>
inline void write_classes(const Coding& plan, u32 blocks, u32* states, u8*& words) {
  const u32 share = (blocks + lanes - 1) / lanes;
  u32 x[lanes];
  memcpy(x, states, sizeof x);
  u8* next = words;
  for (u32 j = share; j-- > 0;) {
    for (u32 lane = lanes; lane-- > 0;) {
      const u32 b = lane * share + j;
      if (b >= blocks) continue;
      const u32 context = j != 0 ? plan.classes[b - 1] : kClassContexts - 1;
      push<lanes>(kClassRates.of[plan.model][context][plan.classes[b]], x[lane], next);
    }
  }
  words = next;
  memcpy(states, x, sizeof x);
}

// The class whose slots include this one.
inline u32 class_of_slot(const u16 (&before)[kClasses], u32 slot) {
  u32 c = 0;
  for (u32 step = kClasses / 2; step != 0; step /= 2) c += before[c + step] <= slot ? step : 0;
  return c;
}

template <u32 lanes, class Search>
inline bool read_classes(const Head& head, u32 blocks, u32* states, Words& words, u8* classes, Search search) {
  const u32 share = (blocks + lanes - 1) / lanes;
  u32 x[lanes];
  memcpy(x, states, sizeof x);
  const auto& sums = kClassSums.of[head.model];
  const auto& frequencies = kClassFrequencies[head.model];
  for (u32 j = 0; j < share; ++j) {
    const u8* next = words.next();
    if (next == nullptr) return false;
    for (u32 lane = 0, b = j; lane < lanes && b < blocks; ++lane, b += share) {
      const u32 context = j != 0 ? classes[b - 1] : kClassContexts - 1;
      const u32 slot = x[lane] & (kFrequencySum - 1);
      u32 c = 0;
      // In tiles with few lanes, most classes are 0.
      if (!kWordsAreRare<lanes> || slot >= sums[context][1]) c = search(sums[context], slot);
      x[lane] = refilled<lanes>(after(frequencies[context][c], sums[context][c], x[lane]), next);
      classes[b] = static_cast<u8>(c);
    }
    words.take(next);
  }
  memcpy(states, x, sizeof x);
  return words.next() != nullptr;
}

// ---------------------------------------------------------------------------------------------------------------------
// Raw planes: bit i of word p is bit p of code i of a block

// Gathers bit 0 of each byte: that of byte i becomes bit i.
inline u32 gather_bits(u64 bytes) {
  return static_cast<u32>((bytes & 0x0101010101010101ull) * 0x0102040810204080ull >> 56);
}
// The inverse of gather_bits.
inline u64 spread_bits(u32 bits) {
  const u64 each = (bits * 0x0101010101010101ull) & 0x8040201008040201ull;
  return (each + 0x7F7F7F7F7F7F7F7Full) >> 7 & 0x0101010101010101ull;
}

template <class U>
inline void write_planes(const U (&numbers)[kBlockCodes], u32 planes, u8* out) {
  for (u32 first = 0; first < planes; first += 8) {
    u64 bytes[kBlockCodes / 8] = {};
    for (u32 i = 0; i < kBlockCodes; ++i) bytes[i / 8] |= u64{static_cast<u8>(numbers[i] >> first)} << 8 * (i % 8);
    for (u32 p = first; p < planes && p < first + 8; ++p) {
      u32 word = 0;
      for (u32 i = 0; i < kBlockCodes / 8; ++i) word |= gather_bits(bytes[i] >> (p - first)) << 8 * i;
      store(out + u64{4} * p, word);
    }
  }
}

// Sets the lower bits of numbers, and clears their other bits.
template <class U>
inline void read_planes(const u8* in, u32 planes, U (&numbers)[kBlockCodes]) {
  for (u32 first = 0; first < planes; first += 8) {
    u64 bytes[kBlockCodes / 8] = {};
    for (u32 p = first; p < planes && p < first + 8; ++p) {
      const u32 word = load<u32>(in + u64{4} * p);
      for (u32 i = 0; i < kBlockCodes / 8; ++i) bytes[i] |= spread_bits(word >> 8 * i & 0xFF) << (p - first);
    }
    for (u32 i = 0; i < kBlockCodes; ++i) {
      const U bits = static_cast<U>(bytes[i / 8] >> 8 * (i % 8) & 0xFF) << first;
      numbers[i] = first == 0 ? bits : numbers[i] | bits;
    }
  }
}

// Bit i is set if symbol i is an escape.
inline u32 escapes_of(const u8 (&symbols)[kBlockCodes]) {
  u32 escaped = 0;
  for (u32 i = 0; i < kBlockCodes; i += 8) {
    const u64 reaches_16 = (load<u64>(symbols + i) + 0x0101010101010101ull) >> 4;
    if ((reaches_16 & 0x0101010101010101ull) != 0) escaped |= gather_bits(reaches_16) << i;
  }
  return escaped;
}

// ---------------------------------------------------------------------------------------------------------------------
// Escapes, stored in reverse order

inline u8* write_escape(u64 item, u32 bytes, u8* out) {
  memcpy(out, &item, bytes);
  return out + bytes;
}

template <class U>
inline U read_escape(const u8* in, u32 bytes) {
  u64 item = 0;
  memcpy(&item, in, bytes);
  return static_cast<U>(item);
}

// ---------------------------------------------------------------------------------------------------------------------
// Blocks. simd/coder.h has vector versions of these functions

// The current write positions. Codes are processed from last to first: words and planes are written before those
// already there, escapes after them.
struct Output {
  u8* words;
  u8* planes;
  u8* escapes;
};

struct Input {
  const u8* planes;        // of the next block
  const u8* escapes;       // the end of the next escape
  const u8* first_escape;  // no escape begins before this
};

// Collects the blocks that have escapes while their other steps are read. A branch per block would often be
// mispredicted.
struct EscapeList {
  u16 blocks[kMaxBlocks];
  u32 escaped[kMaxBlocks];  // bit i: residual i of the block
  u32 count = 0;

  void add(u32 block, u32 mask) {
    blocks[count] = static_cast<u16>(block);
    escaped[count] = mask;
    count += mask != 0;
  }
};

struct Definition {
  using OwnReading = OwnSlots;
  static void prepare(const u16 (&frequencies)[kSymbols], OwnReading& own) { make_slots(frequencies, own.slots[0]); }

  // Finds each block's candidates, and a class that is probably the best. Returns the OR of all sizes, maybe with
  // more bits set if it is 2^32 or more. If the result is at most kMeanLimit, no planes need to be raw in all blocks.
  // If such planes have been chosen, or are not needed, all sizes are below 2^30, since their sum is; otherwise the
  // candidates are meaningless.
  template <class I>
  static u32 find_candidates(const I* codes, u32 blocks, Coding& plan) {
    Unsigned<I> bits[kBlockCodes] = {};  // by position in a block, to be combined only once at the end
    for (u32 b = 0; b < blocks; ++b, codes += kBlockCodes) {
      u32 halves = 0;
      for (u32 i = 0; i < kBlockCodes; ++i) {  // vectorized
        const Unsigned<I> size = zigzag(static_cast<Unsigned<I>>(codes[i])) >> plan.raw_planes;
        bits[i] |= size;
        halves += (static_cast<u32>(size) + 1) >> 1;
      }
      const u32 reached = thresholds_reached(halves);
      plan.candidates[b] = static_cast<u8>(halves == 0 ? 0 : first_candidate(reached));
      plan.classes[b] = static_cast<u8>(halves == 0 ? 0 : reached + 1);
    }
    Unsigned<I> all = 0;
    for (const Unsigned<I> some : bits) all |= some;
    return u64{all} >> 32 == 0 ? static_cast<u32>(all) : ~0u;
  }

  // The costs of the candidates with a set of tables.
  template <class I>
  static void cost_candidates(const I* codes, u32 blocks, u32 set, Coding& plan) {
    for (u32 b = 0; b < blocks; ++b, codes += kBlockCodes) {
      const u32 first = plan.candidates[b];
      if (first == 0) {
        plan.costs[b] = zero_costs(set);
        continue;
      }
      const u32 shift = plan.raw_planes + raw_planes_of(first);
      const u64(&costs)[kCostSizes] = kBlockCosts.four[set][cost_row(first)];
      u64 sums = kPlaneCosts.costs[first];
      for (u32 i = 0; i < kBlockCodes; ++i) {
        const Unsigned<I> rest = zigzag(static_cast<Unsigned<I>>(codes[i])) >> shift;
        sums += costs[rest < kCostSizes ? rest : kCostSizes - 1];
      }
      plan.costs[b] = sums;
    }
  }

  // The costs of the symbols of the chosen classes with each set of tables, and their escapes.
  template <class I>
  static void add_symbol_costs(const I* codes, u32 blocks, const Coding& plan, u64 (&costs)[kTableSets],
                               Tally<I>& tally) {
    u32 counts[kSymbolTables][kSymbols] = {};
    for (u32 b = 0; b < blocks; ++b, codes += kBlockCodes) {
      const u32 c = plan.classes[b];
      if (c == 0) continue;
      const u32 planes = plan.raw_planes + raw_planes_of(c);
      u32(&here)[kSymbols] = counts[table_of(c)];
      const u32 escapes = here[kEscape];
      for (u32 i = 0; i < kBlockCodes; ++i) {
        const Unsigned<I> rest = zigzag(static_cast<Unsigned<I>>(codes[i])) >> planes;
        ++here[rest < kEscape ? rest : kEscape];
      }
      if (here[kEscape] != escapes) count_escapes(codes, planes, tally);
    }
    for (u32 set = 0; set < kTableSets; ++set) {
      for (u32 t = 0; t < kSymbolTables; ++t) {
        for (u32 s = 0; s < kSymbols; ++s) costs[set] += u64{counts[t][s]} * kCosts.symbols[set][t][s];
      }
    }
  }

  // Writes all symbols, raw planes and escapes.
  template <u32 lanes, class I>
  static void write_blocks(const I* codes, u32 blocks, const Coding& plan, u32* states, Output& out) {
    using U = Unsigned<I>;
    Rate own[1][kSymbols];
    if (plan.has_own_table) make_rates(plan.own_table, own[0]);
    const Rate(*const rates)[kSymbols] = plan.has_own_table ? own : kRates.of[plan.set];
    u32 x[lanes];
    memcpy(x, states, sizeof x);
    u8* words = out.words;
    for (u32 b = blocks; b-- > 0;) {
      const u32 c = plan.classes[b];
      const u32 planes = plan.raw_planes + raw_planes_of(c);
      if (c == 0 && planes == 0) continue;
      U numbers[kBlockCodes];
      for (u32 i = 0; i < kBlockCodes; ++i) numbers[i] = zigzag(static_cast<U>(codes[u64{b} * kBlockCodes + i]));
      if (c != 0) {
        u8 symbols[kBlockCodes];
        for (u32 i = 0; i < kBlockCodes; ++i) {
          const U rest = numbers[i] >> planes;
          symbols[i] = static_cast<u8>(rest < kEscape ? rest : kEscape);
        }
        push_symbols<lanes>(rates[table_of(c)], symbols, x, words);
        const u32 escaped = escapes_of(symbols);
        for (u32 i = kBlockCodes; escaped != 0 && i-- > 0;) {
          if ((escaped >> i & 1) == 0) continue;
          out.escapes = write_escape(numbers[i], plan.escape_bytes, out.escapes);
          numbers[i] = 0;
        }
      }
      out.planes -= 4 * planes;
      write_planes(numbers, planes, out.planes);
    }
    out.words = words;
    memcpy(states, x, sizeof x);
  }

  template <u32 lanes, class Symbol>
  static void push_symbols(const Rate (&rates)[kSymbols], const Symbol (&symbols)[kBlockCodes], u32 (&states)[lanes],
                           u8*& words) {
    for (u32 end = kBlockCodes; end != 0; end -= lanes) {
      for (u32 lane = lanes; lane-- > 0;) push<lanes>(rates[symbols[end - lanes + lane]], states[lane], words);
    }
  }

  static u32 find_class(const u16 (&before)[kClasses], u32 slot) { return class_of_slot(before, slot); }

  // The inverse, for a range of blocks: gives their codes times 2^unit_bits. Escapes are only listed. False if words
  // are missing.
  template <u32 lanes, class I>
  static bool read_blocks(const Head& head, const OwnReading& own, const u8* classes, u32 first, u32 end, u32 unit_bits,
                          u32* states, Words& words, Input& in, I* steps, EscapeList& escapes) {
    using U = Unsigned<I>;
    const u32(*const slots)[kFrequencySum] = !kEncodes || head.has_own_table ? own.slots : kSlots.of[head.set];
    u32 x[lanes];
    memcpy(x, states, sizeof x);
    for (u32 b = first; b < end; ++b) {
      I* const block = steps + u64{b} * kBlockCodes;
      const u32 c = classes[b];
      const u32 planes = head.raw_planes + raw_planes_of(c);
      if (c == 0 && planes == 0) {
        memset(block, 0, kBlockCodes * sizeof(I));
        continue;
      }
      u8 symbols[kBlockCodes] = {};
      if (c != 0) {
        const u8* next = words.next();
        if (next == nullptr) return false;
        read_symbols<lanes>(slots[table_of(c)], x, next, symbols);
        words.take(next);
      }
      const auto step_of = [unit_bits](U number) { return static_cast<I>(unzigzag(number) << unit_bits); };
      if (planes == 0) {
        for (u32 i = 0; i < kBlockCodes; ++i) block[i] = step_of(symbols[i]);
      } else {
        U numbers[kBlockCodes];
        read_planes(in.planes, planes, numbers);
        in.planes += 4 * planes;
        for (u32 i = 0; i < kBlockCodes; ++i) block[i] = step_of(static_cast<U>(symbols[i]) << planes | numbers[i]);
      }
      escapes.add(b, escapes_of(symbols));
    }
    memcpy(states, x, sizeof x);
    return words.next() != nullptr;
  }

  template <u32 lanes, class Symbol>
  static void read_symbols(const u32 (&slots)[kFrequencySum], u32 (&states)[lanes], const u8*& next,
                           Symbol (&symbols)[kBlockCodes]) {
    for (u32 first = 0; first < kBlockCodes; first += lanes) {
      for (u32 lane = 0; lane < lanes; ++lane) {
        const u32 x = states[lane];
        const u32 slot = slots[x & (kFrequencySum - 1)];
        states[lane] = refilled<lanes>((slot & 0xFFF) * (x >> kFrequencyBits) + (slot >> 16), next);
        symbols[first + lane] = static_cast<Symbol>(slot >> 12 & 15);
      }
    }
  }
};

// False if escapes are missing.
template <class I, class UnitBits>
inline bool read_escapes(const EscapeList& list, u32 bytes, UnitBits unit_bits_of, Input& in, I* steps) {
  for (u32 i = 0; i < list.count; ++i) {
    const u32 unit_bits = unit_bits_of(list.blocks[i]);
    I* const block = steps + u64{list.blocks[i]} * kBlockCodes;
    for (u32 escaped = list.escaped[i]; escaped != 0; escaped &= escaped - 1) {
      if (in.escapes - in.first_escape < static_cast<i64>(bytes)) return false;
      in.escapes -= bytes;
      block[count_ones((escaped & -escaped) - 1)] =
          static_cast<I>(unzigzag(read_escape<Unsigned<I>>(in.escapes, bytes)) << unit_bits);
    }
  }
  return true;
}

}  // namespace h5lossy::H5L_TARGET::interp
