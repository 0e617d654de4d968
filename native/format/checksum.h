// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The frame's checksum: a sum over words that tells its tile and its place, so tiles can be summed in any order.
#pragma once

#include <cstdint>
#include <span>

namespace h5lossy {

// The share of one tile (docs/format/frame.md, "Checksum"); add up the shares of all tiles. `first_word` is where the
// bytes begin in their tile, for a tile that is summed in parts.
std::uint32_t checksum(std::span<const std::uint8_t> bytes, std::uint32_t tile, std::uint32_t first_word = 0);

}  // namespace h5lossy
