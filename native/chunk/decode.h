// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Decodes whole frames.
#pragma once

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

}  // namespace h5lossy
