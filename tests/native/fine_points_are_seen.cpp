// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Auto for size notices whether a chunk has a value that Interp may have made and that the other codecs would move,
// even if there is only one among many values, in both byte orders. For this it uses Interp's numbers.

#include <cmath>
#include <iterator>
#include <vector>

#include "check.h"
#include "chunk/auto_size.h"
#include "chunk/params.h"
#include "codecs/interp/format.h"
#include "frames.h"
#include "random.h"
#include "values.h"

namespace h5lossy::test {
namespace {

static_assert(kFineUnit == scalar::interp::kUnit);
static_assert(kMostFine<float> == scalar::interp::kFineLimit<float>);
static_assert(kMostFine<double> == scalar::interp::kFineLimit<double>);

// The number of a fine point up to this one, on no bin.
template <class T>
int some_number(Random& random, int most) {
  for (;;) {
    const int number = static_cast<int>(random.below(static_cast<std::uint64_t>(most) >> random.below(8)));
    if (number % kFineUnit != 0 && is_fine_number<T>(number)) return number;
  }
}

template <class T>
void check(double bound) {
  h5l_params params = make_params(H5L_BOUND_ABSOLUTE, bound, sizeof(T));
  params.mode = H5L_AUTO_SIZE;
  params.codec = H5L_CODEC_AUTO;
  params.has_fill = 1;
  params.fill_bits = std::bit_cast<Bits<T>>(T{-999});
  const T step = static_cast<T>(make_quantizer(params, {}).step), fine = step / kFineUnit;
  constexpr int most = kMostFine<T>;
  Random random(7);
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{5000}}) {
    // Bins, fine points that are bins, numbers beyond the fine points, and numbers that cannot be.
    std::vector<Bits<T>> plain(count);
    for (Bits<T>& bits : plain) {
      const T some[] = {static_cast<T>(random.below(most / kFineUnit)) * step,
                        static_cast<T>(most + 1 + random.below(100)) * fine,
                        sizeof(T) == 4 ? static_cast<T>((1 << 15) + 1 + 2 * random.below(1 << 14)) * fine : T{0},
                        sizeof(T) == 4 ? static_cast<T>((1 << 17) + 4 + 8 * random.below(1 << 13)) * fine : T{0},
                        static_cast<T>(random.below(most)) * fine + fine / 3,
                        std::numeric_limits<T>::infinity(),
                        std::numeric_limits<T>::quiet_NaN(),
                        T{-999},
                        T{-0.0f}};
      bits = std::bit_cast<Bits<T>>(some[random.below(std::size(some))]);
    }
    const auto sees = [&](const std::vector<Bits<T>>& values) {
      params.big_endian = random.below(2) != 0 ? 1 : 0;
      return has_fine_points(params, make_quantizer(params, {}), to_bytes<T>(values, params.big_endian != 0));
    };
    CHECK(!sees(plain), "float%zu, bound %g: of %zu values none is a fine point", 8 * sizeof(T), bound, count);
    for (int repeat = 0; repeat < 20; ++repeat) {
      const int numbers[] = {1, sizeof(T) == 4 ? most - 7 : most - 1, (1 << 15) - 1, some_number<T>(random, most)};
      const int number = numbers[repeat % 4] * (repeat / 4 % 2 == 0 ? 1 : -1);
      std::vector<Bits<T>> values = plain;
      values[random.below(count)] = std::bit_cast<Bits<T>>(static_cast<T>(number) * fine);
      CHECK(sees(values), "float%zu, bound %g: fine point %d", 8 * sizeof(T), bound, number);
      params.bound_kind = H5L_BOUND_POINTWISE_RELATIVE;  // which has none
      params.bound = 1e-3;
      CHECK(!sees(values), "float%zu, bound %g: fine point %d", 8 * sizeof(T), bound, number);
      params.bound_kind = H5L_BOUND_ABSOLUTE;
      params.bound = bound;
      // Unless it is the fill value.
      const h5l_params before = params;
      params.fill_bits = std::bit_cast<Bits<T>>(static_cast<T>(number) * fine);
      CHECK(!sees(values), "float%zu, bound %g: fine point %d is the fill value", 8 * sizeof(T), bound, number);
      params = before;
    }
  }
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  for (const double bound : {1e-3, 0.5, 0.37, 1e20, 1e-20}) {
    h5lossy::test::check<float>(bound);
    h5lossy::test::check<double>(bound);
  }
}
