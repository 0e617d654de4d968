// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Writes the seeds in corpus/, which are kept: a few small inputs for each fuzzer, for every bound kind and type, codec
// and mode.
//
// usage: write_seeds path/to/corpus

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "check.h"
#include "filter/cd_values.h"
#include "methods.h"
#include "values.h"

namespace h5lossy::test {
namespace {

void write(const std::string& path, const Bytes& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  CHECK(file.good(), "%s cannot be written", path.c_str());
}

constexpr const char* kKinds[] = {"absolute", "pointwise", "range", "lossless"};
constexpr double kBounds[] = {1e-3, 1e-3, 1e-3, 0};

template <class T>
constexpr const char* kType = sizeof(T) == 4 ? "float32" : "float64";

// The layout of round_trip.cpp; -999 as fill value. `method` and `shape` are its numbers of them.
template <class T>
Bytes round_trip_input(const h5l_params& params, std::size_t method, unsigned shape, const Bytes& raw) {
  Bytes input(19);
  input[0] = static_cast<std::uint8_t>(params.bound_kind + 4 * method);
  input[1] = static_cast<std::uint8_t>((sizeof(T) == 4 ? 0 : 1) + 4 * shape);
  input[2] = static_cast<std::uint8_t>(params.big_endian | params.no_checksum << 1 | 1u << 2);
  const Bits<T> fill = std::bit_cast<Bits<T>>(static_cast<T>(-999));
  std::memcpy(input.data() + 3, &params.bound, sizeof params.bound);
  std::memcpy(input.data() + 11, &fill, sizeof fill);
  input.insert(input.end(), raw.begin(), raw.end());
  return input;
}

// The layout of call_filter.cpp: a chunk to encode, or its frame to decode with the checksums set right.
Bytes call_filter_input(const h5l_params& params, const Bytes& bytes, bool decodes) {
  std::uint32_t words[H5L_MAX_CD_VALUES];
  const std::size_t count = pack_cd_values(params, words);
  Bytes input = {static_cast<std::uint8_t>(decodes ? 1 | 4 : 0), static_cast<std::uint8_t>(count)};
  const auto* const front = reinterpret_cast<const std::uint8_t*>(words);
  input.insert(input.end(), front, front + count * sizeof words[0]);
  input.insert(input.end(), bytes.begin(), bytes.end());
  return input;
}

// PFPL, the first method, has seeds for all bound kinds and several sizes.
template <class T>
void write_seeds(const std::string& corpus) {
  // Part of a group; whole groups and a rest; two tiles, most of it constant.
  constexpr std::size_t counts[] = {20, 200, 16384 / sizeof(T) + 100};
  Random random(14);
  for (std::uint8_t kind = 0; kind < 4; ++kind) {
    for (const std::size_t count : counts) {
      Values<T> source(random, {kind, kBounds[kind]}, 20);
      std::vector<Bits<T>> values = source.make(std::min<std::size_t>(count, 200));
      values.resize(count, values.back());
      h5l_params params = make_params(kind, kBounds[kind], sizeof(T));
      params.no_checksum = count == 200 ? 1 : 0;
      params.big_endian = count == 20 ? 1 : 0;
      const Bytes raw = to_bytes<T>(values, params.big_endian != 0);
      const std::string name = std::string(kType<T>) + "-" + kKinds[kind] + "-" + std::to_string(count);
      write(corpus + "/decode_frame/" + name, encode(params, raw));
      if (count > 200) continue;  // would be 16 KiB each
      write(corpus + "/round_trip/" + name, round_trip_input<T>(params, 0, 0, raw));
      if (count > 20) continue;
      set_shape(params, {2, static_cast<std::uint32_t>(count) / 2});
      write(corpus + "/call_filter/" + name, call_filter_input(params, raw, false));
      write(corpus + "/call_filter/" + name + "-frame", call_filter_input(params, encode(params, raw), true));
    }
  }
}

// The others: some values, and a tile with exceptions behind others that are constant, or empty.
template <class T>
void write_seeds(const std::string& corpus, const Method& method, std::size_t number, std::uint8_t kind) {
  Random random(22);
  Values<T> source(random, {kind, kBounds[kind]}, 20);
  const bool is_auto = method.codec == H5L_CODEC_AUTO;
  const std::string name =
      (is_auto ? method.name : h5l_codec_name(method.codec) + ("-" + std::to_string(method.mode))) + "-" + kType<T> +
      "-" + kKinds[kind];
  h5l_params params = make_params(method, kind, kBounds[kind], sizeof(T));
  const std::vector<Bits<T>> values = source.make(5 * 6 * 7);
  write(corpus + "/round_trip/" + name, round_trip_input<T>(params, number, 5, to_bytes<T>(values, false)));
  if (is_auto) return;  // its frames are those of the others
  set_shape(params, {5, 6, 7});
  const Bytes frame = encode(params, to_bytes<T>(values, false));
  write(corpus + "/decode_frame/" + name, frame);
  write(corpus + "/call_filter/" + name + "-frame", call_filter_input(params, frame, true));

  constexpr std::uint32_t rows = 9, columns = 10;
  const std::uint32_t slices = static_cast<std::uint32_t>(method.tile_values(sizeof(T)) / (rows * columns)) + 4;
  const T constant = method.has_boxes ? T{0} : T{1};
  std::vector<Bits<T>> tiles(slices * rows * columns, std::bit_cast<Bits<T>>(constant));
  std::copy(values.begin(), values.end(), tiles.end() - static_cast<std::ptrdiff_t>(values.size()));
  set_shape(params, {slices, rows, columns});
  write(corpus + "/decode_frame/" + name + "-tiles", encode(params, to_bytes<T>(tiles, false)));
}

// Interp has many forms: of smooth fields, with a mask, far from 0, rough, and of what was decoded and overwritten in
// part.
template <class T>
void write_interp_seeds(const std::string& corpus) {
  constexpr std::uint32_t slices = 3, rows = 17, columns = 20;
  constexpr double far = sizeof(T) == 4 ? 3e3 : 3e9;  // float64: integers are not narrow there
  constexpr const char* kinds[] = {"smooth", "masked", "far", "rough", "overwritten"};
  for (std::uint32_t kind = 0; kind < std::size(kinds); ++kind) {
    Random random(31);
    std::vector<Bits<T>> values;
    for (std::uint32_t i = 0; i < slices * rows * columns; ++i) {
      const std::uint32_t x = i % columns, y = i / columns % rows, z = i / columns / rows;
      const auto noise = static_cast<double>(random.between(-1, 1));
      double value = std::sin(0.2 * x + 0.5 * z) * std::cos(0.15 * y) + 0.02 * noise;
      if (kind == 2) value *= far * (1 + static_cast<double>(random.below(2)) * 1e-4);
      if (kind == 3) value *= static_cast<double>(random.between(-300, 300));
      if (kind == 1 && (x + y) % 13 < 5) value = -999;
      values.push_back(std::bit_cast<Bits<T>>(static_cast<T>(value)));
    }
    h5l_params params = make_params(H5L_BOUND_ABSOLUTE, kind == 2 ? 1e-3 : 0.05, sizeof(T));
    params.codec = H5L_CODEC_INTERP;
    params.mode = 7;
    params.has_fill = kind == 1;
    params.fill_bits = std::bit_cast<Bits<T>>(static_cast<T>(-999));
    set_shape(params, {slices, rows, columns});
    Bytes frame = encode(params, to_bytes<T>(values, false));
    if (kind == 4) {
      std::vector<Bits<T>> decoded = to_values<T>(decode(frame), false);
      for (std::uint32_t i = 0; i < 200; ++i) decoded[i] = values[500 + i];
      frame = encode(params, to_bytes<T>(decoded, false));
    }
    const std::string name = std::string("interp-") + kinds[kind] + "-" + kType<T>;
    write(corpus + "/decode_frame/" + name, frame);
    write(corpus + "/call_filter/" + name + "-frame", call_filter_input(params, frame, true));
  }
}

}  // namespace
}  // namespace h5lossy::test

int main(int count, char** arguments) {
  using namespace h5lossy::test;
  CHECK(count == 2, "usage: %s path/to/corpus", arguments[0]);
  const std::string corpus = arguments[1];
  write_seeds<float>(corpus);
  write_seeds<double>(corpus);
  const std::vector<Method> all = methods_and_auto();
  for (std::size_t i = 1; i < all.size(); ++i) {
    write_seeds<float>(corpus, all[i], i, H5L_BOUND_ABSOLUTE);
    write_seeds<double>(corpus, all[i], i, H5L_BOUND_POINTWISE_RELATIVE);
  }
  write_interp_seeds<float>(corpus);
  write_interp_seeds<double>(corpus);
}
