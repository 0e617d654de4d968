// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// cd_values to parameters and back (docs/format/cd_values.md).
#pragma once

#include <cstdint>
#include <span>

#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// The fewest words that a user must give: everything up to the bound. Lossless needs no bound.
inline constexpr std::size_t kRequestedWords = 4;

// Writes 16 words if the type is known (params.value_bytes), else the first 5, or 8 or 10 with exact values;
// safeguards, if any, follow.
// Returns the number of words.
std::size_t pack_cd_values(const h5l_params& params, std::span<std::uint32_t, H5L_MAX_CD_VALUES> words);

// Reads and checks the words. params.value_bytes is 0 if the local part is missing.
[[nodiscard]] h5l_status unpack_cd_values(std::span<const std::uint32_t> given, h5l_params& params, const Message& why);

// The size in bytes of a chunk of this shape and type; 0 if the type is unknown.
std::uint64_t chunk_bytes(const h5l_params& params);

}  // namespace h5lossy
