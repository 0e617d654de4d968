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

enum class Outcome {
  done,
  left,       // to the host, which can do it
  invalid,    // the frame is corrupt, or the one that was made is too large
  failed,     // a CUDA call did; the device has the error
  unchecked,  // a kernel has not passed its check (offload/kernel_check.h)
};

// Encodes one chunk. `call` is complete except for pointers; the values have its byte order.
[[nodiscard]] Outcome encode_chunk(Device& device, EncodeCall call, std::span<const std::uint8_t> raw,
                                   std::span<std::uint8_t> frame, std::size_t& frame_bytes, bool is_check = false);

// Decodes a frame, or some of its values.
[[nodiscard]] Outcome decode_chunk(Device& device, DecodeCall call, std::span<const std::uint8_t> frame,
                                   std::span<std::uint8_t> raw, bool is_check = false);

}  // namespace h5lossy::gpu
