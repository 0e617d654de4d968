// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Bins whose widths follow no formula, those of halves and of noise bounds (docs/format/integers.md), as tables of all
// values or, for 32 bits, as a list.
#pragma once

#include <cstdint>
#include <memory>

#include "chunk/memory.h"
#include "codecs/codec.h"

namespace h5lossy {

// What determines the bins.
struct BinRule {
  std::uint32_t value_class = 0;
  std::uint32_t value_bytes = 0;
  BoundKind kind = BoundKind::absolute;
  double bound = 0;         // halves: B; of a pointwise-relative bound, b
  std::uint32_t floor = 0;  // noise: the floor a
  std::uint32_t noise = 0;  // noise: C
  std::uint32_t exact_count = 0;
  std::uint32_t exact[kMostExact] = {};  // their bits

  bool operator==(const BinRule&) const = default;
};

// The bins of a rule.
struct MadeBins {
  Array<WordTables> tables;  // one, up to 16 bits
  WordBins bins;             // for 32 bits, in these arrays
  Array<std::uint32_t> first, middle, starts;
  std::uint32_t last = 0;  // the word of the largest value, before those of exact values
};

// False if out of memory.
[[nodiscard]] bool make_bins(const BinRule& rule, MadeBins& made);

// Keeps the bins of a rule alive while one of these is held.
#if defined(H5L_DECODE_ONLY)
using KeptBins = MadeBins;  // no cache shared between threads, so no lock
#else
using KeptBins = std::shared_ptr<const MadeBins>;
#endif

// The bins of a rule, kept alive by `kept`; null if out of memory.
const MadeBins* bins_of(const BinRule& rule, KeptBins& kept);

// The rule of a quantizer that has bins.
BinRule rule_of(std::uint32_t value_class, std::uint32_t value_bytes, const Quantizer& quantizer);

// Sets the tables or bins that a quantizer needs, if any, kept alive by `kept`. False if out of memory.
[[nodiscard]] bool add_bins(std::uint32_t value_class, std::uint32_t value_bytes, Quantizer& quantizer, KeptBins& kept);

// The value of a half without its sign. The bits are those of a finite half.
double half_value(std::uint32_t value_class, std::uint32_t bits);

}  // namespace h5lossy
