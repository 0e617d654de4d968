// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Chunks in the host's memory, through a GPU and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/device.h"
#include "gpu/sequences.h"

namespace h5lossy::gpu {

// Encodes one chunk. `call` lacks pointers only; the values have the byte order that it says. False: the GPU could not.
[[nodiscard]] bool encode_chunk(Device& device, EncodeCall call, std::span<const std::uint8_t> raw,
                                std::span<std::uint8_t> frame, std::size_t& frame_bytes);

// Decodes a frame, or some values of it. False: the GPU could not, or the frame is one that the host has to look at.
[[nodiscard]] bool decode_chunk(Device& device, DecodeCall call, std::span<const std::uint8_t> frame,
                                std::span<std::uint8_t> raw);

}  // namespace h5lossy::gpu
