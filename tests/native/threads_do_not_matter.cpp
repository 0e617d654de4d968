// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The library is re-entrant: threads that encode and decode at once get the bytes that one thread gets alone. They
// start together, so that the first call, which tests the arithmetic and chooses the backend, happens in all at once.

#include <barrier>
#include <thread>

#include "check.h"
#include "methods.h"
#include "values.h"

namespace h5lossy::test {
namespace {

constexpr int kThreads = 8, kRounds = 8;

struct Chunk {
  h5l_params params;
  Bytes raw;
};

// With each method some of the settings, in turn.
template <class T>
void add_chunks(Random& random, std::vector<Chunk>& chunks) {
  const std::vector<Setting> all = settings<T>();
  std::size_t next = 0;
  for (const Method& method : methods_and_auto()) {
    for (int i = 0; i < 3; ++i) {
      const Setting& setting = all[next++ % all.size()];
      Values<T> source(random, setting, 200);
      const std::vector<std::uint32_t> extents = random_extents(random, 1000 + random.below(i == 0 ? 60000 : 9000));
      h5l_params params = make_params(method, setting.kind, setting.bound, sizeof(T));
      set_shape(params, extents);
      chunks.push_back({params, to_bytes<T>(source.make(product(extents)), false)});
    }
  }
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  using namespace h5lossy::test;
  Random random(10);
  std::vector<Chunk> chunks;
  add_chunks<float>(random, chunks);
  add_chunks<double>(random, chunks);

  // Each thread's frames and values; all take the chunks in another order.
  std::vector<std::vector<Bytes>> frames(kThreads, std::vector<Bytes>(chunks.size())), decoded = frames;
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      for (int round = 0; round < kRounds; ++round) {
        for (std::size_t i = 0; i < chunks.size(); ++i) {
          const std::size_t at = (i + 5 * t) % chunks.size();
          const Bytes frame = encode(chunks[at].params, chunks[at].raw);
          const Bytes values = decode(frame);
          CHECK(round == 0 || (frame == frames[t][at] && values == decoded[t][at]), "thread %zu, chunk %zu", t, at);
          frames[t][at] = frame;
          decoded[t][at] = values;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const Bytes alone = encode(chunks[i].params, chunks[i].raw);
    const Bytes values = decode(alone);
    for (std::size_t t = 0; t < kThreads; ++t) {
      CHECK(frames[t][i] == alone && decoded[t][i] == values, "thread %zu, chunk %zu", t, i);
    }
  }
}
