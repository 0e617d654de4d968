// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Reads and checks a frame's header and tile table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codecs/codec.h"
#include "frame/frame.h"
#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// Checks everything except the payload.
[[nodiscard]] h5l_status open_frame(std::span<const std::uint8_t> bytes, Frame& frame, const Message& why);

// The same checks, in the same order, for the first bytes of a frame. If these do not include the whole tile table, the
// header's checksum and the fields that it covers are not checked.
[[nodiscard]] h5l_status open_front(const FrameFront& front, FrameHeader& header, std::uint32_t& tiles,
                                    const Message& why);

// The quantizer of a frame that is not stored, without bins.
Quantizer quantizer_of(const FrameHeader& header);

// The number of stored tiles.
std::uint32_t count_stored_tiles(const Frame& frame);

}  // namespace h5lossy
