// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A batch gives the same frames and values as single calls: for any number of threads, from several callers at once, in
// a forked child, and with any floating-point settings. A failing chunk reports its error and does not affect others.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "check.h"
#include "frames.h"
#include "runtime/pool.h"
#include "values.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

// ThreadSanitizer can't follow threads of a child that was forked while other threads ran. AddressSanitizer's allocator
// may be locked by one of those threads, and then stays locked in the child.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define H5L_CANNOT_FORK 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define H5L_CANNOT_FORK 1
#endif
#endif

namespace h5lossy::test {
namespace {

// Chunks with one setting, and the result of each when encoded alone.
struct Chunks {
  h5l_params params = make_params(H5L_BOUND_ABSOLUTE, 1e-3, 4);
  std::vector<Bytes> raw, frames, decoded;

  Chunks() {
    Random random(11);
    Values<float> source(random, {H5L_BOUND_ABSOLUTE, 1e-3}, 100);
    for (int i = 0; i < 40; ++i) raw.push_back(to_bytes<float>(source.make(random.below(20000)), false));
    for (const Bytes& chunk : raw) frames.push_back(encode(params, chunk));
    for (const Bytes& frame : frames) decoded.push_back(decode(frame));
  }
};

// The arguments of a batch over vectors.
template <class T>
struct Buffers {
  std::vector<T*> data;
  std::vector<std::size_t> sizes;

  template <class Container>
  explicit Buffers(Container& buffers) {
    for (auto& buffer : buffers) {
      data.push_back(buffer.data());
      sizes.push_back(buffer.size());
    }
  }
};

std::vector<Bytes> encode_batch(const Chunks& chunks, std::uint32_t threads) {
  const std::size_t count = chunks.raw.size();
  std::vector<Bytes> frames;
  for (const Bytes& chunk : chunks.raw) frames.emplace_back(h5l_max_encoded_size(chunk.size()));
  const Buffers<const void> raw(chunks.raw);
  const Buffers<void> room(frames);
  std::vector<std::size_t> sizes(count);
  std::vector<h5l_status> statuses(count, H5L_INTERNAL);
  std::vector<h5l_message> messages(count);
  h5l_message message;
  const h5l_status status =
      h5l_encode_batch(&chunks.params, nullptr, count, raw.data.data(), raw.sizes.data(), room.data.data(),
                       room.sizes.data(), sizes.data(), statuses.data(), messages.data(), threads, &message);
  CHECK(status == H5L_OK, "%s", message.text);
  for (std::size_t i = 0; i < count; ++i) {
    CHECK(statuses[i] == H5L_OK && messages[i].text[0] == '\0', "chunk %zu: %s", i, messages[i].text);
    frames[i].resize(sizes[i]);
  }
  return frames;
}

std::vector<Bytes> decode_batch(const Chunks& chunks, std::uint32_t threads) {
  const std::size_t count = chunks.raw.size();
  std::vector<Bytes> decoded;
  for (const Bytes& chunk : chunks.raw) decoded.emplace_back(chunk.size());
  const Buffers<const void> frames(chunks.frames);
  const Buffers<void> room(decoded);
  std::vector<h5l_status> statuses(count, H5L_INTERNAL);
  h5l_message message;
  const h5l_status status =
      h5l_decode_batch(&chunks.params, nullptr, count, frames.data.data(), frames.sizes.data(), room.data.data(),
                       room.sizes.data(), statuses.data(), nullptr, threads, &message);
  CHECK(status == H5L_OK, "%s", message.text);
  return decoded;
}

void check_both(const Chunks& chunks, std::uint32_t threads) {
  CHECK(encode_batch(chunks, threads) == chunks.frames, "%u threads", threads);
  CHECK(decode_batch(chunks, threads) == chunks.decoded, "%u threads", threads);
}

int count_threads() {
  int threads = 0;
  std::FILE* const status = std::fopen("/proc/self/status", "r");
  if (status == nullptr) return -1;
  for (char line[256]; std::fgets(line, sizeof line, status) != nullptr;) std::sscanf(line, "Threads: %d", &threads);
  std::fclose(status);
  return threads;
}

void no_thread_is_started_in_vain(const Chunks& chunks) {
  const int before = count_threads();
  check_both(chunks, 1);
  run_batch(0, 8, [](std::size_t) { CHECK(false, "a batch of nothing"); });
  run_batch(1, 8, [](std::size_t) {});
  CHECK(count_threads() == before, "%d threads, %d before", count_threads(), before);
}

void any_number_of_threads_will_do(const Chunks& chunks) {
  for (const std::uint32_t threads : {0u, 2u, 3u, 16u, 100000u}) check_both(chunks, threads);
}

void callers_do_not_disturb_each_other(const Chunks& chunks) {
  std::vector<std::thread> callers;
  for (std::uint32_t t = 0; t < 6; ++t) {
    callers.emplace_back([&, t] {
      for (int round = 0; round < 5; ++round) check_both(chunks, 1 + t);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

void batches_in_batches_end() {
  std::atomic<int> sum = 0;
  run_batch(8, 4,
            [&](std::size_t) { run_batch(8, 4, [&](std::size_t) { run_batch(4, 8, [&](std::size_t) { ++sum; }); }); });
  CHECK(sum == 8 * 8 * 4, "%d", sum.load());
}

void each_item_comes_once() {
  for (int round = 0; round < 2000; ++round) {
    std::atomic<int> counts[37] = {};
    run_batch(37, 5, [&](std::size_t i) { ++counts[i]; });
    for (const std::atomic<int>& count : counts) CHECK(count == 1, "%d times in round %d", count.load(), round);
  }
}

void a_worker_index_belongs_to_one_thread() {
  for (int round = 0; round < 500; ++round) {
    std::atomic<bool> taken[5] = {};
    run_batch(37, 5, [&](std::size_t, std::uint32_t worker) {
      CHECK(worker < 5 && !taken[worker].exchange(true), "worker %u in round %d", worker, round);
      taken[worker] = false;
    });
  }
}

void an_item_may_wait_for_those_before_it() {
  for (int round = 0; round < 200; ++round) {
    std::atomic<std::size_t> done = 0;
    run_batch(37, 5, [&](std::size_t i) {
      while (done.load() != i) std::this_thread::yield();
      done = i + 1;
    });
    CHECK(done == 37, "%zu", done.load());
  }
}

// The pool's threads must not take a signal that the host has a handler for.
void signals_stay_with_the_host() {
  std::atomic<int> unblocked = 0;
  const std::thread::id caller = std::this_thread::get_id();
  run_batch(64, 4, [&](std::size_t) {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    if (std::this_thread::get_id() != caller && sigismember(&blocked, SIGINT) != 1) ++unblocked;
  });
  CHECK(unblocked == 0, "%d", unblocked.load());
}

void float_settings_do_not_matter(const Chunks& chunks) {
#if defined(__SSE2__)
  const unsigned before = _mm_getcsr();
  _mm_setcsr(0xFFC0);  // flush to zero, subnormals are zero, towards zero
  check_both(chunks, 4);
  CHECK((_mm_getcsr() & 0xFFC0) == 0xFFC0, "settings became %x", _mm_getcsr());
  _mm_setcsr(before);
#else
  check_both(chunks, 4);
#endif
}

#if !defined(H5L_CANNOT_FORK)
void wait_for(pid_t child) {
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child, "child %d", child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child ended with %x", static_cast<unsigned>(status));
}

// Forks while other threads are in batches, and the children fork again. A child that hangs is killed by its alarm.
void children_have_pools_of_their_own(const Chunks& chunks) {
  std::atomic<bool> enough = false;
  std::thread busy([&] {
    while (!enough) check_both(chunks, 3);
  });
  for (int i = 0; i < 30; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      check_both(chunks, 3);
      const pid_t grandchild = fork();
      if (grandchild == 0) {
        alarm(60);
        check_both(chunks, 3);
        std::_Exit(0);
      }
      wait_for(grandchild);
      i % 2 == 0 ? std::_Exit(0) : std::exit(0);  // with and without destructors
    }
    wait_for(child);
  }
  enough = true;
  busy.join();
}
#endif

void a_chunk_fails_alone(const Chunks& chunks) {
  std::vector<Bytes> frames = chunks.frames, decoded;
  frames[3].resize(20);
  frames[7].back() ^= 1;
  for (const Bytes& chunk : chunks.raw) decoded.emplace_back(chunk.size());
  const Buffers<const void> in(frames);
  Buffers<void> out(decoded);
  std::vector<h5l_status> statuses(frames.size());
  std::vector<h5l_message> messages(frames.size());
  h5l_message message;
  const h5l_status status =
      h5l_decode_batch(nullptr, nullptr, frames.size(), in.data.data(), in.sizes.data(), out.data.data(),
                       out.sizes.data(), statuses.data(), messages.data(), 4, &message);
  CHECK(status == H5L_TRUNCATED && std::strcmp(message.text, messages[3].text) == 0, "%s", message.text);
  CHECK(statuses[3] == H5L_TRUNCATED && messages[3].text[0] != '\0', "%s", messages[3].text);
  CHECK(statuses[7] == H5L_CORRUPT && messages[7].text[0] != '\0', "%s", messages[7].text);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (i == 3 || i == 7) continue;
    CHECK(statuses[i] == H5L_OK && messages[i].text[0] == '\0' && decoded[i] == chunks.decoded[i], "chunk %zu", i);
  }
}

void another_type_is_refused(const Chunks& chunks) {
  h5l_params other = chunks.params;
  other.big_endian = 1;
  Bytes out(chunks.raw[0].size());
  const void* const frame = chunks.frames[0].data();
  void* const raw = out.data();
  const std::size_t frame_bytes = chunks.frames[0].size(), raw_bytes = out.size();
  h5l_status own = H5L_OK;
  const h5l_status status =
      h5l_decode_batch(&other, nullptr, 1, &frame, &frame_bytes, &raw, &raw_bytes, &own, nullptr, 1, nullptr);
  CHECK(status == H5L_CORRUPT && own == H5L_CORRUPT, "%d %d", status, own);
}

void wrong_arguments_try_nothing() {
  std::vector<h5l_status> statuses(2, H5L_OK);
  h5l_message message;
  h5l_status status = h5l_encode_batch(nullptr, nullptr, 2, nullptr, nullptr, nullptr, nullptr, nullptr,
                                       statuses.data(), nullptr, 0, &message);
  CHECK(status == H5L_INVALID_ARGUMENT && statuses[1] == status, "%s", message.text);
  status = h5l_decode_batch(nullptr, nullptr, 2, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0, &message);
  CHECK(status == H5L_INVALID_ARGUMENT, "%s", message.text);
  CHECK(
      h5l_decode_batch(nullptr, nullptr, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0, nullptr) == H5L_OK,
      "%s", "a batch of nothing");
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  using namespace h5lossy::test;
  const Chunks chunks;
  no_thread_is_started_in_vain(chunks);
  any_number_of_threads_will_do(chunks);
  callers_do_not_disturb_each_other(chunks);
  batches_in_batches_end();
  each_item_comes_once();
  a_worker_index_belongs_to_one_thread();
  an_item_may_wait_for_those_before_it();
  signals_stay_with_the_host();
  float_settings_do_not_matter(chunks);
#if !defined(H5L_CANNOT_FORK)
  children_have_pools_of_their_own(chunks);
#endif
  a_chunk_fails_alone(chunks);
  another_type_is_refused(chunks);
  wrong_arguments_try_nothing();
}
