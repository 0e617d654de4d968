// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/word_tables.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <mutex>
#include <vector>

#include "h5lossy.h"

namespace h5lossy {
namespace {

constexpr std::uint32_t kSign = 0x8000, kMagnitudes = 0x8000;

// The two formats of halves.
struct Format {
  std::uint32_t mantissa_bits;
  int bias;
  [[nodiscard]] std::uint32_t infinity() const { return (kSign - 1) >> mantissa_bits << mantissa_bits; }
};

Format format_of(std::uint32_t value_class) { return value_class == H5L_CLASS_HALF ? Format{10, 15} : Format{7, 127}; }

// A sum of two doubles: exactly the difference or the product of two.
struct Exact {
  double high, low;
};

Exact difference(double a, double b) {
  const double high = a - b, back = a - high;
  return {high, (a - (high + back)) + (back - b)};
}

Exact product(double a, double b) {
  const double high = a * b;
  return {high, std::fma(a, b, -high)};
}

// A bound as a double, or as a product; `a` is a difference of halves. Where the rounded numbers differ, they decide:
// what was rounded off is less than their distance.
bool is_at_most(const Exact& a, const Exact& b) { return a.high < b.high || (a.high == b.high && a.low <= b.low); }

// Bins of the magnitudes 0, 1, ...: where each begins, and what it comes back as.
struct Bins {
  std::vector<std::uint16_t> first, middle;
};

// Numbers are magnitudes, of which the first `count` are in bins of several; the others have one each. Whether two
// numbers differ by no more than the bound at one of them, says `within`.
template <class Within>
Bins cut(std::uint32_t count, Within within) {
  Bins bins;
  for (std::uint32_t first = 0, end = 0; first < kMagnitudes; first = end) {
    std::uint32_t middle = first;
    while (first != 0 && middle + 1 < count && within(first, middle + 1, first)) ++middle;
    end = middle + 1;
    while (end < count && within(middle, end, end)) ++end;
    bins.first.push_back(static_cast<std::uint16_t>(first));
    bins.middle.push_back(static_cast<std::uint16_t>(middle));
  }
  return bins;
}

Bins bins_of(const BinRule& rule) {
  const std::uint32_t finite = format_of(rule.value_class).infinity();
  std::vector<double> values(finite);
  for (std::uint32_t i = 0; i < finite; ++i) values[i] = half_value(rule.value_class, i);
  return cut(finite, [&](std::uint32_t low, std::uint32_t high, std::uint32_t at) {
    const bool is_relative = rule.kind == BoundKind::pointwise_relative;
    const Exact bound = is_relative ? product(rule.bound, values[at]) : Exact{rule.bound, 0};
    return is_at_most(difference(values[high], values[low]), bound);
  });
}

// In the order of the values; both zeros are 0.
int ordinal_of(std::uint32_t bits) {
  const int magnitude = static_cast<int>(bits & ~kSign);
  return (bits & kSign) != 0 ? -magnitude : magnitude;
}

std::uint16_t bits_of(int ordinal) {
  return static_cast<std::uint16_t>(ordinal < 0 ? static_cast<std::uint32_t>(-ordinal) | kSign
                                                : static_cast<std::uint32_t>(ordinal));
}

std::uint16_t rank_of(std::uint32_t word) { return static_cast<std::uint16_t>(word ^ kSign); }

// The exact value has a word of its own, behind all others. Where it is what its bin comes back as, the values on its
// two sides come back as its neighbours.
void take_out(std::uint16_t exact, RuleTables& tables) {
  const std::uint16_t code = rank_of(tables.last + 1), above = rank_of(tables.last + 2), bin = tables.ranks[exact];
  if (tables.values[bin] == exact) {
    const int at = ordinal_of(exact);
    tables.values[bin] = bits_of(at - 1);
    for (int i = at + 1; i < static_cast<int>(kMagnitudes) && tables.ranks[bits_of(i)] == bin; ++i) {
      tables.ranks[bits_of(i)] = above;
    }
    tables.values[above] = bits_of(at + 1);
  }
  tables.ranks[exact] = code;
  tables.values[code] = exact;
}

std::shared_ptr<const RuleTables> make_tables(const BinRule& rule) {
  const auto made = std::make_shared<RuleTables>();
  RuleTables& tables = *made;
  const Bins bins = bins_of(rule);
  const auto count = static_cast<std::uint32_t>(bins.first.size());
  tables.last = count - 1;
  for (std::uint32_t k = 0; k < kMagnitudes; ++k) {  // words that no value has are those of the last bin
    const std::uint32_t bin = std::min(k, tables.last), negative = static_cast<std::uint32_t>(-static_cast<int>(k));
    tables.values[rank_of(k)] = bins.middle[bin];
    tables.values[rank_of(negative)] = bits_of(-static_cast<int>(bins.middle[bin]));
  }
  tables.values[rank_of(kSign)] = bits_of(-static_cast<int>(bins.middle[tables.last]));
  for (std::uint32_t k = 0; k < count; ++k) {
    const std::uint32_t end = k + 1 < count ? bins.first[k + 1] : kMagnitudes;
    for (std::uint32_t i = bins.first[k]; i < end; ++i) {
      tables.ranks[i] = rank_of(k);
      tables.ranks[i | kSign] = rank_of(static_cast<std::uint32_t>(-static_cast<int>(k)));
    }
  }
  if (rule.has_exact) take_out(rule.exact, tables);
  return made;
}

}  // namespace

double half_value(std::uint32_t value_class, std::uint32_t bits) {
  const auto [m, bias] = format_of(value_class);
  const std::uint64_t exponent = bits >> m, mantissa = bits & ((1u << m) - 1);
  if (exponent == 0) return std::ldexp(static_cast<double>(mantissa), 1 - bias - static_cast<int>(m));
  return std::bit_cast<double>((exponent + static_cast<std::uint64_t>(1023 - bias)) << 52 | mantissa << (52 - m));
}

std::shared_ptr<const RuleTables> tables_of(const BinRule& rule) {
  struct Kept {
    BinRule rule;
    std::shared_ptr<const RuleTables> tables;
  };
  static std::mutex mutex;
  static std::array<Kept, 8> kept;  // the latest first
  {
    const std::lock_guard lock(mutex);
    const auto found = std::find_if(kept.begin(), kept.end(),
                                    [&](const Kept& one) { return one.tables != nullptr && one.rule == rule; });
    if (found != kept.end()) {
      std::rotate(kept.begin(), found, found + 1);
      return kept.front().tables;
    }
  }
  const auto made = make_tables(rule);
  const std::lock_guard lock(mutex);
  std::rotate(kept.begin(), kept.end() - 1, kept.end());
  kept.front() = {rule, made};
  return made;
}

}  // namespace h5lossy
