// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The C API's calls for one chunk, on up to `threads` threads, and the code shared by all entry points: argument checks,
// the floating-point environment, and catching exceptions.
#pragma once

#include <cstdint>
#include <new>
#include <span>

#include "frame/frame.h"
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

h5l_status check_pointer(const void* pointer, std::size_t size, const char* name, const Message& why);

h5l_status open_checked(const void* frame, std::size_t frame_bytes, Frame& opened, const Message& why);

// Checks the size of `raw`, then decodes a whole frame.
h5l_status decode_opened(const Frame& frame, std::span<std::uint8_t> raw, const Message& why, std::uint32_t threads);

// h5l_encode and h5l_decode.
h5l_status encode_checked(const h5l_params* params, const void* raw, std::size_t raw_bytes, void* frame,
                          std::size_t capacity, std::size_t* frame_bytes, std::uint32_t threads,
                          h5l_message* message) noexcept;
h5l_status decode_checked(const void* frame, std::size_t frame_bytes, void* raw, std::size_t raw_bytes,
                          std::uint32_t threads, h5l_message* message) noexcept;

}  // namespace h5lossy
