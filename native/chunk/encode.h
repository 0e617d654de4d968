// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Chunks to frames: every tile through its codec, what does not shrink stored, sizes and sums kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "frame/frame.h"
#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// `params` must have passed check_params; `frame` has room for raw.size() + kHeaderBytes. The tiles of a large chunk are
// spread over up to `threads` threads; the bytes are the same.
[[nodiscard]] h5l_status encode_chunk(const h5l_params& params, std::span<const std::uint8_t> raw,
                                      std::span<std::uint8_t> frame, std::size_t& frame_bytes, const Message& why,
                                      std::uint32_t threads = 1);

// A frame that keeps the chunk as it is. With params.value_bytes 0, or a size that does not fit it, the type is
// unknown. Needs no backend, so it always works.
void store_chunk(const h5l_params& params, std::span<const std::uint8_t> raw, std::span<std::uint8_t> frame,
                 std::size_t& frame_bytes);

}  // namespace h5lossy
