// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Sets the floating-point environment that the format needs, and restores the previous one at the end of the scope. A
// host process may use flush-to-zero or another rounding mode (any library built with -ffast-math can set the former).
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#elif !defined(__aarch64__) && !defined(__wasm__)
#error "h5lossy runs on x86-64 and AArch64"
#endif

namespace h5lossy {

#if defined(__wasm__)  // has no other environment

class FloatEnvironment {
 public:
  FloatEnvironment() {}
  ~FloatEnvironment() {}
};

#else

class FloatEnvironment {
 public:
  FloatEnvironment() : saved_(get()) { set(kDefault); }
  ~FloatEnvironment() { set(saved_); }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if defined(__SSE2__)
  using Word = std::uint32_t;
  static constexpr Word kDefault = 0x1F80;  // nearest, subnormals kept, no traps, no sticky flags
  static Word get() { return _mm_getcsr(); }
  static void set(Word word) { _mm_setcsr(word); }
#else
  using Word = std::uint64_t;
  static constexpr Word kDefault = 0;
  static Word get() {
    Word word;
    asm volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void set(Word word) { asm volatile("msr fpcr, %0" : : "r"(word)); }
#endif

  Word saved_;
};

#endif

}  // namespace h5lossy
