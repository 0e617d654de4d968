// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// What all entry points of the C API share: argument checks, the floating-point environment, and catching exceptions.
#pragma once

#include <cstdint>
#include <new>
#include <span>

#include "frame/message.h"
#include "h5lossy.h"
#include "runtime/float_environment.h"

namespace h5lossy {

inline std::span<const std::uint8_t> bytes_of(const void* data, std::size_t size) {
  return {static_cast<const std::uint8_t*>(data), size};
}
inline std::span<std::uint8_t> bytes_of(void* data, std::size_t size) {
  return {static_cast<std::uint8_t*>(data), size};
}

// Runs the body of an entry point with the format's floating-point environment, and turns exceptions into statuses.
template <class Call>
h5l_status guarded(h5l_message* message, Call call) noexcept {
  const Message why(message);
  try {
    const FloatEnvironment environment;
    return call(why);
  } catch (const std::bad_alloc&) {
    return why.fail(H5L_OUT_OF_MEMORY, "out of memory");
  } catch (...) {
    return why.fail(H5L_INTERNAL, "unexpected exception; please report it");
  }
}

inline h5l_status check_pointer(const void* pointer, std::size_t size, const char* name, const Message& why) {
  if (pointer != nullptr || size == 0) return H5L_OK;
  return why.fail(H5L_INVALID_ARGUMENT, "%s is a null pointer", name);
}

}  // namespace h5lossy
