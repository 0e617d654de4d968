// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The frames that docs/format/ prints byte by byte are what the encoder writes, and they decode.

#include "check.h"
#include "frames.h"
#include "values.h"

namespace h5lossy::test {
namespace {

template <class T>
void check(const char* name, std::span<const T> values, double bound, std::span<const std::uint8_t> expected) {
  Bytes raw(values.size_bytes());
  std::memcpy(raw.data(), values.data(), raw.size());
  const Bytes frame = encode(make_params(H5L_BOUND_ABSOLUTE, bound, sizeof(T)), raw);
  CHECK(frame.size() == expected.size(), "%s: %zu bytes, expected %zu", name, frame.size(), expected.size());
  for (std::size_t i = 0; i < frame.size(); ++i) {
    CHECK(frame[i] == expected[i], "%s: byte %zu is 0x%02x, expected 0x%02x", name, i, frame[i], expected[i]);
  }
  const Bytes decoded = decode(frame);
  for (std::size_t i = 0; i < values.size(); ++i) {
    T x;
    std::memcpy(&x, decoded.data() + i * sizeof(T), sizeof(T));
    const bool close = differ_by_at_most(static_cast<double>(x), static_cast<double>(values[i]), bound);
    CHECK(close, "%s: value %zu", name, i);
  }
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  constexpr float values[] = {
      0, .02f, .04f, .06f, .08f, .10f, .10f, .10f, -.02f, -.04f, -.05f, -.06f, .50f, .52f, .54f, .56f,
      1, 1,    1,    1,    1,    1,    1,    1,    .5f,   .4f,   .3f,   .2f,   .1f,  0,    0,    0,
  };
  constexpr std::uint8_t compressed[] = {
      0x48,
      0x35,
      0x4c,
      0x59,
      0x01,
      0x0a,
      0x01,
      0x04,
      0x00,
      0x00,
      0x01,
      0x00,
      0x80,
      0x00,
      0x00,
      0x00,
      0x35,
      0x09,
      0xcb,
      0x5d,
      0x9a,
      0xa9,
      0xf0,
      0x1f,
      0x7b,
      0x14,
      0xae,
      0x47,
      0xe1,
      0x7a,
      0x84,
      0x3f,
      0x00,
      0x00,
      0x00,
      0x40,
      0xe1,
      0x7a,
      0x94,
      0x3f,
      0x21,
      0x00,
      0x00,
      0x00,
      // payload
      0x80,
      0x80,
      0x80,
      0x08,
      0x80,
      0x08,
      0x80,
      0x80,
      0x08,
      0x7c,
      0x80,
      0x88,
      0x80,
      0x6f,
      0x7c,
      0xfc,
      0xe7,
      0x7c,
      0x88,
      0x71,
      0x76,
      0xe7,
      0x4d,
      0x00,
      0xf0,
      0x01,
      0x00,
      0x0e,
      0x00,
      0x03,
      0x00,
      0x00,
      0x00,
  };
  h5lossy::test::check<float>("32 values", values, 0.01, compressed);

  constexpr float one_value[] = {1.5f};
  constexpr std::uint8_t stored[] = {
      0x48, 0x35, 0x4c, 0x59, 0x01, 0x0a, 0x00, 0x04, 0x00, 0x00, 0x01, 0x00, 0x04, 0x00, 0x00,
      0x00, 0x02, 0xf5, 0x7b, 0x51, 0x17, 0xb8, 0x78, 0xfe, 0x7b, 0x14, 0xae, 0x47, 0xe1, 0x7a,
      0x84, 0x3f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xc0, 0x3f,
  };
  h5lossy::test::check<float>("one value", one_value, 0.01, stored);
}
