// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A GPU on one CPU thread, to run the kernels where there is none: the device's part of kernels/vocabulary.cuh. Every GPU
// thread is a fiber, which runs until it waits for others. Slow, and strict: a barrier or an exchange that some threads of
// a warp or a block do not come to, and blocks that wait for each other for ever, end the program with a message.
#pragma once

#include <ucontext.h>

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "codecs/portable.h"

namespace h5lossy::emulation {

inline constexpr u32 kMostThreads = 512;  // of a thread block
inline constexpr u32 kWarpThreads = 32;
inline constexpr std::size_t kStackBytes = 96 * 1024;

// Where threads meet. What each one brings stays until the one after the next meeting.
struct Meeting {
  u32 size = 0, arrived = 0;
  u64 round = 0;
  u64 brought[2][kMostThreads] = {};
};

struct Block {
  u32 index = 0, row = 0;
  Meeting all, warps[kMostThreads / kWarpThreads], some[2];
  std::vector<std::uint64_t> shared;
};

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  Block* block = nullptr;
  u32 thread = 0;
  bool done = false;
};

struct Grid {
  u32 blocks = 0, rows = 0;
  u64 progress = 0;  // counts what may let another fiber go on
  ucontext_t scheduler;
  Fiber* running = nullptr;
  std::function<void()> kernel;
};

inline Grid grid;

inline void yield() { swapcontext(&grid.running->context, &grid.scheduler); }

inline void run_fiber() {
  grid.kernel();
  grid.running->done = true;
  ++grid.progress;
  swapcontext(&grid.running->context, &grid.scheduler);
}

// Waits until all of the meeting have come, and returns what they brought.
inline const u64* meet(Meeting& meeting, u32 place, u64 brought) {
  const u64 round = meeting.round;
  meeting.brought[round % 2][place] = brought;
  ++grid.progress;
  if (++meeting.arrived == meeting.size) {
    meeting.arrived = 0;
    ++meeting.round;
  }
  while (meeting.round == round) yield();
  return meeting.brought[round % 2];
}

inline Meeting& warp_of(const Fiber& fiber) { return fiber.block->warps[fiber.thread / kWarpThreads]; }

template <class W>
u64 as_word(W value) {
  u64 word = 0;
  std::memcpy(&word, &value, sizeof value);
  return word;
}

// Runs a kernel; blocks of a row run at the same time, so they may wait for each other, one row after the other.
inline void launch(u32 blocks, u32 rows, u32 threads, std::size_t shared_bytes, std::function<void()> kernel) {
  if (threads > kMostThreads) std::abort();
  grid.blocks = blocks;
  grid.rows = rows;
  grid.kernel = std::move(kernel);
  static std::vector<std::unique_ptr<char[]>> stacks;
  for (u32 row = 0; row < rows; ++row) {
    std::vector<std::unique_ptr<Block>> all_blocks;
    std::vector<Fiber> fibers(std::size_t{blocks} * threads);
    while (stacks.size() < fibers.size()) stacks.emplace_back(new char[kStackBytes]);
    for (u32 b = 0; b < blocks; ++b) {
      all_blocks.push_back(std::make_unique<Block>());
      Block& block = *all_blocks.back();
      block.index = b;
      block.row = row;
      block.shared.assign(shared_bytes / 8 + 1, 0xA5A5A5A5A5A5A5A5ull);
      block.all.size = threads;
      for (Meeting& meeting : block.warps) meeting.size = kWarpThreads;
      for (u32 t = 0; t < threads; ++t) {
        Fiber& fiber = fibers[std::size_t{b} * threads + t];
        fiber.block = &block;
        fiber.thread = t;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = stacks[std::size_t{b} * threads + t].get();
        fiber.context.uc_stack.ss_size = kStackBytes;
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, run_fiber, 0);
      }
    }
    for (bool any = true; any;) {
      any = false;
      const u64 before = grid.progress;
      for (Fiber& fiber : fibers) {
        if (fiber.done) continue;
        any = true;
        grid.running = &fiber;
        swapcontext(&grid.scheduler, &fiber.context);
      }
      if (any && grid.progress == before) {
        std::fprintf(stderr, "emulated GPU: all threads wait for each other\n");
        std::abort();
      }
    }
  }
}

}  // namespace h5lossy::emulation

namespace h5lossy::H5L_TARGET {

namespace emulation = h5lossy::emulation;

inline u32 thread() { return emulation::grid.running->thread; }
inline u32 block_number() { return emulation::grid.running->block->index; }
inline u32 block_row() { return emulation::grid.running->block->row; }
inline u32 grid_blocks() { return emulation::grid.blocks; }
inline u32 grid_rows() { return emulation::grid.rows; }
inline u8* shared_memory() { return reinterpret_cast<u8*>(emulation::grid.running->block->shared.data()); }

inline void sync_block() { emulation::meet(emulation::grid.running->block->all, thread(), 0); }
inline bool any_in_block(bool flag) {
  const u64* const flags = emulation::meet(emulation::grid.running->block->all, thread(), flag ? 1 : 0);
  u64 any = 0;
  for (u32 t = 0; t < emulation::grid.running->block->all.size; ++t) any |= flags[t];
  return any != 0;
}

inline void sync_warps(u32 number, u32 warps) {
  emulation::Meeting& meeting = emulation::grid.running->block->some[number];
  meeting.size = warps * 32;
  emulation::meet(meeting, thread(), 0);
}

template <class W>
W exchange(W value, u32 from) {
  const u64 word = emulation::meet(emulation::warp_of(*emulation::grid.running), thread() % 32,
                                   emulation::as_word(value))[from % 32];
  W result;
  std::memcpy(&result, &word, sizeof result);
  return result;
}
inline void sync_warp() { exchange(0u, 0); }
// How many warps a round takes, have told in this one, and how many rounds are over.
struct Rounds {
  u16 warps, told;
  u32 over;
};
inline void begin_rounds(u64* rounds, u32 warps) { *rounds = bit_cast<u64>(Rounds{static_cast<u16>(warps), 0, 0}); }
inline void tell(u64* rounds) {
  sync_warp();
  if (thread() % 32 != 0) return;
  auto now = bit_cast<Rounds>(*rounds);
  if (++now.told == now.warps) {
    now.told = 0;
    ++now.over;
  }
  *rounds = bit_cast<u64>(now);
  ++emulation::grid.progress;
}
inline void wait_for_round(u64* rounds, u32 number) {
  while (bit_cast<Rounds>(*rounds).over % 2 == number % 2) emulation::yield();
}

template <class W>
W shuffle(W value, u32 from) {
  return exchange(value, from);
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
  const u64* const flags = emulation::meet(emulation::warp_of(*emulation::grid.running), thread() % 32, flag ? 1 : 0);
  u32 bits = 0;
  for (u32 i = 0; i < 32; ++i) bits |= static_cast<u32>(flags[i]) << i;
  return bits;
}

inline u32 atomic_add_and_get(u32* to, u32 value) {
  const u32 before = *to;
  *to += value;
  return before;
}
inline void atomic_add(u32* to, u32 value) { *to += value; }
inline void atomic_add(u64* to, u64 value) { *to += value; }
inline void atomic_min(u64* to, u64 value) { *to = value < *to ? value : *to; }
inline void atomic_max(u64* to, u64 value) { *to = value > *to ? value : *to; }
inline void fence() {}
inline void store_relaxed(u64* to, u64 value) {
  *to = value;
  ++emulation::grid.progress;
}
inline void store_relaxed(u32* to, u32 value) {
  *to = value;
  ++emulation::grid.progress;
}
inline u32 load_constant(const u32* from) { return *from; }
inline u32 load_constant(const u8* from) { return *from; }
inline u64 load_relaxed(const u64* from) { return *from; }
inline u32 load_relaxed(const u32* from) { return *from; }
inline void prefetch(const u8*) {}
inline void wait_a_little() { emulation::yield(); }
inline constexpr u32 kPatience = 2;  // so that both happen

template <u32 bytes>
void copy_async(u8* to_shared, const u8* from) {
  if (reinterpret_cast<std::uintptr_t>(from) % bytes != 0) std::abort();
  std::memcpy(to_shared, from, bytes);
}
inline void wait_for_copies() {}
inline void group_copies() {}
template <u32 groups>
void wait_for_copies_but() {}

template <class W>
W unforeseen(W value) {
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
inline double reciprocal_estimate(double a) {
  // 18 bits, as bad as it may be.
  const double exact = 1.0 / a;
  return bit_cast<double>(bit_cast<u64>(exact) >> 34 << 34);
}
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
