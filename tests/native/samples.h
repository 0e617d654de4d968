// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Frames of each sort, of a given size, for the tests that damage frames.
#pragma once

#include <string>

#include "frames.h"
#include "methods.h"
#include "values.h"

namespace h5lossy::test {

struct Sample {
  std::string name;
  h5l_params params;
  Bytes raw;
  Bytes frame;
};

// What a sample's values are. Of those that would fill a small tile (a quarter of a large one) `busy` are a smooth field
// and the others are zero: so a small frame can hold several tiles.
struct Content {
  std::size_t busy;
  std::uint64_t hostile_one_in;
};

// The first frame of at least `frame_bytes` that comes out as values are added: as many at a time as may give half of the
// bytes that are missing, and some at least.
template <class T>
Sample make_sample(const Method& method, std::string name, h5l_params params, std::size_t frame_bytes,
                   const Content& content) {
  Random random(6);
  Values<T> source(random, {params.bound_kind, params.bound}, content.hostile_one_in);
  const std::size_t period = std::max<std::size_t>(1024, method.tile_values(sizeof(T)) / 4);
  // In several dimensions slices are added, which are no whole number of blocks.
  constexpr std::uint32_t slices = 2, rows = 10, columns = 12;
  const std::size_t step = method.has_boxes ? slices * rows * columns : (16 + frame_bytes / 64) * (period / 1024);
  std::vector<Bits<T>> values;
  Sample sample{method.name + ": " + std::move(name), params, {}, {}};
  std::size_t added = step;
  while (true) {
    for (std::size_t i = 0; i < added; ++i) {
      values.push_back(values.size() % period < content.busy ? source.make(1)[0] : Bits<T>{0});
    }
    if (method.has_boxes) {
      set_shape(sample.params, {static_cast<std::uint32_t>(values.size() / (rows * columns)), rows, columns});
    }
    sample.raw = to_bytes<T>(values, params.big_endian != 0);
    sample.frame = encode(sample.params, sample.raw);
    const std::size_t size = sample.frame.size();
    if (size >= frame_bytes) return sample;
    added = std::max<std::size_t>(1, values.size() * (frame_bytes - size) / (2 * size * step)) * step;
  }
}

inline std::vector<Sample> make_samples(const Method& method, std::size_t frame_bytes, bool checksum) {
  std::vector<Sample> samples;
  const auto params = [&](std::uint32_t kind, double bound, std::uint32_t value_bytes) {
    h5l_params made = make_params(method, kind, bound, value_bytes);
    made.no_checksum = checksum ? 0 : 1;
    return made;
  };
  samples.push_back(make_sample<float>(method, "several tiles of float32, absolute",
                                       params(H5L_BOUND_ABSOLUTE, 1e-3, 4), frame_bytes, {256, 0}));
  samples.push_back(make_sample<double>(method, "float64, pointwise-relative",
                                        params(H5L_BOUND_POINTWISE_RELATIVE, 1e-4, 8), frame_bytes, {1024, 0}));
  h5l_params big_endian = params(H5L_BOUND_RANGE_RELATIVE, 1e-3, 4);
  big_endian.big_endian = 1;
  samples.push_back(
      make_sample<float>(method, "big-endian float32, range-relative", big_endian, frame_bytes, {1024, 0}));
  samples.push_back(make_sample<double>(method, "float64, absolute, with exceptions",
                                        params(H5L_BOUND_ABSOLUTE, 1e-3, 8), frame_bytes, {1024, 20}));
  if (codec_entry(method.codec)->codec->has_lossless) {
    samples.push_back(
        make_sample<double>(method, "float64, lossless", params(H5L_BOUND_LOSSLESS, 0, 8), frame_bytes, {64, 0}));
  }
  for (const Sample& sample : samples) {
    const h5l_frame_info info = inspect(sample.frame);
    CHECK(info.codec == method.codec && info.mode == method.mode, "%s: codec %u, mode %u", sample.name.c_str(),
          info.codec, info.mode);
  }
  return samples;
}

// Random bits.
inline Sample make_stored_sample(std::size_t frame_bytes, bool checksum) {
  Random random(7);
  Sample stored{"stored", make_params(H5L_BOUND_ABSOLUTE, 1e-3, 4), Bytes(frame_bytes - 40), {}};
  stored.params.no_checksum = checksum ? 0 : 1;
  for (std::uint8_t& byte : stored.raw) byte = static_cast<std::uint8_t>(random.next());
  stored.frame = encode(stored.params, stored.raw);
  CHECK(inspect(stored.frame).codec == H5L_CODEC_STORED, "random bits in %zu bytes", stored.frame.size());
  return stored;
}

// The samples of all methods, of the same size each, and a stored one.
inline std::vector<Sample> make_all_samples(std::size_t frame_bytes, bool checksum) {
  std::vector<Sample> samples = {make_stored_sample(frame_bytes, checksum)};
  for (const Method& method : methods()) {
    for (Sample& sample : make_samples(method, frame_bytes, checksum)) samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace h5lossy::test
