// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// From requests and headers to what the GPU backend is asked for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "frame/frame.h"
#include "gpu/sequences.h"
#include "h5lossy.h"

namespace h5lossy {

// Chunks of raw_bytes each, with a codec that is not auto. `params` has passed check_params and has a type; where the
// bound is range-relative, each chunk's own range counts. The pointers are still missing.
gpu::EncodeCall make_encode_call(const h5l_params& params, std::size_t raw_bytes, std::uint32_t chunks);

// Frames like the one with this header, which has passed open_frame; values [first, first + wanted) of each.
gpu::DecodeCall make_decode_call(const FrameHeader& header, std::uint64_t first, std::uint64_t wanted,
                                 std::uint32_t frames);

}  // namespace h5lossy
