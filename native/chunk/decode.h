// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Frames to chunks, or some values of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "frame/frame.h"
#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// The payload's checksum, if the frame has one.
[[nodiscard]] h5l_status check_sum(const Frame& frame, const Message& why, std::uint32_t threads = 1);

// All values, after the payload's checksum. `raw` has header.raw_bytes.
[[nodiscard]] h5l_status decode_chunk(const Frame& frame, std::span<std::uint8_t> raw, const Message& why,
                                      std::uint32_t threads = 1);

// Values first to first + raw.size() / value_bytes, which must be in the frame, from the tiles that hold them.
[[nodiscard]] h5l_status decode_values(const Frame& frame, std::uint64_t first, std::span<std::uint8_t> raw,
                                       const Message& why, std::uint32_t threads = 1);

}  // namespace h5lossy
