// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The frame's checksum as scalar code, for headers and for code that has no backend.
#pragma once

#include <cstdint>
#include <span>

namespace h5lossy {

// See ChecksumFunction.
std::uint32_t checksum(std::span<const std::uint8_t> bytes, std::uint32_t tile, std::uint32_t first_word = 0);

}  // namespace h5lossy
