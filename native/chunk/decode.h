// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Decodes frames, whole or in part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "frame/frame.h"
#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// Checks the payload's checksum if the frame has one.
[[nodiscard]] h5l_status check_sum(const Frame& frame, const Message& why, std::uint32_t threads = 1);

// Checks the payload's checksum, then decodes all values. `raw` has header.raw_bytes.
[[nodiscard]] h5l_status decode_chunk(const Frame& frame, std::span<std::uint8_t> raw, const Message& why,
                                      std::uint32_t threads = 1);

// Decodes values [first, first + raw.size() / value_bytes), which must be in the frame. Reads only the tiles that hold
// them.
[[nodiscard]] h5l_status decode_values(const Frame& frame, std::uint64_t first, std::span<std::uint8_t> raw,
                                       const Message& why, std::uint32_t threads = 1);

}  // namespace h5lossy
