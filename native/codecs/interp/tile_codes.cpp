// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A tile's codes (tile_codes.h). Compiled once for each backend, with the backend's functions for blocks.

#include "codecs/interp/tile_codes.h"

#include <new>

#include "codecs/interp/coder.h"
#include "codecs/interp/own_table.h"
#include "codecs/interp/simd/coder.h"

namespace h5lossy::H5L_TARGET::interp {
namespace {

using Blocks = simd::Blocks;
using OwnReading = Blocks::OwnReading;

template <u32 lanes>
struct LanesOf {};

// Calls f(LanesOf<lanes>()).
template <class F>
bool with_lanes(u32 lanes, F f) {
  switch (lanes) {
    case 1:
      return f(LanesOf<1>());
    case 4:
      return f(LanesOf<4>());
    case 16:
      return f(LanesOf<16>());
    default:
      return f(LanesOf<32>());
  }
}

struct ModelCosts {
  u32 models[kClassContexts][kClasses][kClassModels];
};

constexpr ModelCosts kModelCosts = [] {
  ModelCosts costs = {};
  for (u32 m = 0; m < kClassModels; ++m) {
    for (u32 context = 0; context < kClassContexts; ++context) {
      for (u32 c = 0; c < kClasses; ++c) costs.models[context][c][m] = kCosts.classes[m][context][c];
    }
  }
  return costs;
}();

// The model with the least cost of classes (the first of equals), and that cost.
u32 choose_model(const u8* classes, u32 blocks, u64& cost) {
  Vector<u32> sums[kClassModels / kLanes<u32>] = {};
  u32 context = kClassContexts - 1;
  for (u32 b = 0; b < blocks; ++b) {
    const u32 c = classes[b];
    for (u32 i = 0; i < kClassModels / kLanes<u32>; ++i) {
      Vector<u32> some;
      memcpy(&some, kModelCosts.models[context][c] + i * kLanes<u32>, sizeof some);
      sums[i] += some;
    }
    context = c;
  }
  u32 costs[kClassModels], best = 0;
  memcpy(costs, sums, sizeof costs);
  for (u32 m = 1; m < kClassModels; ++m) best = costs[m] < costs[best] ? m : best;
  cost = costs[best];
  return best;
}

// Finds the classes, each of them a candidate of its block, with the least total cost including that of the classes
// themselves in the plan's model. They are written to the beginning of `scratch`, which has kShortenBytes.
void cheapest_path(const Coding& plan, u32 blocks, u8* scratch) {
  using Four [[gnu::vector_size(16)]] = u32;
  using FourShort [[gnu::vector_size(8)]] = u16;
  using FourBytes [[gnu::vector_size(4)]] = u8;
  static_assert(kCandidates == 4);
  u8* const classes = scratch;
  u8* const from = scratch + kMaxBlocks;
  const auto& costs = kCosts.classes[plan.model];
  const auto wide = [](const void* at) {
    FourShort four;
    memcpy(&four, at, sizeof four);
    return __builtin_convertvector(four, Four);
  };
  // Lane i: four times the least cost of a path to candidate i. The low bits are i, so that the first of equals is
  // taken; or, before they are set, the candidate from which the path comes.
  const Four places = {0, 1, 2, 3};
  Four best = places + (wide(&costs[kClassContexts - 1][plan.candidates[0]]) + wide(plan.costs)) * 4;
  for (u32 b = 1; b < blocks; ++b) {
    const u32 before = plan.candidates[b - 1], here = plan.candidates[b];
    const auto through = [&](u32 i) { return wide(&costs[before + i][here]) * 4 + best[i]; };
    const auto lesser = [](Four a, Four c) { return a < c ? a : c; };
    const Four least = lesser(lesser(through(0), through(1)), lesser(through(2), through(3)));
    const FourBytes sources = __builtin_convertvector(least & 3, FourBytes);
    memcpy(from + u64{kCandidates} * b, &sources, sizeof sources);
    best = (least & ~3u) + places + wide(plan.costs + b) * 4;
  }
  const Four last = best;
  u32 i = 0;
  for (u32 other = 1; other < kCandidates; ++other) i = last[other] < last[i] ? other : i;
  for (u32 b = blocks; b-- > 0;) {
    classes[b] = static_cast<u8>(plan.candidates[b] + i);
    i = from[kCandidates * b + i];
  }
}

// Computes what follows from the plan's classes.
template <class I>
void add_up(const I* codes, u32 blocks, Coding& plan) {
  plan.raw_words = blocks * plan.raw_planes;
  for (u32 b = 0; b < blocks; ++b) plan.raw_words += raw_planes_of(plan.classes[b]);
  u64 class_cost;
  plan.model = choose_model(plan.classes, blocks, class_cost);
  u64 symbol_costs[kTableSets] = {};
  Tally<I> tally;
  Blocks::add_symbol_costs(codes, blocks, plan, symbol_costs, tally);
  plan.set = choose_set(symbol_costs);
  plan.escapes = tally.escapes;
  plan.escape_bytes = escape_bytes_of(tally.items);
  const u64 coded = class_cost + symbol_costs[plan.set];
  plan.lanes = choose_lanes(coded);
  plan.cost = coded + 16 * (u64{32} * plan.raw_words + u64{8} * plan.escape_bytes * plan.escapes +
                            lane_bits(plan.raw_words, plan.lanes));
}

// Moves the last halves of the raw planes into the low halves of the first lanes' states.
template <class I>
void lend_halves(const I* codes, u32 blocks, const Coding& plan, u32 halves, u32* states) {
  using U = Unsigned<I>;
  u8 planes[kHalfBytes * kMaxLanes + 4 * kMostPlanes];
  u8* const end = planes + sizeof planes;
  u8* begin = end;
  for (u32 b = blocks; end - begin < static_cast<i64>(kHalfBytes * halves);) {
    const u32 c = plan.classes[--b];
    const u32 here = plan.raw_planes + raw_planes_of(c);
    if (here == 0) continue;
    U numbers[kBlockCodes];
    for (u32 i = 0; i < kBlockCodes; ++i) {
      const U number = zigzag(static_cast<U>(codes[u64{b} * kBlockCodes + i]));
      numbers[i] = c != 0 && number >> here >= kEscape ? 0 : number;
    }
    begin -= 4 * here;
    write_planes(numbers, here, begin);
  }
  for (u32 i = 0; i < halves; ++i) states[i] |= load<u16>(end - kHalfBytes * (halves - i));
}

// Sets bits of raw planes that were read as 0. The code of a number n is n >> 1 ^ -(n & 1): bit 0 of n flips all bits
// of the code, and each other bit flips the bit below it; the same is true for products with a power of two.
template <class I, class UnitBits>
void add_planes(const Head& head, const u8* classes, u32 first, u32 end, UnitBits unit_bits_of, const u8* planes,
                I* steps) {
  using U = Unsigned<I>;
  for (u32 b = first; b < end; ++b) {
    const U unit = U{1} << unit_bits_of(b);
    const u32 count = head.raw_planes + raw_planes_of(classes[b]);
    I* const block = steps + u64{b} * kBlockCodes;
    for (u32 p = 0; p < count; ++p, planes += 4) {
      const u32 word = load<u32>(planes);
      const U flipped = p == 0 ? 0 - unit : static_cast<U>(unit << (p - 1));
      for (u32 i = 0; word != 0 && i < kBlockCodes; ++i) {
        block[i] = static_cast<I>(static_cast<U>(block[i]) ^ (flipped & (0 - static_cast<U>(word >> i & 1))));
      }
    }
  }
}

// Not inlined, since it is the same for all types of codes.
[[gnu::noinline]] bool read_classes(const Head& head, u32 blocks, u32* states, Words& words, u8* classes) {
  return with_lanes(head.lanes, [&]<u32 lanes>(LanesOf<lanes>) {
    return read_classes<lanes>(head, blocks, states, words, classes, Blocks::find_class);
  });
}

}  // namespace

template <class I>
void plan_coding(const I* codes, u32 count, Coding& plan) {
  const u32 blocks = blocks_of(count);
  plan.raw_planes = 0;
  plan.has_own_table = false;
  if (Blocks::find_candidates(codes, blocks, plan) > kMeanLimit) [[unlikely]] {
    plan.raw_planes = choose_raw_planes(codes, count);
    if (plan.raw_planes != 0) Blocks::find_candidates(codes, blocks, plan);
  }
  add_up(codes, blocks, plan);
}

template <class I>
void shorten_coding(const I* codes, u32 count, Coding& plan, u8* scratch) {
  const u32 blocks = blocks_of(count);
  Blocks::cost_candidates(codes, blocks, plan.set, plan);
  cheapest_path(plan, blocks, scratch);
  const Totals totals = plan;
  const auto exchange = [&] {
    for (u32 b = 0; b < blocks; ++b) {
      const u8 c = scratch[b];
      scratch[b] = plan.classes[b];
      plan.classes[b] = c;
    }
  };
  exchange();
  add_up(codes, blocks, plan);
  if (plan.cost >= totals.cost) {
    exchange();
    static_cast<Totals&>(plan) = totals;
  }
  try_own_table(codes, blocks, plan, scratch);
}

template <class I>
u32 write_codes(const I* codes, u32 count, const Coding& plan, u8* out, u8* scratch) {
  const u32 blocks = blocks_of(count);
  // Words are written from last to first, and their number is known only at the end; then escapes and planes are moved.
  const u32 tail_bytes = plan.escape_bytes * plan.escapes + 4 * plan.raw_words;
  const u32 tail_room = room_of(plan);
  u8* const words_end = scratch + kWriteScratchBytes;
  Output output = {words_end, out + tail_room, out + tail_room - tail_bytes};
  u32 states[kMaxLanes];
  for (u32& state : states) state = kFirstState;
  const u32 halves = borrowed_halves(plan.raw_words, plan.lanes);
  lend_halves(codes, blocks, plan, halves, states);
  with_lanes(plan.lanes, [&]<u32 lanes>(LanesOf<lanes>) {
    Blocks::template write_blocks<lanes>(codes, blocks, plan, states, output);
    if (!plan.has_own_table) write_classes<lanes>(plan, blocks, states, output.words);
    return true;
  });
  const u32 word_bytes = static_cast<u32>(words_end - output.words);
  u32 written = plan.lanes * kStateBytes;
  memcpy(out, states, written);
  memcpy(out + written, output.words, word_bytes);
  written += word_bytes;
  memmove(out + written, out + tail_room - tail_bytes, tail_bytes - kHalfBytes * halves);
  return written + tail_bytes - kHalfBytes * halves;
}

template <class I>
bool read_codes(const Head& head, const Units& units, const u8* in, u32 bytes, u32 count, I* steps,
                ReadScratch& scratch) {
  if (head.raw_planes > kMostRawPlanes<I> || head.escape_bytes > sizeof(I)) return false;
  const u32 blocks = blocks_of(count);
  const u32 state_bytes = head.lanes * kStateBytes;
  if (bytes < state_bytes) return false;
  u32 states[kMaxLanes] = {};
  memcpy(states, in, state_bytes);
  Words words(in + state_bytes, bytes - state_bytes);
  u8* const classes = scratch.classes;
  static_assert(sizeof(OwnReading) <= sizeof scratch.own && alignof(OwnReading) <= 64);
  OwnReading& own = *new (scratch.own) OwnReading;
  if (head.has_own_table) {
    memset(classes, 1, blocks);
    Blocks::prepare(head.own_table, own);
  } else {
    if constexpr (!kEncodes) {
      for (u32 t = 0; t < kSymbolTables; ++t) make_slots(kSymbolFrequencies[head.set][t], own.slots[t]);
    }
    if (!read_classes(head, blocks, states, words, classes)) return false;
  }
  u32 plane_words = 0;
  for (u32 b = 0; b < blocks; ++b) plane_words += head.raw_planes + raw_planes_of(classes[b]);
  const u32 halves = borrowed_halves(plane_words, head.lanes);
  const u32 plane_bytes = 4 * plane_words - kHalfBytes * halves;
  if (bytes - state_bytes - words.taken() < plane_bytes) return false;
  const u8* const planes = in + bytes - plane_bytes;
  // From block `last` on, planes are read with zeros for the bits that are stored in states.
  u32 last = blocks, last_words = 0;
  while (2 * last_words < halves) {
    --last;
    last_words += head.raw_planes + raw_planes_of(classes[last]);
  }
  const u32 lent = kHalfBytes * halves, there = 4 * last_words - lent;
  u8 last_planes[kHalfBytes * kMaxLanes + 4 * kMostPlanes] = {};
  memcpy(last_planes, in + bytes - there, there);
  Input input = {planes, planes, in + state_bytes};
  // Codes of the blocks before this one are multiplied by their units at the end.
  const u32 coarse = blocks_of(units.halves);
  EscapeList escapes;
  const bool is_complete = with_lanes(head.lanes, [&]<u32 lanes>(LanesOf<lanes>) {
    const auto read = [&](u32 first, u32 end, u32 unit_bits) {
      return first >= end || Blocks::template read_blocks<lanes>(head, own, classes, first, end, unit_bits, states,
                                                                 words, input, steps, escapes);
    };
    const u32 middle = coarse < last ? coarse : last, after = coarse > last ? coarse : last;
    if (!read(0, middle, 0) || !read(middle, last, head.unit_bits())) return false;
    if (last < blocks) input.planes = last_planes;
    return read(last, after, 0) && read(after, blocks, head.unit_bits());
  });
  if (!is_complete) return false;
  for (u32 lane = 0; lane < head.lanes; ++lane) {
    if (lane < halves ? states[lane] >> 16 != 1 : states[lane] != kFirstState) return false;
  }
  memset(last_planes, 0, there);
  for (u32 i = 0; i < halves; ++i) store(last_planes + there + kHalfBytes * i, static_cast<u16>(states[i]));
  const auto unit_bits_of = [&](u32 block) { return block < coarse ? 0 : head.unit_bits(); };
  add_planes(head, classes, last, blocks, unit_bits_of, last_planes, steps);
  if (!read_escapes(escapes, head.escape_bytes, unit_bits_of, input, steps)) return false;
  if (input.escapes != in + state_bytes + words.taken()) return false;
  for (u32 i = 0; i < coarse * kBlockCodes; ++i) {
    steps[i] = static_cast<I>(static_cast<Unsigned<I>>(steps[i]) << units.bits_at(i));
  }
  for (u32 i = count; i < blocks * kBlockCodes; ++i) {
    if (steps[i] != 0) return false;
  }
  return true;
}

#if !defined(H5L_DECODE_ONLY)
template void plan_coding(const i32*, u32, Coding&);
template void plan_coding(const i64*, u32, Coding&);
template void shorten_coding(const i32*, u32, Coding&, u8*);
template void shorten_coding(const i64*, u32, Coding&, u8*);
template u32 write_codes(const i32*, u32, const Coding&, u8*, u8*);
template u32 write_codes(const i64*, u32, const Coding&, u8*, u8*);
#endif
template bool read_codes(const Head&, const Units&, const u8*, u32, u32, i32*, ReadScratch&);
template bool read_codes(const Head&, const Units&, const u8*, u32, u32, i64*, ReadScratch&);

}  // namespace h5lossy::H5L_TARGET::interp
