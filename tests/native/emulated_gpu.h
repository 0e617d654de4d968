// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A GPU on one CPU thread, to run the kernels where there is none: the device's part of kernels/common/device_primitives.cuh. Every GPU
// thread is a fiber, which runs until it waits for others. Slow, and strict: a barrier or an exchange that some threads of
// a warp or a block do not come to, and blocks that wait for each other for ever, end the program with a message.
//
// ThreadSanitizer sees fibers as threads, and so finds what a fiber that only switches when it waits would hide: accesses to
// memory that no barrier has put in order. As on a GPU, only sync_block, any_in_block and sync_warp do so; what exchanges
// values does not. Atomic operations on memory outside of a block's own also do, which is more than a GPU promises.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "codecs/portable.h"

#if defined(H5L_SANITIZE_THREADS)
#include <sanitizer/tsan_interface.h>
// The emulation itself is not to be looked at.
#define H5L_UNSEEN inline __attribute__((no_sanitize("thread"), noinline))
#else
#define H5L_UNSEEN inline
#endif

namespace h5lossy::emulation {

inline constexpr u32 kMostThreads = 512;  // of a thread block
inline constexpr u32 kWarpThreads = 32;
// The most thread blocks that may wait for each other. ThreadSanitizer supports some thousand fibers.
inline constexpr u32 kThreadsTogether = 2048;
inline constexpr std::size_t kStackBytes = 96 * 1024;

// Where threads meet. What each one contributes stays until the meeting after the next.
struct Meeting {
  u32 size = 0, arrived = 0;
  u64 round = 0;
  u64 brought[2][kMostThreads] = {};
};

struct Block {
  u32 index = 0, row = 0;
  Meeting all, warps[kMostThreads / kWarpThreads];
  std::vector<std::uint64_t> shared;
};

#if defined(H5L_SANITIZE_THREADS)
H5L_UNSEEN void release(void* meeting) { __tsan_release(meeting); }
H5L_UNSEEN void acquire(void* meeting) { __tsan_acquire(meeting); }
#else
inline void release(void*) {}
inline void acquire(void*) {}
#endif

// A copy under way.
struct Copy {
  u8* to;
  const u8* from;
  u32 bytes, group;
};

struct Fiber {
  ucontext_t beginning;
  bool has_begun = false;
  std::jmp_buf place;  // where it waits
  Block* block = nullptr;
  u32 thread = 0;
  bool done = false;
  const Meeting* waits_at = nullptr;
  u64 round = 0;  // of that meeting
  std::vector<Copy> copies;
  u32 group = 0;  // of copies
#if defined(H5L_SANITIZE_THREADS)
  void* seen = nullptr;  // what ThreadSanitizer takes for the thread
#endif
};

struct Grid {
  u32 blocks = 0;
  u64 progress = 0;  // counts what may let another fiber go on
  std::jmp_buf scheduler;
#if defined(H5L_SANITIZE_THREADS)
  void* seen_scheduler = nullptr;
#endif
  Fiber* running = nullptr;
  std::function<void()> kernel;
};

inline Grid grid;

H5L_UNSEEN Fiber& running() { return *grid.running; }

// setjmp and longjmp switch without the system calls of swapcontext, which also switches the signal mask.
H5L_UNSEEN void yield() {
#if defined(H5L_SANITIZE_THREADS)
  __tsan_switch_to_fiber(grid.seen_scheduler, __tsan_switch_to_fiber_no_sync);
#endif
  if (_setjmp(grid.running->place) == 0) _longjmp(grid.scheduler, 1);
}
H5L_UNSEEN void go_on(Fiber& fiber) {
  grid.running = &fiber;
  fiber.waits_at = nullptr;
#if defined(H5L_SANITIZE_THREADS)
  __tsan_switch_to_fiber(fiber.seen, __tsan_switch_to_fiber_no_sync);
#endif
  if (_setjmp(grid.scheduler) != 0) return;
  if (fiber.has_begun) _longjmp(fiber.place, 1);
  fiber.has_begun = true;
  setcontext(&fiber.beginning);
}

H5L_UNSEEN void run_fiber() {
  acquire(&grid);
  grid.kernel();
  release(&grid);
  grid.running->done = true;
  ++grid.progress;
  yield();
}

// Waits until all of the meeting have come, and returns what they brought.
template <bool orders_memory>
H5L_UNSEEN const u64* meet(Meeting& meeting, u32 place, u64 brought) {
  const u64 round = meeting.round;
  meeting.brought[round % 2][place] = brought;
  if constexpr (orders_memory) release(meeting.brought[round % 2]);
  ++grid.progress;
  if (++meeting.arrived == meeting.size) {
    meeting.arrived = 0;
    ++meeting.round;
  }
  if (meeting.round == round) {
    grid.running->waits_at = &meeting;
    grid.running->round = round;
    yield();
  }
  if constexpr (orders_memory) acquire(meeting.brought[round % 2]);
  return meeting.brought[round % 2];
}
H5L_UNSEEN void note_progress() { ++grid.progress; }
H5L_UNSEEN u64 brought_by(const u64* brought, u32 place) { return brought[place]; }

// How many threads a phase takes, have arrived in this one, and how many phases are complete.
struct Barrier {
  u16 threads, arrived;
  u32 over;
};
H5L_UNSEEN void init_barrier(u64* barrier, u32 threads) {
  const Barrier none{static_cast<u16>(threads), 0, 0};
  std::memcpy(barrier, &none, sizeof none);
}
H5L_UNSEEN void arrive(u64* barrier) {
  Barrier now;
  std::memcpy(&now, barrier, sizeof now);
  if (++now.arrived == now.threads) {
    now.arrived = 0;
    ++now.over;
  }
  std::memcpy(barrier, &now, sizeof now);
  release(barrier);
  ++grid.progress;
}
H5L_UNSEEN bool is_phase_complete(u64* barrier, u32 number) {
  Barrier now;
  std::memcpy(&now, barrier, sizeof now);
  if (now.over % 2 == number % 2) return false;
  acquire(barrier);
  return true;
}
H5L_UNSEEN void wait_barrier(u64* barrier, u32 number) {
  while (!is_phase_complete(barrier, number)) yield();
}

inline Meeting& warp_of(const Fiber& fiber) { return fiber.block->warps[fiber.thread / kWarpThreads]; }

template <class W>
u64 as_word(W value) {
  u64 word = 0;
  std::memcpy(&word, &value, sizeof value);
  return word;
}

// In another order each time.
H5L_UNSEEN void run(std::vector<Fiber>& fibers) {
  std::vector<Fiber*> left;
  for (Fiber& fiber : fibers) left.push_back(&fiber);
  static std::minstd_rand random;
  while (!left.empty()) {
    const u64 before = grid.progress;
    std::shuffle(left.begin(), left.end(), random);
    for (Fiber* const fiber : left) {
      if (fiber->waits_at == nullptr || fiber->waits_at->round != fiber->round) go_on(*fiber);
    }
    std::erase_if(left, [](const Fiber* fiber) { return fiber->done; });
    if (!left.empty() && grid.progress == before) {
      std::fprintf(stderr, "emulated GPU: all threads wait for each other\n");
      std::abort();
    }
  }
}

// Runs a kernel: some blocks of a row at the same time, so that they may wait for each other.
inline void launch(u32 blocks, u32 rows, u32 threads, std::size_t shared_bytes, std::function<void()> kernel) {
  if (threads > kMostThreads) std::abort();
  grid.blocks = blocks;
  grid.kernel = std::move(kernel);
#if defined(H5L_SANITIZE_THREADS)
  grid.seen_scheduler = __tsan_get_current_fiber();
  static std::vector<void*> seen;
#endif
  static std::vector<std::unique_ptr<char[]>> stacks;
  for (u64 first = 0; first < u64{blocks} * rows;) {
    const u32 row = static_cast<u32>(first / blocks), begin = static_cast<u32>(first % blocks);
    const u32 together = std::min(blocks - begin, kThreadsTogether / threads);
    std::vector<std::unique_ptr<Block>> all_blocks;
    std::vector<Fiber> fibers(std::size_t{together} * threads);
    while (stacks.size() < fibers.size()) stacks.emplace_back(new char[kStackBytes]);
    for (u32 i = 0; i < fibers.size(); ++i) {
      if (i % threads == 0) {
        all_blocks.push_back(std::make_unique<Block>());
        Block& block = *all_blocks.back();
        block.index = begin + i / threads;
        block.row = row;
        block.shared.assign(shared_bytes / 8 + 1, 0xA5A5A5A5A5A5A5A5ull);
        block.all.size = threads;
        for (Meeting& meeting : block.warps) meeting.size = kWarpThreads;
      }
      Fiber& fiber = fibers[i];
      fiber.block = all_blocks.back().get();
      fiber.thread = i % threads;
#if defined(H5L_SANITIZE_THREADS)
      if (seen.size() == i) seen.push_back(__tsan_create_fiber(0));
      fiber.seen = seen[i];
#endif
      getcontext(&fiber.beginning);
      fiber.beginning.uc_stack.ss_sp = stacks[i].get();
      fiber.beginning.uc_stack.ss_size = kStackBytes;
      fiber.beginning.uc_link = nullptr;
      makecontext(&fiber.beginning, run_fiber, 0);
    }
    release(&grid);
    run(fibers);
    acquire(&grid);
    first += together;
  }
}

}  // namespace h5lossy::emulation

namespace h5lossy::H5L_TARGET {

namespace emulation = h5lossy::emulation;

inline u32 thread() { return emulation::running().thread; }
inline u32 block_number() { return emulation::running().block->index; }
inline u32 block_row() { return emulation::running().block->row; }
inline u32 grid_blocks() { return emulation::grid.blocks; }
inline u32 warp_slot() { return emulation::running().block->index * 4; }
inline u8* shared_memory() { return reinterpret_cast<u8*>(emulation::running().block->shared.data()); }

inline void sync_block() { emulation::meet<true>(emulation::running().block->all, thread(), 0); }
inline bool any_in_block(bool flag) {
  const u64* const flags = emulation::meet<true>(emulation::running().block->all, thread(), flag ? 1 : 0);
  u64 any = 0;
  for (u32 t = 0; t < emulation::running().block->all.size; ++t) any |= emulation::brought_by(flags, t);
  return any != 0;
}

template <class W>
W exchange(W value, u32 from) {
  const u64* const words =
      emulation::meet<false>(emulation::warp_of(emulation::running()), thread() % 32, emulation::as_word(value));
  const u64 word = emulation::brought_by(words, from % 32);
  W result;
  std::memcpy(&result, &word, sizeof result);
  return result;
}
inline void sync_warp() { emulation::meet<true>(emulation::warp_of(emulation::running()), thread() % 32, 0); }
inline void init_barrier(u64* barrier, u32 threads) { emulation::init_barrier(barrier, threads); }
inline void arrive(u64* barrier) { emulation::arrive(barrier); }
inline bool is_phase_complete(u64* barrier, u32 number) { return emulation::is_phase_complete(barrier, number); }
inline void wait_barrier(u64* barrier, u32 number) { emulation::wait_barrier(barrier, number); }

template <class W>
W shuffle(W value, u32 from) {
  return exchange(value, from % 32);
}
template <class W>
W shuffle_up(W value, u32 by) {
  const u32 own = thread() % 32;
  return exchange(value, own >= by ? own - by : own);
}
template <class W>
W shuffle_xor(W value, u32 mask) {
  return exchange(value, (thread() % 32) ^ mask);
}
inline u32 ballot(bool flag) {
  const u64* const flags =
      emulation::meet<false>(emulation::warp_of(emulation::running()), thread() % 32, flag ? 1 : 0);
  u32 bits = 0;
  for (u32 i = 0; i < 32; ++i) bits |= static_cast<u32>(emulation::brought_by(flags, i)) << i;
  return bits;
}

// Calls update(order) with the order of a word's atomic operations.
template <class W, class Update>
auto atomically(const W* word, Update update) {
  const auto& shared = emulation::running().block->shared;
  const auto at = reinterpret_cast<std::uintptr_t>(word), begin = reinterpret_cast<std::uintptr_t>(shared.data());
  return at >= begin && at < begin + 8 * shared.size() ? update(std::memory_order_relaxed)
                                                       : update(std::memory_order_seq_cst);
}
template <class W>
W add_atomically(W* to, W value) {
  return atomically(to, [&](auto order) { return std::atomic_ref(*to).fetch_add(value, order); });
}
inline u32 atomic_add_and_get(u32* to, u32 value) { return add_atomically(to, value); }
inline void atomic_add(u32* to, u32 value) { add_atomically(to, value); }
inline void atomic_add(u64* to, u64 value) { add_atomically(to, value); }
inline void atomic_or(u32* to, u32 bits) {
  atomically(to, [&](auto order) { return std::atomic_ref(*to).fetch_or(bits, order); });
}
inline void atomic_max(u64* to, u64 value) {
  atomically(to, [&](auto order) {
    u64 found = std::atomic_ref(*to).load(order);
    while (value > found && !std::atomic_ref(*to).compare_exchange_weak(found, value, order)) {
    }
  });
}
inline void fence() {}
inline void store_relaxed(u64* to, u64 value) {
  std::atomic_ref(*to).store(value);
  emulation::note_progress();
}
inline void store_relaxed(u32* to, u32 value) {
  std::atomic_ref(*to).store(value);
  emulation::note_progress();
}
inline float load_once(const float* from) { return *from; }
inline double load_once(const double* from) { return *from; }
inline u32 load_constant(const u32* from) {
  if (reinterpret_cast<std::uintptr_t>(from) % sizeof *from != 0) std::abort();
  return *from;
}
inline u32 load_constant(const u16* from) {
  if (reinterpret_cast<std::uintptr_t>(from) % sizeof *from != 0) std::abort();
  return *from;
}
inline u32 load_constant(const u8* from) { return *from; }
inline u64 load_relaxed(const u64* from) { return std::atomic_ref(*const_cast<u64*>(from)).load(); }
inline u32 load_relaxed(const u32* from) { return std::atomic_ref(*const_cast<u32*>(from)).load(); }
inline void prefetch(const u8*) {}
inline void wait_a_little() { emulation::yield(); }
inline constexpr u32 kMaxPolls = 2;  // so that both happen

// Done when it is waited for: before that there are other bytes.
template <u32 bytes>
void copy_async(u8* to_shared, const u8* from) {
  if (reinterpret_cast<std::uintptr_t>(from) % bytes != 0) std::abort();
  std::memset(to_shared, 0x5A, bytes);
  emulation::Fiber& fiber = emulation::running();
  fiber.copies.push_back({to_shared, from, bytes, fiber.group});
}
inline void copy_async_of_run(u8* to_shared, const u8* from) { copy_async<16>(to_shared, from); }
inline void group_copies() { ++emulation::running().group; }
inline void finish_copies(u32 end_group) {
  std::erase_if(emulation::running().copies, [&](const emulation::Copy& copy) {
    if (copy.group >= end_group) return false;
    std::memcpy(copy.to, copy.from, copy.bytes);
    return true;
  });
}
inline void wait_for_copies() { finish_copies(emulation::running().group + 1); }
template <u32 groups>
void wait_for_copies_but() {
  const u32 group = emulation::running().group;
  finish_copies(group < groups ? 0 : group - groups);
}

template <class W>
W opaque(W value) {
  return value;
}

template <u32 mask>
u32 merge(u32 a, u32 b) {
  return (a & mask) | (b & ~mask);
}
inline u32 permute(u32 low, u32 high, u32 selector) {
  const u64 bytes = u64{high} << 32 | low;
  u32 result = 0;
  for (u32 i = 0; i < 4; ++i) result |= static_cast<u32>(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xFF) << (8 * i);
  return result;
}
inline u32 permute_signed(u32 low, u32 high, u32 selector) {
  u32 result = permute(low, high, selector);
  for (u32 i = 0; i < 4; ++i) {
    const u32 mask = 0xFFu << (8 * i);
    if ((selector >> (4 * i) & 8) != 0) result = (result & 0x80808080u & mask) != 0 ? result | mask : result & ~mask;
  }
  return result;
}
inline u32 funnel_right(u32 low, u32 high, u32 shift) {
  return static_cast<u32>((u64{high} << 32 | low) >> (shift % 32));
}
inline u32 funnel_left(u32 low, u32 high, u32 shift) {
  return static_cast<u32>((u64{high} << 32 | low) << (shift % 32) >> 32);
}
inline u32 add_pairs(u32 a, u32 b) { return ((a & 0xFFFF0000) + (b & 0xFFFF0000)) | ((a + b) & 0xFFFF); }
inline u32 subtract_pairs(u32 a, u32 b) { return ((a & 0xFFFF0000) - (b & 0xFFFF0000)) | ((a - b) & 0xFFFF); }
inline u32 add_halves(u32 word, u32 times, u32 sum) {
  return sum + (word & 0xFFFF) * (times & 0xFF) + (word >> 16) * (times >> 8 & 0xFF);
}
inline u32 ones(u32 word) { return count_ones(u64{word}); }

template <class T>
T add_toward_zero(T a, T b) {
  const int mode = std::fegetround();
  std::fesetround(FE_TOWARDZERO);
  volatile T x = a, y = b;
  volatile T sum = x + y;
  std::fesetround(mode);
  return sum;
}
inline float without_sign(float a) { return std::fabs(a); }
inline double without_sign(double a) { return std::fabs(a); }
template <class T>
T multiply_add_exact(T a, T b, T c) {
  const T product = a * b, sum = product + c;
  // Of numbers that are no bins, from rows that are done again, the result counts for nothing.
  const bool counts = std::fabs(a) < std::ldexp(T{1}, std::numeric_limits<T>::digits - 2);
  if (counts && sum != std::fma(a, b, c)) std::abort();
  return sum;
}
inline float larger(float a, float b) { return std::fmax(a, b); }
inline double larger(double a, double b) { return std::fmax(a, b); }

inline double fused_multiply_add(double a, double b, double c) { return std::fma(a, b, c); }
inline double square_root(double a) { return std::sqrt(a); }
inline double square_root_of_normal(double a) {
  if (!(a >= 0x1p-969 && a < 0x1p1023)) std::abort();
  return std::sqrt(a);
}
inline double reciprocal_of_normal(double a) {
  if (!(a >= 0x1p-1020 && a < 0x1p1020)) std::abort();
  return 1.0 / a;
}
inline double reciprocal_estimate(double a) {
  // 18 bits, as bad as it may be.
  const double exact = 1.0 / a;
  return bit_cast<double>(bit_cast<u64>(exact) >> 34 << 34);
}
inline i32 highest_of(i32 a, i32 b, i32 c) { return std::max({a, b, c}); }
inline u32 highest_of(u32 a, u32 b, u32 c) { return std::max({a, b, c}); }
inline u32 lowest_of(u32 a, u32 b, u32 c) { return std::min({a, b, c}); }
inline void count_above(u32& count, double a, double b) { count += a > b ? 1 : 0; }
template <class T>
T larger_or_nan(T a, T b) {
  return a > b || a != a ? a : b;
}
template <class T>
T smaller_or_nan(T a, T b) {
  return a < b || a != a ? a : b;
}

template <class W>
void store_streaming(W* to, W word) {
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(W) != 0) std::abort();
  *to = word;
}

}  // namespace h5lossy::H5L_TARGET
