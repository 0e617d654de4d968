// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// What h5l_encode and h5l_decode do, on up to `threads` threads.
#pragma once

#include "h5lossy.h"

namespace h5lossy {

h5l_status encode_checked(const h5l_params* params, const void* raw, size_t raw_bytes, void* frame, size_t capacity,
                          size_t* frame_bytes, uint32_t threads, h5l_message* message) noexcept;

h5l_status decode_checked(const void* frame, size_t frame_bytes, void* raw, size_t raw_bytes, uint32_t threads,
                          h5l_message* message) noexcept;

}  // namespace h5lossy
