// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// HDF5 may call the filter from many threads at once, as HDF5 2.3 will: each gets what a single thread gets. All start
// together, so that the first call, which sets up the library, happens in all of them at once.
//
// usage: plugin_serves_many_threads path/to/libh5lossy.so

#include <barrier>
#include <string_view>
#include <thread>

#include "check.h"
#include "plugin.h"
#include "values.h"

namespace h5lossy::test {
namespace {

constexpr std::size_t kThreads = 16;

struct Chunk {
  Words words;
  Bytes raw;
};

std::size_t hash(const Bytes& bytes) {
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// All codecs and modes, the settings in turn, with chunks of one tile and of several.
template <class T>
void add_chunks(const Plugin& plugin, Random& random, std::vector<Chunk>& chunks) {
  const std::vector<Setting> all = settings<T>();
  for (const Request& request : plugin.requests()) {
    const Setting& setting = all[chunks.size() % all.size()];
    const unsigned slices = 1 + 9 * static_cast<unsigned>(chunks.size() % 2);
    Values<T> source(random, setting, 100);
    Bytes raw = to_bytes<T>(source.make(std::size_t{slices} * 60 * 90), false);
    chunks.push_back({stored_words(request, setting, sizeof(T), false, {slices, 60, 90}), std::move(raw)});
  }
}

}  // namespace
}  // namespace h5lossy::test

int main(int count, char** arguments) {
  using namespace h5lossy::test;
  CHECK(count == 2, "usage: %s path/to/libh5lossy.so", arguments[0]);
  const Plugin plugin(arguments[1]);
  Random random(17);
  std::vector<Chunk> chunks;
  add_chunks<float>(plugin, random, chunks);
  add_chunks<double>(plugin, random, chunks);

  // Of each chunk's frame and decoded values, in each thread.
  std::vector<std::vector<std::size_t>> results(kThreads, std::vector<std::size_t>(chunks.size()));
  const auto process = [&](const Chunk& chunk) {
    const Bytes frame = plugin.encode(chunk.words, chunk.raw), values = plugin.decode(chunk.words, frame);
    CHECK(values.size() == chunk.raw.size(), "%zu bytes became %zu", chunk.raw.size(), values.size());
    return hash(frame) ^ hash(values) << 1;
  };
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        const std::size_t at = (i + 7 * t) % chunks.size();
        results[t][at] = process(chunks[at]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  for (std::size_t at = 0; at < chunks.size(); ++at) {
    const std::size_t expected = process(chunks[at]);
    for (std::size_t t = 0; t < kThreads; ++t) CHECK(results[t][at] == expected, "chunk %zu in thread %zu", at, t);
  }
}
