// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// What a frame says of itself, checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "frame/frame.h"
#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// Checks all of a frame but its payload.
[[nodiscard]] h5l_status open_frame(std::span<const std::uint8_t> bytes, Frame& frame, const Message& why);

// The same checks, in the same order, for the first bytes of a frame. If these end before the tile table does, nothing that
// the header's checksum covers is checked.
[[nodiscard]] h5l_status open_front(const FrameFront& front, FrameHeader& header, std::uint32_t& tiles,
                                    const Message& why);

// How many tiles were kept as they were.
std::uint32_t count_stored_tiles(const Frame& frame);

}  // namespace h5lossy
