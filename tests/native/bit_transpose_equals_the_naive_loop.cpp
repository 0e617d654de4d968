// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The bit transpose and its inverse equal the naive loop over bits, for any number of rows declared to be zero.

#include <cstring>
#include <iterator>

#include "check.h"
#include "codecs/bits.h"
#include "random.h"

namespace h5lossy::test {
namespace {

using scalar::kLanes;
using scalar::kWordBits;
using scalar::Vector;

// Bit c of row r, counted from the most significant, goes to bit r of row c.
template <class W>
void transpose_naively(const W* rows, W* result) {
  constexpr u32 n = kWordBits<W>;
  for (u32 r = 0; r < n; ++r) {
    result[r] = 0;
    for (u32 c = 0; c < n; ++c) result[r] |= static_cast<W>((rows[c] >> (n - 1 - r)) & 1) << (n - 1 - c);
  }
}

// One square in each lane of Row. The planes' first `zero_rows` rows are zero: no value uses the bits above.
template <class W, class Row>
void check(Random& random, u32 zero_rows) {
  constexpr u32 n = kWordBits<W>;
  constexpr u32 lanes = sizeof(Row) / sizeof(W);
  W values[lanes][n], planes[lanes][n];
  Row rows[n];
  for (u32 lane = 0; lane < lanes; ++lane) {
    for (u32 i = 0; i < n; ++i) {
      const W word = static_cast<W>(random.next());
      values[lane][i] = zero_rows == n ? 0 : static_cast<W>(word >> zero_rows);
      std::memcpy(reinterpret_cast<W*>(&rows[i]) + lane, &values[lane][i], sizeof(W));
    }
    transpose_naively(values[lane], planes[lane]);
  }

  const auto equal = [&](const W(&expected)[lanes][n]) {
    for (u32 lane = 0; lane < lanes; ++lane) {
      for (u32 i = 0; i < n; ++i) {
        if (std::memcmp(reinterpret_cast<const W*>(&rows[i]) + lane, &expected[lane][i], sizeof(W)) != 0) return false;
      }
    }
    return true;
  };
  scalar::transpose_to_planes<W>(rows, zero_rows);
  CHECK(equal(planes), "to planes: words of %u bits, %u lanes, %u zero rows", n, lanes, zero_rows);
  scalar::transpose_from_planes<W>(rows, zero_rows);
  CHECK(equal(values), "from planes: words of %u bits, %u lanes, %u zero rows", n, lanes, zero_rows);
}

template <class W>
void check_all(Random& random) {
  for (u32 zero_rows = 0; zero_rows <= kWordBits<W>; ++zero_rows) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      check<W, W>(random, zero_rows);
      check<W, Vector<W>>(random, zero_rows);
    }
  }
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  h5lossy::test::Random random(1);
  h5lossy::test::check_all<h5lossy::u32>(random);
  h5lossy::test::check_all<h5lossy::u64>(random);
}
