// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Messages on stderr, for errors and warnings that HDF5 would drop.
#pragma once

#include <atomic>
#include <cstdarg>
#include <cstdio>

#include "h5lossy.h"

namespace h5lossy {

// Prints a message once per process. HDF5 2 drops errors that a filter pushes, and a successful write cannot return a
// warning.
[[gnu::format(printf, 2, 3)]] inline void say_once(std::atomic_flag& said, const char* format, ...) {
  if (said.test_and_set()) return;
  char line[2 * sizeof(h5l_message::text)];  // a message, and what is said around it
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "h5lossy: %s (shown once)\n", line);  // one call, so that other output cannot split the line
}

}  // namespace h5lossy
