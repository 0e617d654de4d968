// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The C API's calls for one chunk, on up to `threads` threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "frame/frame.h"
#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

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
