// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Words of halves: bins whose width no formula gives, as tables of all values (docs/format/integers.md).
#pragma once

#include <cstdint>
#include <memory>

#include "codecs/codec.h"

namespace h5lossy {

// What bins follow from.
struct BinRule {
  std::uint32_t value_class = 0;
  BoundKind kind = BoundKind::absolute;
  double bound = 0;  // B; of a pointwise-relative bound, b
  bool has_exact = false;
  std::uint16_t exact = 0;  // its bits

  bool operator==(const BinRule&) const = default;
};

// A rule's tables. `last` is the word of the largest value, without that of the exact value behind it.
struct RuleTables : WordTables {
  std::uint32_t last = 0;
};

// The tables of a rule: those of the last few rules are kept.
std::shared_ptr<const RuleTables> tables_of(const BinRule& rule);

// The value of a half, without its sign; its bits are those of a finite one.
double half_value(std::uint32_t value_class, std::uint32_t bits);

}  // namespace h5lossy
