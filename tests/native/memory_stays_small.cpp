// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A call needs less than 1 MiB beside its input and output, heap and stack together; it does not allocate for each
// tile, and keeps nothing.

#include <pthread.h>

#include "allocations.h"
#include "check.h"
#include "frames.h"
#include "values.h"

namespace h5lossy::test {
namespace {

constexpr std::size_t kMostHeap = 256 << 10, kMostStack = 512 << 10;
static_assert(kMostHeap + kMostStack < 1 << 20);

struct Use {
  long count = 0;
  std::size_t bytes = 0;
  friend bool operator==(const Use&, const Use&) = default;
};

template <class Call>
Use measure(Call call) {
  allocations.watch(-1);
  call();
  allocations.stop();
  return {allocations.count, allocations.bytes};
}

struct Uses {
  Use encode, inspect, decode, decode_part;
  friend bool operator==(const Uses&, const Uses&) = default;
};

template <class T>
Uses measure_chunk(const Setting& setting, bool big_endian, std::size_t tiles) {
  Random random(11);
  Values<T> source(random, setting, 100);
  const std::vector<Bits<T>> values = source.make(tiles * 16384 / sizeof(T) - 5);
  h5l_params params = make_params(setting.kind, setting.bound, sizeof(T));
  params.big_endian = big_endian ? 1 : 0;
  const Bytes raw = to_bytes<T>(values, big_endian);
  Bytes frame(raw.size() + 40), decoded(raw.size());
  std::size_t frame_bytes = 0;
  h5l_frame_info info;
  h5l_message message;
  h5l_status status = H5L_OK;

  Uses uses;
  uses.encode = measure([&] {
    status = h5l_encode(&params, raw.data(), raw.size(), frame.data(), frame.size(), &frame_bytes, &message);
  });
  CHECK(status == H5L_OK, "%s", message.text);
  uses.inspect = measure([&] { status = h5l_inspect(frame.data(), frame_bytes, &info, &message); });
  CHECK(status == H5L_OK, "%s", message.text);
  uses.decode =
      measure([&] { status = h5l_decode(frame.data(), frame_bytes, decoded.data(), decoded.size(), &message); });
  CHECK(status == H5L_OK, "%s", message.text);
  uses.decode_part = measure([&] {
    status = h5l_decode_range(frame.data(), frame_bytes, 1, values.size() - 2, decoded.data(),
                              decoded.size() - 2 * sizeof(T), &message);
  });
  CHECK(status == H5L_OK, "%s", message.text);
  return uses;
}

template <class T>
void check_heap() {
  for (const Setting& setting : settings<T>()) {
    for (const bool big_endian : {false, true}) {
      const Uses two_tiles = measure_chunk<T>(setting, big_endian, 2), many = measure_chunk<T>(setting, big_endian, 50);
      for (const Use& use : {many.encode, many.inspect, many.decode, many.decode_part}) {
        CHECK(use.count <= 2 && use.bytes <= kMostHeap, "%ld allocations, %zu bytes", use.count, use.bytes);
      }
      CHECK(many == two_tiles, "the number of tiles changes what is allocated (kind %u, bound %g)", setting.kind,
            setting.bound);
    }
  }
}

void* run_on_small_stack(void*) {
  for (const Setting& setting : settings<float>()) measure_chunk<float>(setting, true, 2);
  for (const Setting& setting : settings<double>()) measure_chunk<double>(setting, true, 2);
  return nullptr;
}

// A thread whose stack has a guard page behind it.
void check_stack() {
  pthread_attr_t attributes;
  CHECK(pthread_attr_init(&attributes) == 0, "pthread_attr_init");
  CHECK(pthread_attr_setstacksize(&attributes, kMostStack) == 0, "a stack of %zu bytes", kMostStack);
  pthread_t thread;
  CHECK(pthread_create(&thread, &attributes, run_on_small_stack, nullptr) == 0, "pthread_create");
  CHECK(pthread_join(thread, nullptr) == 0, "pthread_join");
  CHECK(pthread_attr_destroy(&attributes) == 0, "pthread_attr_destroy");
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  h5lossy::test::check_stack();
  h5lossy::test::check_heap<float>();
  h5lossy::test::check_heap<double>();
}
