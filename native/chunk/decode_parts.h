// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Decodes parts of frames.
#pragma once

#include <cstdint>

#include "chunk/strided_chunks.h"
#include "chunk/workspace.h"
#include "frame/frame.h"
#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// Decodes the values of a part, whose first value is at `array`. Reads only the tiles that hold them.
[[nodiscard]] h5l_status decode_values(const Frame& frame, const Part& part, std::uint8_t* array, const Message& why,
                                       std::uint32_t threads = 1);

// Whether more than half of the tiles hold values of a part. False if the frame cannot be opened.
[[nodiscard]] bool needs_most_tiles(const Frame& frame, const Part& part);

// Checks the payload's checksum, then does the same as decode_values. If most tiles are needed, may decode the whole
// chunk to `scratch` first.
[[nodiscard]] h5l_status decode_part(const Frame& frame, const Part& part, std::uint8_t* array, Scratch& scratch,
                                     const Message& why, std::uint32_t threads = 1);

}  // namespace h5lossy
