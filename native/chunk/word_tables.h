// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Bins whose width no formula gives, those of halves and of noise bounds (docs/format/integers.md), as tables of all
// values, or of 32 bits as a list.
#pragma once

#include <cstdint>
#include <memory>

#include "chunk/memory.h"
#include "codecs/codec.h"

namespace h5lossy {

// What bins follow from.
struct BinRule {
  std::uint32_t value_class = 0;
  std::uint32_t value_bytes = 0;
  BoundKind kind = BoundKind::absolute;
  double bound = 0;         // halves: B; of a pointwise-relative bound, b
  std::uint32_t floor = 0;  // noise: a
  std::uint32_t noise = 0;  // and C
  std::uint32_t exact_count = 0;
  std::uint32_t exact[kMostExact] = {};  // their bits

  bool operator==(const BinRule&) const = default;
};

// What a rule gives.
struct MadeBins {
  Array<WordTables> tables;  // one, up to 16 bits
  WordBins bins;             // 32 bits, in these arrays
  Array<std::uint32_t> first, middle, starts;
  std::uint32_t last = 0;  // the word of the largest value, without those of exact values behind it
};

// False if out of memory.
[[nodiscard]] bool make_bins(const BinRule& rule, MadeBins& made);

// The bins of a rule, for as long as one of these is held.
#if defined(H5L_DECODE_ONLY)
using KeptBins = MadeBins;  // no lock, so there is nothing from which two threads could take them
#else
using KeptBins = std::shared_ptr<const MadeBins>;
#endif

// The bins of a rule, in `kept`; null if out of memory.
const MadeBins* bins_of(const BinRule& rule, KeptBins& kept);

// The rule of a quantizer that has bins.
BinRule rule_of(std::uint32_t value_class, std::uint32_t value_bytes, const Quantizer& quantizer);

// Gives a quantizer the tables or bins that it needs, if any: those of `kept`. False if out of memory.
[[nodiscard]] bool add_bins(std::uint32_t value_class, std::uint32_t value_bytes, Quantizer& quantizer, KeptBins& kept);

// The value of a half, without its sign; its bits are those of a finite one.
double half_value(std::uint32_t value_class, std::uint32_t bits);

}  // namespace h5lossy
