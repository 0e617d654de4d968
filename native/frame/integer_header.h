// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The fields of a frame's header that only frames of integers have (docs/format/integers.md).
#pragma once

#include <cstdint>
#include <span>

#include "frame/header.h"
#include "frame/message.h"

namespace h5lossy {

// Reads the fields behind the dims; 0 beyond the end of the front.
void read_integer_fields(std::span<const std::uint8_t> front, FrameHeader& header);

// Checks the fields of a frame of integers that has a codec, except those that all frames have.
[[nodiscard]] h5l_status check_integer_fields(std::span<const std::uint8_t> front, const FrameHeader& header,
                                              const Message& why);

// Writes the fields behind the dims, to a header of kIntegerHeaderBytes.
void write_integer_fields(const FrameHeader& header, std::span<std::uint8_t> bytes);

}  // namespace h5lossy
