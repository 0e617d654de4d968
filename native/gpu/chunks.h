// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Encodes and decodes chunks in host memory on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/device.h"
#include "gpu/sequences.h"

namespace h5lossy::gpu {

// Encodes one chunk. `call` is complete except for pointers; the values have its byte order. Returns false if the GPU
// failed.
[[nodiscard]] bool encode_chunk(Device& device, EncodeCall call, std::span<const std::uint8_t> raw,
                                std::span<std::uint8_t> frame, std::size_t& frame_bytes);

// Decodes a frame, or some of its values. Returns false if the GPU failed or rejects the frame; the host then has to
// decode it.
[[nodiscard]] bool decode_chunk(Device& device, DecodeCall call, std::span<const std::uint8_t> frame,
                                std::span<std::uint8_t> raw);

}  // namespace h5lossy::gpu
