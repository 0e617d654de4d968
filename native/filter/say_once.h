// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A plugin's last way to be heard: standard error.
#pragma once

#include <atomic>
#include <cstdarg>
#include <cstdio>

#include "h5lossy.h"

namespace h5lossy {

// Tells the user, once in a process: HDF5 2 drops what a filter puts on its error stack, and a write that succeeds has no
// error at all.
[[gnu::format(printf, 2, 3)]] inline void say_once(std::atomic_flag& said, const char* format, ...) {
  if (said.test_and_set()) return;
  h5l_message line;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line.text, sizeof line.text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "h5lossy: %s (said once)\n", line.text);  // in one piece: others write there, too
}

}  // namespace h5lossy
