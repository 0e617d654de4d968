// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's coder as docs/format/interp.md says it, one number at a time, without a thought for speed; and tiles of codes to
// try it on.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "codecs/interp/coding.h"
#include "random.h"

namespace h5lossy::test::naive {

namespace interp = H5L_TARGET::interp;

using Bytes = std::vector<std::uint8_t>;

// No plan needs more room than this.
template <class I>
inline constexpr u32 kMaxCodedBytes = interp::kMaxLanes * interp::kStateBytes + interp::kMaxWords * interp::kWordBytes +
                                      3 + static_cast<u32>(sizeof(I)) * interp::kTileValues +
                                      (interp::kMostRawPlanes<I> + interp::kMostClassPlanes) * interp::kMaxBlocks * 4;

// Numbers of either width: arithmetic wraps modulo 2^32 or 2^64.
template <class I>
struct Wrapping {
  static constexpr unsigned kBits = 8 * sizeof(I);
  static std::uint64_t zigzag(I d) { return d < 0 ? 2 * (~static_cast<std::uint64_t>(d)) + 1 : 2 * std::uint64_t(d); }
  static I unzigzag(std::uint64_t z) { return static_cast<I>((z & 1) != 0 ? ~(z >> 1) : z >> 1); }
  static I times(I d, int unit) {
    return static_cast<I>(static_cast<std::uint64_t>(d) * static_cast<std::uint64_t>(unit));
  }
};

struct Plan {
  std::vector<unsigned> classes;
  unsigned raw_planes = 0, set = 0, model = 0, lanes = 0, escape_bytes = 0;
  std::vector<u16> own_table;  // empty if there are classes
  std::uint64_t cost = 0;
};

inline unsigned raw(unsigned c) { return c > 4 ? c - 4 : 0; }
inline const u16 (&table(unsigned set, unsigned c))[16] { return interp::kSymbolFrequencies[set][std::min(c, 5u) - 1]; }
inline unsigned cost(unsigned frequency) {
  return static_cast<unsigned>(std::lround(16 * std::log2(2048.0 / static_cast<double>(frequency))));
}

inline unsigned item_bytes(std::uint64_t widest) { return widest < 1u << 16 ? 2 : widest >> 32 == 0 ? 4 : 8; }

inline std::uint64_t class_cost(const std::vector<unsigned>& classes, unsigned model) {
  std::uint64_t total = 0;
  unsigned before = 16;
  for (const unsigned c : classes) total += cost(interp::kClassFrequencies[model][before][c]), before = c;
  return total;
}

// What follows from classes.
inline void add_up(const std::vector<std::uint64_t>& z, Plan& found) {
  std::uint64_t symbols[8] = {}, escapes = 0, raw_words = 0, widest = 0;
  for (std::size_t b = 0; b < z.size() / 32; ++b) {
    const unsigned c = found.classes[b], bits = found.raw_planes + raw(c);
    raw_words += bits;
    for (std::size_t i = 0; c != 0 && i < 32; ++i) {
      const std::uint64_t y = std::min<std::uint64_t>(z[32 * b + i] >> bits, 15);
      for (unsigned set = 0; set < 8; ++set) symbols[set] += cost(table(set, c)[y]);
      if (y < 15) continue;
      ++escapes;
      widest = std::max(widest, z[32 * b + i]);
    }
  }
  found.escape_bytes = item_bytes(widest);
  found.set = static_cast<unsigned>(std::min_element(symbols, symbols + 8) - symbols);
  found.model = 0;
  for (unsigned m = 1; m < 16; ++m) {
    if (class_cost(found.classes, m) < class_cost(found.classes, found.model)) found.model = m;
  }
  const std::uint64_t coded = class_cost(found.classes, found.model) + symbols[found.set];
  for (const unsigned lanes : {1u, 4u, 16u, 32u}) {
    if (lanes == 1 || 16384 * lanes <= coded) found.lanes = lanes;
  }
  const std::uint64_t halves = std::min<std::uint64_t>(2 * raw_words, found.lanes);
  found.cost = coded + 16 * (32 * raw_words + 8 * found.escape_bytes * escapes + 24 * found.lanes - 16 * halves);
}

// What a block costs in a class.
inline std::uint64_t block_cost(const std::uint64_t* z, unsigned raw_planes, unsigned c, unsigned set) {
  std::uint64_t total = 32 * 16 * raw(c);
  for (std::size_t i = 0; c != 0 && i < 32; ++i) {
    const std::uint64_t y = std::min<std::uint64_t>(z[i] >> (raw_planes + raw(c)), 15);
    total += cost(table(set, c)[y]) + (y == 15 ? 256 : 0);
  }
  return total;
}

template <class I>
Plan plan(const std::vector<I>& codes) {
  Plan found;
  const std::size_t n = codes.size(), blocks = (n + 31) / 32;
  std::vector<std::uint64_t> z(32 * blocks);
  long double sum = 0;  // of at most 2^15 numbers of 2^64: 79 bits, of which the upper ones decide
  for (std::size_t i = 0; i < n; ++i) sum += static_cast<long double>(z[i] = Wrapping<I>::zigzag(codes[i]));
  while (found.raw_planes < 48 && sum > std::ldexp(static_cast<long double>(5000 * n), int(found.raw_planes))) {
    ++found.raw_planes;
  }
  for (std::size_t b = 0; b < blocks; ++b) {
    std::uint64_t halves = 0;
    for (std::size_t i = 0; i < 32; ++i) halves += ((z[32 * b + i] >> found.raw_planes) + 1) >> 1;
    unsigned j = 0;
    while (j < 12 && 1000 * halves >= std::uint64_t{4525} << j) ++j;
    found.classes.push_back(halves == 0 ? 0 : j + 1);
  }
  add_up(z, found);
  return found;
}

// The plan with the cheapest path of classes, if that is cheaper.
template <class I>
Plan shortened(const std::vector<I>& codes, const Plan& plan) {
  std::vector<std::uint64_t> z((codes.size() + 31) / 32 * 32);
  std::transform(codes.begin(), codes.end(), z.begin(), Wrapping<I>::zigzag);
  struct Step {
    std::uint64_t cost;  // of the cheapest path to here
    unsigned from;
  };
  std::vector<std::vector<Step>> steps;
  std::vector<unsigned> first;
  for (std::size_t b = 0; b < plan.classes.size(); ++b) {
    const unsigned guess = plan.classes[b];
    first.push_back(guess < 2 ? guess : std::min(guess - 1, 12u));
    steps.emplace_back();
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned c = first[b] + i;
      Step best = {~std::uint64_t{0}, 0};
      for (unsigned k = 0; k < (b == 0 ? 1 : 4); ++k) {
        const unsigned before = b == 0 ? 16 : first[b - 1] + k;
        const std::uint64_t total =
            (b == 0 ? 0 : steps[b - 1][k].cost) + cost(interp::kClassFrequencies[plan.model][before][c]);
        if (total < best.cost) best = {total, k};
      }
      best.cost += block_cost(&z[32 * b], plan.raw_planes, c, plan.set);
      steps[b].push_back(best);
    }
  }
  Plan other = plan;
  unsigned at = 0;
  for (unsigned i = 1; i < 4; ++i) at = steps.back()[i].cost < steps.back()[at].cost ? i : at;
  for (std::size_t b = steps.size(); b-- > 0; at = steps[b].at(at).from) other.classes[b] = first[b] + at;
  add_up(z, other);
  return other.cost < plan.cost ? other : plan;
}

// A table for some of the blocks, with its number of raw planes: what it costs.
struct OwnTable {
  std::vector<u16> frequencies;
  unsigned raw_planes = 0;
  std::uint64_t escapes = 0, widest = 0, coded = 0, cost = ~std::uint64_t{0};
};

inline OwnTable own_table(const std::vector<std::uint64_t>& z, unsigned least, unsigned limit) {
  std::uint64_t sum = 0, n = z.size();
  OwnTable best;
  for (const std::uint64_t number : z) sum += number >> least, best.widest = std::max(best.widest, number);
  unsigned planes = least;
  while (sum >> (planes - least) > 3 * n) ++planes;
  planes -= planes > least ? 1 : 0;
  for (unsigned p = planes; p < planes + 3 && p <= limit; ++p) {
    std::uint64_t counts[16] = {};
    for (const std::uint64_t number : z) ++counts[std::min<std::uint64_t>(number >> p, 15)];
    OwnTable own = {.frequencies = {}, .raw_planes = p, .escapes = counts[15], .widest = best.widest};
    int missing = 2048;
    for (const std::uint64_t count : counts) {
      own.frequencies.push_back(static_cast<u16>(std::max<std::uint64_t>(1, (count * 4096 + n) / (2 * n))));
      missing -= own.frequencies.back();
    }
    u16& largest = *std::max_element(own.frequencies.begin(), own.frequencies.end());
    largest = static_cast<u16>(largest + missing);
    own.coded = 0;
    for (unsigned s = 0; s < 16; ++s) own.coded += counts[s] * cost(own.frequencies[s]);
    own.cost = own.coded + 16 * n * p + 128 * item_bytes(own.widest) * own.escapes;
    if (own.cost < best.cost) best = own;
  }
  return best;
}

// The plan with a table of its own, if that is cheaper.
template <class I>
Plan with_own_table(const std::vector<I>& codes, const Plan& plan) {
  const unsigned limit = sizeof(I) == 4 ? 20 : 48;
  std::vector<std::uint64_t> z((codes.size() + 31) / 32 * 32), some;
  std::transform(codes.begin(), codes.end(), z.begin(), Wrapping<I>::zigzag);
  for (std::size_t i = 0; i < z.size(); ++i) {
    if (i / 32 % 8 == 0) some.push_back(z[i]);
  }
  if (plan.lanes < 16) return plan;
  const OwnTable first = own_table(some, plan.raw_planes, limit);
  if (first.frequencies.empty() || 8 * first.cost > plan.cost + plan.cost / 32) return plan;
  const OwnTable own = own_table(z, plan.raw_planes, limit);
  if (own.frequencies.empty()) return plan;
  Plan other;
  other.classes.assign(z.size() / 32, 1);
  other.raw_planes = own.raw_planes;
  other.lanes = own.coded >= 16384 * 32 ? 32 : own.coded >= 16384 * 16 ? 16 : 4;
  other.escape_bytes = own.escapes == 0 ? 2 : item_bytes(own.widest);
  other.own_table = own.frequencies;
  const std::uint64_t halves = std::min<std::uint64_t>(z.size() / 16 * own.raw_planes, other.lanes);
  other.cost = own.cost + 16 * (8 * 22 + 24 * other.lanes - 16 * halves);
  return other.lanes >= 16 && other.cost + other.cost / 256 < plan.cost ? other : plan;
}

// What the coder codes: in this order for the decoder, and backwards for the encoder. f(lane, frequencies, symbol) gets
// each symbol, and returns it.
template <class F>
void for_classes(std::size_t blocks, unsigned lanes, F f) {
  const std::size_t share = (blocks + lanes - 1) / lanes;
  for (std::size_t j = 0; j < share; ++j) {
    for (unsigned i = 0; i < lanes; ++i) {
      if (i * share + j < blocks) f(i, i * share + j, j == 0);
    }
  }
}

template <class I>
Bytes encode(const std::vector<I>& codes, const Plan& plan) {
  using N = Wrapping<I>;
  struct Symbol {
    unsigned lane;
    const u16* frequencies;
    unsigned symbol;
  };
  const std::size_t n = codes.size(), blocks = plan.classes.size();
  std::vector<Symbol> symbols;
  const bool has_classes = plan.own_table.empty();
  for_classes(has_classes ? blocks : 0, plan.lanes, [&](unsigned lane, std::size_t b, bool first) {
    symbols.push_back({lane, interp::kClassFrequencies[plan.model][first ? 16 : plan.classes[b - 1]], plan.classes[b]});
  });
  std::vector<std::uint64_t> items;
  std::vector<std::uint32_t> planes;
  for (std::size_t b = 0; b < blocks; ++b) {
    const unsigned c = plan.classes[b], bits = plan.raw_planes + raw(c);
    std::vector<std::uint32_t> words(bits);
    for (unsigned i = 0; i < 32; ++i) {
      const I d = 32 * b + i < n ? codes[32 * b + i] : 0;
      const std::uint64_t z = N::zigzag(d);
      const unsigned y = static_cast<unsigned>(std::min<std::uint64_t>(z >> bits, 15));
      if (c != 0) symbols.push_back({i % plan.lanes, has_classes ? table(plan.set, c) : plan.own_table.data(), y});
      if (y == 15) {
        items.push_back(z);
      } else {
        for (unsigned p = 0; p < bits; ++p) words[p] |= static_cast<std::uint32_t>(z >> p & 1) << i;
      }
    }
    planes.insert(planes.end(), words.begin(), words.end());
  }
  const std::size_t halves = std::min<std::size_t>(2 * planes.size(), plan.lanes);
  const auto half = [&planes](std::size_t i) { return planes[i / 2] >> 16 * (i % 2) & 0xFFFF; };
  std::vector<std::uint64_t> states(plan.lanes, 1u << 16);
  for (std::size_t i = 0; i < halves; ++i) states[i] |= half(2 * planes.size() - halves + i);
  std::vector<std::uint64_t> words;
  for (std::size_t i = symbols.size(); i-- > 0;) {
    const Symbol& s = symbols[i];
    std::uint64_t& x = states[s.lane];
    const std::uint64_t f = s.frequencies[s.symbol];
    std::uint64_t sum = 0;
    for (unsigned k = 0; k < s.symbol; ++k) sum += s.frequencies[k];
    if (x >= f << 21) words.push_back(x & 0xFFFF), x >>= 16;
    x = ((x / f) << 11) + x % f + sum;
  }
  Bytes out;
  const auto put = [&out](std::uint64_t number, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<std::uint8_t>(number >> 8 * i));
  };
  for (const std::uint64_t x : states) put(x, 4);
  for (std::size_t i = words.size(); i-- > 0;) put(words[i], 2);
  for (std::size_t i = items.size(); i-- > 0;) put(items[i], plan.escape_bytes);
  for (std::size_t i = 0; i < 2 * planes.size() - halves; ++i) put(half(i), 2);
  return out;
}

// Empty if the decoder refuses.
template <class I>
std::optional<std::vector<I>> decode(const interp::Head& head, const Bytes& in, std::size_t n) {
  using N = Wrapping<I>;
  const unsigned lanes = head.lanes;
  if (head.raw_planes > (sizeof(I) == 4 ? 20 : 48) || head.escape_bytes > sizeof(I)) return {};
  std::size_t at = 0, end = in.size();
  bool is_complete = true;
  const auto get = [&in](std::size_t from, std::size_t bytes) {
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < bytes; ++i) number |= std::uint64_t{in[from + i]} << 8 * i;
    return number;
  };
  if (end < 4 * lanes) return {};
  std::vector<std::uint64_t> states;
  for (; at < 4 * lanes; at += 4) states.push_back(get(at, 4));
  const auto next_symbol = [&](unsigned lane, const u16* frequencies) {
    std::uint64_t& x = states[lane];
    std::uint64_t rest = x % 2048;
    unsigned s = 0;
    for (; rest >= frequencies[s]; ++s) rest -= frequencies[s];
    x = frequencies[s] * (x / 2048) + rest;
    if (x >= 1u << 16) return s;
    is_complete &= end - at >= 2;
    if (is_complete) x = x << 16 | get(at, 2), at += 2;
    return s;
  };
  const std::size_t blocks = (n + 31) / 32;
  std::vector<unsigned> classes(blocks, 1);
  for_classes(head.has_own_table ? 0 : blocks, lanes, [&](unsigned lane, std::size_t b, bool first) {
    classes[b] = next_symbol(lane, interp::kClassFrequencies[head.model][first ? 16 : classes[b - 1]]);
  });
  std::size_t planes = 0;  // halves of them
  for (const unsigned c : classes) planes += 2 * (head.raw_planes + raw(c));
  const std::size_t halves = std::min<std::size_t>(planes, lanes);
  if (!is_complete || end - at < 2 * (planes - halves)) return {};
  end -= 2 * (planes - halves);
  std::vector<unsigned> symbols;
  for (const unsigned c : classes) {
    for (unsigned i = 0; i < 32; ++i) {
      const u16* const frequencies = head.has_own_table ? head.own_table : c != 0 ? table(head.set, c) : nullptr;
      symbols.push_back(c != 0 ? next_symbol(i % lanes, frequencies) : 0);
      if (!is_complete) return {};
    }
  }
  std::vector<std::uint64_t> words;
  for (std::size_t i = 0; i < planes - halves; ++i) words.push_back(get(end + 2 * i, 2));
  for (unsigned i = 0; i < lanes; ++i) {
    if (states[i] >> 16 != 1 || (i >= halves && states[i] != 1u << 16)) return {};
    if (i < halves) words.push_back(states[i] & 0xFFFF);
  }
  std::vector<I> steps;
  std::size_t plane = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    const unsigned bits = head.raw_planes + raw(classes[b]);
    for (unsigned i = 0; i < 32; ++i) {
      const unsigned y = symbols[32 * b + i];
      std::uint64_t z = std::uint64_t{y} << bits;
      for (unsigned p = 0; p < bits; ++p) z |= (words[2 * (plane + p) + i / 16] >> i % 16 & 1) << p;
      if (sizeof(I) == 4) z &= 0xFFFFFFFF;
      if (y == 15) {
        if (end < at + head.escape_bytes) return {};  // words may have run into escapes
        end -= head.escape_bytes;
        z = get(end, head.escape_bytes);
      }
      steps.push_back(N::times(N::unzigzag(z), head.is_closed ? 16 : 1));
    }
    plane += bits;
  }
  if (end != at) return {};
  for (std::size_t i = n; i < steps.size(); ++i) {
    if (steps[i] != 0) return {};
  }
  return steps;
}

// ---------------------------------------------------------------------------------------------------------------------

enum class Codes { laplacian, any_width, few_blocks, full_range, every_class, uniform, zeros };
inline constexpr Codes kAllCodes[] = {Codes::laplacian,   Codes::any_width, Codes::few_blocks, Codes::full_range,
                                      Codes::every_class, Codes::uniform,   Codes::zeros};

// `bits`: how wide the codes of Codes::laplacian are.
template <class I>
std::vector<I> make_codes(Random& random, Codes kind, std::size_t count, double bits) {
  using U = std::make_unsigned_t<I>;
  constexpr unsigned width = 8 * sizeof(I);
  std::vector<I> codes(count);
  const auto exponential = [&random](double scale) {
    const double magnitude = -std::log(1 - random.fraction()) * scale + 0.5;
    return static_cast<I>(static_cast<std::int64_t>(random.one_in(2) ? -magnitude : magnitude));
  };
  double local = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t block = i / 32;
    switch (kind) {
      case Codes::laplacian:
        if (i % 64 == 0) local = 0.9 * local + 2 * random.fraction() - 1;
        codes[i] = exponential(std::exp2(bits + local));
        break;
      case Codes::any_width:
        codes[i] = static_cast<I>(static_cast<I>(random.next()) >> random.below(width));
        break;
      case Codes::few_blocks:
        codes[i] = static_cast<I>(block % 7 == 3 ? random.between(-4, 4) : 0);
        break;
      case Codes::full_range:
        codes[i] = random.one_in(50) ? static_cast<I>(U{1} << (width - 1)) : static_cast<I>(random.next());
        break;
      case Codes::every_class:
        codes[i] = exponential(0.1 * std::exp2(static_cast<double>(block * 7 % 16)));
        if (random.one_in(500)) codes[i] = static_cast<I>(random.next() >> random.between(48, 63));
        if (random.one_in(20000)) codes[i] = static_cast<I>(static_cast<I>(random.next()) >> random.below(width));
        break;
      case Codes::uniform: {  // or one number, mostly
        const double range = std::exp2(bits);
        codes[i] = static_cast<I>(range * (random.fraction() - (bits < 2 ? 0.9 : 0.5)));
        if (random.one_in(5000)) codes[i] = exponential(1000 * range);
        break;
      }
      case Codes::zeros:
        break;
    }
  }
  return codes;
}

}  // namespace h5lossy::test::naive
