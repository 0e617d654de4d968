// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Chunks to frames and back: every tile through its codec, what does not shrink stored, sizes and sums kept.
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

// Checks all of a frame but its payload.
[[nodiscard]] h5l_status open_frame(std::span<const std::uint8_t> bytes, Frame& frame, const Message& why);

// The same checks, in the same order, for the first bytes of a frame. If these end before the tile table does, nothing that
// the header's checksum covers is checked.
[[nodiscard]] h5l_status open_front(const FrameFront& front, FrameHeader& header, std::uint32_t& tiles,
                                    const Message& why);

// How many tiles were kept as they were.
std::uint32_t count_stored_tiles(const Frame& frame);

// The payload's checksum, if the frame has one.
[[nodiscard]] h5l_status check_sum(const Frame& frame, const Message& why, std::uint32_t threads = 1);

// All values, after the payload's checksum. `raw` has header.raw_bytes.
[[nodiscard]] h5l_status decode_chunk(const Frame& frame, std::span<std::uint8_t> raw, const Message& why,
                                      std::uint32_t threads = 1);

// Values first to first + raw.size() / value_bytes, which must be in the frame, from the tiles that hold them.
[[nodiscard]] h5l_status decode_values(const Frame& frame, std::uint64_t first, std::span<std::uint8_t> raw,
                                       const Message& why, std::uint32_t threads = 1);

}  // namespace h5lossy
