// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Zigzag and negabinary are what docs/format/pfpl.md says, and their inverses undo them.

#include <cinttypes>
#include <limits>
#include <type_traits>

#include "check.h"
#include "codecs/bits.h"
#include "random.h"

namespace h5lossy::test {
namespace {

template <class W>
void check(W word) {
  using Signed = std::make_signed_t<W>;
  const std::uint64_t shown = word;

  const Signed bin = static_cast<Signed>(word);
  const W folded = bin >= 0 ? static_cast<W>(2 * word) : static_cast<W>(2 * (W{0} - word) - 1);  // 0, -1, 1, -2 …
  CHECK(scalar::zigzag(word) == folded, "0x%" PRIx64, shown);
  CHECK(scalar::unzigzag(scalar::zigzag(word)) == word, "0x%" PRIx64, shown);
  CHECK(scalar::zigzag(scalar::unzigzag(word)) == word, "0x%" PRIx64, shown);

  // Digits in base -2 add up to the number again.
  const W digits = scalar::to_negabinary(word);
  W sum = 0, weight = 1;
  for (unsigned i = 0; i < 8 * sizeof(W); ++i) {
    if (((digits >> i) & 1) != 0) sum += weight;
    weight *= static_cast<W>(-2);
  }
  CHECK(sum == word, "0x%" PRIx64, shown);
  const W back = scalar::from_negabinary<W>(digits);
  CHECK(back == word, "0x%" PRIx64, shown);
  CHECK(scalar::to_negabinary(scalar::from_negabinary<W>(word)) == word, "0x%" PRIx64, shown);
}

template <class W>
void check_all() {
  constexpr W sign = W{1} << (8 * sizeof(W) - 1), alternating = static_cast<W>(0xAAAAAAAAAAAAAAAAull);
  const W middles[] = {0, sign, sign / 2, alternating, alternating / 2};
  for (const W middle : middles) {
    for (W i = 0; i < 2000; ++i) check<W>(static_cast<W>(middle + i - 1000));
  }
  Random random(2);
  for (int i = 0; i < 100000; ++i) check<W>(static_cast<W>(random.next()));
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  h5lossy::test::check_all<h5lossy::u32>();
  h5lossy::test::check_all<h5lossy::u64>();
}
