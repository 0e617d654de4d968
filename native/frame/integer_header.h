// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The header fields that only frames of integers have (docs/format/integers.md).
#pragma once

#include <cstdint>
#include <span>

#include "frame/header.h"
#include "frame/message.h"

namespace h5lossy {

// Checks the fields of a frame of integers that is not stored, except those that all frames have.
[[nodiscard]] h5l_status check_integer_fields(std::span<const std::uint8_t> front, const FrameHeader& header,
                                              const Message& why);

}  // namespace h5lossy
