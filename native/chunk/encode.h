// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Encodes chunks. Tiles and chunks that do not shrink are stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "frame/frame.h"
#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// Encodes a chunk. `params` must have passed check_params; `frame` must have raw.size() + kHeaderBytes. The tiles of a
// large chunk are distributed over up to `threads` threads; the bytes do not depend on it.
[[nodiscard]] h5l_status encode_chunk(const h5l_params& params, std::span<const std::uint8_t> raw,
                                      std::span<std::uint8_t> frame, std::size_t& frame_bytes, const Message& why,
                                      std::uint32_t threads = 1);

// Whether the chunk has a type and is not empty; all other chunks are stored.
bool has_typed_values(const h5l_params& params, std::size_t raw_bytes);

// Writes a stored frame. The type is unknown if params.value_bytes is 0 or does not divide the size. Needs no backend,
// so it cannot fail.
void store_chunk(const h5l_params& params, std::span<const std::uint8_t> raw, std::span<std::uint8_t> frame,
                 std::size_t& frame_bytes);

}  // namespace h5lossy
