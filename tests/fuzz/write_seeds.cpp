// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Writes the seeds in corpus/, which are kept: a few small inputs for each fuzzer, for every bound kind and type.
//
// usage: write_seeds path/to/corpus

#include <cstdio>
#include <fstream>
#include <string>

#include "check.h"
#include "frames.h"
#include "values.h"

namespace h5lossy::test {
namespace {

void write(const std::string& path, const Bytes& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  CHECK(file.good(), "%s cannot be written", path.c_str());
}

template <class T>
void write_seeds(const std::string& corpus, const char* type, std::uint8_t size_choice) {
  constexpr const char* kinds[] = {"absolute", "pointwise", "range", "lossless"};
  constexpr double bounds[] = {1e-3, 1e-3, 1e-3, 0};
  // Part of a group; whole groups and a rest; two tiles, most of it constant.
  constexpr std::size_t counts[] = {20, 200, 16384 / sizeof(T) + 100};
  Random random(14);
  for (std::uint8_t kind = 0; kind < 4; ++kind) {
    for (const std::size_t count : counts) {
      Values<T> source(random, {kind, bounds[kind]}, 20);
      std::vector<Bits<T>> values = source.make(std::min<std::size_t>(count, 200));
      values.resize(count, values.back());
      h5l_params params = make_params(kind, bounds[kind], sizeof(T));
      params.no_checksum = count == 200 ? 1 : 0;
      params.big_endian = count == 20 ? 1 : 0;
      const Bytes raw = to_bytes<T>(values, params.big_endian != 0);
      const std::string name = std::string(type) + "-" + kinds[kind] + "-" + std::to_string(count);
      write(corpus + "/decode_frame/" + name, encode(params, raw));
      if (count > 200) continue;  // would be 16 KiB each

      // The layout of round_trip.cpp; -999 as fill value.
      Bytes input(19);
      input[0] = kind;
      input[1] = size_choice;
      input[2] = static_cast<std::uint8_t>(params.big_endian | params.no_checksum << 1 | 1u << 2);
      const Bits<T> fill = std::bit_cast<Bits<T>>(static_cast<T>(-999));
      std::memcpy(input.data() + 3, &params.bound, sizeof params.bound);
      std::memcpy(input.data() + 11, &fill, sizeof fill);
      input.insert(input.end(), raw.begin(), raw.end());
      write(corpus + "/round_trip/" + name, input);
    }
  }
}

}  // namespace
}  // namespace h5lossy::test

int main(int count, char** arguments) {
  using namespace h5lossy::test;
  CHECK(count == 2, "usage: %s path/to/corpus", arguments[0]);
  write_seeds<float>(arguments[1], "float32", 0);
  write_seeds<double>(arguments[1], "float64", 1);
}
