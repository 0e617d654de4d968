// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// What every entry point of the C API runs in.
#pragma once

#include <new>

#include "dispatch/float_environment.h"
#include "format/message.h"
#include "h5lossy.h"

namespace h5lossy {

// Keeps the caller's floating-point settings, and lets nothing be thrown across the border.
template <class Call>
h5l_status guarded(h5l_message* message, Call call) noexcept {
  const Message why(message);
  try {
    const FloatEnvironment environment;
    return call(why);
  } catch (const std::bad_alloc&) {
    return why.fail(H5L_OUT_OF_MEMORY, "out of memory");
  } catch (...) {
    return why.fail(H5L_INTERNAL, "an unexpected exception; please report it");
  }
}

}  // namespace h5lossy
