// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Several threads that share the tiles of one large chunk give the same frame, values and messages as one thread: for every
// codec, in several dimensions, in both byte orders, for incompressible data, and for damaged frames.

#include <cstring>

#include "check.h"
#include "methods.h"
#include "values.h"

namespace h5lossy::test {
namespace {

constexpr std::uint32_t kThreads[] = {2, 3, 8};

struct Outcome {
  h5l_status status = H5L_INTERNAL;
  std::string text;
  Bytes bytes;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome encode_with(const h5l_params& params, const Bytes& raw, std::uint32_t threads) {
  Outcome out;
  out.bytes.resize(h5l_max_encoded_size(raw.size()));
  const void* const from = raw.data();
  void* const to = out.bytes.data();
  const std::size_t raw_bytes = raw.size(), capacity = out.bytes.size();
  std::size_t written = 0;
  h5l_message message;
  h5l_status own = H5L_INTERNAL;
  out.status = h5l_encode_batch(&params, nullptr, 1, &from, &raw_bytes, &to, &capacity, &written, &own, nullptr,
                                threads, &message);
  out.text = message.text;
  out.bytes.resize(written);
  return out;
}

Outcome decode_with(const Bytes& frame, std::size_t raw_size, std::uint32_t threads) {
  Outcome out;
  out.bytes.resize(raw_size);
  const void* const from = frame.data();
  void* const to = out.bytes.data();
  const std::size_t frame_bytes = frame.size();
  h5l_message messages[1], message;
  h5l_status own = H5L_INTERNAL;
  out.status =
      h5l_decode_batch(nullptr, nullptr, 1, &from, &frame_bytes, &to, &raw_size, &own, messages, threads, &message);
  out.text = messages[0].text;
  if (out.status != H5L_OK) out.bytes.clear();  // of no use, and not the same
  return out;
}

template <class T>
void check_method(const Method& method, const Setting& setting, bool big_endian, std::size_t hostile_one_in) {
  Random random(7);
  Values<T> source(random, setting, hostile_one_in);
  const std::vector<std::uint32_t> extents = {67, 131, static_cast<std::uint32_t>(480 / sizeof(T))};
  const Bytes raw = to_bytes<T>(source.make(product(extents)), big_endian);
  h5l_params params = make_params(method, setting.kind, setting.bound, sizeof(T));
  params.big_endian = big_endian ? 1 : 0;
  set_shape(params, extents);
  const Outcome alone = encode_with(params, raw, 1);
  CHECK(alone.status == H5L_OK, "%s: %s", method.name.c_str(), alone.text.c_str());
  const Outcome decoded = decode_with(alone.bytes, raw.size(), 1);
  for (const std::uint32_t threads : kThreads) {
    CHECK(encode_with(params, raw, threads) == alone, "%s, %u threads", method.name.c_str(), threads);
    CHECK(decode_with(alone.bytes, raw.size(), threads) == decoded, "%s, %u threads", method.name.c_str(), threads);
  }
}

template <class T>
void check_methods() {
  const std::vector<Setting> all = settings<T>();
  std::size_t next = 0;
  for (const Method& method : methods_and_auto()) {
    check_method<T>(method, all[next++ % all.size()], false, 500);
    check_method<T>(method, all[next++ % all.size()], true, 500);
  }
}

// Nothing shrinks: the threads have to notice that, and that it is over, wherever they are.
void noise_is_stored() {
  Random random(8);
  Bytes raw(5 << 20);
  for (std::size_t at = 0; at < raw.size(); at += 8) {
    const std::uint64_t word = random.next();
    std::memcpy(raw.data() + at, &word, 8);
  }
  // And a chunk in which the room ends late.
  Bytes half = raw;
  std::fill(half.begin(), half.begin() + (16 << 10), std::uint8_t{0});
  for (const Bytes& chunk : {raw, half}) {
    h5l_params params = make_params(H5L_BOUND_LOSSLESS, 0, 4);
    const Outcome alone = encode_with(params, chunk, 1);
    for (const std::uint32_t threads : kThreads) CHECK(encode_with(params, chunk, threads) == alone, "%u", threads);
  }
  CHECK(inspect(encode_with(make_params(H5L_BOUND_LOSSLESS, 0, 4), raw, 8).bytes).codec == H5L_CODEC_STORED, "%s",
        "noise shrank");
}

// With and without a checksum: the damage that is reported does not depend on which thread finds it first.
void the_same_damage_is_reported() {
  Random random(9);
  const Setting setting{H5L_BOUND_ABSOLUTE, 1e-3};
  Values<float> source(random, setting, 0);
  const Bytes raw = to_bytes<float>(source.make(1 << 20), false);
  for (const std::uint32_t no_checksum : {0u, 1u}) {
    h5l_params params = make_params(setting.kind, setting.bound, 4);
    params.no_checksum = no_checksum;
    const Bytes frame = encode(params, raw);
    for (int round = 0; round < 20; ++round) {
      Bytes damaged = frame;
      const std::size_t begin = payload_begin(frame);
      for (int i = 0; i < 8; ++i) damaged[begin + random.below(frame.size() - begin)] ^= 0x55;
      const Outcome alone = decode_with(damaged, raw.size(), 1);
      CHECK(no_checksum != 0 || alone.status == H5L_CORRUPT, "%d", alone.status);
      for (const std::uint32_t threads : kThreads) {
        CHECK(decode_with(damaged, raw.size(), threads) == alone, "%u threads: %s", threads, alone.text.c_str());
      }
    }
  }
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  using namespace h5lossy::test;
  check_methods<float>();
  check_methods<double>();
  noise_is_stored();
  the_same_damage_is_reported();
}
