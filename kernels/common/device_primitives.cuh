// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Device primitives: threads, warps and barriers, loads and stores, and single instructions that the compiler does not
// emit by itself. Kernels use nothing else from CUDA, so the same sources run on a CPU with
// tests/native/emulated_gpu.h, and the kernel tests need no GPU.
//
// Warp and block collectives must be called by all threads of the warp or block.
#pragma once

#include "codecs/checksum.h"
#include "codecs/portable.h"
#include "gpu/plans.h"

namespace h5lossy::H5L_TARGET {

// Four words that are loaded and stored at once.
struct alignas(16) Quad {
  u32 x, y, z, w;
};

}  // namespace h5lossy::H5L_TARGET

#if defined(__CUDACC__)
#define H5L_DEVICE __device__ __forceinline__
#define H5L_CALLED __device__ __noinline__  // for large functions that are called in several places
#define H5L_UNROLL _Pragma("unroll")
#define H5L_NO_UNROLL _Pragma("unroll 1")
#else
#define H5L_DEVICE inline
#define H5L_CALLED inline
#define H5L_UNROLL
#define H5L_NO_UNROLL
#include "emulated_gpu.h"
#endif

namespace h5lossy::H5L_TARGET {

using gpu::kThreads;
inline constexpr u32 kWarpThreads = 32;
inline constexpr u32 kWarps = kThreads / kWarpThreads;
inline constexpr u32 kLineBytes = 128;  // a cache line

// Threads per block of a kernel with this shared memory.
template <class Shared>
inline constexpr u32 kThreadsWith = kThreads;

// Flag in words that thread blocks publish; 0 means not yet published.
inline constexpr u64 kPublished = u64{1} << 63;

#if defined(__CUDACC__)

H5L_DEVICE u32 thread() { return threadIdx.x; }
H5L_DEVICE u32 block_number() { return blockIdx.x; }
H5L_DEVICE u32 block_row() { return blockIdx.y; }
H5L_DEVICE u32 grid_blocks() { return gridDim.x; }
// The slot of the thread's warp on the multiprocessor. Each of the four schedulers has every fourth slot.
H5L_DEVICE u32 warp_slot() {
  u32 slot;
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(slot));
  return slot;
}

H5L_DEVICE u8* shared_memory() {
  extern __shared__ __align__(16) u8 memory[];
  return memory;
}

H5L_DEVICE void sync_block() { __syncthreads(); }
H5L_DEVICE void sync_warp() { __syncwarp(); }
H5L_DEVICE bool any_in_block(bool flag) { return __syncthreads_or(flag) != 0; }

// A barrier in shared memory (mbarrier). Its phases are numbered; a phase completes when `threads` threads have
// arrived, and makes their writes visible to the threads that wait for it. Only the last two phases can be waited for.
H5L_DEVICE void init_barrier(u64* barrier, u32 threads) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(static_cast<u32>(__cvta_generic_to_shared(barrier))),
               "r"(threads)
               : "memory");
}
H5L_DEVICE void arrive(u64* barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(
                   static_cast<u32>(__cvta_generic_to_shared(barrier)))
               : "memory");
}
H5L_DEVICE bool is_phase_complete(u64* barrier, u32 number) {
  u32 is_over;
  asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(is_over)
               : "r"(static_cast<u32>(__cvta_generic_to_shared(barrier))), "r"(number % 2)
               : "memory");
  return is_over != 0;
}
H5L_DEVICE void wait_barrier(u64* barrier, u32 number) {
  const u32 at = static_cast<u32>(__cvta_generic_to_shared(barrier));
  for (u32 is_over = 0; is_over == 0;) {
#if __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
#else
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
#endif
                 : "=r"(is_over)
                 : "r"(at), "r"(number % 2)
                 : "memory");
  }
}

template <class W>
H5L_DEVICE W shuffle(W value, u32 from) {
  return __shfl_sync(~0u, value, static_cast<int>(from));
}
template <class W>
H5L_DEVICE W shuffle_up(W value, u32 by) {
  return __shfl_up_sync(~0u, value, by);
}
template <class W>
H5L_DEVICE W shuffle_xor(W value, u32 mask) {
  return __shfl_xor_sync(~0u, value, static_cast<int>(mask));
}
H5L_DEVICE u32 ballot(bool flag) { return __ballot_sync(~0u, flag); }

H5L_DEVICE void atomic_add(u32* to, u32 value) { atomicAdd(to, value); }
H5L_DEVICE void atomic_add(u64* to, u64 value) { atomicAdd(to, value); }
H5L_DEVICE u32 atomic_add_and_get(u32* to, u32 value) { return atomicAdd(to, value); }
H5L_DEVICE void atomic_max(u64* to, u64 value) { atomicMax(to, value); }
H5L_DEVICE void fence() { __threadfence(); }

// Accesses to words that other thread blocks access in the same launch.
H5L_DEVICE void store_relaxed(u64* to, u64 value) {
  asm volatile("st.relaxed.gpu.u64 [%0], %1;" ::"l"(to), "l"(value));
}
H5L_DEVICE u64 load_relaxed(const u64* from) {
  u64 value;
  asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(value) : "l"(from));
  return value;
}
H5L_DEVICE u32 load_relaxed(const u32* from) {
  u32 value;
  asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(value) : "l"(from));
  return value;
}
H5L_DEVICE void store_relaxed(u32* to, u32 value) {
  asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(to), "r"(value));
}
// Loads from memory that is read-only during the launch.
H5L_DEVICE u32 load_constant(const u32* from) { return __ldg(from); }
H5L_DEVICE u32 load_constant(const u16* from) { return __ldg(from); }
H5L_DEVICE u32 load_constant(const u8* from) { return __ldg(from); }
// The same, without allocating in L1: nothing nearby is read again soon.
H5L_DEVICE float load_once(const float* from) {
  float value;
  asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(value) : "l"(from));
  return value;
}
H5L_DEVICE double load_once(const double* from) {
  double value;
  asm volatile("ld.global.nc.L1::no_allocate.f64 %0, [%1];" : "=d"(value) : "l"(from));
  return value;
}
// Prefetches the cache line of an address into L2.
H5L_DEVICE void prefetch(const u8* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }
H5L_DEVICE void wait_a_little() { __nanosleep(20); }
// Polls before a waiting thread block computes the result itself. Large, because waiting is cheaper than recomputing.
inline constexpr u32 kMaxPolls = 1000;

// Asynchronous copies. A thread waits for its own copies only.
template <u32 bytes>
H5L_DEVICE void copy_async(u8* to_shared, const u8* from) {
  const u32 to = static_cast<u32>(__cvta_generic_to_shared(to_shared));
  if constexpr (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(bytes));
  }
}
// 16 bytes of a contiguous copy; prefetches the surrounding 256 bytes into L2.
H5L_DEVICE void copy_async_of_run(u8* to_shared, const u8* from) {
  const u32 to = static_cast<u32>(__cvta_generic_to_shared(to_shared));
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(to), "l"(from));
}
H5L_DEVICE void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
// Or for all but those of the last groups: a group is the copies started since the previous group_copies().
H5L_DEVICE void group_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <u32 groups>
H5L_DEVICE void wait_for_copies_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}

// Returns `value`, opaque to the compiler, which then cannot hoist computations on it out of a loop.
template <class W>
H5L_DEVICE W opaque(W value) {
  if constexpr (sizeof(W) == 8) {
    asm volatile("" : "+l"(value));
  } else {
    asm volatile("" : "+r"(value));
  }
  return value;
}

// Bitwise select: `a` where the mask is set, `b` elsewhere. In PTX, since compilers emit two instructions.
template <u32 mask>
H5L_DEVICE u32 merge(u32 a, u32 b) {
  u32 merged;
  asm("lop3.b32 %0, %1, %2, %3, 0xCA;" : "=r"(merged) : "n"(mask), "r"(a), "r"(b));
  return merged;
}

// Byte i of the result is byte (selector >> 4 i) & 7 of the eight bytes `low`, `high`.
H5L_DEVICE u32 permute(u32 low, u32 high, u32 selector) { return __byte_perm(low, high, selector); }

// The same; a selector with 8 added replicates the sign bit of its byte.
H5L_DEVICE u32 permute_signed(u32 low, u32 high, u32 selector) {
  u32 result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selector));
  return result;
}

// 32 bits of the 64-bit word `high`:`low`, shifted right by `shift` < 32; and its upper half, shifted left.
H5L_DEVICE u32 funnel_right(u32 low, u32 high, u32 shift) { return __funnelshift_r(low, high, shift); }
H5L_DEVICE u32 funnel_left(u32 low, u32 high, u32 shift) { return __funnelshift_l(low, high, shift); }

// sum + low half * byte 0 of `times` + high half * byte 1.
H5L_DEVICE u32 add_halves(u32 word, u32 times, u32 sum) { return __dp2a_lo(word, times, sum); }

// Sums and differences of both halves. One instruction each on newer GPUs.
H5L_DEVICE u32 add_pairs(u32 a, u32 b) { return __vadd2(a, b); }
H5L_DEVICE u32 subtract_pairs(u32 a, u32 b) { return __vsub2(a, b); }

H5L_DEVICE u32 ones(u32 word) { return static_cast<u32>(__popc(word)); }

H5L_DEVICE float add_toward_zero(float a, float b) { return __fadd_rz(a, b); }
H5L_DEVICE double add_toward_zero(double a, double b) { return __dadd_rz(a, b); }
H5L_DEVICE float without_sign(float a) { return fabsf(a); }  // a modifier of other instructions
H5L_DEVICE double without_sign(double a) { return fabs(a); }
// Used only where the result is exact or discarded, so fusing cannot change it.
H5L_DEVICE float multiply_add_exact(float a, float b, float c) { return __fmaf_rn(a, b, c); }
H5L_DEVICE double multiply_add_exact(double a, double b, double c) { return __fma_rn(a, b, c); }
H5L_DEVICE float larger(float a, float b) { return fmaxf(a, b); }
H5L_DEVICE double larger(double a, double b) { return fmax(a, b); }

// A fused multiply-add for places where a single rounding is intended.
H5L_DEVICE double fused_multiply_add(double a, double b, double c) { return __fma_rn(a, b, c); }
// 1 / a for a normal number, accurate to about 19 bits.
H5L_DEVICE double reciprocal_estimate(double a) {
  double estimate;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(estimate) : "d"(a));
  return estimate;
}
// Largest of three; one instruction on newer GPUs.
H5L_DEVICE i32 highest_of(i32 a, i32 b, i32 c) {
  asm("{ .reg .s32 most; max.s32 most, %0, %1; max.s32 %0, most, %2; }" : "+r"(a) : "r"(b), "r"(c));
  return a;
}
H5L_DEVICE u32 highest_of(u32 a, u32 b, u32 c) {
  asm("{ .reg .u32 most; max.u32 most, %0, %1; max.u32 %0, most, %2; }" : "+r"(a) : "r"(b), "r"(c));
  return a;
}
H5L_DEVICE u32 lowest_of(u32 a, u32 b, u32 c) {
  asm("{ .reg .u32 least; min.u32 least, %0, %1; min.u32 %0, least, %2; }" : "+r"(a) : "r"(b), "r"(c));
  return a;
}
// Increments `count` if a > b. In PTX, since compilers emit two instructions for the addition.
H5L_DEVICE void count_above(u32& count, double a, double b) {
  asm("{ .reg .pred p; setp.gt.f64 p, %1, %2; @p add.u32 %0, %0, 1; }" : "+r"(count) : "d"(a), "d"(b));
}
// Correctly rounded, by the compiler's own sequence without its slow-path branch: the square root of 2^-969 to 2^1023,
// and the reciprocal of 2^-1020 to 2^1020.
H5L_DEVICE double square_root_of_normal(double a) {
  double estimate;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(estimate) : "d"(a));
  const double lack = __fma_rn(a, -(estimate * estimate), 1.0);
  const double inverse = __fma_rn(__fma_rn(lack, 0.375, 0.5), estimate * lack, estimate);
  const double root = a * inverse;
  const double half = __hiloint2double(__double2hiint(inverse) - (1 << 20), __double2loint(inverse));
  return __fma_rn(__fma_rn(root, -root, a), half, root);
}
H5L_DEVICE double reciprocal_of_normal(double a) {
  // Other low words give a wrong result for mantissas of all ones.
  const double estimate = __hiloint2double(__double2hiint(reciprocal_estimate(a)), __double2hiint(a) + 0x300402);
  const double lack = __fma_rn(-a, estimate, 1.0);
  const double inverse = __fma_rn(estimate, __fma_rn(lack, lack, lack), estimate);
  return __fma_rn(inverse, __fma_rn(-a, inverse, 1.0), inverse);
}
H5L_DEVICE double square_root(double a) { return sqrt(a); }
// NaN if either is NaN.
H5L_DEVICE float larger_or_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
H5L_DEVICE float smaller_or_nan(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
H5L_DEVICE double larger_or_nan(double a, double b) { return a > b || a != a ? a : b; }
H5L_DEVICE double smaller_or_nan(double a, double b) { return a < b || a != a ? a : b; }

// Non-temporal stores, for output that is not read soon.
template <class W>
H5L_DEVICE void store_streaming(W* to, W word) {
  if constexpr (sizeof(W) == 16) {
    asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(word.x), "r"(word.y), "r"(word.z),
                 "r"(word.w)
                 : "memory");
  } else {
    *to = word;
  }
}

#endif

// a / b, correctly rounded, without branches. b has at most 47 significant bits, and both are far from the limits of
// float64, or a is 0. The reciprocal is accurate to 2^-52.5, so `quotient` is less than 3 ulp off, and `rest` is exact.
// The correction is accurate to 2^-50 ulp, while a / b is at least 2^-48 ulp from any rounding midpoint.
H5L_DEVICE double divide_by_short(double a, double b) {
  const double estimate = reciprocal_estimate(b);
  const double lack = fused_multiply_add(-b, estimate, 1.0);
  const double reciprocal = fused_multiply_add(estimate, fused_multiply_add(lack, lack, lack), estimate);
  const double quotient = a * reciprocal;
  const double rest = fused_multiply_add(-b, quotient, a);
  return fused_multiply_add(rest, reciprocal, quotient);
}

// One to four bytes of any alignment, in the low bytes of a word.
H5L_DEVICE u32 load_some(const u8* from, u32 bytes) {
  if (bytes == 4 && reinterpret_cast<u64>(from) % 4 == 0) return load_constant(reinterpret_cast<const u32*>(from));
  u32 word = 0;
  for (u32 i = 0; i < bytes; ++i) word |= load_constant(from + i) << (8 * i);
  return word;
}
H5L_DEVICE void store_some(u8* to, u32 bytes, u32 word) {
  if (bytes == 4 && reinterpret_cast<u64>(to) % 4 == 0) {
    *reinterpret_cast<u32*>(to) = word;
  } else {
    for (u32 i = 0; i < bytes; ++i) to[i] = static_cast<u8>(word >> (8 * i));
  }
}

H5L_DEVICE u32 lane() { return thread() % kWarpThreads; }
H5L_DEVICE u32 warp() { return thread() / kWarpThreads; }
H5L_DEVICE u32 lanes_below() { return (u32{1} << lane()) - 1; }
H5L_DEVICE u32 lowest_one(u32 word) { return ones(~word & (word - 1)); }  // of a nonzero word
H5L_DEVICE bool any_in_warp(bool flag) { return ballot(flag) != 0; }

#if defined(__CUDACC__)
// One instruction each (redux.sync).
H5L_DEVICE u32 sum_of_warp(u32 value) { return __reduce_add_sync(~0u, value); }
H5L_DEVICE u32 or_of_warp(u32 value) { return __reduce_or_sync(~0u, value); }
H5L_DEVICE u32 largest_of_warp(u32 value) { return __reduce_max_sync(~0u, value); }
// Two instructions a step: the shuffle's predicate says whether the source lane exists.
H5L_DEVICE u32 scan_of_warp(u32 value) {
  H5L_UNROLL for (u32 by = 1; by < kWarpThreads; by *= 2) {
    asm volatile(
        "{ .reg .pred p; .reg .u32 before;\n"
        "shfl.sync.up.b32 before|p, %0, %1, 0, -1;\n"
        "@p add.u32 %0, %0, before; }"
        : "+r"(value)
        : "r"(by));
  }
  return value;
}
#endif

template <class W>
H5L_DEVICE W sum_of_warp(W value) {
  for (u32 by = 16; by != 0; by /= 2) value += shuffle_xor(value, by);
  return value;
}

template <class W>
H5L_DEVICE W or_of_warp(W value) {
  for (u32 by = 16; by != 0; by /= 2) value |= shuffle_xor(value, by);
  return value;
}

#if !defined(__CUDACC__)
H5L_DEVICE u32 largest_of_warp(u32 value) {
  for (u32 by = 16; by != 0; by /= 2) {
    const u32 other = shuffle_xor(value, by);
    value = other > value ? other : value;
  }
  return value;
}
#endif
H5L_DEVICE u64 largest_of_warp(u64 value) {
  const u32 own = static_cast<u32>(value >> 32);
  const u32 high = largest_of_warp(own);
  return u64{high} << 32 | largest_of_warp(own == high ? static_cast<u32>(value) : 0u);
}

H5L_DEVICE u32 least_of_warp(u32 value) { return ~largest_of_warp(~value); }

// Inclusive scan over the warp.
template <class W>
H5L_DEVICE W scan_of_warp(W value) {
  for (u32 by = 1; by < kWarpThreads; by *= 2) {
    const W before = shuffle_up(value, by);
    if (lane() >= by) value += before;
  }
  return value;
}

// Exclusive scan over the thread block, and the total. `totals` is kWarps words of unused shared memory, reusable after
// the block's next barrier.
template <class W, class Barrier>
H5L_DEVICE W scan_across(W value, W* totals, W& total, Barrier barrier) {
  const W inclusive = scan_of_warp(value);
  if (lane() == kWarpThreads - 1) totals[warp()] = inclusive;
  barrier();
  W before = 0;
  total = 0;
  H5L_UNROLL for (u32 w = 0; w < kWarps; ++w) {
    if (w < warp()) before += totals[w];
    total += totals[w];
  }
  return before + inclusive - value;
}
template <class W>
H5L_DEVICE W scan_of_block(W value, W* totals, W& total) {
  return scan_across(value, totals, total, [] { sync_block(); });
}
// Also returns whether any thread has set its flag.
template <class W>
H5L_DEVICE W scan_of_block(W value, W* totals, W& total, bool flag, bool& any) {
  return scan_across(value, totals, total, [&] { any = any_in_block(flag); });
}

// ---------------------------------------------------------------------------------------------------------------------
// Rows of values in shared memory, one per thread, in pieces of 16 bytes. Pieces are swizzled, so that threads that
// access the same piece of their rows have no bank conflicts.

template <u32 row_bytes>
H5L_DEVICE u32 place_in_rows(u32 row, u32 piece) {
  return row * row_bytes + (piece ^ (row & 7)) * 16;
}

template <u32 row_bytes, class W>
H5L_DEVICE W* value_in_rows(u8* rows, u32 row, u32 i) {
  const u32 at = i * static_cast<u32>(sizeof(W));
  return reinterpret_cast<W*>(rows + place_in_rows<row_bytes>(row, at / 16) + at % 16);
}

// Loads or stores a piece of the thread's row.
inline constexpr u32 kPieceBytes = sizeof(Quad);

template <u32 row_bytes, class W>
H5L_DEVICE void load_piece(const u8* rows, u32 piece, W (&words)[kPieceBytes / sizeof(W)]) {
  const Quad quad = *reinterpret_cast<const Quad*>(rows + place_in_rows<row_bytes>(thread(), piece));
  if constexpr (sizeof(W) == 4) {
    words[0] = bit_cast<W>(quad.x);
    words[1] = bit_cast<W>(quad.y);
    words[2] = bit_cast<W>(quad.z);
    words[3] = bit_cast<W>(quad.w);
  } else {
    words[0] = bit_cast<W>(u64{quad.x} | u64{quad.y} << 32);
    words[1] = bit_cast<W>(u64{quad.z} | u64{quad.w} << 32);
  }
}

template <u32 row_bytes, class W>
H5L_DEVICE void store_piece(u8* rows, u32 piece, const W (&words)[kPieceBytes / sizeof(W)]) {
  Quad quad;
  if constexpr (sizeof(W) == 4) {
    quad = {bit_cast<u32>(words[0]), bit_cast<u32>(words[1]), bit_cast<u32>(words[2]), bit_cast<u32>(words[3])};
  } else {
    const u64 low = bit_cast<u64>(words[0]), high = bit_cast<u64>(words[1]);
    quad = {static_cast<u32>(low), static_cast<u32>(low >> 32), static_cast<u32>(high), static_cast<u32>(high >> 32)};
  }
  *reinterpret_cast<Quad*>(rows + place_in_rows<row_bytes>(thread(), piece)) = quad;
}

// Loads or stores a thread's whole row.
template <u32 row_bytes, class W>
H5L_DEVICE void load_row(const u8* rows, W (&words)[row_bytes / sizeof(W)]) {
  constexpr u32 n = kPieceBytes / sizeof(W);
  H5L_UNROLL for (u32 piece = 0; piece < row_bytes / kPieceBytes; ++piece) {
    W some[n];
    load_piece<row_bytes>(rows, piece, some);
    H5L_UNROLL for (u32 k = 0; k < n; ++k) words[n * piece + k] = some[k];
  }
}

template <u32 row_bytes, class W>
H5L_DEVICE void store_row(u8* rows, const W (&words)[row_bytes / sizeof(W)]) {
  constexpr u32 n = kPieceBytes / sizeof(W);
  H5L_UNROLL for (u32 piece = 0; piece < row_bytes / kPieceBytes; ++piece) {
    W some[n];
    H5L_UNROLL for (u32 k = 0; k < n; ++k) some[k] = words[n * piece + k];
    store_piece<row_bytes>(rows, piece, some);
  }
}

// Whether each warp loads and stores its own rows, so that a warp barrier suffices.
template <u32 row_bytes>
H5L_DEVICE bool rows_are_own(const u8* values, u32 bytes) {
  return bytes == kThreads * row_bytes && reinterpret_cast<u64>(values) % 16 == 0;
}

// Calls move(offset in the rows, offset in the values) for this thread's pieces of the warp's rows. Every offset is one
// of three plus a constant.
template <u32 row_bytes, class Rows, class Values, class Move>
H5L_DEVICE void for_own_pieces(Rows* rows, Values* values, Move move) {
  constexpr u32 pieces = row_bytes / 16;               // of a row
  constexpr u32 rows_at_once = kWarpThreads / pieces;  // rows that a warp moves at once
  static_assert(8 % rows_at_once == 0);
  const u32 row = warp() * kWarpThreads + lane() / pieces;
  Values* const own = values + (row * row_bytes + lane() % pieces * 16);
  H5L_UNROLL for (u32 turn = 0; turn < 8 / rows_at_once; ++turn) {  // the swizzle repeats after 8 rows
    Rows* const place = rows + place_in_rows<row_bytes>(row + turn * rows_at_once, lane() % pieces);
    H5L_UNROLL for (u32 i = turn; i < pieces; i += 8 / rows_at_once) {
      move(place + (i - turn) * rows_at_once * row_bytes, own + i * rows_at_once * row_bytes);
    }
  }
}

// Starts to copy `bytes` of consecutive values (a multiple of `unit`, the size of a value) into the rows; the rest of
// the rows is not touched.
template <u32 row_bytes, u32 unit>
H5L_DEVICE void start_rows(u8* rows, const u8* from, u32 bytes) {
  const auto address = reinterpret_cast<u64>(from);
  if (rows_are_own<row_bytes>(from, bytes)) {
    for_own_pieces<row_bytes>(rows, from, [](u8* place, const u8* at) { copy_async<16>(place, at); });
    return;
  }
  const u32 quads = address % 16 == 0 ? bytes / 16 : 0;
  for (u32 i = thread(); i < quads; i += kThreads) {
    copy_async<16>(rows + place_in_rows<row_bytes>(i * 16 / row_bytes, i * 16 % row_bytes / 16), from + i * 16);
  }
  for (u32 at = quads * 16 + thread() * unit; at < bytes; at += kThreads * unit) {
    copy_async<unit>(rows + place_in_rows<row_bytes>(at / row_bytes, at % row_bytes / 16) + at % 16, from + at);
  }
}

// Waits for the copies of start_rows.
template <u32 row_bytes>
H5L_DEVICE void finish_start(const u8* from, u32 bytes) {
  wait_for_copies();
  rows_are_own<row_bytes>(from, bytes) ? sync_warp() : sync_block();
}

// Stores the first `bytes` of the rows, just written by the threads, as consecutive values.
template <u32 row_bytes, class W>
H5L_DEVICE void finish_rows(const u8* rows, u8* to, u32 bytes) {
  if (rows_are_own<row_bytes>(to, bytes)) {
    sync_warp();
    for_own_pieces<row_bytes>(rows, to, [](const u8* place, u8* at) {
      store_streaming(reinterpret_cast<Quad*>(at), *reinterpret_cast<const Quad*>(place));
    });
    return;
  }
  sync_block();
  const auto address = reinterpret_cast<u64>(to);
  const u32 quads = address % 16 == 0 ? bytes / 16 : 0;
  for (u32 i = thread(); i < quads; i += kThreads) {
    store_streaming(
        reinterpret_cast<Quad*>(to + i * 16),
        *reinterpret_cast<const Quad*>(rows + place_in_rows<row_bytes>(i * 16 / row_bytes, i * 16 % row_bytes / 16)));
  }
  for (u32 at = quads * 16 + thread() * static_cast<u32>(sizeof(W)); at < bytes; at += kThreads * sizeof(W)) {
    *reinterpret_cast<W*>(to + at) =
        *reinterpret_cast<const W*>(rows + place_in_rows<row_bytes>(at / row_bytes, at % row_bytes / 16) + at % 16);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Transposes 8 x 8 bits in each byte lane of eight words: bit c of row r becomes bit r of row c. Its own inverse.

H5L_DEVICE void transpose_bytes(u32 (&rows)[8]) {
  H5L_UNROLL for (u32 i = 0; i < 4; ++i) {
    const u32 a = rows[i], b = rows[i + 4];
    rows[i] = merge<0x0F0F0F0Fu>(a, b << 4);
    rows[i + 4] = merge<0x0F0F0F0Fu>(a >> 4, b);
  }
  H5L_UNROLL for (u32 i = 0; i < 8; i += (i % 4 == 1 ? 3 : 1)) {
    const u32 a = rows[i], b = rows[i + 2];
    rows[i] = merge<0x33333333u>(a, b << 2);
    rows[i + 2] = merge<0x33333333u>(a >> 2, b);
  }
  H5L_UNROLL for (u32 i = 0; i < 8; i += 2) {
    const u32 a = rows[i], b = rows[i + 1];
    rows[i] = merge<0x55555555u>(a, b << 1);
    rows[i + 1] = merge<0x55555555u>(a >> 1, b);
  }
}

// Byte `s` of the words in lanes 0 to 3 of a row.
H5L_DEVICE u32 gather_bytes(u32 a, u32 b, u32 c, u32 d, u32 s) {
  const u32 pair = s | (s + 4) << 4;
  return permute(permute(a, b, pair), permute(c, d, pair), 0x5410);
}

// The 32-bit half that contains byte `s`, as byte s % 4.
H5L_DEVICE u32 half_of(u32 word, u32) { return word; }
H5L_DEVICE u32 half_of(u64 word, u32 s) { return static_cast<u32>(s < 4 ? word : word >> 32); }

// ---------------------------------------------------------------------------------------------------------------------
// Structs as words

// The index of a struct's first nonzero 8-byte word, and of the word at which a member begins, as constants: older
// NVRTCs lack __builtin_offsetof.
template <class Struct>
H5L_FN constexpr u32 first_word_of(const Struct& all) {
  struct Words {
    u64 word[sizeof(Struct) / 8];
  };
  const Words words = __builtin_bit_cast(Words, all);
  u32 i = 0;
  while (words.word[i] == 0) ++i;
  return i;
}
template <class Struct, class T>
H5L_FN constexpr u32 word_of(T Struct::* member) {
  Struct all = {};
  all.*member = 1;
  return first_word_of(all);
}
template <class Struct, class T, decltype(sizeof 0) n>
H5L_FN constexpr u32 word_of(T (Struct::*member)[n]) {
  Struct all = {};
  (all.*member)[0] = 1;
  return first_word_of(all);
}

}  // namespace h5lossy::H5L_TARGET
