// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The only file that depends on the compiler (g++, clang, nvcc or NVRTC): integers, bit casts, and single IEEE
// operations that no compiler may fuse.
//
// The codec headers are compiled once for each backend, with its instruction set. Everything in them is in a namespace
// of the backend (H5L_TARGET): otherwise the linker would merge inline functions of the same name, and a function
// compiled for AVX-512 might run on a machine without it.
#pragma once

#if defined(__FAST_MATH__)
#error "h5lossy's bounds need IEEE arithmetic: do not compile with -ffast-math or -Ofast"
#endif

#if !defined(__CUDACC__)
#include <cfloat>
#include <cstring>
#if FLT_EVAL_METHOD != 0
#error "h5lossy needs float arithmetic in float precision: on 32-bit x86 compile with -msse2 -mfpmath=sse"
#endif
#endif

#if defined(__CUDACC__)
#define H5L_FN __host__ __device__ __forceinline__
#define H5L_RARE_FN __host__ __device__ __noinline__
#define H5L_TABLE static __device__ constexpr
#ifndef H5L_TARGET
#define H5L_TARGET cuda
#endif
#else
#define H5L_FN inline
#define H5L_RARE_FN inline          // a function that kernels call in many places, but rarely
#define H5L_TABLE inline constexpr  // begins the definition of an array that kernels use, too
#ifndef H5L_TARGET
#define H5L_TARGET scalar
#endif
#endif

// For vector code that stays in registers only if everything is inlined into one function. With a sanitizer's checks,
// such a function takes minutes to compile.
#ifdef H5L_SANITIZED
#define H5L_INLINE inline
#else
#define H5L_INLINE [[gnu::always_inline]] inline
#endif

namespace h5lossy {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;
static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8);

// One of two types: std::conditional, which NVRTC does not have.
template <bool is_first, class A, class B>
struct Selected {
  using Type = A;
};
template <class A, class B>
struct Selected<false, A, B> {
  using Type = B;
};
template <bool is_first, class A, class B>
using Select = typename Selected<is_first, A, B>::Type;

namespace H5L_TARGET {

// Reinterprets the bits as another type of the same size.
template <class To, class From>
H5L_FN To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

// Unaligned loads and stores: the bytes of a chunk have no alignment and no type of their own.
template <class W>
H5L_FN W load(const u8* from) {
  W word;
  memcpy(&word, from, sizeof(W));
  return word;
}

template <class W>
H5L_FN void store(u8* to, W word) {
  memcpy(to, &word, sizeof(W));
}

#if defined(__CUDACC__)
inline constexpr bool kIsForGpu = true;
#else
inline constexpr bool kIsForGpu = false;

// A SIMD register of words, with element-wise arithmetic.
#if defined(H5L_AVX512)
inline constexpr u32 kVectorBytes = 64;
#elif defined(H5L_AVX2)
inline constexpr u32 kVectorBytes = 32;
#else
inline constexpr u32 kVectorBytes = 16;
#endif

// Whether an instruction converts 64-bit integers to double.
#if defined(H5L_AVX512) || defined(__aarch64__)
inline constexpr bool kConvertsIntegers = true;
#else
inline constexpr bool kConvertsIntegers = false;
#endif

template <class W>
inline constexpr u32 kLanes = kVectorBytes / static_cast<u32>(sizeof(W));

template <class W>
struct VectorOf {
  using Type [[gnu::vector_size(kVectorBytes)]] = W;
};

template <class W>
using Vector = typename VectorOf<W>::Type;
#endif

// Leading zeros; `word` is not 0.
H5L_FN u32 count_leading_zeros(u32 word) {
#if defined(__CUDA_ARCH__)
  return static_cast<u32>(__clz(static_cast<int>(word)));
#else
  return static_cast<u32>(__builtin_clz(word));
#endif
}

H5L_FN u32 count_leading_zeros(u64 word) {
#if defined(__CUDA_ARCH__)
  return static_cast<u32>(__clzll(static_cast<long long>(word)));
#else
  return static_cast<u32>(__builtin_clzll(word));
#endif
}

H5L_FN u32 count_ones(u64 word) {
#if defined(__CUDA_ARCH__)
  return static_cast<u32>(__popcll(word));
#else
  return static_cast<u32>(__builtin_popcountll(word));
#endif
}

// One correctly rounded operation each. On the GPU only the _rn intrinsics are never fused; on the CPU the build sets
// -ffp-contract=off, which no pragma replaces.
#if defined(__CUDA_ARCH__)
H5L_FN float add(float a, float b) { return __fadd_rn(a, b); }
H5L_FN float subtract(float a, float b) { return __fsub_rn(a, b); }
H5L_FN float multiply(float a, float b) { return __fmul_rn(a, b); }
H5L_FN double add(double a, double b) { return __dadd_rn(a, b); }
H5L_FN double subtract(double a, double b) { return __dsub_rn(a, b); }
H5L_FN double multiply(double a, double b) { return __dmul_rn(a, b); }
#else
H5L_FN float add(float a, float b) { return a + b; }
H5L_FN float subtract(float a, float b) { return a - b; }
H5L_FN float multiply(float a, float b) { return a * b; }
H5L_FN double add(double a, double b) { return a + b; }
H5L_FN double subtract(double a, double b) { return a - b; }
H5L_FN double multiply(double a, double b) { return a * b; }
#endif

}  // namespace H5L_TARGET
}  // namespace h5lossy
