// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The small numbers of the block codecs are those of docs/format/, and their inverses restore them: differences with
// the sign last, widths, masks by value and by position, folded bins, and cuSZp2's codes and modes; all other codes and
// modes are refused.

#include <bit>
#include <cinttypes>
#include <limits>

#include "check.h"
#include "codecs/blocks.h"
#include "codecs/bounds.h"
#include "codecs/cuszp2.h"
#include "random.h"
#include "values.h"

namespace h5lossy::test {
namespace {

namespace blocks = scalar::blocks;
namespace cuszp2 = scalar::cuszp2;

template <class W>
inline constexpr W kTop = static_cast<W>(W{1} << (8 * sizeof(W) - 1));

template <class W>
void check_number(W number) {
  const std::uint64_t shown = number;
  const bool negative = number >> (8 * sizeof(W) - 1) != 0;
  const W magnitude = negative ? static_cast<W>(W{0} - number) : number;
  const W folded = static_cast<W>(2 * magnitude + (negative ? 1 : 0));
  CHECK(blocks::to_sign_last(number) == folded, "0x%" PRIx64, shown);
  // The smallest number is its own magnitude, which does not fit; no difference of bins is that large.
  if (magnitude != kTop<W>) CHECK(blocks::from_sign_last(folded) == number, "0x%" PRIx64, shown);
  CHECK(blocks::width_of(number) == static_cast<u32>(std::bit_width(number)), "0x%" PRIx64, shown);
  // The least number of bytes that hold it, but at least one.
  const u32 bytes = cuszp2::first_size_of(number);
  CHECK(bytes >= 1 && (bytes == sizeof(W) || number >> (8 * bytes) == 0), "0x%" PRIx64 " in %u bytes", shown, bytes);
  CHECK(bytes == 1 || number >> (8 * (bytes - 1)) != 0, "0x%" PRIx64 " in %u bytes", shown, bytes);
}

// Bit i of `values` belongs to the i-th bit that is set in `inside`.
void check_positions(u64 inside, u64 values) {
  const u32 count = static_cast<u32>(std::popcount(inside));
  values &= blocks::first_bits(count);
  u64 expected = 0;
  for (u32 e = 0, i = 0; e < 64; ++e) {
    if ((inside >> e & 1) != 0) expected |= (values >> i++ & 1) << e;
  }
  const u64 positions = blocks::to_positions(values, inside);
  CHECK(positions == expected, "0x%llx of 0x%llx became 0x%llx", values, inside, positions);
  CHECK(blocks::to_values(positions, inside) == values, "0x%llx of 0x%llx", values, inside);
  if (values != 0) CHECK(blocks::lowest_bit(values) == static_cast<u32>(std::countr_zero(values)), "0x%llx", values);
}

// A code consists of two numbers, of which `width` is limited. `Fields` is the table of docs/format/cuszp2.md.
struct Fields {
  u32 width_bits, first_size_bits, most_first_size;
};

template <class T>
void check_codes(const Fields& fields) {
  const u32 first_size_at = fields.width_bits, outlier_at = fields.width_bits + fields.first_size_bits;
  for (const bool may_be_outlier : {false, true}) {
    for (const bool is_difference : {false, true}) {
      const u32 largest = cuszp2::max_width<T>(is_difference);
      CHECK(largest == static_cast<u32>(kMantissa<T>) - (is_difference ? 0 : 1), "largest width %u", largest);
      u32 taken = 0;
      for (u32 bits = 0; bits < 1u << (8 * cuszp2::kCodeBytes<T>); ++bits) {
        const u32 width = bits & ((1u << fields.width_bits) - 1);
        const u32 first_size = bits >> first_size_at & ((1u << fields.first_size_bits) - 1);
        const bool is_outlier = (bits >> outlier_at & 1) != 0;
        const bool others_are_zero = bits >> (outlier_at + 1) == 0 && (is_outlier || first_size == 0);
        const bool expected = others_are_zero && width <= largest &&
                              (!is_outlier || (may_be_outlier && first_size + 1 <= fields.most_first_size));
        cuszp2::Code code;
        const bool is_code = cuszp2::unpack_code<T>(bits, may_be_outlier, largest, code);
        CHECK(is_code == expected, "code 0x%x of float%zu", bits, 8 * sizeof(T));
        if (!is_code) continue;
        ++taken;
        CHECK(code.width == width && code.first_size == (is_outlier ? first_size + 1 : 0), "code 0x%x: width %u, %u",
              bits, code.width, code.first_size);
        CHECK(cuszp2::pack_code<T>(code) == bits, "code 0x%x", bits);
        const u32 planes = code.width == 0 && !is_outlier ? 0 : code.width + 1;
        CHECK(cuszp2::planes_bytes<32>(code) == 4 * planes && cuszp2::planes_bytes<64>(code) == 8 * planes,
              "code 0x%x: %u bytes", bits, cuszp2::planes_bytes<32>(code));
      }
      CHECK(taken == (largest + 1) * (may_be_outlier ? 1 + fields.most_first_size : 1), "%u codes", taken);
    }
  }
}

void check_modes() {
  u32 modes = 0;
  for (u32 byte = 0; byte < 1024; ++byte) {
    const u32 selection = byte & 3, dimensions = byte >> 4;
    const bool expected = byte < 256 && (byte & 0xC) == 0 && selection <= 2 && dimensions >= 1 && dimensions <= 3;
    cuszp2::Mode mode;
    CHECK(cuszp2::unpack_mode(byte, mode) == expected, "mode 0x%x", byte);
    if (!expected) continue;
    ++modes;
    CHECK(static_cast<u32>(mode.selection) == selection && mode.dimensions == dimensions, "mode 0x%x", byte);
    CHECK(cuszp2::pack_mode(mode) == byte, "mode 0x%x", byte);
  }
  CHECK(modes == 9, "%u modes", modes);
}

// By coordinates: along x; at the start of a row along y; at the start of a slice along z.
void check_predictions() {
  for (u32 i = 1; i < 64; ++i) {
    CHECK(cuszp2::before<1>(i) == i - 1, "position %u", i);
    const u32 y = i / 8, x = i % 8;
    CHECK(cuszp2::before<2>(i) == (x > 0 ? 8 * y + x - 1 : 8 * (y - 1)), "position %u", i);
    const u32 slice = i / 16, row = i / 4 % 4, column = i % 4;
    const u32 expected = column > 0 ? i - 1 : row > 0 ? 16 * slice + 4 * (row - 1) : 16 * (slice - 1);
    CHECK(cuszp2::before<3>(i) == expected, "position %u", i);
  }
}

// Folded bins have the order of the values, are small enough for differences, and are 0 for zeros only.
template <class T>
void check_folded(Random& random, double bound) {
  Quantizer quantizer;
  quantizer.kind = BoundKind::pointwise_relative;
  const auto q = blocks::folded_quantizer<T>(scalar::make_pointwise<T>(quantizer, bound));
  using Int = std::make_signed_t<Bits<T>>;
  Values<T> source(random, {H5L_BOUND_POINTWISE_RELATIVE, bound}, 2);
  Bits<T> last = 0;
  Int last_bin = 0;
  for (const Bits<T> bits : source.make(20000)) {
    scalar::Word<T> bin;
    if (!blocks::bin_of(q, bits, bin)) continue;
    const std::uint64_t shown = bits;
    const Int number = static_cast<Int>(bin);
    constexpr Int limit = Int{1} << (kMantissa<T> - 1);
    CHECK(number < limit && number > -limit, "0x%" PRIx64 " has bin %lld", shown, static_cast<long long>(number));
    CHECK((number == 0) == is_zero<T>(bits), "0x%" PRIx64, shown);
    const T x = std::bit_cast<T>(bits), before = std::bit_cast<T>(last);
    CHECK(x < before   ? number <= last_bin
          : x > before ? number >= last_bin
                       : number == last_bin,
          "bins of 0x%" PRIx64 " and 0x%" PRIx64, shown, std::uint64_t{last});
    scalar::Word<T> again;
    const Bits<T> decoded = blocks::bits_of(q, bin);
    CHECK(blocks::bin_of(q, decoded, again) && again == bin, "0x%" PRIx64 " comes back as 0x%" PRIx64, shown,
          std::uint64_t{decoded});
    last = bits;
    last_bin = number;
  }
}

template <class T>
void check_all(Random& random, const Fields& fields) {
  using W = scalar::Word<T>;
  for (const W middle : {W{0}, kTop<W>, static_cast<W>(kTop<W> / 2), static_cast<W>(W{1} << 8),
                         static_cast<W>(W{1} << 16), static_cast<W>(W{1} << 24)}) {
    for (W i = 0; i < 2000; ++i) check_number<W>(static_cast<W>(middle + i - 1000));
  }
  for (int i = 0; i < 100000; ++i) {
    check_number<W>(static_cast<W>(static_cast<W>(random.next()) >> random.below(8 * sizeof(W))));
  }
  check_codes<T>(fields);
  for (const Setting& setting : settings<T>()) {
    // A bound of half an ulp has no bins.
    if (setting.kind == H5L_BOUND_POINTWISE_RELATIVE && setting.bound > std::numeric_limits<T>::epsilon()) {
      check_folded<T>(random, setting.bound);
    }
  }
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  using namespace h5lossy::test;
  Random random(17);
  check_all<float>(random, {5, 2, 3});
  check_all<double>(random, {6, 3, 7});
  check_modes();
  check_predictions();
  for (int i = 0; i < 200000; ++i) {
    // All values, consecutive ones from the first on, and values with gaps of all densities.
    const std::uint64_t any = random.next(), fewer = any & random.next(), more = any | random.next();
    const std::uint64_t insides[] = {~std::uint64_t{0}, any >> random.below(64), any, fewer, more, 0};
    check_positions(insides[random.below(6)], random.next());
    check_positions((std::uint64_t{1} << random.below(64)) - 1, random.next());
  }
}
