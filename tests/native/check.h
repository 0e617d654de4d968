// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// CHECK: ends the program with a message if something that must be true is not. One program tests one behaviour, so the
// first failure is all there is to say.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace h5lossy::test {

// What ctest counts as skipped and not as passed (SKIP_RETURN_CODE in CMakeLists.txt).
inline constexpr int kSkipped = 77;

[[noreturn, gnu::format(printf, 4, 5)]] inline void fail(const char* file, int line, const char* condition,
                                                         const char* format, ...) {
  std::printf("%s:%d: not true: %s\n  ", file, line, condition);
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
  std::fflush(stdout);
  std::abort();  // with a stack trace where a debugger, a fuzzer or a sanitizer looks on
}

}  // namespace h5lossy::test

// CHECK(condition, "format", …): the rest says, as for printf, with which inputs it failed.
#define CHECK(condition, ...) \
  ((condition) ? void() : ::h5lossy::test::fail(__FILE__, __LINE__, #condition, __VA_ARGS__))
