// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// One frame of each sort, of a given size, for the tests that damage frames.
#pragma once

#include <string>

#include "frames.h"
#include "values.h"

namespace h5lossy::test {

struct Sample {
  std::string name;
  h5l_params params;
  Bytes raw;
  Bytes frame;
};

// The first frame of at least `frame_bytes` that comes out as values are added, some at a time. Of 1024 values
// `busy` are a smooth field and the others repeat it: so a small frame can hold several tiles.
template <class T>
Sample make_sample(std::string name, h5l_params params, std::size_t frame_bytes, std::size_t busy) {
  Random random(6);
  Values<T> source(random, {params.bound_kind, params.bound}, 0);
  std::vector<Bits<T>> values;
  Sample sample{std::move(name), params, {}, {}};
  do {
    for (std::size_t i = 0; i < 16 + frame_bytes / 64; ++i) {
      values.push_back(values.size() % 1024 < busy ? source.make(1)[0] : values.back());
    }
    sample.raw = to_bytes<T>(values, params.big_endian != 0);
    sample.frame = encode(params, sample.raw);
  } while (sample.frame.size() < frame_bytes);
  return sample;
}

inline std::vector<Sample> make_samples(std::size_t frame_bytes, bool checksum) {
  std::vector<Sample> samples;
  const auto params = [&](std::uint32_t kind, double bound, std::uint32_t value_bytes) {
    h5l_params made = make_params(kind, bound, value_bytes);
    made.no_checksum = checksum ? 0 : 1;
    return made;
  };
  samples.push_back(
      make_sample<float>("several tiles of float32, absolute", params(H5L_BOUND_ABSOLUTE, 1e-3, 4), frame_bytes, 256));
  samples.push_back(make_sample<double>("float64, pointwise-relative", params(H5L_BOUND_POINTWISE_RELATIVE, 1e-4, 8),
                                        frame_bytes, 1024));
  h5l_params big_endian = params(H5L_BOUND_RANGE_RELATIVE, 1e-3, 4);
  big_endian.big_endian = 1;
  samples.push_back(make_sample<float>("big-endian float32, range-relative", big_endian, frame_bytes, 1024));
  samples.push_back(make_sample<double>("float64, lossless", params(H5L_BOUND_LOSSLESS, 0, 8), frame_bytes, 64));

  Random random(7);
  Sample stored{"stored", params(H5L_BOUND_ABSOLUTE, 1e-3, 4), Bytes(frame_bytes - 40), {}};
  for (std::uint8_t& byte : stored.raw) byte = static_cast<std::uint8_t>(random.next());
  stored.frame = encode(stored.params, stored.raw);
  CHECK(inspect(stored.frame).codec == H5L_CODEC_STORED, "random bits in %zu bytes", stored.frame.size());
  samples.push_back(stored);
  return samples;
}

}  // namespace h5lossy::test
