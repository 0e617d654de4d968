// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Values on Interp's lattice (docs/design/interp-encoder.md, "What a value is"), compiled for one backend: positions,
// bins, patches and the check of closed forms equal a naive reading of the page for hostile values, in pieces of any
// size and alignment. The decoded values hold the bound in exact arithmetic, are never the fill value, and values that
// were decoded before come back bit for bit.

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "check.h"
#include "codecs/interp/bins.h"
#include "codecs/interp/choice.h"
#include "codecs/interp/exceptions.h"
#include "for_backend.h"
#include "guarded_memory.h"
#include "random.h"
#include "values.h"

namespace h5lossy::test {
namespace {

namespace blocks = H5L_TARGET::blocks;
namespace interp = H5L_TARGET::interp;
using interp::kNone;
using interp::Lattice;
using interp::Patch;

template <class T>
using IntOf = interp::Int<T>;

template <class T>
Lattice<T> make_lattice(double bound, bool has_fill = false, Bits<T> fill = 0) {
  const T narrow = H5L_TARGET::narrow_bound<T>(bound);
  const T half_step = narrow * (static_cast<T>(4057) / 4096);
  Quantizer quantizer;
  quantizer.bound = static_cast<double>(narrow);
  quantizer.step = static_cast<double>(2 * half_step);
  quantizer.inverse_step = static_cast<double>(T{1} / (2 * half_step));
  quantizer.has_fill = has_fill;
  quantizer.fill_bits = fill;
  return interp::lattice_of<T>(quantizer);
}

template <class T>
T with_unit(std::int64_t integer, T unit) {
  return static_cast<T>(integer) * unit + T{0};
}

// One value, as the page says it.
struct Naive {
  bool has_fine = false, has_bin = false, is_kept = false, is_fixed = false;
  std::int64_t position = 0, fine = 0, bin = 0;

  [[nodiscard]] bool is_beside_bin() const { return is_kept && fine % 16 != 0; }
};

std::int64_t floor_shift(std::int64_t number, int bits) {
  return static_cast<std::int64_t>(std::floor(std::ldexp(static_cast<double>(number), -bits)));
}

// The smallest grade for which a number, in 64ths of a fine point, is below 2^(21 + grade).
template <class T>
int grade_of(std::int64_t number) {
  int grade = 0;
  while (sizeof(T) == 4 && grade < 3 && std::abs(number) >> (21 + grade) != 0) ++grade;
  return grade;
}

template <class T>
bool passes(const Lattice<T>& l, T x, T rebuilt) {
  return std::abs(x - rebuilt) < l.bound && !(l.has_fill && std::bit_cast<Bits<T>>(rebuilt) == l.fill_bits);
}

template <class T>
Naive naive(const Lattice<T>& l, Bits<T> bits) {
  Naive value;
  if (!is_finite<T>(bits) || (l.has_fill && bits == l.fill_bits) || bits == l.mask_bits) return value;
  const T x = std::bit_cast<T>(bits), t = x * l.inverse_fine, s = x * l.inverse_step;
  constexpr std::int64_t limit = interp::kFineLimit<T>;
  if (std::abs(t) < static_cast<T>(limit + 1)) {
    value.position = static_cast<std::int64_t>(std::nearbyint(64 * t));
    const int grade = grade_of<T>(value.position);
    value.fine = floor_shift(value.position + (32 << grade), 6 + grade) * (1 << grade);
    value.has_fine = std::abs(value.fine) <= limit && passes(l, x, with_unit(value.fine, l.fine));
  }
  value.is_kept = value.has_fine && x == with_unit(value.fine, l.fine);
  if (value.has_fine) {
    const double largest = static_cast<double>(std::numeric_limits<T>::max() - 16 * l.fine);
    const bool is_at_limit = std::abs(static_cast<double>(with_unit(value.fine, l.fine))) >
                             std::min(static_cast<double>(static_cast<T>(limit - 8) * l.fine), largest);
    bool is_near_fill = false;
    if (l.has_fill && is_finite<T>(l.fill_bits)) {
      const T fill = std::bit_cast<T>(l.fill_bits) * l.inverse_fine;
      is_near_fill = std::abs(fill) < static_cast<T>(limit + 16) &&
                     std::abs(value.position - static_cast<std::int64_t>(std::nearbyint(64 * fill))) <= 9 * 64;
    }
    value.is_fixed = value.is_kept;
    value.position = value.is_kept ? 64 * value.fine : value.position | 1;
    if (!value.is_kept && (is_at_limit || is_near_fill)) value.has_fine = false;
  }
  if (value.has_fine) {
    value.bin = floor_shift(value.position + 512, 10);
    value.has_bin = passes(l, x, with_unit(value.bin, l.step));
  } else if (std::abs(s) < std::ldexp(T{1}, kMantissa<T> - 2)) {
    value.bin = static_cast<std::int64_t>(std::nearbyint(s));
    value.has_bin = passes(l, x, with_unit(value.bin, l.step));
    if (!value.has_bin) {
      value.bin += x < with_unit(value.bin, l.step) ? -1 : 1;
      value.has_bin = passes(l, x, with_unit(value.bin, l.step));
    }
    value.has_bin = value.has_bin && std::abs(value.bin) < std::int64_t{1} << (kMantissa<T> - 2);
  }
  return value;
}

template <class T>
class Tile {
 public:
  Tile(Random& random, const Lattice<T>& lattice, const GuardedMemory& memory, std::string name)
      : random_(random), l_(lattice), memory_(memory), name_(std::move(name)) {}

  void check(const std::vector<Bits<T>>& values) {
    count_ = static_cast<u32>(values.size());
    bits_ = values;
    const bool is_masked = count_ != 0 && random_.one_in(3);
    l_.mask_bits = is_masked ? values[random_.below(count_)] : interp::kNoMask<T>;
    naive_.clear();
    for (const Bits<T> bits : values) naive_.push_back(naive(l_, bits));
    // A guard page right behind the values, or an odd address.
    const std::size_t bytes = count_ * sizeof(T);
    const std::span<std::uint8_t> place =
        random_.one_in(2) ? memory_.at_end(bytes) : memory_.at_front(bytes + 1).subspan(1);
    if (bytes != 0) std::memcpy(place.data(), values.data(), bytes);
    values_ = place.data();

    check_positions();
    check_bins<IntOf<T>>(0);
    const std::int64_t base = check_first_bin();
    check_bins<IntOf<T>>(base);
    check_bins<i32>(base);
    if (count_ != 0) {  // around the limit of narrow tiles
      const std::int64_t far = naive_[random_.below(count_)].bin + (random_.one_in(2) ? 1 << 22 : -(1 << 22));
      check_bins<i32>(far + random_.between(-1, 1));
    }
    check_constant();
    check_closed();
  }

 private:
  // Calls part(first, count) for pieces of the tile.
  template <class Part>
  void in_pieces(Part part) {
    for (u32 first = 0; first < count_;) {
      const u32 left = count_ - first;
      const u32 n = random_.one_in(2) ? left : std::min<u32>(left, 1 + static_cast<u32>(random_.below(100)));
      part(first, n);
      first += n;
    }
  }

  void check_positions() {
    positions_.assign(count_, 7);
    interp::Summary found, expected;
    in_pieces([&](u32 first, u32 n) {
      interp::classify(l_, values_ + first * sizeof(T), n, positions_.data() + first, found);
    });
    std::vector<i32> fine(count_);
    interp::fine_points<T>(positions_.data(), count_, 5, fine.data());
    for (u32 i = 0; i < count_; ++i) {
      const Naive& value = naive_[i];
      const i32 position = value.has_fine ? static_cast<i32>(value.position) : kNone<i32>;
      CHECK(positions_[i] == position, "%s, value %a: %d, expected %d", name(), x(i), positions_[i], position);
      CHECK(fine[i] == (value.has_fine ? value.fine - 5 : kNone<i32>), "%s, value %a", name(), x(i));
      expected.exceptions += !value.has_fine && !value.has_bin ? 1 : 0;
      expected.without_fine += !value.has_fine && value.has_bin ? 1 : 0;
      expected.beside_bins += value.is_beside_bin() ? 1 : 0;
      // What the encoder takes for granted.
      CHECK(!value.is_kept || value.position == 64 * value.fine, "%s, value %a", name(), x(i));
      if (value.has_fine && !l_.has_fill && std::isfinite(with_unit(value.bin, l_.step))) {
        CHECK(value.has_bin, "%s, value %a", name(), x(i));
      }
      if (value.is_kept) CHECK(std::abs(value.fine - 16 * value.bin) <= 8, "%s, value %a", name(), x(i));
    }
    CHECK(found.exceptions == expected.exceptions && found.without_fine == expected.without_fine &&
              found.beside_bins == expected.beside_bins,
          "%s: %u, %u and %u values; expected %u, %u and %u", name(), found.exceptions, found.without_fine,
          found.beside_bins, expected.exceptions, expected.without_fine, expected.beside_bins);
  }

  std::int64_t check_first_bin() {
    const auto first = std::find_if(naive_.begin(), naive_.end(), [](const Naive& value) { return value.has_bin; });
    const std::int64_t expected = first == naive_.end() ? 0 : first->bin;
    const std::int64_t base = interp::first_bin(l_, values_, positions_.data(), count_);
    CHECK(base == expected, "%s: %" PRId64 ", expected %" PRId64, name(), base, expected);
    const auto fine = std::find_if(naive_.begin(), naive_.end(), [](const Naive& value) { return value.has_fine; });
    CHECK(interp::first_fine_point<T>(positions_.data(), count_) == (fine == naive_.end() ? 0 : fine->fine), "%s",
          name());
    return base;
  }

  void check_constant() {
    interp::Summary summary;
    interp::classify(l_, values_, count_, positions_.data(), summary);
    bool all_exceptions = count_ > 1, all_in_bin = count_ > 1;
    Bits<T> expected = 0;
    for (u32 i = 0; i < count_; ++i) {
      const Naive& value = naive_[i];
      all_exceptions &= !value.has_fine && !value.has_bin && bits_[i] == bits_[0];
      all_in_bin &= value.has_bin && value.bin == naive_[0].bin && !value.is_beside_bin();
    }
    if (all_exceptions) expected = bits_[0];
    if (all_in_bin) expected = std::bit_cast<Bits<T>>(with_unit(naive_[0].bin, l_.step));
    H5L_TARGET::Word<T> bits = 0;
    const bool is_constant = interp::find_constant<T>(l_, values_, values_, positions_.data(), count_,
                                                      summary.exceptions, summary.beside_bins, bits);
    CHECK(is_constant == (all_exceptions || all_in_bin), "%s", name());
    CHECK(!is_constant || bits == expected, "%s", name());
  }

  template <class I>
  void check_bins(std::int64_t base) {
    std::vector<I> bins(count_, 7);
    interp::BinSummary found;
    in_pieces([&](u32 first, u32 n) {
      interp::find_bins(l_, values_ + first * sizeof(T), positions_.data() + first, n, base, bins.data() + first,
                        found);
    });
    u32 exceptions = 0;
    bool is_narrow = true;
    std::vector<Patch> expected_patches;
    for (u32 i = 0; i < count_; ++i) {
      const Naive& value = naive_[i];
      exceptions += value.has_bin ? 0 : 1;
      is_narrow &= !value.has_bin || std::abs(value.bin - base) < 1 << 22;
      if (value.has_bin && value.is_beside_bin())
        expected_patches.push_back({static_cast<u16>(i), static_cast<interp::i8>(value.fine - 16 * value.bin)});
    }
    CHECK(found.exceptions == exceptions, "%s: %u exceptions, expected %u", name(), found.exceptions, exceptions);
    CHECK(found.is_narrow == is_narrow, "%s: base %" PRId64, name(), base);
    if (sizeof(I) < sizeof(T) && !is_narrow) return;
    for (u32 i = 0; i < count_; ++i) {
      const std::int64_t bin = naive_[i].has_bin ? naive_[i].bin - base : kNone<I>;
      CHECK(bins[i] == bin, "%s, value %a: %" PRId64 ", expected %" PRId64, name(), x(i),
            static_cast<std::int64_t>(bins[i]), bin);
    }
    check_placed(bins, base, found);
    std::vector<Patch> memory(count_);
    interp::Patches patches{memory.data(), count_};
    in_pieces([&](u32 first, u32 n) {
      std::vector<u32> mask(interp::mask_words(n));
      interp::find_exceptions(bins.data() + first, n, mask.data());
      CHECK(interp::patch_bins(l_, values_ + first * sizeof(T), positions_.data() + first,
                               found.exceptions != 0 ? mask.data() : nullptr, first, n, patches),
            "%s", name());
    });
    check_patches(patches, expected_patches);
    check_decoded(bins, base, false, patches);
    if (patches.count == 0) return;
    patches = {memory.data(), patches.count - 1};
    std::vector<u32> mask(interp::mask_words(count_));
    interp::find_exceptions(bins.data(), count_, mask.data());
    CHECK(!interp::patch_bins(l_, values_, positions_.data(), mask.data(), 0, count_, patches), "%s", name());
  }

  template <class I>
  void check_placed(std::vector<I> bins, std::int64_t base, const interp::BinSummary& found) {
    std::vector<I> expected = bins;
    u32 placed = 0;
    for (u32 i = 0; i < count_; ++i) {
      const T s = std::bit_cast<T>(bits_[i]) * l_.inverse_step;
      if (naive_[i].has_bin || (l_.has_fill && bits_[i] == l_.fill_bits) || bits_[i] == l_.mask_bits) continue;
      if (!(std::abs(s) < std::ldexp(T{1}, std::numeric_limits<T>::digits - 3))) continue;
      ++placed;
      const std::int64_t bin = static_cast<std::int64_t>(std::nearbyint(s)) - base;
      if (i != 0 && (!found.is_narrow || std::abs(bin) < 1 << 22)) expected[i] = static_cast<I>(bin);
    }
    CHECK(found.placed == placed, "%s: %u nearest bins, expected %u", name(), found.placed, placed);
    interp::place_exceptions(l_, values_, count_, base, found.is_narrow, bins.data());
    CHECK(bins == expected, "%s: other nearest bins", name());
  }

  void check_patches(const interp::Patches& patches, const std::vector<Patch>& expected) {
    CHECK(patches.count == expected.size(), "%s: %u patches, expected %zu", name(), patches.count, expected.size());
    for (u32 i = 0; i < patches.count; ++i) {
      CHECK(patches.at[i].place == expected[i].place && patches.at[i].delta == expected[i].delta,
            "%s: patch %d of value %u, expected %d of value %u", name(), patches.at[i].delta, patches.at[i].place,
            expected[i].delta, expected[i].place);
    }
  }

  // Decodes, patches through a section, and checks the promise for values that are no exceptions.
  template <class I>
  void check_decoded(const std::vector<I>& integers, std::int64_t base, bool is_fine, const interp::Patches& patches) {
    const std::size_t bytes = count_ * sizeof(T);
    std::vector<std::uint8_t> decoded(bytes + 1);
    std::uint8_t* const to = decoded.data() + random_.below(2);
    in_pieces([&](u32 first, u32 n) {
      interp::to_values(l_, integers.data() + first, n, base, is_fine, to + first * sizeof(T));
    });
    for (u32 i = 0; i < count_; ++i) {
      if (integers[i] == kNone<I>) continue;
      const std::int64_t integer = static_cast<std::int64_t>(integers[i]) + base;
      const T expected = with_unit(integer, is_fine ? l_.fine : l_.step);
      CHECK(std::memcmp(to + i * sizeof(T), &expected, sizeof(T)) == 0, "%s, integer %" PRId64, name(), integer);
    }
    const u32 entries = interp::measure_patches(patches);
    std::vector<std::uint8_t> section(interp::patches_bytes(entries));
    CHECK(interp::write_patches(patches, section.data()) == section.data() + section.size(), "%s", name());
    CHECK(interp::read_patches(section.data(), section.data() + section.size(), entries, count_) ==
              section.data() + section.size(),
          "%s", name());
    if (!is_fine) interp::restore_patches(l_, section.data(), entries, integers.data(), base, to);

    for (u32 i = 0; i < count_; ++i) {
      if (integers[i] == kNone<I> || (is_fine ? !naive_[i].has_fine : !naive_[i].has_bin)) continue;
      Bits<T> bits;
      std::memcpy(&bits, to + i * sizeof(T), sizeof(T));
      const T y = std::bit_cast<T>(bits);
      CHECK(differ_by_at_most(x(i), static_cast<double>(y), static_cast<double>(l_.bound)), "%s, value %a became %a",
            name(), x(i), static_cast<double>(y));
      CHECK(!l_.has_fill || bits != l_.fill_bits, "%s, value %a became the fill value", name(), x(i));
      if (!naive_[i].is_kept) continue;
      CHECK(std::bit_cast<T>(bits_[i]) == y && bits != kSign<T>, "%s, value %a was not kept", name(), x(i));
    }
  }

  // Closed forms with predictions of all kinds: whole steps keep the bound, and patches keep what has to be kept.
  void check_closed() {
    constexpr std::int64_t limit = interp::kFineLimit<T>;
    const auto beyond = [](const Naive& value, int grade) {
      return value.has_fine && sizeof(T) == 4 && std::abs(value.position) + 512 >= std::int64_t{1} << (21 + grade);
    };
    int grade = 0;
    while (grade < 3 &&
           std::count_if(
               naive_.begin(), naive_.end(), [&](const Naive& value) { return beyond(value, grade); }) > count_ / 128) {
      ++grade;
    }
    CHECK(static_cast<int>(interp::closed_grade<T>(positions_.data(), count_)) == grade, "%s", name());
    const std::int64_t distance = 1 << grade;
    std::vector<i32> distances(count_), predictions(count_), integers(count_, kNone<i32>);
    for (u32 i = 0; i < count_; ++i) {
      const Naive& value = naive_[i];
      if (!value.has_fine || (grade < 3 && beyond(value, grade))) continue;
      const std::int64_t prediction = random_.between(-limit / distance, limit / distance) * distance;
      const std::int64_t steps = floor_shift(value.position - 64 * prediction + 512, 10);
      const std::int64_t q = value.is_fixed ? value.fine : prediction + 16 * steps;
      CHECK(std::abs(q) <= limit && std::abs(64 * q - value.position) <= 512, "%s, value %a", name(), x(i));
      CHECK(q % (1 << grade_of<T>(64 * q)) == 0, "%s, value %a became number %" PRId64, name(), x(i), q);
      predictions[i] = static_cast<i32>(prediction);
      distances[i] = static_cast<i32>(q - prediction);
      integers[i] = static_cast<i32>(q);
    }
    check_decoded(integers, 0, true, {});
    std::vector<i32> codes = distances;
    std::vector<Patch> memory(count_);
    interp::Patches patches{memory.data(), count_};
    CHECK(interp::split_steps(codes.data(), 0, count_, interp::kUnitBits, patches), "%s", name());
    for (i32& code : codes) code *= 16;
    const u32 entries = interp::measure_patches(patches);
    std::vector<std::uint8_t> section(interp::patches_bytes(entries));
    interp::write_patches(patches, section.data());
    for (u32 i = 0; i < count_; ++i) {
      CHECK(naive_[i].is_fixed || codes[i] == distances[i], "%s, value %a has a patch", name(), x(i));
    }
    interp::patch_steps(section.data(), entries, codes.data());
    CHECK(codes == distances, "%s", name());
    if (patches.count == 0) return;
    patches = {memory.data(), patches.count - 1};
    codes = distances;
    CHECK(!interp::split_steps(codes.data(), 0, count_, interp::kUnitBits, patches), "%s", name());
  }

  [[nodiscard]] const char* name() const { return name_.c_str(); }
  [[nodiscard]] double x(u32 i) const { return static_cast<double>(std::bit_cast<T>(bits_[i])); }

  Random& random_;
  Lattice<T> l_;
  const GuardedMemory& memory_;
  std::string name_;
  u32 count_ = 0;
  std::vector<Bits<T>> bits_;
  std::vector<Naive> naive_;
  const u8* values_ = nullptr;
  std::vector<i32> positions_;
};

// Numbers at and around the lattice's borders.
template <class T>
Bits<T> on_lattice(Random& random, const Lattice<T>& l) {
  constexpr std::int64_t limit = interp::kFineLimit<T>, bins = std::int64_t{1} << (kMantissa<T> - 2);
  std::int64_t fine = random.between(-limit - 40, limit + 40), bin = random.between(-bins - 8, bins + 8);
  if (random.one_in(3)) fine = (random.one_in(2) ? limit : -limit) + random.between(-18, 18);
  if (random.one_in(3)) fine = random.between(-40, 40);
  if (random.one_in(4)) fine = (1 << random.between(13, 18)) * (random.one_in(2) ? 1 : -1) + random.between(-18, 18);
  if (random.one_in(3)) bin = (random.one_in(2) ? bins : -bins) + random.between(-4, 4);
  if (random.one_in(3)) bin = random.between(-limit / 8, limit / 8);
  T x = T{0};
  switch (random.below(8)) {
    case 0:
      x = with_unit(fine, l.fine);
      break;
    case 7: {
      constexpr T largest = std::numeric_limits<T>::max();
      x = largest -
          std::fmin(largest / 2, static_cast<T>(random.fraction()) * l.step / static_cast<T>(1 << random.below(8)));
      break;
    }
    case 1:  // between two fine points
      x = (static_cast<T>(fine) + static_cast<T>(0.5)) * l.fine;
      break;
    case 2:  // between two positions, which decides if it is close to the border of two fine points
      x = (static_cast<T>(fine) + (static_cast<T>(random.between(-35, -29)) + static_cast<T>(0.5)) / 64) * l.fine;
      break;
    case 3:
      x = with_unit(bin, l.step);
      break;
    case 4:  // between two bins
      x = (static_cast<T>(bin) + static_cast<T>(0.5)) * l.step;
      break;
    case 5:
      x = with_unit(fine, l.fine) + l.bound;
      break;
    default:
      x = random.one_in(2) ? l.bound : -l.bound;
  }
  const Bits<T> bits = std::bit_cast<Bits<T>>(x);
  return random.one_in(2) ? bits : static_cast<Bits<T>>(bits + static_cast<Bits<T>>(random.between(-3, 3)));
}

template <class T>
std::vector<double> bounds() {
  const double smallest = std::ldexp(1.0, sizeof(T) == 4 ? -121 : -1017);
  // Of some of these, the bins and fine points next to the largest numbers are infinite.
  const double largest = static_cast<double>(std::numeric_limits<T>::max());
  return {1e-3,
          0.5,
          1.5,
          1.0 / 3,
          smallest,
          1.37 * smallest,
          largest / 9.25,
          largest / 41.05,
          largest / 9100,
          std::numeric_limits<double>::max(),
          7e5};
}

template <class T>
void check_hostile(Random& random) {
  const GuardedMemory memory(21000);
  for (const double bound : bounds<T>()) {
    for (int i = 0; i < 400; ++i) {
      const Setting setting = {H5L_BOUND_ABSOLUTE, bound};
      const std::uint64_t hostile_one_in[] = {0, 300, 10, 1}, lattice_one_in[] = {0, 100, 3, 1};
      const std::uint64_t hostile = hostile_one_in[random.below(4)], on_it = lattice_one_in[random.below(4)];
      Values<T> source(random, setting, hostile);
      const Lattice<T> plain = make_lattice<T>(bound);
      std::vector<Bits<T>> values = source.make(random.below(random.one_in(4) ? 2500 : 200));
      for (Bits<T>& bits : values) {
        if (on_it != 0 && random.one_in(on_it)) bits = on_lattice(random, plain);
      }
      if (random.one_in(6)) {
        std::fill(values.begin(), values.end(), random.one_in(3) ? source.hostile() : on_lattice(random, plain));
        if (!values.empty() && random.one_in(3)) values[random.below(values.size())] ^= 1;
      }
      const Bits<T> fills[] = {0, kSign<T>, static_cast<Bits<T>>(~Bits<T>{0}), on_lattice(random, plain),
                               values.empty() ? Bits<T>{0} : values[random.below(values.size())]};
      const Bits<T> fill = fills[random.below(std::size(fills))];
      const bool has_fill = random.one_in(2);
      const std::string name = "bound " + std::to_string(bound) + (has_fill ? " fill" : "");
      Tile<T>(random, make_lattice<T>(bound, has_fill, fill), memory, name).check(values);
    }
  }
}

// Every fine point, and many bins, of many lattices come back: docs/design/bound.md, "nothing drifts".
template <class T>
void check_that_nothing_drifts(Random& random) {
  constexpr std::int64_t limit = interp::kFineLimit<T>, bins = std::int64_t{1} << (kMantissa<T> - 2);
  std::vector<T> values;
  std::vector<i32> positions;
  std::vector<IntOf<T>> found;
  for (int i = 0; i < 300; ++i) {
    const int exponent = static_cast<int>(sizeof(T) == 4 ? random.between(-120, 122) : random.between(-1016, 1018));
    const Lattice<T> l = make_lattice<T>(std::ldexp(1 + random.fraction(), i % 3 == 0 ? -1 : exponent));
    values.clear();
    for (std::int64_t fine = -limit; fine <= limit; fine += sizeof(T) == 4 ? 1 : random.between(1, 100)) {
      if (fine % (1 << grade_of<T>(64 * fine)) != 0) continue;
      if (std::isfinite(with_unit(fine, l.fine))) values.push_back(with_unit(fine, l.fine));
    }
    positions.resize(values.size());
    interp::Summary summary;
    interp::classify(l, reinterpret_cast<const u8*>(values.data()), static_cast<u32>(values.size()), positions.data(),
                     summary);
    CHECK(summary.exceptions == 0 && summary.without_fine == 0, "bound %a", static_cast<double>(l.bound));
    for (std::size_t v = 0; v < values.size(); ++v) {
      CHECK(positions[v] % 64 == 0 && with_unit(positions[v] / 64, l.fine) == values[v], "bound %a, value %a",
            static_cast<double>(l.bound), static_cast<double>(values[v]));
    }

    values.clear();
    std::vector<std::int64_t> expected;
    for (int b = 0; b < 5000; ++b) {
      const std::int64_t bin = random.between(1 - bins, bins - 1) >> random.below(kMantissa<T> - 2);
      if (!std::isfinite(with_unit(bin, l.step))) continue;
      expected.push_back(bin);
      values.push_back(with_unit(bin, l.step));
    }
    positions.resize(values.size());
    found.resize(values.size());
    const u32 count = static_cast<u32>(values.size());
    interp::classify(l, reinterpret_cast<const u8*>(values.data()), count, positions.data(), summary);
    interp::BinSummary of_bins;
    interp::find_bins(l, reinterpret_cast<const u8*>(values.data()), positions.data(), count, 0, found.data(), of_bins);
    for (std::size_t v = 0; v < values.size(); ++v) {
      CHECK(found[v] == expected[v], "bound %a, bin %" PRId64 " became %" PRId64, static_cast<double>(l.bound),
            expected[v], static_cast<std::int64_t>(found[v]));
    }
  }
}

// Integers of corrupt payloads wrap.
template <class T, class I>
void check_any_integers(Random& random) {
  using Word = Bits<T>;
  const Lattice<T> l = make_lattice<T>(1e-3);
  std::vector<I> integers(200);
  std::vector<T> values(200);
  for (int i = 0; i < 200; ++i) {
    const int shift = static_cast<int>(random.below(64));
    const auto base = static_cast<std::int64_t>(random.next()) >> random.below(64);
    for (I& integer : integers) integer = static_cast<I>(static_cast<std::int64_t>(random.next()) >> shift);
    const bool is_fine = random.one_in(2);
    interp::to_values(l, integers.data(), 200, base, is_fine, reinterpret_cast<u8*>(values.data()));
    for (u32 v = 0; v < 200; ++v) {
      const Word sum = static_cast<Word>(static_cast<Word>(integers[v]) + static_cast<Word>(base));
      const T expected = static_cast<T>(static_cast<IntOf<T>>(sum)) * (is_fine ? l.fine : l.step) + T{0};
      CHECK(std::memcmp(&values[v], &expected, sizeof(T)) == 0, "%a, expected %a", static_cast<double>(values[v]),
            static_cast<double>(expected));
    }
    // One patch at the first value.
    const u8 section[4] = {static_cast<u8>(random.below(16)), 0, 0, 0};
    const int delta = section[0] < 8 ? section[0] - 8 : section[0] - 7;
    interp::restore_patches(l, section, 1, integers.data(), base, reinterpret_cast<u8*>(values.data()));
    const Word sum = static_cast<Word>(static_cast<Word>(integers[0]) + static_cast<Word>(base));
    const Word patched = static_cast<Word>(static_cast<Word>(sum * 16) + static_cast<Word>(delta));
    const T expected = static_cast<T>(static_cast<IntOf<T>>(patched)) * l.fine + T{0};
    CHECK(std::memcmp(values.data(), &expected, sizeof(T)) == 0, "%a, expected %a", static_cast<double>(values[0]),
          static_cast<double>(expected));
  }
}

template <class T, class I>
void check_pointwise(Random& random) {
  using W = H5L_TARGET::Word<T>;
  for (const Setting& setting : settings<T>()) {
    if (setting.kind != H5L_BOUND_POINTWISE_RELATIVE) continue;
    for (int i = 0; i < 200; ++i) {
      Values<T> source(random, setting, random.one_in(2) ? 0 : 1 + random.below(50));
      std::vector<Bits<T>> values = source.make(random.below(200));
      if (random.one_in(5)) std::fill(values.begin(), values.end(), source.hostile());
      Quantizer quantizer;
      quantizer.has_fill = random.one_in(2);
      quantizer.fill_bits = values.empty() || random.one_in(2) ? 0 : values[random.below(values.size())];
      quantizer = H5L_TARGET::make_pointwise<T>(quantizer, setting.bound);
      if (quantizer.kind == BoundKind::lossless) continue;
      const auto q = blocks::folded_quantizer<T>(quantizer);
      const auto* const bytes = reinterpret_cast<const u8*>(values.data());
      const u32 count = static_cast<u32>(values.size());
      const std::int64_t base = random.one_in(2) ? interp::first_bin(q, bytes, nullptr, count) : 0;
      std::vector<I> bins(count);
      interp::BinSummary found, expected;
      interp::find_bins(q, bytes, nullptr, count, base, bins.data(), found);
      std::vector<W> decoded(count);
      interp::to_values(q, bins.data(), count, base, false, reinterpret_cast<u8*>(decoded.data()));
      for (u32 v = 0; v < count; ++v) {
        W bin = 0;
        if (!blocks::bin_of(q, values[v], bin)) {
          ++expected.exceptions;
          CHECK(bins[v] == kNone<I>, "bound %g, value %u", setting.bound, v);
          continue;
        }
        const std::int64_t difference = static_cast<std::int64_t>(static_cast<IntOf<T>>(bin)) - base;
        expected.is_narrow &= std::abs(difference) < 1 << 22;
        if (sizeof(I) < sizeof(T) && std::abs(difference) >= 1 << 22) continue;
        CHECK(bins[v] == difference, "bound %g, value %u", setting.bound, v);
        CHECK(decoded[v] == blocks::bits_of(q, bin), "bound %g, value %u", setting.bound, v);
      }
      const bool is_constant =
          count > 1 && expected.exceptions % count == 0 &&
          (expected.exceptions == 0
               ? std::all_of(bins.begin(), bins.end(), [&](I bin) { return bin == bins[0]; })
               : std::all_of(values.begin(), values.end(), [&](Bits<T> bits) { return bits == values[0]; }));
      W bits = 0;
      if (found.is_narrow || sizeof(I) == sizeof(T)) {
        CHECK(interp::find_constant<T>(q, bytes, bytes, nullptr, count, found.exceptions, 0, bits) == is_constant,
              "bound %g", setting.bound);
        CHECK(!is_constant || bits == (expected.exceptions == 0 ? decoded[0] : values[0]), "bound %g", setting.bound);
      }
      CHECK(found.exceptions == expected.exceptions && found.is_narrow == expected.is_narrow, "bound %g",
            setting.bound);
    }
  }
}

template <class T>
void check_all(Random& random) {
  check_hostile<T>(random);
  check_that_nothing_drifts<T>(random);
  check_any_integers<T, i32>(random);
  check_any_integers<T, IntOf<T>>(random);
  check_pointwise<T, i32>(random);
  check_pointwise<T, IntOf<T>>(random);
}

}  // namespace

void check_backend() {
  Random random(23);
  check_all<float>(random);
  check_all<double>(random);
}

}  // namespace h5lossy::test
