// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/word_tables.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include "codecs/integers.h"
#include "frame/frame.h"
#include "h5lossy.h"

namespace h5lossy {
namespace {

constexpr std::uint32_t kSign = 0x8000;  // of halves

// The two formats of halves.
struct Format {
  std::uint32_t mantissa_bits;
  int bias;
  [[nodiscard]] std::uint32_t infinity() const { return (kSign - 1) >> mantissa_bits << mantissa_bits; }
};

Format format_of(std::uint32_t value_class) { return value_class == H5L_CLASS_HALF ? Format{10, 15} : Format{7, 127}; }

// A sum of two doubles that is exactly the difference or the product of two doubles.
struct Exact {
  double high, low;
};

Exact difference(double a, double b) {
  const double high = a - b, back = a - high;
  return {high, (a - (high + back)) + (back - b)};
}

// The exact product of a double and a half. Products of the half with either part of `a` need no rounding, and neither
// do the sums. No fused multiply-add, since WebAssembly has none.
Exact exact_product(double a, double half) {
  const double high = a * half;
  const auto upper = std::bit_cast<double>(std::bit_cast<std::uint64_t>(a) & ~((std::uint64_t{1} << 27) - 1));
  return {high, (upper * half - high) + (a - upper) * half};
}

// Compares a bound, as a double or a product, with `a`, a difference of halves. If the rounded parts differ, they
// decide: the remainders are smaller than their distance.
bool is_at_most(const Exact& a, const Exact& b) { return a.high < b.high || (a.high == b.high && a.low <= b.low); }

// The error bound of halves by magnitude. Magnitudes of infinity and NaN are not numbers, and each has its own bin.
class HalfErrors {
 public:
  explicit HalfErrors(const BinRule& rule)
      : bound_(rule.bound),
        is_relative_(rule.kind == BoundKind::pointwise_relative),
        finite_(format_of(rule.value_class).infinity()),
        values_(allocate<double>(finite_)) {
    for (std::uint32_t i = 0; ok() && i < finite_; ++i) values_[i] = half_value(rule.value_class, i);
  }

  static constexpr std::uint64_t top = kSign - 1;

  [[nodiscard]] bool ok() const { return values_ != nullptr; }

  // What a bin that begins here decodes to: the largest number within the bound.
  [[nodiscard]] std::uint64_t middle_from(std::uint64_t first) const {
    std::uint64_t middle = first;
    while (is_near(first, middle + 1, first)) ++middle;
    return middle;
  }

  // The end of the bin: the first number after the middle that is not within the bound.
  [[nodiscard]] std::uint64_t end_behind(std::uint64_t middle) const {
    std::uint64_t end = middle + 1;
    while (is_near(middle, end, end)) ++end;
    return end;
  }

 private:
  [[nodiscard]] double value(std::uint64_t magnitude) const { return values_[static_cast<std::size_t>(magnitude)]; }

  [[nodiscard]] bool is_near(std::uint64_t low, std::uint64_t high, std::uint64_t at) const {
    if (high >= finite_) return false;
    const Exact bound = is_relative_ ? exact_product(bound_, value(at)) : Exact{bound_, 0};
    return is_at_most(difference(value(high), value(low)), bound);
  }

  double bound_;
  bool is_relative_;
  std::uint32_t finite_;
  Array<double> values_;
};

// The same for the magnitudes of integers under a noise bound.
class NoiseErrors {
 public:
  explicit NoiseErrors(const BinRule& rule)
      : top((rule.value_bytes == 4 ? 0xFFFFFFFFu : (1u << 8 * rule.value_bytes) - 1)),
        floor_(rule.floor),
        scale_(std::uint64_t{rule.noise} * rule.noise) {
    if (rule.value_class == H5L_CLASS_SIGNED) top = top / 2 + 1;
  }

  std::uint64_t top;

  [[nodiscard]] bool ok() const { return true; }

  [[nodiscard]] std::uint64_t middle_from(std::uint64_t first) const { return std::min(first + bound(first), top); }

  [[nodiscard]] std::uint64_t end_behind(std::uint64_t middle) const {
    std::uint64_t end = middle + 1;
    // The bound never falls, so all numbers up to that distance are within it.
    while (end <= top && end <= middle + bound(end)) end = middle + bound(end) + 1;
    return std::min(end, top + 1);
  }

 private:
  [[nodiscard]] std::uint64_t bound(std::uint64_t value) const {
    const std::uint64_t square = scale_ * value;  // below 2^64: C is at most 2^16
    auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(square)));
    while (root > 0xFFFFFFFFu || root * root > square) --root;
    while (root < 0xFFFFFFFFu && (root + 1) * (root + 1) <= square) ++root;
    return std::max(floor_, root >> 8);
  }

  std::uint64_t floor_, scale_;
};

// A list of numbers, appended one by one.
class Numbers {
 public:
  [[nodiscard]] bool add(std::uint64_t number) {
    if (size_ == room_) {
      room_ = room_ == 0 ? 1024 : 2 * room_;
      void* const grown = std::realloc(numbers_.get(), room_ * sizeof(std::uint32_t));
      if (grown == nullptr) return false;
      static_cast<void>(numbers_.release());
      numbers_.reset(static_cast<std::uint32_t*>(grown));
    }
    numbers_[size_++] = static_cast<std::uint32_t>(number);
    return true;
  }
  [[nodiscard]] Array<std::uint32_t> take() { return std::move(numbers_); }

 private:
  Array<std::uint32_t> numbers_;
  std::size_t size_ = 0, room_ = 0;
};

// Cuts all magnitudes into bins. The first one decodes to 0.
template <class Errors>
bool cut(const Errors& errors, MadeBins& made) {
  if (!errors.ok()) return false;
  Numbers firsts, middles;
  for (std::uint64_t first = 0, end = 0; first <= errors.top; first = end) {
    const std::uint64_t middle = first == 0 ? 0 : errors.middle_from(first);
    end = errors.end_behind(middle);
    if (!firsts.add(first) || !middles.add(middle)) return false;
    ++made.bins.count;
  }
  made.first = firsts.take();
  made.middle = middles.take();
  return true;
}

// The order of values of up to 16 bits, and the position of their sign. The ordinals of integers are the values; those
// of halves are signed magnitudes, so both zeros are 0.
struct Order {
  explicit Order(const BinRule& rule)
      : is_half(rule.kind != BoundKind::noise),
        is_signed(rule.value_class != H5L_CLASS_UNSIGNED),
        count(1u << 8 * rule.value_bytes),
        sign(is_signed ? count / 2 : 0) {}

  [[nodiscard]] int ordinal_of(std::uint32_t bits) const {
    if ((bits & sign) == 0) return static_cast<int>(bits);
    return is_half ? -static_cast<int>(bits ^ sign) : static_cast<int>(bits) - static_cast<int>(count);
  }

  [[nodiscard]] std::uint16_t bits_of(int ordinal) const {
    if (ordinal >= 0 && is_signed) ordinal = std::min(ordinal, static_cast<int>(sign) - 1);
    const auto bits = static_cast<std::uint32_t>(ordinal);
    return static_cast<std::uint16_t>((ordinal < 0 && is_half ? (0u - bits) | sign : bits) & (count - 1));
  }

  [[nodiscard]] std::uint16_t rank_of(std::uint32_t word) const {
    return static_cast<std::uint16_t>((word ^ sign) & (count - 1));
  }

  bool is_half, is_signed;
  std::uint32_t count, sign;
};

// Gives exact values their own words, as lattices do (codecs/integers.h).
void give_own_words(const Order& order, const BinRule& rule, std::uint32_t last, WordTables& tables) {
  const std::uint32_t count = rule.exact_count;
  const auto is_exact = [&](std::uint32_t bits) { return std::count(rule.exact, rule.exact + count, bits) != 0; };
  const int least = order.is_signed ? -static_cast<int>(order.sign) : 0;
  const int ends[] = {least, least + static_cast<int>(order.count) - 1};  // of integers
  std::uint16_t bins[kMostExact];
  bool splits[kMostExact];
  for (std::uint32_t i = 0; i < count; ++i) {
    bins[i] = tables.ranks[rule.exact[i]];
    splits[i] = tables.values[bins[i]] == rule.exact[i];
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t exact = rule.exact[i];
    const std::uint16_t own = order.rank_of(last + 1 + i), bin = bins[i];
    const std::uint16_t code = exact == 0 ? bin : own;
    if (splits[i]) {
      const int at = order.ordinal_of(exact);
      const std::uint16_t sides[] = {exact == 0 ? own : bin, order.rank_of(last + 1 + count + i)};
      for (std::uint32_t bits = 0; bits < order.count; ++bits) {
        if (tables.ranks[bits] != bin) continue;
        const int ordinal = order.ordinal_of(bits);
        if (ordinal != at) tables.ranks[bits] = sides[ordinal > at ? 1 : 0];
      }
      for (int side = 0; side < 2; ++side) {
        int beside = at;
        while (is_exact(order.bits_of(beside)) && (order.is_half || beside != ends[side])) beside += 2 * side - 1;
        if (!is_exact(order.bits_of(beside))) tables.values[sides[side]] = order.bits_of(beside);
      }
    }
    tables.ranks[exact] = code;
    tables.values[code] = static_cast<std::uint16_t>(exact);
  }
}

bool make_tables(const BinRule& rule, MadeBins& made) {
  const Order order(rule);
  made.tables = allocate<WordTables>(1);
  if (made.tables == nullptr) return false;
  WordTables& tables = made.tables[0];
  const std::uint32_t bins = made.bins.count;
  for (std::uint32_t word = 0; word < order.count; ++word) {  // words without a value decode like the last bin
    const bool is_negative = (word & order.sign) != 0;
    const std::uint32_t bin = std::min(is_negative ? order.count - word : word, bins - 1);
    const int middle = static_cast<int>(made.middle[bin]);
    tables.values[order.rank_of(word)] = order.bits_of(is_negative ? -middle : middle);
  }
  const std::uint32_t positive = order.is_signed ? order.sign : order.count;
  for (std::uint32_t magnitude = 0, bin = 0; magnitude <= positive; ++magnitude) {
    if (bin + 1 < bins && made.first[bin + 1] == magnitude) ++bin;
    if (magnitude < positive) tables.ranks[magnitude] = order.rank_of(bin);
    if (!order.is_signed || (order.is_half && magnitude == positive)) continue;
    const std::uint32_t negative = order.is_half ? magnitude | order.sign : (order.count - magnitude) % order.count;
    tables.ranks[negative] = order.rank_of(0u - bin);
  }
  made.last = order.rank_of(tables.ranks[order.bits_of(static_cast<int>(order.count) - 1)]);  // the inverse of itself
  give_own_words(order, rule, made.last, tables);
  made.first.reset();
  made.middle.reset();
  return true;
}

bool make_list(const BinRule& rule, MadeBins& made) {
  const std::uint32_t bins = made.bins.count;
  made.starts = allocate<std::uint32_t>(scalar::kBinKeys + 2);
  if (made.starts == nullptr) return false;
  std::fill_n(made.starts.get(), scalar::kBinKeys + 2, bins - 1);
  for (std::uint32_t bin = bins; bin-- > 0;) {
    // All keys from that of the bin's first value up to the next bin's belong to this bin, except its own key.
    const std::uint32_t key = scalar::bin_key(made.first[bin]);
    const std::uint32_t end = bin + 1 < bins ? scalar::bin_key(made.first[bin + 1]) : scalar::kBinKeys + 1;
    for (std::uint32_t k = key + 1; k <= end; ++k) made.starts[k] = bin;
  }
  made.starts[0] = 0;
  made.bins = {bins, made.first.get(), made.middle.get(), made.starts.get()};
  const bool is_signed = rule.value_class == H5L_CLASS_SIGNED;
  made.last = scalar::find_bin(made.bins, is_signed ? 0x7FFFFFFFu : 0xFFFFFFFFu);
  return true;
}

}  // namespace

double half_value(std::uint32_t value_class, std::uint32_t bits) {
  const auto [m, bias] = format_of(value_class);
  const std::uint64_t exponent = bits >> m, mantissa = bits & ((1u << m) - 1);
  if (exponent == 0) {
    const auto unit = std::bit_cast<double>(static_cast<std::uint64_t>(1023 + 1 - bias - static_cast<int>(m)) << 52);
    return static_cast<double>(mantissa) * unit;
  }
  return std::bit_cast<double>((exponent + static_cast<std::uint64_t>(1023 - bias)) << 52 | mantissa << (52 - m));
}

bool make_bins(const BinRule& rule, MadeBins& made) {
  const bool is_cut = rule.kind == BoundKind::noise ? cut(NoiseErrors(rule), made) : cut(HalfErrors(rule), made);
  return is_cut && (rule.value_bytes == 4 ? make_list(rule, made) : make_tables(rule, made));
}

BinRule rule_of(std::uint32_t value_class, std::uint32_t value_bytes, const Quantizer& quantizer) {
  BinRule rule = {.value_class = value_class, .value_bytes = value_bytes, .kind = quantizer.kind};
  if (rule.kind == BoundKind::noise) {
    rule.floor = static_cast<std::uint32_t>(quantizer.scale);
    rule.noise = quantizer.noise;
  } else {
    rule.bound = quantizer.bound;
    if (rule.kind == BoundKind::range_relative) rule.kind = BoundKind::absolute;
  }
  if (value_bytes <= 2) {  // for larger types, lattices take them out
    rule.exact_count = quantizer.exact_count;
    for (std::uint32_t i = 0; i < kMostExact; ++i) rule.exact[i] = static_cast<std::uint32_t>(quantizer.exact[i]);
  }
  return rule;
}

bool add_bins(std::uint32_t value_class, std::uint32_t value_bytes, Quantizer& quantizer, KeptBins& kept) {
  const bool has_bins =
      is_half(value_class) ? quantizer.kind != BoundKind::lossless : quantizer.kind == BoundKind::noise;
  if (!has_bins) return true;
  const MadeBins* const made = bins_of(rule_of(value_class, value_bytes, quantizer), kept);
  if (made == nullptr) return false;
  quantizer.tables = made->tables.get();
  quantizer.bins = quantizer.tables == nullptr ? &made->bins : nullptr;
  return true;
}

}  // namespace h5lossy
