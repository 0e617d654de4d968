// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Turns requests and frame headers into calls of the GPU backend.
#pragma once

#include <cstddef>
#include <cstdint>

#include "frame/frame.h"
#include "gpu/sequences.h"
#include "h5lossy.h"

namespace h5lossy {

// For chunks of raw_bytes each. `params` has passed check_params and has a type. A range-relative bound refers to each
// chunk's own range. The caller fills in the pointers.
gpu::EncodeCall make_encode_call(const h5l_params& params, std::size_t raw_bytes, std::uint32_t chunks);

// For values [first, first + wanted) of frames like the one with this header, which has passed open_frame.
gpu::DecodeCall make_decode_call(const FrameHeader& header, std::uint64_t first, std::uint64_t wanted,
                                 std::uint32_t frames);

}  // namespace h5lossy
