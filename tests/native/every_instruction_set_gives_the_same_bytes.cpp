// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The codec, compiled once more with all instructions of this machine, gives the same payloads and the same values, bit
// for bit, for hostile values and fill values too. What compilers may do to floating-point code depends on the
// instructions that there are: where one rounds, gcc 12 took it for a conversion to an integer and back, and lost the
// sign of zero.

#include <algorithm>
#include <cinttypes>

#include "check.h"
#include "codecs/bounds.h"
#include "codecs/codec.h"
#include "frames.h"
#include "values.h"

namespace h5lossy::scalar {
extern const Codec pfpl_codec;
}
namespace h5lossy::this_machine {
extern const Codec pfpl_codec;
}

namespace h5lossy::test {
namespace {

template <class T>
Quantizer make_quantizer(const Setting& setting, bool has_fill, Bits<T> fill) {
  Quantizer quantizer;
  quantizer.kind = static_cast<BoundKind>(setting.kind);
  quantizer.has_fill = has_fill;
  quantizer.fill_bits = fill;
  if (setting.kind == H5L_BOUND_LOSSLESS) return quantizer;
  if (setting.kind == H5L_BOUND_POINTWISE_RELATIVE) return scalar::make_pointwise<T>(quantizer, setting.bound);
  return scalar::make_absolute<T>(quantizer, setting.bound);
}

template <class T>
void check(const TileFunctions& expected, const TileFunctions& actual, const Setting& setting, Random& random,
           std::uint64_t hostile_one_in) {
  constexpr std::size_t most = 16384 / sizeof(T);
  Values<T> source(random, setting, hostile_one_in);
  const std::vector<Bits<T>> values = source.make(random.one_in(2) ? most : 1 + random.below(most));
  const Bits<T> fills[] = {kSign<T>, std::bit_cast<Bits<T>>(T{-999}), 12345, source.hostile()};
  const Quantizer quantizer = make_quantizer<T>(setting, random.one_in(2), fills[random.below(std::size(fills))]);
  const Bytes raw = to_bytes<T>(values, false);
  const u32 count = static_cast<u32>(values.size());

  Bytes payload(scalar::pfpl_codec.max_payload_bytes), other = payload;
  const u32 size = expected.encode(quantizer, raw.data(), count, payload.data());
  const u32 other_size = actual.encode(quantizer, raw.data(), count, other.data());
  const auto payload_bytes = static_cast<std::ptrdiff_t>(size == kStoreTile ? 0 : size);
  CHECK(size == other_size && std::equal(payload.begin(), payload.begin() + payload_bytes, other.begin()),
        "payloads of %u and %u bytes: float%zu, kind %u, bound %.17g, fill %d 0x%" PRIx64, size, other_size,
        8 * sizeof(T), setting.kind, setting.bound, quantizer.has_fill ? 1 : 0, std::uint64_t{quantizer.fill_bits});
  if (size == kStoreTile || size == 0) return;
  Bytes decoded(raw.size()), other_decoded(raw.size());
  CHECK(expected.decode(quantizer, payload.data(), size, count, decoded.data()), "%u bytes", size);
  CHECK(actual.decode(quantizer, payload.data(), size, count, other_decoded.data()), "%u bytes", size);
  CHECK(decoded == other_decoded, "values differ: float%zu, kind %u, bound %.17g", 8 * sizeof(T), setting.kind,
        setting.bound);
}

template <class T>
void check_all(const TileFunctions& expected, const TileFunctions& actual) {
  Random random(15);
  for (const Setting& setting : settings<T>()) {
    for (const std::uint64_t hostile_one_in : {0u, 1000u, 30u, 2u, 1u}) {
      for (int i = 0; i < 40; ++i) check<T>(expected, actual, setting, random, hostile_one_in);
    }
  }
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  using h5lossy::scalar::pfpl_codec;
  h5lossy::test::check_all<float>(pfpl_codec.float32, h5lossy::this_machine::pfpl_codec.float32);
  h5lossy::test::check_all<double>(pfpl_codec.float64, h5lossy::this_machine::pfpl_codec.float64);
}
