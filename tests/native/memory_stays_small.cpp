// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A call needs less than 1 MiB in addition to its input and output, heap and stack together. It does not allocate per
// tile, but only once, and keeps nothing. Codec auto allocates once for each candidate, one after the other. Interp,
// and so auto for size, needs 1.4 MiB of heap: a tile's positions, integers, codes and numbers of points each take as
// much as its values, parts of levels twice that, and the decisions of two masks 148 KiB. float64 takes 384 KiB more:
// for the payload, a copy of the tile, and these numbers.

#include <pthread.h>

#include <cstdlib>

#include "allocations.h"
#include "check.h"
#include "methods.h"
#include "values.h"

namespace h5lossy::test {
namespace {

constexpr std::size_t kMostHeap = 640 << 10, kMostStack = 256 << 10;
static_assert(kMostHeap + kMostStack < 1 << 20);
constexpr std::size_t kMostHeapOfInterp[] = {1536 << 10, 1920 << 10};  // float32, float64

struct Use {
  long count = 0;
  std::size_t most_bytes = 0;  // at one time
  friend bool operator==(const Use&, const Use&) = default;
};

template <class Call>
Use measure(Call call) {
  allocations.watch(-1);
  call();
  allocations.stop();
  CHECK(allocations.held == 0, "%ld bytes are kept", allocations.held.load());
  return {allocations.count, static_cast<std::size_t>(allocations.most_held)};
}

struct Uses {
  Use encode, inspect, decode, decode_part;
  friend bool operator==(const Uses&, const Uses&) = default;
};

// At least the requested number of tiles.
template <class T>
Uses measure_chunk(const Method& method, const Setting& setting, bool big_endian, std::size_t tiles) {
  constexpr std::uint32_t rows = 13, columns = 14;
  Random random(11);
  Values<T> source(random, setting, 100);
  const std::uint32_t slices = static_cast<std::uint32_t>(tiles * method.tile_values(sizeof(T)) / (rows * columns));
  const std::vector<Bits<T>> values = source.make(slices * rows * columns);
  h5l_params params = make_params(method, setting.kind, setting.bound, sizeof(T));
  set_shape(params, {slices, rows, columns});
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

// How many codecs and modes codec auto tries at most.
long count_candidates() {
  long candidates = 0;
  for (const CodecEntry& entry : backends().front().codecs) candidates += entry.codec->auto_mode_count;
  return candidates;
}

bool is_for_size(const Method& method) { return method.codec == H5L_CODEC_AUTO && method.mode == H5L_AUTO_SIZE; }

template <class T>
std::size_t most_heap(const Method& method) {
  return method.codec == H5L_CODEC_INTERP || is_for_size(method) ? kMostHeapOfInterp[sizeof(T) / 8] : kMostHeap;
}

template <class T>
void check_heap(const Method& method) {
  const bool is_auto = method.codec == H5L_CODEC_AUTO;
  for (const Setting& setting : settings<T>()) {
    for (const bool big_endian : {false, true}) {
      const Uses two_tiles = measure_chunk<T>(method, setting, big_endian, 2);
      Uses many = measure_chunk<T>(method, setting, big_endian, 12);
      for (const Use& use : {many.encode, many.inspect, many.decode, many.decode_part}) {
        CHECK(use.most_bytes <= most_heap<T>(method), "%s: %zu bytes", method.name.c_str(), use.most_bytes);
      }
      // A candidate is tried on whole blocks, and on the edge, of which it takes a copy. For size, its encoder is in a
      // list, and the codec for size comes first, in memory of its own; alone, it may try the others, too.
      const bool chooses = method.codec == H5L_CODEC_INTERP || is_for_size(method);
      const long most = 1 + (is_auto || chooses ? 3 * count_candidates() : 0) + (chooses ? 1 : 0);
      CHECK(many.encode.count <= most, "%s: %ld allocations", method.name.c_str(), many.encode.count);
      for (const Use& use : {many.inspect, many.decode}) {
        CHECK(use.count <= 1, "%s: %ld allocations", method.name.c_str(), use.count);
      }
      // One is the list of the tiles that hold the part.
      CHECK(many.decode_part.count <= 2, "%s: %ld allocations", method.name.c_str(), many.decode_part.count);
      // Codec auto may choose otherwise, and the size of a tile may depend on the chunk.
      const auto row = [&](const std::uint32_t (&dims)[kAxes]) {
        return method.layout(sizeof(T), dims).box[kAxes - 1];
      };
      const bool may_differ = is_auto || row({1, 1, 1, 1 << 20}) != row({1, 64, 64, 256});
      // A part takes 4 bytes for each of its tiles.
      CHECK(may_differ || many.decode_part.most_bytes <= two_tiles.decode_part.most_bytes + 4096, "%s: %zu bytes",
            method.name.c_str(), many.decode_part.most_bytes);
      many.decode_part.most_bytes = two_tiles.decode_part.most_bytes;
      CHECK(may_differ || many == two_tiles, "%s: the number of tiles changes what is allocated (kind %u, bound %g)",
            method.name.c_str(), setting.kind, setting.bound);
    }
  }
}

void* run_on_small_stack(void*) {
  for (const Method& method : methods_and_auto()) {
    for (const Setting& setting : settings<float>()) measure_chunk<float>(method, setting, true, 2);
    for (const Setting& setting : settings<double>()) measure_chunk<double>(method, setting, true, 2);
  }
  return nullptr;
}

// A thread with a guard page after its stack.
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
  setenv("H5LOSSY_DEVICE", "cpu", 1);  // what opens a GPU keeps it
  h5lossy::test::check_stack();
  for (const h5lossy::test::Method& method : h5lossy::test::methods_and_auto()) {
    h5lossy::test::check_heap<float>(method);
    h5lossy::test::check_heap<double>(method);
  }
}
