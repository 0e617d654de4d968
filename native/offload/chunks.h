// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Encodes and decodes chunks in host memory on the GPU that device_selection.h selects, and otherwise, or if the GPU
// fails, on the CPU (chunk/encode.h, chunk/decode.h), with the same arguments and bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "chunk/strided_chunks.h"
#include "chunk/workspace.h"
#include "frame/frame.h"
#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy::offload {

[[nodiscard]] h5l_status encode_chunk(const h5l_params& params, std::span<const std::uint8_t> raw,
                                      std::span<std::uint8_t> frame, std::size_t& frame_bytes, const Message& why,
                                      std::uint32_t threads);

[[nodiscard]] h5l_status decode_chunk(const Frame& frame, std::span<std::uint8_t> raw, const Message& why,
                                      std::uint32_t threads);

[[nodiscard]] h5l_status decode_part(const Frame& frame, const Part& part, std::uint8_t* array, Scratch& scratch,
                                     const Message& why, std::uint32_t threads);

}  // namespace h5lossy::offload
