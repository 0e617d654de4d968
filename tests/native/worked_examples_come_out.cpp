// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The frames of tests/worked_examples.json, which docs/format/ prints byte by byte, are what the encoder writes, and they
// decode.

#include <cmath>
#include <optional>

#include "check.h"
#include "frames.h"
#include "methods.h"
#include "values.h"

namespace h5lossy::test {
namespace {

struct Example {
  const char* name;
  std::uint32_t codec, mode;
  double bound;
  std::optional<double> fill;
  std::vector<std::uint32_t> shape;
  std::vector<double> values;  // float32
  Bytes frame;
};

const Example kExamples[] = {
#include "worked_examples.inc"
};

void check(const Example& example) {
  const std::vector<float> values(example.values.begin(), example.values.end());
  Bytes raw(values.size() * sizeof(float));
  std::memcpy(raw.data(), values.data(), raw.size());
  h5l_params params = make_params(H5L_BOUND_ABSOLUTE, example.bound, sizeof(float));
  params.codec = example.codec;
  params.mode = example.mode;
  set_shape(params, example.shape);
  params.has_fill = example.fill ? 1 : 0;
  if (example.fill) params.fill_bits = std::bit_cast<std::uint32_t>(static_cast<float>(*example.fill));

  const Bytes frame = encode(params, raw);
  CHECK(frame.size() == example.frame.size(), "%s: %zu bytes, expected %zu", example.name, frame.size(),
        example.frame.size());
  for (std::size_t i = 0; i < frame.size(); ++i) {
    CHECK(frame[i] == example.frame[i], "%s: byte %zu is 0x%02x, expected 0x%02x", example.name, i, frame[i],
          example.frame[i]);
  }
  const Bytes decoded = decode(frame);
  for (std::size_t i = 0; i < values.size(); ++i) {
    float x;
    std::memcpy(&x, decoded.data() + i * sizeof x, sizeof x);
    const bool both_nan = std::isnan(x) && std::isnan(values[i]);
    CHECK(both_nan || differ_by_at_most(double{x}, double{values[i]}, example.bound), "%s: value %zu", example.name, i);
  }
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  for (const h5lossy::test::Example& example : h5lossy::test::kExamples) h5lossy::test::check(example);
}
