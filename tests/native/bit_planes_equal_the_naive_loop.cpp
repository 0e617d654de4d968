// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The planes of a block (docs/format/block-codecs.md, "Bits of a block") equal those of the naive loop over bits, for
// blocks of 32 and 64 values of both types and any number of planes, and reading them restores the words. Writing
// overruns the planes by no more than documented, reading not at all.

#include <algorithm>
#include <cstring>
#include <vector>

#include "check.h"
#include "codecs/blocks.h"
#include "guarded_memory.h"
#include "random.h"

namespace h5lossy::test {
namespace {

namespace blocks = scalar::blocks;

// Plane p holds bit p of all words: of word e in bit 7 - e % 8 of byte e / 8.
template <u32 n, class W>
std::vector<u8> planes_naively(const W (&words)[n], u32 planes) {
  std::vector<u8> bytes(planes * (n / 8));
  for (u32 p = 0; p < planes; ++p) {
    for (u32 e = 0; e < n; ++e) {
      const auto bit = static_cast<u8>((words[e] >> p & 1) << (7 - e % 8));
      bytes[p * (n / 8) + e / 8] |= bit;
    }
  }
  return bytes;
}

template <u32 n, class W>
class Planes {
 public:
  // Each bit below the planes' end is set with a probability of `density` / 8; none is set above.
  void check(Random& random, u32 planes, std::uint64_t density) {
    constexpr u32 word_bits = scalar::kWordBits<W>;
    W words[n];
    for (W& word : words) {
      word = 0;
      for (u32 bit = 0; bit < word_bits; ++bit) word |= static_cast<W>(random.below(8) < density ? 1 : 0) << bit;
    }
    // The first word is used whole, with its lowest bit only (the block of an outlier), or with any subset of its bits.
    const W masks[] = {static_cast<W>(~W{0}), 1, 0, static_cast<W>(random.next())};
    const W first_mask = masks[random.below(4)];
    W expected[n];
    const W below = static_cast<W>(planes == word_bits ? ~W{0} : (W{1} << planes) - 1);
    for (u32 e = 0; e < n; ++e) expected[e] = words[e] & below & (e == 0 ? first_mask : static_cast<W>(~W{0}));

    const std::vector<u8> bytes = planes_naively<n>(expected, planes);
    const std::span<std::uint8_t> out = written_.at_end(bytes.size() + blocks::kPlanesOverrun);
    const u8* const end = blocks::store_planes<n>(words, first_mask, planes, out.data());
    CHECK(end == out.data() + bytes.size(), "%u planes of %u words of %u bits: %td bytes", planes, n, word_bits,
          end - out.data());
    CHECK(std::equal(bytes.begin(), bytes.end(), out.begin()), "%u planes of %u words of %u bits", planes, n,
          word_bits);

    const std::span<std::uint8_t> in = read_.at_end(bytes.size());
    std::copy(bytes.begin(), bytes.end(), in.begin());
    blocks::Plane<n> rows[word_bits];
    const u8* const read = blocks::load_planes<n>(in.data(), planes, rows);
    CHECK(read == in.data() + bytes.size(), "%u planes of %u words of %u bits: %td bytes", planes, n, word_bits,
          read - in.data());
    W again[n];
    blocks::words_of_rows<n>(rows, planes, again);
    CHECK(std::equal(std::begin(again), std::end(again), std::begin(expected)), "%u planes of %u words of %u bits",
          planes, n, word_bits);
  }

 private:
  static constexpr std::size_t kMostBytes = n / 8 * sizeof(W) * 8 + blocks::kPlanesOverrun;
  GuardedMemory written_{kMostBytes}, read_{kMostBytes};
};

template <u32 n, class W>
void check_all(Random& random) {
  Planes<n, W> check;
  for (u32 planes = 1; planes <= scalar::kWordBits<W>; ++planes) {
    for (std::uint64_t density = 0; density <= 8; ++density) {
      for (int repeat = 0; repeat < 20; ++repeat) check.check(random, planes, density);
    }
  }
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  using namespace h5lossy;
  test::Random random(16);
  test::check_all<32, u32>(random);
  test::check_all<32, u64>(random);
  test::check_all<64, u32>(random);
  test::check_all<64, u64>(random);
}
